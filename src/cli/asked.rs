//! From flags to whom is asked, where to look, and for what.

use std::{
    io::{IsTerminal as _, Write},
    path::Path,
};

use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{
    args::{AskArgs, PlaceArgs},
    exporter::Exporter,
    kinds::{full_name, unknown_kind},
    labels::Labels,
    server::Server,
    settings_file::load_settings,
    unseen::Unseen,
    values::Wish,
};
use crate::{
    app::{
        ExporterDeps, InProcessExporter, ReadableSecrets, SyncProgress, UnreadableNamespaces,
        default_settings, limit_sources, limit_to_namespace, readable_secrets, reads_all_namespaces,
        telemetry::LogHandle,
    },
    config::{Overrides, Settings, ShownValues},
    server::Auth,
    sources::terraform::random_key,
    types::{Clock, Kind, Selector, WatchMode},
    watch::{WatcherConfig, client_from, context_namespace, find_kind, served_kinds},
};

/// How long the API server may take to say which kinds it has.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// An exporter, and what it is asked for.
pub(super) struct Asked {
    pub(super) exporter: Exporter,
    pub(super) place: Place,
    /// What is asked for; all kinds where there is none.
    pub(super) sought: Vec<Sought>,
    /// The labels that it is to have, where people want some.
    pub(super) labels: Option<Labels>,
    /// What could not be looked at, beside what the exporter itself knows of.
    pub(super) unseen: Vec<Unseen>,
    /// Whether others than whoever asks decide which kinds are watched.
    pub(super) kinds_are_given: bool,
    /// When the one look began that there is: what was first seen since may have been so for long. None where somebody goes on
    /// looking.
    pub(super) looked_from: Option<Timestamp>,
}

/// Something that is asked for, and where it is looked for.
pub(super) struct Sought {
    pub(super) wish: Wish,
    pub(super) place: Place,
    /// Whether there was anything like it when it was last asked for.
    pub(super) is_found: bool,
}

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Everywhere.
    Everywhere,
    /// At objects without a namespace.
    Unscoped,
    /// In one namespace.
    Namespace(String),
}

impl Place {
    /// Where people mean to look.
    pub(super) async fn of(arguments: &PlaceArgs, ask: &AskArgs) -> Self {
        match arguments.namespace.as_deref().filter(|name| !name.is_empty()) {
            _ if arguments.all_namespaces => Self::Everywhere,
            Some("-") => Self::Unscoped,
            Some(name) => Self::Namespace(name.to_owned()),
            None => {
                let name = context_namespace(&ask.cluster.connection()).await;
                Self::Namespace(name.unwrap_or_else(|| "default".to_owned()))
            }
        }
    }

    /// The one namespace.
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Everywhere | Self::Unscoped => None,
            Self::Namespace(name) => Some(name),
        }
    }
}

impl Asked {
    /// Finds whom to ask. None where the settings file is wrong; what is wrong was told.
    pub(super) async fn open(
        ask: &AskArgs,
        place: Place,
        wishes: Vec<Wish>,
        selector: Option<&Selector>,
        look: WatchMode,
        stderr: &mut dyn Write,
    ) -> Result<Option<Self>, String> {
        let labels = match selector {
            Some(selector) => Some(Labels::open(selector, ask).await?),
            None => None,
        };
        let running = ask.server.as_deref().filter(|server| !ask.direct && !server.is_empty());
        if let Some(address) = running {
            let exporter = Exporter::Running(Server::new(address, ask).await?);
            let sought = wishes.into_iter().map(|wish| {
                let wish = Wish { kind: full_name(&wish.kind), ..wish };
                Sought { wish, place: place.clone(), is_found: false }
            });
            let sought = sought.collect();
            let unseen = Vec::new();
            let (kinds_are_given, looked_from) = (true, None);
            return Ok(Some(Self { exporter, place, sought, labels, unseen, kinds_are_given, looked_from }));
        }
        let begun = Clock::system().now();
        let client = client_from(&ask.cluster.connection()).await.map_err(|error| error.to_string())?;
        let unreachable = |why: String| format!("cannot look at the cluster: {why}");
        let served = served_kinds(&client, PATIENCE).await.map_err(|error| unreachable(error.to_string()))?;
        let mut kinds: Vec<Kind> = Vec::new();
        for (at, Wish { kind, name }) in wishes.iter().enumerate() {
            let found = find_kind(&client, kind).await.map_err(|error| unreachable(error.to_string()))?;
            let names = || served.kinds.iter().map(|own| &*own.kind.kind);
            // Where several are named, the second may be meant as the name of one.
            let before =
                at.checked_sub(1).map(|at| &wishes[at]).filter(|own| own.name.is_none() && name.is_none());
            let hint = before.map(|own| format!("; one object is {}/{kind}", own.kind)).unwrap_or_default();
            kinds.push(found.ok_or_else(|| unknown_kind("the cluster has", kind, names()) + &hint)?);
        }
        let file = ask.config.config_file.as_deref();
        let usual = default_settings(&served, &kinds, place.namespace());
        let Some(mut settings) = settings(file, usual, stderr)? else { return Ok(None) };
        let mut unseen = narrow_to(&mut settings, file, &place, &kinds, &client).await?;
        // Whoever looks has read all that is shown with rights of their own.
        settings.shown_values = ShownValues::Full;
        let direct = look_at(client, settings, look, stderr).await?;
        if kinds.iter().any(|kind| (&*kind.group, &*kind.kind) == ("", "Secret")) {
            unseen.push(Unseen::never_compared("what kubectl applied to Secrets".to_owned()));
        }
        if direct.awaits_schemas() {
            unseen.push(Unseen::stalled("how kinds of the cluster's own are compared".to_owned()));
        }
        let sought = wishes.into_iter().zip(&kinds).map(|(wish, kind)| {
            let place = if kind.namespaced { place.clone() } else { Place::Unscoped };
            let kind = format!("{}.{}", kind.kind.to_lowercase(), kind.group);
            Sought { wish: Wish { kind, ..wish }, place, is_found: false }
        });
        let sought = sought.collect();
        let exporter = Exporter::Here(Box::new(direct));
        let (kinds_are_given, looked_from) = (file.is_some(), (look == WatchMode::Once).then_some(begun));
        Ok(Some(Self { exporter, place, sought, labels, unseen, kinds_are_given, looked_from }))
    }
}

