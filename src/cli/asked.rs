//! From flags to whom is asked, where to look, and for what.

use std::io::{IsTerminal as _, Write};

use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{
    args::{AskArgs, PlaceArgs},
    exporter::Exporter,
    kinds::{full_name, unknown_kind},
    server::Server,
    settings_file::load_settings,
    values::Wish,
};
use crate::{
    app::{Direct, Parts, Progress, readable_scope, telemetry::LogHandle, usual_settings},
    baseline::terraform::random_key,
    expose::Access,
    model::{Clock, Kind, Look},
    settings::{Overrides, Settings, ShownValues},
    watch::{Timing, client_from, context_namespace, find_kind, served_kinds},
};

/// How long the API server may take to say which kinds it has.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// An exporter, and what it is asked for.
pub(super) struct Asked {
    pub(super) exporter: Exporter,
    pub(super) place: Place,
    /// What is asked for; all kinds where there is none.
    pub(super) wishes: Vec<Wish>,
}

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Everywhere.
    Everywhere,
    /// At objects without a namespace.
    Unscoped,
    /// In one namespace. Where nobody named it, objects without a namespace may be meant as well.
    Namespace { name: String, named: bool },
}

impl Place {
    /// Where people mean to look.
    pub(super) async fn of(arguments: &PlaceArgs, ask: &AskArgs) -> Self {
        match arguments.namespace.as_deref().filter(|name| !name.is_empty()) {
            _ if arguments.all_namespaces => Self::Everywhere,
            Some("-") => Self::Unscoped,
            Some(name) => Self::Namespace { name: name.to_owned(), named: true },
            None => {
                let name = context_namespace(&ask.cluster.connection()).await;
                Self::Namespace { name: name.unwrap_or_else(|| "default".to_owned()), named: false }
            }
        }
    }

    /// The one namespace.
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Everywhere | Self::Unscoped => None,
            Self::Namespace { name, .. } => Some(name),
        }
    }
}

impl Asked {
    /// Finds whom to ask. None where the settings file is wrong; what is wrong was told.
    pub(super) async fn open(
        ask: &AskArgs,
        place: Place,
        wishes: Vec<Wish>,
        look: Look,
        stderr: &mut dyn Write,
    ) -> Result<Option<Self>, String> {
        let running = ask.server.as_deref().filter(|server| !ask.direct && !server.is_empty());
        if let Some(address) = running {
            let exporter = Exporter::Running(Server::new(address, ask).await?);
            let wishes =
                wishes.into_iter().map(|wish| Wish { kind: full_name(&wish.kind), ..wish }).collect();
            return Ok(Some(Self { exporter, place, wishes }));
        }
        let client = client_from(&ask.cluster.connection()).await.map_err(|error| error.to_string())?;
        let unreachable = |why| format!("cannot look at the cluster: {why}");
        let served = served_kinds(&client, PATIENCE).await.map_err(unreachable)?;
        let mut kinds: Vec<Kind> = Vec::new();
        for Wish { kind, .. } in &wishes {
            let found = find_kind(&client, kind).await.map_err(|error| unreachable(error.to_string()))?;
            let names = || served.kinds.iter().map(|own| &*own.kind.kind);
            kinds.push(found.ok_or_else(|| unknown_kind("the cluster has", kind, names()))?);
        }
        let mut settings = if let Some(path) = ask.config.config_file.as_deref() {
            match load_settings(Some(path), &Overrides::default(), stderr)? {
                Some(settings) => settings,
                None => return Ok(None),
            }
        } else {
            let unscoped = kinds.iter().any(|kind| !kind.namespaced);
            let namespace = place.namespace().filter(|_| !unscoped);
            let readable = readable_scope(&client, namespace).await;
            usual_settings(&served, &kinds, namespace, readable)
        };
        // Whoever looks has read all that is shown with rights of their own.
        settings.shown_values = ShownValues::Full;
        let direct = look_at(client, settings, look, stderr).await?;
        let meant = |(wish, kind): (Wish, &Kind)| {
            let kind = format!("{}.{}", kind.kind.to_lowercase(), kind.group);
            Wish { kind, ..wish }
        };
        let wishes = wishes.into_iter().zip(&kinds).map(meant).collect();
        Ok(Some(Self { exporter: Exporter::Here(Box::new(direct)), place, wishes }))
    }
}

/// Looks at the cluster until all is known.
async fn look_at(
    client: Client,
    settings: Settings,
    look: Look,
    stderr: &mut dyn Write,
) -> Result<Direct, String> {
    let parts = Parts {
        client,
        settings,
        settings_source: None,
        log: LogHandle::default(),
        seal_key: random_key().map_err(|error| format!("the system gives no random numbers: {error}"))?,
        clock: Clock::system(),
        timing: Timing { look, ..Timing::default() },
        access: Access::default(),
        events: false,
        history_file: None,
        stop: CancellationToken::new(),
    };
    let mut direct = Direct::start(&parts).map_err(|error| error.to_string())?;
    let terminal = std::io::stderr().is_terminal();
    let mut shown = None;
    let settled = direct.settled(|progress| {
        if terminal && shown != Some(progress) {
            shown = Some(progress);
            let _ = write!(stderr, "\r\u{1b}[2K{}", words(progress));
            let _ = stderr.flush();
        }
    });
    settled.await.map_err(|error| error.to_string())?;
    if shown.is_some() {
        let _ = write!(stderr, "\r\u{1b}[2K");
    }
    Ok(direct)
}

fn words(progress: Progress) -> String {
    match progress {
        Progress { all: 0, .. } => "reading what is declared…".to_owned(),
        Progress { done, all } => format!("listing {done} of {all} kinds…"),
    }
}
