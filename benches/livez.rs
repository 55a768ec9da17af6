//! Probes of `/livez` while many scrapers load a large page right after a relist.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use drift_exporter::{
    demo,
    server::{Auth, ServerLimits, listen, serve},
    types::{Clock, Kind, ObjectKey},
};
use serde_json::{Value, json};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    exporter::Exporter,
    http_client,
    objects::{HASH, deployment, hash_of},
    wait::eventually,
};

pub(crate) const SCRAPERS: usize = 20;
/// Verdict, onset, fields and health of each drifted object.
pub(crate) const SERIES_PER_OBJECT: usize = 4;
/// The watches back off longer before each of them.
const RELISTS: usize = 3;
const NAMESPACES: usize = 20;
/// So many objects are edited before each relist: at least one in each block of the page.
const EDITED: usize = 1_000;
/// What Prometheus sends, and what a browser sends.
const SCRAPES: [&[(&str, &str)]; 2] = [
    &[("accept", "application/openmetrics-text;version=1.0.0"), ("accept-encoding", "gzip")],
    &[("accept", "text/plain")],
];

/// Sorted.
pub(crate) struct Latencies {
    pub(crate) livez: Vec<Duration>,
    pub(crate) scrapes: Vec<Duration>,
}

/// An embedded API server that can be stopped.
pub(crate) struct ApiServer {
    runtime: Runtime,
    cluster: demo::Cluster,
    keys: Vec<ObjectKey>,
    address: SocketAddr,
    serving: Option<(CancellationToken, JoinHandle<()>)>,
}

impl ApiServer {
    /// Serves so many drifted Deployments.
    pub(crate) fn start(objects: usize) -> Self {
        let cluster = demo::Cluster::new(Clock::system());
        for number in 0..NAMESPACES {
            let namespace = json!({"metadata": {"name": format!("team-{number}")}});
            cluster.create(&Kind::namespace(), "HashiCorp", namespace).expect("it can be created");
        }
        let kind = Arc::new(Kind::deployment());
        let create = |number: usize| {
            let (namespace, name) = (format!("team-{}", number % NAMESPACES), format!("shop-{number}"));
            let mut object = serde_json::to_value(deployment(&namespace, &name)).expect("it is JSON");
            object["metadata"]["annotations"] = json!({HASH: hash_of(&kind, &object)});
            object["spec"]["replicas"] = json!(9);
            cluster.create(&kind, "HashiCorp", object).expect("it can be created");
            ObjectKey::new(kind.clone(), &namespace, &name)
        };
        let keys = (0..objects).map(create).collect();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let address = ([127, 0, 0, 1], 0).into();
        let mut server = Self { runtime, cluster, keys, address, serving: None };
        server.serve();
        server
    }

    fn serve(&mut self) {
        let _runtime = self.runtime.enter();
        let listener = listen(self.address).expect("the port is free");
        self.address = listener.local_addr().expect("a bound listener has an address");
        let stop = CancellationToken::new();
        let router = demo::router(self.cluster.clone(), stop.clone());
        let served = serve(listener, router, ServerLimits::default(), Auth::default(), stop.clone());
        self.serving = Some((stop, self.runtime.spawn(served)));
    }

    /// Edits objects while the exporter is not connected, and compacts the event log: the exporter has to relist. Returns
    /// when it has.
    fn relist(&mut self, number: usize, exporter: &Exporter) {
        exporter.running.signal("STOP");
        if let Some((stop, served)) = self.serving.take() {
            stop.cancel();
            self.runtime.block_on(served).expect("the server stops");
        }
        let edit = json!({"metadata": {"labels": {"relist": number.to_string()}}});
        let mut edited = Value::Null;
        let step = self.keys.len().div_ceil(EDITED);
        for key in self.keys.iter().step_by(step) {
            edited = self.cluster.patch(key, "HashiCorp", edit.clone()).expect("it can be edited");
        }
        self.cluster.compact();
        self.serve();
        exporter.running.signal("CONT");
        let metadata = &edited["metadata"];
        let text = |field: &str| metadata[field].as_str().expect("the server assigns it").to_owned();
        let path = format!("/v1/resources/deployment/{}/{}", text("namespace"), text("name"));
        eventually("the relist", || {
            let object = exporter.get(&path)?.json();
            (object["resourceVersion"] == metadata["resourceVersion"]).then_some(())
        });
    }

    fn write_kubeconfig(&self, folder: &Path) -> PathBuf {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", self.address)}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        let path = folder.join("embedded.kubeconfig");
        fs::write(&path, kubeconfig.to_string()).expect("written");
        path
    }

    pub(crate) fn measure(&mut self, program: &Path, folder: &Path) -> Latencies {
        let settings = folder.join("livez.yaml");
        fs::write(&settings, "metrics: {health: true, labels: [relist]}\n").expect("written");
        let flags = ["--config.file", settings.to_str().expect("a path")];
        let kubeconfig = self.write_kubeconfig(folder);
        let exporter = Exporter::start_program(program, &kubeconfig, folder, &flags).ready();
        let mut latencies = Latencies { livez: Vec::new(), scrapes: Vec::new() };
        for number in 0..RELISTS {
            self.relist(number, &exporter);
            latencies.probe(exporter.port);
        }
        let page = exporter.metrics();
        let series = page.lines().filter(|line| line.starts_with("drift_resource_")).count();
        assert!(series >= SERIES_PER_OBJECT * self.keys.len(), "only {series} series");
        let relists = [("kind", "Deployment"), ("reason", "gone")];
        let relists = http_client::sample(&page, "drift_watch_restarts_total", &relists);
        assert!(relists.is_some_and(|relists| relists >= RELISTS as f64), "{relists:?} relists");
        latencies.livez.sort();
        latencies.scrapes.sort();
        latencies
    }
}

impl Latencies {
    /// Probes for as long as scrapers load the page.
    fn probe(&mut self, port: u16) {
        let loading = AtomicUsize::new(SCRAPERS);
        let get = |path, headers| {
            let started = Instant::now();
            let status = http_client::get(port, path, headers).map(|response| response.status);
            assert_eq!(status, Some(200), "{path}");
            started.elapsed()
        };
        let scrape = |number: usize| {
            let took = get("/metrics", SCRAPES[number % SCRAPES.len()]);
            loading.fetch_sub(1, Ordering::Relaxed);
            took
        };
        std::thread::scope(|scope| {
            let spawn = |number| scope.spawn(move || scrape(number));
            let scrapers: Vec<_> = (0..SCRAPERS).map(spawn).collect();
            while loading.load(Ordering::Relaxed) > 0 {
                self.livez.push(get("/livez", &[]));
            }
            self.scrapes.extend(scrapers.into_iter().map(|scraper| scraper.join().expect("a page")));
        });
    }
}
