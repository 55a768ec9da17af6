//! An API server, a proxy in front of it, an exporter, and a checker that knows every write.

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use drift_exporter::types::Kind;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::{
    checker::{Checker, Expectations, ExpectedValue, SeriesKey},
    proxy::{Proxy, Upstream},
    report::{Bound, Outcome},
    support::{
        api_server::ApiServer, cluster::Cluster, exporter::Exporter, live_objects, memory, objects,
        process::free_port, wait::eventually,
    },
};

pub(crate) const NAMESPACE: &str = "shop";

/// How a world differs from the default one.
#[derive(Clone)]
pub(crate) struct Options<'a> {
    /// The build of the exporter.
    pub(crate) program: &'a Path,
    pub(crate) flags: Vec<String>,
    pub(crate) deployments: usize,
    pub(crate) services: usize,
    pub(crate) expectations: Expectations,
    /// The server side of TLS at the proxy.
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

impl<'a> Options<'a> {
    pub(crate) fn new(program: &'a Path) -> Self {
        Self {
            program,
            flags: Vec::new(),
            deployments: 24,
            services: 8,
            expectations: Expectations::default(),
            tls: None,
        }
    }
}

pub(crate) enum Server {
    Fake(ApiServer),
    Real(Box<Cluster>, Client),
}

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) proxy: Proxy,
    pub(crate) exporter: Option<Exporter>,
    pub(crate) checker: Checker,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) health_port: u16,
    pub(crate) program: PathBuf,
    pub(crate) flags: Vec<String>,
    keys: Vec<SeriesKey>,
    random: fastrand::Rng,
    folder: TempDir,
    /// Dropped last, with the servers that run on it.
    _runtime: Runtime,
}

impl World {
    /// A fake API server with objects. The exporter is not started.
    pub(crate) fn fake(options: Options<'_>) -> Self {
        let api = ApiServer::with_source_kinds();
        let runtime = runtime();
        let listener =
            runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        runtime.spawn(api.clone().serve_http(listener));
        Self::new(Server::Fake(api), runtime, Upstream { port, tls: None }, options)
    }

    /// A real API server with objects. The exporter is not started.
    pub(crate) fn real(options: Options<'_>) -> Self {
        let (cluster, runtime) = (Cluster::start(), runtime());
        let client = cluster.client();
        cluster.block_on(async {
            objects::grant(&client, "drift-exporter", objects::read_only_rules()).await;
            objects::create_namespace(&client, NAMESPACE).await;
        });
        let mut authorities = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(cluster.certificate()).expect("a certificate") {
            authorities.add(certificate.expect("a certificate")).expect("a certificate");
        }
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS 1.2 and 1.3")
            .with_root_certificates(authorities)
            .with_no_client_auth();
        let upstream = Upstream { port: cluster.port(), tls: Some(Arc::new(tls)) };
        Self::new(Server::Real(Box::new(cluster), client), runtime, upstream, options)
    }

