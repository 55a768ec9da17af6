//! Real Helm installs, upgrades, rolls back and uninstalls; real kubectl edits; the exporter reads only the releases.

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
/// Number of objects in the chart, without hooks and CRDs.
const OBJECTS: usize = 16;

struct HelmFixture {
    cluster: Cluster,
    exporter: Exporter,
    helm: Helm,
    namespace: &'static str,
}

impl HelmFixture {
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

    fn get_json(&self, path: &str) -> Value {
        serde_json::from_str(&self.exporter.get(path).unwrap().text()).unwrap()
    }

    /// All claims of the source as `kind/name verdict`, except those with this verdict.
    fn claims_except(&self, verdict: &str) -> Vec<String> {
        let all = self.get_json("/v1/resources?namespace=*&limit=1000");
        let claims = all["resources"].as_array().unwrap().iter();
        let other = claims.filter(|claim| claim["source"] == "helm" && claim["verdict"] != verdict);
        other
            .map(|claim| {
                let paths: Vec<&Value> =
                    claim["differences"].as_array().unwrap().iter().map(|one| &one["path"]).collect();
                format!("{}/{} {} {paths:?}", claim["resourceType"], claim["resourceName"], claim["verdict"])
            })
            .collect()
    }

    fn count(&self) -> usize {
        self.claims_except("").len()
    }

    /// Waits until all objects are in sync with this revision.
    #[track_caller]
    fn wait_for_in_sync(&self, revision: u64) {
        eventually("all objects are in sync", || {
            let is_new = self.release()["serial"] == revision && self.release()["lock"].is_null();
            (is_new && self.count() == OBJECTS && self.claims_except("in_sync").is_empty()).then_some(())
        });
    }

    fn release(&self) -> Value {
        self.get_json("/v1/status")["baselines"].get(0).cloned().unwrap_or_default()
    }

    /// All transitions, oldest first: name, verdict, and cause of a resolution.
    fn transitions(&self) -> Vec<String> {
        let history = self.get_json("/v1/history");
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let describe = |transition: &Value| {
            format!(
                "{} {} {}",
                text(&transition["name"]),
                text(&transition["to"]),
                text(&transition["cause"])
            )
        };
        history["transitions"].as_array().unwrap().iter().rev().map(describe).collect()
    }

