//! Real Helm installs, upgrades, rolls back and uninstalls; real kubectl edits; the exporter has nothing but the releases to go by.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use drift_exporter::sources::is_cluster_scoped;
use serde_json::{Value, json};

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    helm::Helm,
    objects::{create_namespace, grant},
    parts::program,
    wait::eventually,
};

const ONSET: &str = "drift_resource_drifted_timestamp_seconds";
/// What the chart declares, without hooks and definitions.
const OBJECTS: usize = 16;

struct World {
    cluster: Cluster,
    exporter: Exporter,
    helm: Helm,
    namespace: &'static str,
}

impl World {
    fn start(driver: &'static str, namespace: &'static str) -> Self {
        let cluster = Cluster::start();
        let client = cluster.client();
        let (read, follow) = (json!(["get", "list", "watch"]), json!(["list", "watch"]));
        cluster.block_on(async {
            create_namespace(&client, namespace).await;
            let rules = json!([
                {"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": read},
                {"apiGroups": [""], "resources": ["services", "serviceaccounts"], "verbs": follow},
                {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": follow},
                {"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": follow},
                {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses", "networkpolicies"], "verbs": follow},
                {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings", "clusterroles"], "verbs": follow},
                {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": follow},
                {"apiGroups": ["example.com"], "resources": ["widgets", "fleets"], "verbs": follow},
            ]);
            grant(&client, "exporter", rules).await;
        });
        let flags = ["--sources", "helm"];
        let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), &flags).ready();
        let helm = Helm::new(&cluster.kubeconfig(User::Admin), driver);
        Self { cluster, exporter, helm, namespace }
    }

    #[track_caller]
    fn helm(&self, arguments: &[&str]) {
        self.helm.run(&[arguments, &["-n", self.namespace]].concat());
    }

    #[track_caller]
    fn kubectl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(program("kube-apiserver", "kubectl"));
        command.args(arguments).args(["-n", self.namespace]);
        let output = command.arg("--kubeconfig").arg(self.cluster.kubeconfig(User::Admin)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn asked(&self, path: &str) -> Value {
        serde_json::from_str(&self.exporter.get(path).unwrap().text()).unwrap()
    }

    /// All claims of the source, as `kind/name verdict`, but for those of a verdict.
    fn claims_but(&self, verdict: &str) -> Vec<String> {
        let all = self.asked("/v1/resources?namespace=*&limit=1000");
        let claims = all["resources"].as_array().unwrap().iter();
        let other = claims.filter(|own| own["source"] == "helm" && own["verdict"] != verdict);
        other
            .map(|own| {
                let paths: Vec<&Value> =
                    own["differences"].as_array().unwrap().iter().map(|one| &one["path"]).collect();
                format!("{}/{} {} {paths:?}", own["resourceType"], own["resourceName"], own["verdict"])
            })
            .collect()
    }

    fn count(&self) -> usize {
        self.claims_but("").len()
    }

    /// Everything that is declared is as declared, and this revision is the one that counts.
    #[track_caller]
    fn settles(&self, revision: u64) {
        eventually("all is as declared", || {
            let is_new = self.release()["serial"] == revision && self.release()["lock"].is_null();
            (is_new && self.count() == OBJECTS && self.claims_but("in_sync").is_empty()).then_some(())
        });
    }

    fn release(&self) -> Value {
        self.asked("/v1/status")["baselines"].get(0).cloned().unwrap_or_default()
    }

    /// What happened, oldest first: name, verdict, and cause of an end.
    fn turns(&self) -> Vec<String> {
        let history = self.asked("/v1/history");
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let turn =
            |own: &Value| format!("{} {} {}", text(&own["name"]), text(&own["to"]), text(&own["cause"]));
        history["transitions"].as_array().unwrap().iter().rev().map(turn).collect()
    }

    fn detections(&self) -> f64 {
        let page = self.exporter.metrics();
        let lines = page.lines().filter(|line| line.starts_with("drift_detections_total{"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// Scales, and says how long it took until `/metrics` knew, with all that it has to know.
    fn scale_is_seen(&self) -> Duration {
        self.kubectl(&["scale", "deployment", "web-web", "--replicas=5"]);
        let begun = Instant::now();
        let state = format!("{}/web", self.namespace);
        let labels = [
            ("kind", "Deployment"),
            ("namespace", self.namespace),
            ("name", "web-web"),
            ("source", "helm"),
            ("actor", "kubectl"),
            ("field", "replicas"),
            ("state", &*state),
            ("address", "shop/templates/workloads.yaml"),
        ];
        eventually("the edit is on /metrics", || self.exporter.sample(ONSET, &labels));
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
        let claim = self.asked(&format!("/v1/resources/deployment.apps/{}/web-web", self.namespace));
        let claim = &claim["claims"][0];
        let difference = &claim["differences"][0];
        assert_eq!(
            (&difference["path"], &difference["expected"], &difference["actual"]),
            (&json!("spec.replicas"), &json!("2"), &json!("5"))
        );
        assert_eq!((&claim["deploymentId"], &claim["state"]), (&json!(state), &json!(state)));
        took
    }
}

fn chart() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/chart").display().to_string()
}

#[test]
fn helm_and_its_releases_are_all_that_it_takes() {
    let world = World::start("secret", "shop");
    let chart = chart();
    world.helm(&["install", "web", &chart]);
    world.settles(1);
    let release = world.release();
    assert_eq!((&release["state"], &release["origin"]), (&json!("shop/web"), &json!("helm_secret")));
    assert_eq!(release["chart"], json!({"name": "shop", "version": "1.2.0", "appVersion": "7.1"}));
    assert_eq!(release["skipped"], json!([]));

    // An edit is seen, and ends when it is taken back.
    let took = world.scale_is_seen();
    println!("kubectl scale was on /metrics {took:?} after kubectl had ended");
    world.kubectl(&["scale", "deployment", "web-web", "--replicas=2"]);
    eventually("it is reverted", || (world.turns().len() == 2).then_some(()));
    let mut turns = vec!["web-web drifted -".to_owned(), "web-web in_sync reverted".to_owned()];
    assert_eq!(world.turns(), turns);

    // Upgrades and rollbacks move what is declared, and nothing drifts on the way.
    world.helm(&["upgrade", "web", &chart, "--set", "image=nginx:1.28,config=two,replicas=3"]);
    world.settles(2);
    world.helm(&["rollback", "web", "1"]);
    world.settles(3);
    world.helm.fail(&["upgrade", "web", &chart, "-n", "shop", "--set", "replicas=many"]);
    world.settles(3);
    assert_eq!(world.turns(), turns);

    // What somebody did by hand and then declared is taken over.
    world.kubectl(&["set", "image", "deployment/web-web", "web=nginx:1.29"]);
    let image = [("kind", "Deployment"), ("field", "image"), ("source", "helm")];
    eventually("the image differs", || world.exporter.sample(ONSET, &image));
    world.helm(&["upgrade", "web", &chart, "--set", "image=nginx:1.29"]);
    world.settles(5);
    turns.extend(["web-web drifted -".to_owned(), "web-web in_sync absorbed".to_owned()]);
    assert_eq!(world.turns(), turns);

    // What is deleted is missing while the release is deployed, kept or not, and Helm makes it anew.
    world.kubectl(&["delete", "configmap", "web-kept"]);
    let missing = [("kind", "ConfigMap"), ("name", "web-kept"), ("field", "existence")];
    eventually("it is missing", || world.exporter.sample(ONSET, &missing));
    world.helm(&["upgrade", "web", &chart, "--set", "image=nginx:1.29"]);
    world.settles(6);
    turns.extend(["web-kept missing -".to_owned(), "web-kept in_sync reverted".to_owned()]);
    assert_eq!(world.turns(), turns);

    // Uninstalling ends it all, without a word about what goes.
    world.helm(&["uninstall", "web"]);
    eventually("nothing is claimed", || (world.count() == 0).then_some(()));
    world.kubectl(&["get", "configmap", "web-kept"]);
    assert_eq!(world.turns(), turns);
    assert!((world.detections() - 3.0).abs() < 0.5, "{}", world.detections());
    only_reads(&world.cluster);
}

#[test]
fn releases_in_config_maps_do_as_well() {
    let world = World::start("configmap", "ops");
    let chart = chart();
    world.helm(&["install", "web", &chart]);
    world.settles(1);
    assert_eq!(world.release()["origin"], "helm_config_map");
    world.scale_is_seen();
    world.helm(&["rollback", "web", "1"]);
    world.settles(2);
    assert_eq!(world.turns(), ["web-web drifted -", "web-web in_sync reverted"]);
    world.helm(&["uninstall", "web", "--keep-history"]);
    eventually("nothing is claimed", || (world.count() == 0).then_some(()));
    assert!((world.detections() - 1.0).abs() < 0.5);
    built_in_kinds_are_where_the_server_has_them(&world);
}

/// The audit log has nothing of the exporter's but reads.
fn only_reads(cluster: &Cluster) {
    let asked = cluster.audit(User::Exporter);
    let is_read = |(verb, _): &(String, String)| matches!(verb.as_str(), "get" | "list" | "watch");
    assert!(!asked.is_empty() && asked.iter().all(is_read), "{asked:?}");
    let got = |resource: &str| asked.iter().any(|own| own.0 == "get" && own.1 == resource);
    assert!(got("secrets") && !got("configmaps"), "{asked:?}");
}

/// Our table of kinds without namespaces, beside what a real API server says.
fn built_in_kinds_are_where_the_server_has_them(world: &World) {
    let mut checked = 0;
    for namespaced in [true, false] {
        let printed =
            world.kubectl(&["api-resources", "--no-headers", &format!("--namespaced={namespaced}")]);
        for line in printed.lines() {
            let words: Vec<&str> = line.split_whitespace().rev().collect();
            let group = words[2].rsplit_once('/').map_or("", |(group, _)| group);
            if group != "example.com" {
                assert_eq!(is_cluster_scoped(group, words[0]), !namespaced, "{line}");
                checked += 1;
            }
        }
    }
    assert!(checked > 40, "{checked}");
}
