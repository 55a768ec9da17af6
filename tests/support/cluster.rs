//! A real API server with a real etcd, for a single test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use drift_exporter::watch::{ClusterConnection, client_from};
use kube::Client;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{
    http_client::post,
    parts::program,
    process::{Running, free_port},
    wait::eventually,
};

/// etcd and kube-apiserver on the loopback interface. No controllers run.
pub struct Cluster {
    apiserver: Option<Running>,
    etcd: Option<Running>,
    folder: TempDir,
    port: u16,
    etcd_ports: [u16; 2],
    runtime: Runtime,
    setup: Setup,
}

/// Users of the API server.
#[derive(Clone, Copy, Debug)]
pub enum User {
    /// Has all permissions.
    Admin,
    /// Has the permissions that a test grants.
    Exporter,
}

impl User {
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Exporter => "exporter",
        }
    }
}

/// Flags of the API server.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The audit level.
    pub audit: &'static str,
    /// Disabled admission plugins.
    pub disabled_admission: &'static str,
}

impl Default for Setup {
    /// The ServiceAccount plugin needs a controller.
    fn default() -> Self {
        Self { audit: "Metadata", disabled_admission: "ServiceAccount" }
    }
}

const AUDIT_POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: ";
const TOKENS: &str = "admin-token,admin,1,system:masters\nexporter-token,exporter,2\n";

impl Cluster {
    /// Starts a cluster and waits until it is ready.
    pub fn start() -> Self {
        Self::start_with(Setup::default())
    }

    /// Starts a cluster with other flags.
    pub fn start_with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let key = rcgen::KeyPair::generate().expect("a key");
        fs::write(folder.path().join("key.pem"), key.serialize_pem()).expect("the key can be written");
        fs::write(folder.path().join("public.pem"), key.public_key_pem()).expect("the key can be written");
        fs::write(folder.path().join("audit.yaml"), format!("{AUDIT_POLICY}{}\n", setup.audit))
            .expect("the policy can be written");
        fs::write(folder.path().join("tokens.csv"), TOKENS).expect("the tokens can be written");
        let (etcd_ports, port) = ([free_port(), free_port()], free_port());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let mut cluster = Self { apiserver: None, etcd: None, folder, port, etcd_ports, runtime, setup };
        cluster.start_etcd();
        cluster.start_apiserver();
        cluster
    }

    /// Starts etcd.
    pub fn start_etcd(&mut self) {
        let [client, peer] = self.etcd_ports.map(|port| format!("http://127.0.0.1:{port}"));
        let running = Running::start(
            Command::new(program("etcd", "etcd"))
                .arg("--data-dir")
                .arg(self.etcd_data())
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &format!("default={peer}")])
                .args(["--unsafe-no-fsync", "--log-level", "error"]),
            &self.folder.path().join("etcd.log"),
        );
        self.etcd = Some(running);
    }

    /// Kills etcd.
    pub fn kill_etcd(&mut self) {
        self.etcd.take().expect("it runs").kill();
    }

    /// The data directory of etcd.
    pub fn etcd_data(&self) -> PathBuf {
        self.folder.path().join("etcd")
    }

    /// Starts the API server and waits until it is ready.
    pub fn start_apiserver(&mut self) {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let running = Running::start(
            Command::new(program("kube-apiserver", "kube-apiserver"))
                .args(["--etcd-servers", &format!("http://127.0.0.1:{}", self.etcd_ports[0])])
                .args(["--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1"])
                .args(["--secure-port", &self.port.to_string(), "--cert-dir", &file("certificates")])
                .args(["--service-account-issuer", "https://127.0.0.1"])
                .args(["--service-account-key-file", &file("public.pem")])
                .args(["--service-account-signing-key-file", &file("key.pem")])
                .args(["--token-auth-file", &file("tokens.csv"), "--authorization-mode", "RBAC"])
                .args(["--service-cluster-ip-range", "10.0.0.0/16", "--allow-privileged=true"])
                .args(["--disable-admission-plugins", self.setup.disabled_admission])
                .args(["--audit-policy-file", &file("audit.yaml"), "--audit-log-path", &file("audit.log")])
                .args(["--etcd-compaction-interval", "0"]),
            &self.folder.path().join("apiserver.log"),
        );
        self.apiserver = Some(running);
        for user in [User::Admin, User::Exporter] {
            fs::write(self.kubeconfig(user), self.kubeconfig_text(user))
                .expect("the kubeconfig can be written");
        }
        eventually("the API server is ready", || {
            let apiserver = self.apiserver.as_mut().expect("it was just started");
            let log = self.folder.path().join("apiserver.log");
            assert!(!apiserver.has_ended(), "{}", fs::read_to_string(log).unwrap_or_default());
            self.is_ready().then_some(())
        });
    }

    /// Kills the API server.
    pub fn kill_apiserver(&mut self) {
        self.apiserver.take().expect("it runs").kill();
    }

    /// The process of the API server.
    pub fn apiserver(&self) -> &Running {
        self.apiserver.as_ref().expect("it runs")
    }

    /// The path of a user's kubeconfig.
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.folder.path().join(format!("{}.kubeconfig", user.name()))
    }

    /// The port of the API server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate of the API server.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificates/apiserver.crt")
    }

    /// A folder for files of the test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Compacts etcd to the newest revision.
    pub fn compact(&self) {
        // `Lw==` is the key `/` in base64; only the revision in the response header matters.
        let answer = post(self.etcd_ports[0], "/v3/kv/range", &json!({"key": "Lw=="}));
        let revision = answer["header"]["revision"].as_str().expect("a revision").to_owned();
        let answer =
            post(self.etcd_ports[0], "/v3/kv/compaction", &json!({"revision": revision, "physical": true}));
        assert!(answer.get("error").is_none(), "{answer}");
    }

    /// A client with all permissions.
    pub fn client(&self) -> Client {
        let connection = ClusterConnection { kubeconfig: Some(self.kubeconfig(User::Admin)), context: None };
        self.block_on(client_from(&connection)).expect("the kubeconfig is good")
    }

    /// Runs a future.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// All events of the audit log.
    pub fn audit_events(&self) -> Vec<serde_json::Value> {
        let log =
            fs::read_to_string(self.folder.path().join("audit.log")).expect("the audit log can be read");
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The requests of a user: verb and resource.
    pub fn requests_by(&self, user: User) -> Vec<(String, String)> {
        self.audit_events()
            .into_iter()
            .filter(|entry| entry["user"]["username"] == user.name())
            .map(|entry| {
                let text = |value: &serde_json::Value| value.as_str().unwrap_or("").to_owned();
                (text(&entry["verb"]), text(&entry["objectRef"]["resource"]))
            })
            .collect()
    }

    /// The number of lists of a resource by the exporter.
    pub fn lists_of(&self, resource: &str) -> usize {
        let requests = self.requests_by(User::Exporter);
        requests.iter().filter(|(verb, listed)| verb == "list" && listed == resource).count()
    }

    fn is_ready(&self) -> bool {
        if !self.certificate().exists() {
            return false;
        }
        let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
        let client = self.client();
        self.block_on(async {
            let answer = tokio::time::timeout(Duration::from_secs(10), client.request_text(request)).await;
            answer.is_ok_and(|answer| answer.is_ok())
        })
    }

    fn kubeconfig_text(&self, user: User) -> String {
        let name = user.name();
        let (port, folder) = (self.port, self.folder.path().display());
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters: [{{name: test, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority: {folder}/certificates/apiserver.crt}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: {name}}}}}]\n\
             users: [{{name: {name}, user: {{token: {name}-token}}}}]\n"
        )
    }
}