    fn detections(&self) -> f64 {
        let page = self.exporter.metrics();
        let lines = page.lines().filter(|line| line.starts_with("drift_detections_total{"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// Scales a Deployment, and returns the time until `/metrics` exposes the drift with all labels.
    fn scale_and_wait_for_drift(&self) -> Duration {
        let lists = self.cluster.lists_of("deployments");
        self.kubectl(&["scale", "deployment", "web-web", "--replicas=5"]);
        let started = Instant::now();
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
        let took = started.elapsed();
        assert_eq!(self.cluster.lists_of("deployments"), lists, "the edit arrives as a watch event");
        let claim = self.get_json(&format!("/v1/resources/deployment.apps/{}/web-web", self.namespace));
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
fn releases_in_secrets_are_compared() {
    let fixture = HelmFixture::start("secret", "shop");
    let chart = chart();
    fixture.helm(&["install", "web", &chart]);
    fixture.wait_for_in_sync(1);
    let release = fixture.release();
    assert_eq!((&release["state"], &release["origin"]), (&json!("shop/web"), &json!("helm_secret")));
    assert_eq!(release["chart"], json!({"name": "shop", "version": "1.2.0", "appVersion": "7.1"}));
    assert_eq!(release["skipped"], json!([]));

    // An edit is drift until it is reverted.
    let took = fixture.scale_and_wait_for_drift();
    println!("kubectl scale was on /metrics {took:?} after kubectl had ended");
    fixture.kubectl(&["scale", "deployment", "web-web", "--replicas=2"]);
    eventually("it is reverted", || (fixture.transitions().len() == 2).then_some(()));
    let mut transitions = vec!["web-web drifted -".to_owned(), "web-web in_sync reverted".to_owned()];
    assert_eq!(fixture.transitions(), transitions);

    // Upgrades and rollbacks change the desired state, and nothing drifts in the meantime.
    fixture.helm(&["upgrade", "web", &chart, "--set", "image=nginx:1.28,config=two,replicas=3"]);
    fixture.wait_for_in_sync(2);
    fixture.helm(&["rollback", "web", "1"]);
    fixture.wait_for_in_sync(3);
    fixture.helm.fail(&["upgrade", "web", &chart, "-n", "shop", "--set", "replicas=many"]);
    fixture.wait_for_in_sync(3);
    assert_eq!(fixture.transitions(), transitions);

    // An upgrade that declares a manual edit absorbs it.
    fixture.kubectl(&["set", "image", "deployment/web-web", "web=nginx:1.29"]);
    let image = [("kind", "Deployment"), ("field", "image"), ("source", "helm")];
    eventually("the image differs", || fixture.exporter.sample(ONSET, &image));
    fixture.helm(&["upgrade", "web", &chart, "--set", "image=nginx:1.29"]);
    fixture.wait_for_in_sync(5);
    transitions.extend(["web-web drifted -".to_owned(), "web-web in_sync absorbed".to_owned()]);
    assert_eq!(fixture.transitions(), transitions);

    // A deleted object is missing while the release is deployed, kept or not, and Helm recreates it.
    fixture.kubectl(&["delete", "configmap", "web-kept"]);
    let missing = [("kind", "ConfigMap"), ("name", "web-kept"), ("field", "existence")];
    eventually("it is missing", || fixture.exporter.sample(ONSET, &missing));
    fixture.helm(&["upgrade", "web", &chart, "--set", "image=nginx:1.29"]);
    fixture.wait_for_in_sync(6);
    transitions.extend(["web-kept missing -".to_owned(), "web-kept in_sync reverted".to_owned()]);
    assert_eq!(fixture.transitions(), transitions);

    // Uninstall ends all claims without a transition.
    fixture.helm(&["uninstall", "web"]);
    eventually("no claim is left", || (fixture.count() == 0).then_some(()));
    fixture.kubectl(&["get", "configmap", "web-kept"]);
    assert_eq!(fixture.transitions(), transitions);
    assert!((fixture.detections() - 3.0).abs() < 0.5, "{}", fixture.detections());
    assert_read_only(&fixture.cluster);
}

#[test]
fn releases_in_config_maps_are_compared() {
    let fixture = HelmFixture::start("configmap", "ops");
    let chart = chart();
    fixture.helm(&["install", "web", &chart]);
    fixture.wait_for_in_sync(1);
    assert_eq!(fixture.release()["origin"], "helm_config_map");
    fixture.scale_and_wait_for_drift();
    fixture.helm(&["rollback", "web", "1"]);
    fixture.wait_for_in_sync(2);
    assert_eq!(fixture.transitions(), ["web-web drifted -", "web-web in_sync reverted"]);
    fixture.helm(&["uninstall", "web", "--keep-history"]);
    eventually("no claim is left", || (fixture.count() == 0).then_some(()));
    assert!((fixture.detections() - 1.0).abs() < 0.5);
    assert_cluster_scoped_kinds_match(&fixture);
}

/// The audit log has only read requests of the exporter.
fn assert_read_only(cluster: &Cluster) {
    let requests = cluster.requests_by(User::Exporter);
    let is_read = |(verb, _): &(String, String)| matches!(verb.as_str(), "get" | "list" | "watch");
    assert!(!requests.is_empty() && requests.iter().all(is_read), "{requests:?}");
    let got = |resource: &str| requests.iter().any(|request| request.0 == "get" && request.1 == resource);
    assert!(got("secrets") && !got("configmaps"), "{requests:?}");
}

/// Our table of cluster-scoped kinds matches a real API server.
fn assert_cluster_scoped_kinds_match(fixture: &HelmFixture) {
    let mut checked = 0;
    for namespaced in [true, false] {
        let printed =
            fixture.kubectl(&["api-resources", "--no-headers", &format!("--namespaced={namespaced}")]);
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