    fn new(server: Server, runtime: Runtime, upstream: Upstream, options: Options<'_>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let proxy = Proxy::start(&runtime, upstream, options.tls);
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, kubeconfig_text(scheme, proxy.port, "", "token: exporter-token"))
            .expect("the kubeconfig can be written");
        let health_port = free_port();
        let mut flags = vec!["--web.health-address".to_owned(), format!("127.0.0.1:{health_port}")];
        flags.extend(options.flags);
        let key = |kind: &'static str| {
            move |index| {
                SeriesKey::new(kind, NAMESPACE, &format!("{}-{index}", kind.to_lowercase()), "annotation")
            }
        };
        let deployments = (0..options.deployments).map(key("Deployment"));
        let keys: Vec<SeriesKey> = deployments.chain((0..options.services).map(key("Service"))).collect();
        let world = Self {
            server,
            proxy,
            exporter: None,
            checker: Checker::new(Arc::default(), options.expectations),
            kubeconfig,
            health_port,
            program: options.program.to_owned(),
            flags,
            keys,
            random: fastrand::Rng::with_seed(20),
            folder,
            _runtime: runtime,
        };
        for (index, key) in world.keys.iter().enumerate() {
            world.write(key, ExpectedValue::InSync);
            if index % 3 == 0 {
                world.write(key, ExpectedValue::Drifted);
            }
        }
        world
    }

    /// Starts the exporter, waits until it has converged, and begins to scrape.
    pub(crate) fn started(mut self) -> Self {
        self.restart();
        self
    }

    /// As [`World::started`], after the checker of another row has ended.
    pub(crate) fn restart(&mut self) {
        self.start_exporter();
        self.wait_converged();
        self.checker.run();
    }

    /// Waits until the exporter has converged.
    pub(crate) fn wait_converged(&self) {
        let started = Instant::now();
        let bound = self.checker.converged(started, Duration::from_secs(60));
        assert!(started.elapsed() < Duration::from_secs(120), "{bound}: {}", self.exporter().logged());
    }

    /// Starts the exporter and waits until it is ready.
    pub(crate) fn start_exporter(&mut self) {
        let program = self.program.clone();
        self.start_command(&mut Command::new(program));
        self.wait_ready();
    }

    /// Starts the exporter with a prepared command.
    pub(crate) fn start_command(&mut self, command: &mut Command) {
        self.exporter = None;
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        let exporter = Exporter::start_command(command, &self.kubeconfig, self.folder.path(), &flags);
        self.checker.set_port(exporter.port);
        self.exporter = Some(exporter);
    }

    pub(crate) fn wait_ready(&mut self) {
        let exporter = self.exporter.as_mut().expect("it was started");
        eventually("the exporter is ready", || {
            assert!(!exporter.running.has_ended(), "{}", exporter.logged());
            (exporter.get("/readyz")?.status == 200).then_some(())
        });
    }

    pub(crate) fn exporter(&self) -> &Exporter {
        self.exporter.as_ref().expect("it was started")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn api(&self) -> &ApiServer {
        match &self.server {
            Server::Fake(api) => api,
            Server::Real(..) => unreachable!("the row needs the fake API server"),
        }
    }

    pub(crate) fn cluster(&mut self) -> &mut Cluster {
        match &mut self.server {
            Server::Real(cluster, _) => cluster,
            Server::Fake(_) => unreachable!("the row needs the real API server"),
        }
    }

    /// The objects of the world.
    pub(crate) fn keys(&self) -> &[SeriesKey] {
        &self.keys
    }

    /// Writes an object, and records it as the expected state.
    pub(crate) fn write(&self, key: &SeriesKey, value: ExpectedValue) {
        let before = self.checker.expected.lock().unwrap().newest(key);
        self.checker.expected.lock().unwrap().begin(key, value);
        match &self.server {
            Server::Fake(api) => write_fake(api, key, value),
            Server::Real(cluster, client) => {
                let exists = before != ExpectedValue::Absent;
                cluster.block_on(write_real(client, key, value, exists));
            }
        }
        self.checker.expected.lock().unwrap().end(key);
    }

    /// Allows changes of these kinds this time until [`World::end_allowances`].
    pub(crate) fn allow_lag(&self, kinds: &[&'static str], lag: Duration) {
        let mut expected = self.checker.expected.lock().unwrap();
        kinds.iter().for_each(|kind| expected.allow_lag(kind, lag));
    }

    /// From now on, changes must be visible within the usual time. The exporter has converged before.
    pub(crate) fn end_allowances(&self) {
        self.checker.expected.lock().unwrap().end_allowances();
    }

    /// Makes random changes: objects drift, are reverted, deleted and created. Every second object is never deleted.
    pub(crate) fn churn(&mut self, changes: usize) {
        for _ in 0..changes {
            let index = self.random.usize(0..self.keys.len());
            let key = self.keys[index].clone();
            let value = self.checker.expected.lock().unwrap().newest(&key);
            let next = match (value, self.random.u8(0..10)) {
                (ExpectedValue::InSync | ExpectedValue::Drifted, 0..3) if index % 2 == 1 => {
                    ExpectedValue::Absent
                }
                (ExpectedValue::InSync, _) => ExpectedValue::Drifted,
                (ExpectedValue::Absent | ExpectedValue::Drifted, _) => ExpectedValue::InSync,
            };
            self.write(&key, next);
        }
    }

    /// Makes a few changes every second.
    pub(crate) fn churn_for(&mut self, time: Duration) {
        let started = Instant::now();
        while started.elapsed() < time {
            self.churn(3);
            std::thread::sleep(Duration::from_secs(1).min(time));
        }
    }

    /// Waits until the exporter has converged. The bound counts from now.
    pub(crate) fn converged(&self, seconds: u64) -> Bound {
        self.checker.converged(Instant::now(), Duration::from_secs(seconds))
    }

    pub(crate) fn is_reported_down(&self, kind: &str) -> bool {
        let page = self.exporter().metrics();
        let mut lines = page.lines().filter(|line| line.starts_with("drift_watch_stream_up{"));
        lines.any(|line| line.contains(&format!("kind=\"{kind}\"")) && line.ends_with(" 0"))
    }

    /// The time until a watch of a kind is reported as down.
    pub(crate) fn reported_down(&self, kind: &str, limit: Duration) -> Bound {
        let started = Instant::now();
        while started.elapsed() < limit * 2 && !self.is_reported_down(kind) {
            std::thread::sleep(Duration::from_millis(50));
        }
        Bound::time("reported down", started.elapsed(), limit)
    }

    /// How often watches of a kind were opened again, for this reason.
    pub(crate) fn restarts(&self, kind: &str, reason: &str) -> f64 {
        let labels = [("kind", kind), ("reason", reason)];
        self.exporter().sample("drift_watch_restarts_total", &labels).unwrap_or_default()
    }

    /// A field of `/proc/…/status` of the exporter, in KiB.
    pub(crate) fn memory_kib(&self, field: &str) -> u64 {
        memory::memory_kib(self.exporter().running.pid(), field)
    }

    /// The CPU time of the exporter so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.exporter().sample("process_cpu_seconds_total", &[]).expect("the exporter reports it")
    }

    /// Measures the peak memory from now on; returns the current one, in KiB.
    pub(crate) fn reset_peak(&self) -> u64 {
        memory::reset_peak(self.exporter().running.pid())
    }

    /// Ends the checker with its findings and these bounds, and the faults of the proxy.
    pub(crate) fn outcome(&mut self, bounds: Vec<Bound>) -> Outcome {
        self.proxy.heal();
        let next = self.checker.another();
        let (counts, notes) = std::mem::replace(&mut self.checker, next).finish();
        Outcome { counts, bounds, notes, skipped: None }
    }
}

fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime")
}

/// A kubeconfig. `cluster` and `user` are additional fields of its cluster and user.
pub(crate) fn kubeconfig_text(scheme: &str, port: u16, cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: chaos\n\
         clusters: [{{name: chaos, cluster: {{server: '{scheme}://127.0.0.1:{port}'{cluster}}}}}]\n\
         contexts: [{{name: chaos, context: {{cluster: chaos, user: exporter}}}}]\n\
         users: [{{name: exporter, user: {{{user}}}}}]\n"
    )
}

/// An object of the fake API server.
pub(crate) fn object(key: &SeriesKey, value: ExpectedValue) -> Value {
    let mut object = if key.kind == "Service" {
        live_objects::service(&key.name)
    } else {
        live_objects::deployment(&key.name)
    };
    object["metadata"]["namespace"] = key.namespace.as_str().into();
    match (value, key.kind.as_str()) {
        (ExpectedValue::Drifted, "Service") => object["spec"]["ports"][0]["port"] = json!(81),
        (ExpectedValue::Drifted, _) => object = live_objects::edited(object, 1),
        (ExpectedValue::InSync | ExpectedValue::Absent, _) => {}
    }
    object
}

fn plural(key: &SeriesKey) -> &'static str {
    if key.kind == "Service" { "services" } else { "deployments" }
}

fn write_fake(api: &ApiServer, key: &SeriesKey, value: ExpectedValue) {
    match value {
        ExpectedValue::Absent => api.delete(plural(key), &key.namespace, &key.name),
        ExpectedValue::InSync | ExpectedValue::Drifted => api.put(plural(key), object(key, value)),
    }
}

async fn write_real(client: &Client, key: &SeriesKey, value: ExpectedValue, exists: bool) {
    let SeriesKey { kind, namespace, name, .. } = key;
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let (replicas, port) = if value == ExpectedValue::Drifted { (5, 81) } else { (2, 80) };
    let is_service = kind == "Service";
    match (value, exists) {
        (ExpectedValue::Absent, _) if is_service => objects::delete(&services, name).await,
        (ExpectedValue::Absent, _) => objects::delete(&deployments, name).await,
        (_, false) if is_service => {
            objects::create_with_hash(client, &Kind::service(), &objects::service(namespace, name)).await;
        }
        (_, false) => {
            objects::create_with_hash(client, &Kind::deployment(), &objects::deployment(namespace, name))
                .await;
        }
        (_, true) if is_service => {
            let ports = json!([{"name": "http", "port": port, "targetPort": 8080}]);
            objects::patch(&services, name, "kubectl-edit", json!({"spec": {"ports": ports}})).await;
        }
        (_, true) => {
            objects::patch(&deployments, name, "kubectl-edit", json!({"spec": {"replicas": replicas}})).await;
        }
    }
}