/// What a settings file says, where there is one. None where it is wrong; what is wrong was told.
fn settings(
    file: Option<&Path>,
    usual: Settings,
    stderr: &mut dyn Write,
) -> Result<Option<Settings>, String> {
    match file {
        Some(path) => load_settings(Some(path), &Overrides::default(), stderr),
        None => Ok(Some(usual)),
    }
}

/// Looks only where people want to look, and for states and releases only where they may. Says what is not seen for that.
async fn narrow_to(
    settings: &mut Settings,
    file: Option<&Path>,
    place: &Place,
    kinds: &[Kind],
    client: &Client,
) -> Result<Vec<Unseen>, String> {
    // Objects without a namespace may be declared anywhere.
    let anywhere = kinds.iter().any(|kind| !kind.namespaced);
    let only = place.namespace().filter(|_| !anywhere);
    if let (Some(path), Some(name)) = (file, only) {
        if !settings.allows_namespace(name) {
            return Err(format!("{} does not let namespace `{name}` be looked at", path.display()));
        }
        limit_to_namespace(settings, name);
    }
    if !reads_all_namespaces(settings) {
        return Ok(Vec::new());
    }
    let ReadableSecrets { scope, missed } = readable_secrets(client, place.namespace(), anywhere).await;
    limit_sources(settings, &scope);
    let what = if only.is_none() { "releases and states" } else { "states" };
    let missed = missed_words(&missed).map(|place| Unseen::forbidden(format!("{what} in {place}")));
    Ok(missed.into_iter().collect())
}

/// Namespaces whose Secrets may not be read, in words.
fn missed_words(missed: &UnreadableNamespaces) -> Option<String> {
    match missed {
        UnreadableNamespaces::Nothing => None,
        UnreadableNamespaces::Namespaces(1) => Some("1 namespace".to_owned()),
        UnreadableNamespaces::Namespaces(count) => Some(format!("{count} namespaces")),
        UnreadableNamespaces::Others => Some("other namespaces".to_owned()),
    }
}

/// Looks at the cluster until all is known.
async fn look_at(
    client: Client,
    settings: Settings,
    look: WatchMode,
    stderr: &mut dyn Write,
) -> Result<InProcessExporter, String> {
    let parts = ExporterDeps {
        client,
        settings,
        settings_source: None,
        log: LogHandle::default(),
        redaction_key: random_key()
            .map_err(|error| format!("the system gives no random numbers: {error}"))?,
        clock: Clock::system(),
        timing: WatcherConfig { mode: look, ..WatcherConfig::default() },
        auth: Auth::default(),
        events: false,
        history_file: None,
        stop: CancellationToken::new(),
    };
    let mut direct = InProcessExporter::start(&parts).map_err(|error| error.to_string())?;
    let terminal = std::io::stderr().is_terminal();
    let mut shown = None;
    let settled = direct.wait_until_synced(|progress| {
        if terminal && shown != Some(progress) {
            shown = Some(progress);
            let _ = write!(stderr, "\r\u{1b}[2K{}", words(progress));
            let _ = stderr.flush();
        }
    });
    let settled = settled.await;
    if shown.is_some() {
        let _ = write!(stderr, "\r\u{1b}[2K");
    }
    settled.map_err(|error| error.to_string())?;
    Ok(direct)
}

fn words(progress: SyncProgress) -> String {
    match progress {
        SyncProgress { all: 0, read: 0, .. } => "reading what is declared…".to_owned(),
        SyncProgress { all: 0, read, .. } => {
            format!("reading what is declared, {read} states and releases so far…")
        }
        SyncProgress { done, all, .. } => format!("listing {done} of {all} kinds…"),
    }
}
