//! The demo: an embedded cluster, an exporter that watches it over HTTP like any cluster, and a story that is
//! played in it.

use std::{
    env, fs,
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::sync::CancellationToken;

use super::{AppError, ExporterDeps, Listeners, events::TransitionFollower, start, telemetry::LogHandle};
use crate::{
    config::Settings,
    demo::{STATE_NAMESPACE, Shop, StatusError, StoryEvent, play_story, router, run_deployment_controller},
    engine::{EpisodeChange, Transition},
    server::{Auth, ServerLimits, serve},
    sources::terraform::random_key,
    types::{Clock, RedactionKey, Scope, Source, TrustedNamespaces, WantedKind},
    watch::{ClusterConnection, ConnectError, WatcherConfig, client_from},
};

/// The demo's API server keeps an idle connection as long as a real one does: sources that poll every few
/// seconds reuse theirs.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub struct Demo {
    pub page: TcpListener,
    /// The most connections to the embedded API server.
    pub connections: usize,
    /// The speed of the story, 1 for the usual one; none for no story.
    pub speed: Option<f32>,
    pub log: LogHandle,
    pub clock: Clock,
    pub stop: CancellationToken,
}

#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("cannot create the shop in the demo's cluster: {0}")]
    Shop(#[source] StatusError),
    #[error("cannot listen on the loopback interface for the demo's API server: {0}")]
    Listen(#[source] io::Error),
    #[error("cannot write the demo's kubeconfig in {}: {source}; set TMPDIR to a folder that you may write to", folder.display())]
    Kubeconfig { folder: PathBuf, source: io::Error },
    #[error("cannot get random numbers from the system: {0}")]
    Random(#[source] io::Error),
    #[error("cannot use the kubeconfig of the demo: {0}")]
    Client(#[source] ConnectError),
}

/// Runs the demo until `stop` is cancelled, and narrates it on `out`.
pub async fn run(demo: Demo, mut out: impl Write) -> Result<(), AppError> {
    let Demo { page, connections, speed, log, clock, stop } = demo;
    let sources = vec![Source::Annotation, Source::Terraform, Source::Helm, Source::LastApplied];
    let mut settings = Settings { sources, kinds: watched_kinds(), ..Settings::default() };
    settings.trust(&TrustedNamespaces::new([STATE_NAMESPACE]));
    let shop = Shop::open(clock.clone(), &settings.annotation_prefix).map_err(DemoError::Shop)?;
    let api = TcpListener::bind("127.0.0.1:0").await.map_err(DemoError::Listen)?;
    let api_address = api.local_addr().map_err(DemoError::Listen)?;
    let page_address = page.local_addr().map_err(DemoError::Listen)?;
    let (folder, kubeconfig) = write_kubeconfig(api_address)
        .map_err(|source| DemoError::Kubeconfig { folder: env::temp_dir(), source })?;

    let limits = ServerLimits { connections, headers: IDLE_TIMEOUT, ..ServerLimits::default() };
    let cluster = shop.cluster().clone();
    let server = tokio::spawn(serve(
        api,
        router(cluster.clone(), stop.clone()),
        limits,
        Auth::default(),
        stop.clone(),
    ));
    let connection = ClusterConnection { kubeconfig: Some(kubeconfig.clone()), context: None };
    let client = client_from(&connection).await.map_err(DemoError::Client)?;
    let deps = ExporterDeps {
        client,
        settings,
        settings_source: None,
        log,
        redaction_key: random_key().map(RedactionKey::of_process).map_err(DemoError::Random)?,
        clock: clock.clone(),
        timing: WatcherConfig::default(),
        events: false,
        history_file: None,
        auth: Auth::default(),
        stop: stop.clone(),
    };
    let exporter = start(deps, Listeners { web: page, health: None })?;
    // A closed pipe does not end the demo.
    let _ = greet(&mut out, page_address, &kubeconfig, speed);

    let deployment_controller = tokio::spawn(run_deployment_controller(cluster));
    let (scenes_sender, story_events) = mpsc::channel(16);
    let story = speed.map(|speed| tokio::spawn(play_story(shop, speed, scenes_sender)));
    let follower = TransitionFollower { state: exporter.state.clone(), last_sequence: 0, stop: stop.clone() };
    let exporter = exporter.wait();
    tokio::pin!(exporter);
    let ended = tokio::select! {
        ended = &mut exporter => ended,
        () = narrate(follower, story_events, &clock, &mut out) => exporter.await,
    };
    deployment_controller.abort();
    story.inspect(tokio::task::JoinHandle::abort);
    let _ = server.await;
    drop(folder);
    ended
}

/// The kinds that are watched beside the declared ones: the default ones, and those that the story applies in
/// `marketing`.
fn watched_kinds() -> Vec<WantedKind> {
    let applied = [
        ("v1", "ConfigMap"),
        ("v1", "Service"),
        ("apps/v1", "Deployment"),
        ("networking.k8s.io/v1", "Ingress"),
    ];
    let of_marketing = |kind: WantedKind| WantedKind { scope: Scope::new(["marketing"], []), ..kind };
    let applied = applied.iter().filter_map(|(version, kind)| WantedKind::parse(version, kind).ok());
    Settings::default().wanted_kinds().into_iter().chain(applied.map(of_marketing)).collect()
}

/// Writes a kubeconfig to a temporary folder, which is deleted when it is dropped.
fn write_kubeconfig(server: SocketAddr) -> io::Result<(TempDir, PathBuf)> {
    let folder = tempfile::Builder::new().prefix("drift-exporter-demo-").tempdir()?;
    let path = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: demo\n\
         clusters:\n- {{name: demo, cluster: {{server: 'http://{server}'}}}}\n\
         contexts:\n- {{name: demo, context: {{cluster: demo, user: demo, namespace: shop}}}}\n\
         users:\n- {{name: demo, user: {{}}}}\n"
    );
    fs::write(&path, text)?;
    Ok((folder, path))
}

fn greet(out: &mut impl Write, page: SocketAddr, kubeconfig: &Path, speed: Option<f32>) -> io::Result<()> {
    writeln!(out, "A small shop runs in a cluster inside this process; the exporter watches it.\n")?;
    writeln!(out, "  page        http://{page}/")?;
    writeln!(out, "  metrics     http://{page}/metrics")?;
    writeln!(out, "  kubeconfig  {}\n", kubeconfig.display())?;
    writeln!(out, "Drift something yourself, from another terminal:\n")?;
    writeln!(out, "  export KUBECONFIG={}", kubeconfig.display())?;
    writeln!(out, "  kubectl scale deployment web --replicas=7     # back to 3 ends it")?;
    writeln!(out, "  kubectl edit service web                      # any field you like\n")?;
    writeln!(out, "Ctrl-C ends it and leaves nothing behind.\n")?;
    if speed.is_some() {
        writeln!(out, "Meanwhile, in the shop (--no-story for a quiet one, --speed 3 for a lively one):\n")?;
    }
    out.flush()
}

/// Prints the scenes of the story and the episodes that the exporter detects.
async fn narrate(
    mut follower: TransitionFollower,
    mut story_events: mpsc::Receiver<StoryEvent>,
    clock: &Clock,
    out: &mut impl Write,
) {
    let mut story_runs = true;
    loop {
        let lines: Vec<String> = tokio::select! {
            event = story_events.recv(), if story_runs => {
                story_runs = event.is_some();
                event.iter().map(scene_line).collect()
            }
            transitions = follower.next() => match transitions {
                Some(transitions) => transitions.iter().filter_map(|transition| transition_line(transition)).collect(),
                None => return,
            },
        };
        for line in lines {
            let _ = writeln!(out, "{}  {line}", clock.now().strftime("%H:%M:%S"));
        }
        let _ = out.flush();
    }
}

fn scene_line(event: &StoryEvent) -> String {
    match event {
        StoryEvent::Action { actor, command } => format!("{actor:<12}{command}"),
        StoryEvent::Failed { error } => format!("{:<12}failed: {error}", ""),
    }
}

fn transition_line(transition: &Transition) -> Option<String> {
    let episode = transition.episode.as_ref()?;
    let object = &transition.key;
    match episode.change {
        EpisodeChange::Started => {
            let manager = episode.manager.as_ref().map(|manager| format!(" ({manager})")).unwrap_or_default();
            let (actor, severity) = (episode.actor.in_prose(), episode.severity);
            Some(format!("  > drift     {object}: by {actor}{manager}, {severity}"))
        }
        EpisodeChange::Ended(cause) => Some(format!("  > {:<10}{object}", cause.as_str())),
        EpisodeChange::Unchanged => None,
    }
}
