//! The demo: an embedded cluster, an exporter that watches it over HTTP as it would a real one, and a story.

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

use super::{AppError, Parts, events::Follower, start, telemetry::LogHandle};
use crate::{
    config::Settings,
    demo::{Refusal, Scene, Shop, play, roll_out, router},
    engine::{Transition, Turn},
    server::{Auth, ServerLimits, serve},
    sources::terraform::random_key,
    types::{Clock, Scope, Source, WantedKind},
    watch::{ConnectError, Connection, Timing, client_from},
};

/// How long the demo's API server keeps a connection that nobody uses.
const IDLE: Duration = Duration::from_secs(90);

/// How the demo goes.
#[derive(Debug)]
pub struct Demo {
    /// Where the page is served.
    pub page: TcpListener,
    /// How many may talk to the cluster at a time.
    pub connections: usize,
    /// How many times as fast as usual the story is played; none for no story.
    pub speed: Option<f32>,
    /// The log, which the page shows too.
    pub log: LogHandle,
    /// The time.
    pub clock: Clock,
    /// Ends everything.
    pub stop: CancellationToken,
}

/// The demo's cluster could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The cluster does not take the shop.
    #[error("cannot open the shop in the demo's cluster: {0}")]
    Shop(#[source] Refusal),
    /// There is no port for the cluster's API server.
    #[error("cannot listen on the loopback interface for the demo's API server: {0}")]
    Listen(#[source] io::Error),
    /// There is no place for the kubeconfig.
    #[error("cannot write the demo's kubeconfig in {}: {source}; set TMPDIR to a folder that you may write to", folder.display())]
    Kubeconfig {
        /// Where it should have been.
        folder: PathBuf,
        /// What is wrong there.
        source: io::Error,
    },
    /// There are no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(#[source] io::Error),
    /// The exporter cannot use the kubeconfig.
    #[error("cannot use the demo's own kubeconfig: {0}")]
    Client(#[source] ConnectError),
}

/// Runs the demo until it is told to stop, and tells on `out` what happens.
pub async fn run(demo: Demo, mut out: impl Write) -> Result<(), AppError> {
    let Demo { page, connections, speed, log, clock, stop } = demo;
    let sources = vec![Source::Annotation, Source::Terraform, Source::Helm, Source::LastApplied];
    let settings = Settings { sources, kinds: kinds(), ..Settings::default() };
    let shop = Shop::open(clock.clone(), &settings.annotation_prefix).map_err(DemoError::Shop)?;
    let api = TcpListener::bind("127.0.0.1:0").await.map_err(DemoError::Listen)?;
    let api_address = api.local_addr().map_err(DemoError::Listen)?;
    let page_address = page.local_addr().map_err(DemoError::Listen)?;
    let (folder, kubeconfig) = write_kubeconfig(api_address)
        .map_err(|source| DemoError::Kubeconfig { folder: env::temp_dir(), source })?;

    // API servers keep connections for long on which nobody asks; whoever asks every few seconds relies on that.
    let limits = ServerLimits { connections, headers: IDLE, ..ServerLimits::default() };
    let cluster = shop.cluster().clone();
    let server = tokio::spawn(serve(
        api,
        router(cluster.clone(), stop.clone()),
        limits,
        Auth::default(),
        stop.clone(),
    ));
    let connection = Connection { kubeconfig: Some(kubeconfig.clone()), context: None };
    let client = client_from(&connection).await.map_err(DemoError::Client)?;
    let parts = Parts {
        client,
        settings,
        settings_source: None,
        log,
        seal_key: random_key().map_err(DemoError::Random)?,
        clock: clock.clone(),
        timing: Timing::default(),
        events: false,
        history_file: None,
        auth: Auth::default(),
        stop: stop.clone(),
    };
    let exporter = start(parts, page)?;
    // People may close the pipe that they read this through; the demo goes on.
    let _ = greet(&mut out, page_address, &kubeconfig, speed);

    let pods = tokio::spawn(roll_out(cluster));
    let (scenes, told) = mpsc::channel(16);
    let story = speed.map(|speed| tokio::spawn(play(shop, speed, scenes)));
    let follower = Follower { state: exporter.state.clone(), seen: 0, stop: stop.clone() };
    let exporter = exporter.wait();
    tokio::pin!(exporter);
    let ended = tokio::select! {
        ended = &mut exporter => ended,
        () = narrate(follower, told, &clock, &mut out) => exporter.await,
    };
    pods.abort();
    story.inspect(tokio::task::JoinHandle::abort);
    let _ = server.await;
    drop(folder);
    ended
}

/// What is watched beside what states and releases declare: what has the label, and all that people may apply in `marketing`.
fn kinds() -> Vec<WantedKind> {
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

/// Writes a kubeconfig in a folder of its own, which goes when it is let go of.
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

/// Tells what people do in the shop, and what the exporter makes of it.
async fn narrate(
    mut follower: Follower,
    mut scenes: mpsc::Receiver<Scene>,
    clock: &Clock,
    out: &mut impl Write,
) {
    let mut playing = true;
    loop {
        let lines: Vec<String> = tokio::select! {
            scene = scenes.recv(), if playing => {
                playing = scene.is_some();
                scene.iter().map(tell_scene).collect()
            }
            transitions = follower.next() => match transitions {
                Some(transitions) => transitions.iter().filter_map(|transition| tell_transition(transition)).collect(),
                None => return,
            },
        };
        for line in lines {
            let _ = writeln!(out, "{}  {line}", clock.now().strftime("%H:%M:%S"));
        }
        let _ = out.flush();
    }
}

fn tell_scene(scene: &Scene) -> String {
    match scene {
        Scene::Does { who, what } => format!("{who:<12}{what}"),
        Scene::Fails { why } => format!("{:<12}failed: {why}", ""),
    }
}

fn tell_transition(transition: &Transition) -> Option<String> {
    let episode = transition.episode.as_ref()?;
    let object = &transition.key;
    match episode.turn {
        Turn::Began => {
            let manager = episode.manager.as_deref().unwrap_or("nobody known");
            Some(format!("  > drift     {object}: by {} ({manager}), {}", episode.actor, episode.severity))
        }
        Turn::Ended(cause) => Some(format!("  > {:<10}{object}", cause.as_str())),
        Turn::GoesOn => None,
    }
}
