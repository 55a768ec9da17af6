//! Data for the dashboards: the demo while its story runs, and a real cluster with Terraform.

use std::{fs, io::Write as _, path::Path, rc::Rc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job, coordination::v1::Lease, core::v1::Secret};
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    cluster::{Cluster, User},
    demo::Demo,
    exporter::Exporter,
    objects::{create_namespace, from_json, patch},
    prometheus::Prometheus,
    wait::eventually,
};

/// The time range of the dashboards in seconds.
pub(super) const RANGE: u16 = 64;

const SHOP: &str = "\
kinds:
- {apiVersion: apps/v1, kind: Deployment, selector: tfdrift.jin.dev/enabled=true}
- {apiVersion: v1, kind: Service, selector: tfdrift.jin.dev/enabled=true}
- {apiVersion: apps/v1, kind: Deployment, namespaces: [marketing]}
sources: {annotation: {}, terraform: {trusted_namespaces: [terraform]}, helm: {}, last_applied: {}}
metrics: {labels: [team], health: true}
rules:
- name: known-until-the-release
  match: {kinds: [Deployment], namespaces: [shop], names: [catalog]}
  effect: expected
  owner: shop
  reason: goes with 2.5
  expires: 2126-01-31
";

const BUILDS: &str = "\
sources: {terraform: {trusted_namespaces: [terraform]}}
terraform_jobs: {label: example.com/workspace}
";

/// Two exporters and their clusters.
pub(crate) struct Exporters {
    shop: Exporter,
    builds: Exporter,
    demo: Demo,
    cluster: Cluster,
    folders: [TempDir; 2],
}

/// A Prometheus that scrapes them, and the time with the most drift.
pub(crate) struct Feed {
    pub(super) prometheus: Rc<Prometheus>,
    pub(super) shop: Exporter,
    pub(super) now: f64,
    _builds: Exporter,
    _demo: Demo,
    _cluster: Cluster,
    _folders: [TempDir; 2],
}

impl Exporters {
    pub(crate) fn start() -> Self {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let cluster = Cluster::start();
        cluster.block_on(run_terraform(&cluster.client()));
        let builds = start(&cluster.kubeconfig(User::Admin), folders[0].path(), BUILDS);

        // One round of the story takes 26 seconds.
        let demo = Demo::start(&["--speed", "4"]);
        cluster.block_on(name_teams(&demo));
        let shop = start(&demo.kubeconfig, folders[1].path(), SHOP);
        Self { shop, builds, demo, cluster, folders }
    }

    /// The scrape config.
    pub(crate) fn job(&self) -> Value {
        let job = |cluster: &str, exporter: &Exporter| json!({"targets": [format!("127.0.0.1:{}", exporter.port)], "labels": {"cluster": cluster, "namespace": "monitoring"}});
        json!({"job_name": "drift-exporter-of-others", "honor_labels": true,
            "static_configs": [job("shop", &self.shop), job("builds", &self.builds)]})
    }

    /// Runs until Prometheus has scraped every state of the story.
    pub(crate) fn scraped_by(self, prometheus: Rc<Prometheus>) -> Feed {
        let Self { shop, builds, demo, mut cluster, folders } = self;
        // Watches disconnect and reconnect.
        cluster.kill_apiserver();
        eventually("watches that are down", || {
            (!prometheus.query("drift_watch_stream_up{cluster=\"builds\"} == 0").is_empty()).then_some(())
        });
        cluster.start_apiserver();
        let now = wait_for_third_round(&prometheus, || cluster.block_on(pause(&demo)));
        Feed { prometheus, shop, now, _builds: builds, _demo: demo, _cluster: cluster, _folders: folders }
    }
}

fn start(kubeconfig: &Path, folder: &Path, settings: &str) -> Exporter {
    let path = folder.join("settings.yaml");
    fs::write(&path, settings).unwrap();
    Exporter::start(kubeconfig, folder, &["--config.file", path.to_str().unwrap()]).ready()
}

/// Waits for the third round of the story, after its last edit and before the first revert.
fn wait_for_third_round(prometheus: &Prometheus, pause: impl FnOnce()) -> f64 {
    let gone = "drift_resource_drifted_timestamp_seconds{kind=\"NetworkPolicy\",field=\"existence\"}";
    let rounds = "drift_resource_episodes_total{kind=\"NetworkPolicy\",name=\"refunds\"}";
    let second = format!("{rounds} >= 2 unless on (name) {gone}");
    let third = format!("{gone} and on (name) {rounds} >= 3");
    let seen = |query: &str| {
        eventually(query, || {
            let data = prometheus.request("query", &[("query", query)]).ok()?;
            data["result"][0]["value"][0].as_f64()
        })
    };
    seen(&second);
    pause();
    seen(&third)
}

fn deployments(demo: &Demo, namespace: &str) -> Api<Deployment> {
    let url = format!("http://127.0.0.1:{}", demo.api_port()).parse().unwrap();
    Api::namespaced(Client::try_from(Config::new(url)).unwrap(), namespace)
}

async fn name_teams(demo: &Demo) {
    let of_shop = ["web", "cart", "catalog", "checkout", "search"].map(|name| ("shop", name, "front"));
    for (namespace, name, team) in of_shop.into_iter().chain([("payments", "ledger", "money")]) {
        let change = json!({"metadata": {"labels": {"team": team}}});
        patch(&deployments(demo, namespace), name, "kubectl-label", change).await;
    }
}

/// Sets fields that Terraform does not read. The end of a round reverts them.
async fn pause(demo: &Demo) {
    patch(
        &deployments(demo, "payments"),
        "checkout-eu",
        "kubectl-rollout",
        json!({"spec": {"paused": true}}),
    )
    .await;
}

/// Creates a locked state and a finished Job.
async fn run_terraform(client: &Client) {
    create_namespace(client, "terraform").await;
    let labels = json!({"tfstate": "true", "tfstateSecretSuffix": "builds", "tfstateWorkspace": "default", "app.kubernetes.io/managed-by": "terraform"});
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(include_bytes!("../../../src/demo/terraform/shop.tfstate")).unwrap();
    let state = STANDARD.encode(gzip.finish().unwrap());
    let secret: Secret = from_json(json!({
        "metadata": {"name": "tfstate-default-builds", "labels": labels, "annotations": {"encoding": "gzip"}}, "data": {"tfstate": state},
    }));
    let lock = json!({"ID": "1", "Operation": "OperationTypeApply", "Info": "", "Who": "ci@runner-3", "Version": "1.11.4", "Created": "2026-01-01T00:00:00Z", "Path": ""});
    let lease: Lease = from_json(json!({
        "metadata": {"name": "lock-tfstate-default-builds", "labels": labels, "annotations": {"app.terraform.io/lock-info": lock.to_string()}},
        "spec": {"holderIdentity": "1"},
    }));
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "terraform", "image": "terraform"}]}});
    let job: Job = from_json(
        json!({"metadata": {"name": "plan-1", "labels": {"example.com/workspace": "network"}}, "spec": {"template": pod}}),
    );
    let made = PostParams::default();
    Api::namespaced(client.clone(), "terraform").create(&made, &secret).await.unwrap();
    Api::namespaced(client.clone(), "terraform").create(&made, &lease).await.unwrap();
    let jobs = Api::<Job>::namespaced(client.clone(), "terraform");
    jobs.create(&made, &job).await.unwrap();
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z"});
    let status: Value = json!({"status": {
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:02:00Z", "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }});
    jobs.patch_status("plan-1", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}
