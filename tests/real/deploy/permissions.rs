//! The exporter with the chart's permissions: all of them suffice, and each of them is needed.

use std::{fs, path::Path, process::Command};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::fixture::DeployFixture;
use crate::support::{
    chart::{NAME, folder},
    cluster::User,
    exporter::Exporter,
    helm::Helm,
    wait::eventually,
};

/// The objects of `ci/sources-values.yaml`: a state, releases in both storages, manifests of every kind, a custom resource.
struct Sources {
    fixture: DeployFixture,
    manifests: TempDir,
}

impl Sources {
    fn start() -> Self {
        let sources =
            Self { fixture: DeployFixture::start(), manifests: tempfile::tempdir().expect("a folder") };
        sources.declare_states();
        sources.declare_releases();
        sources.declare_manifests();
        let values = fs::read_to_string(folder().join("ci/sources-values.yaml")).expect("values");
        sources.fixture.install(&values);
        sources
    }

    /// The demo's state, which declares a Secret, and an operator's custom resource.
    fn declare_states(&self) {
        let state = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/demo/terraform/shop.tfstate");
        let state = STANDARD.encode(fs::read(state).expect("a state"));
        let labels =
            json!({"tfstate": "true", "tfstateWorkspace": "default", "tfstateSecretSuffix": "payments"});
        let metadata =
            json!({"name": "tfstate-default-payments", "namespace": "terraform", "labels": labels});
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": anything}});
        let names =
            json!({"plural": "simpleresources", "singular": "simpleresource", "kind": "SimpleResource"});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "simpleresources.infra.opr8r"},
            "spec": {"group": "infra.opr8r", "scope": "Namespaced", "names": names, "versions": [version]}});
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"tfstate": state}});
        self.fixture.create(&[definition, secret]);
        self.fixture
            .kubectl
            .run(&["wait", "--for=condition=Established", "crd/simpleresources.infra.opr8r"], "");
    }

    /// A release in a Secret and one in a ConfigMap.
    fn declare_releases(&self) {
        let chart = tempfile::tempdir().expect("a folder");
        fs::create_dir(chart.path().join("templates")).expect("a folder");
        fs::write(chart.path().join("Chart.yaml"), "apiVersion: v2\nname: small\nversion: 1.0.0\n")
            .expect("written");
        let config =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {a: b}\n";
        fs::write(chart.path().join("templates/config.yaml"), config).expect("written");
        let path = chart.path().display().to_string();
        for driver in ["secret", "configmap"] {
            let helm = Helm::new(&self.fixture.cluster.kubeconfig(User::Admin), driver);
            helm.run(&["install", &format!("small-{driver}"), &path, "-n", "charted"]);
        }
    }

    /// One manifest of each default kind and of each kind that the values add. None of these objects exists.
    fn declare_manifests(&self) {
        let text = fs::read_to_string(folder().join("files/kinds.yaml")).expect("kinds");
        let kinds: Value = serde_saphyr::from_str(&text).expect("kinds");
        let beside = [json!({"group": "apps", "kind": "ReplicaSet"})];
        for kind in kinds["usual"].as_array().expect("kinds").iter().chain(&beside) {
            let version = match kind["group"].as_str().expect("a group") {
                "" => "v1".to_owned(),
                "autoscaling" => "autoscaling/v2".to_owned(),
                group => format!("{group}/v1"),
            };
            let object =
                json!({"apiVersion": version, "kind": kind["kind"], "metadata": {"name": "declared"}});
            let file = format!("{}.json", kind["kind"].as_str().expect("a kind"));
            fs::write(self.manifests.path().join(file), object.to_string()).expect("written");
        }
    }

    fn exporter(&self) -> Exporter {
        self.fixture.exporter(&[("/manifests", &self.manifests.path().display().to_string())])
    }
}

/// The samples of a metric in their order: labels and value.
fn samples(exporter: &Exporter, metric: &str) -> Vec<(String, String)> {
    let page = exporter.get("/metrics").map(|page| page.text()).unwrap_or_default();
    let lines =
        page.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{')?.rsplit_once("} "));
    let mut samples: Vec<_> = lines.map(|(labels, value)| (labels.to_owned(), value.to_owned())).collect();
    samples.sort();
    samples
}

/// Watches and sources that the exporter reports as forbidden.
fn forbidden(exporter: &Exporter) -> Vec<String> {
    let text = exporter.get("/readyz").map(|page| page.text()).unwrap_or_default();
    text.lines().filter(|line| line.contains("forbidden")).map(str::to_owned).collect()
}

/// The exporter's requests that the API server denied.
fn denied_requests(fixture: &DeployFixture) -> Vec<Value> {
    let account = format!("system:serviceaccount:{NAME}:{NAME}");
    let requests = fixture
        .cluster
        .audit_events()
        .into_iter()
        .filter(|entry| entry["user"]["username"] == account.as_str());
    requests
        .filter(|entry| entry["responseStatus"]["code"] == 403)
        .map(|entry| entry["requestURI"].clone())
        .collect()
}

#[test]
fn chart_permissions_suffice_for_every_source() {
    let sources = Sources::start();
    let exporter = sources.exporter().ready();
    let expected =
        ["helm", "manifest", "terraform"].map(|source| (format!("source=\"{source}\""), "1".to_owned()));
    eventually("every source is read", || (samples(&exporter, "drift_source_up") == expected).then_some(()));
    // Twenty default kinds, ReplicaSets, opr8r's, and a Secret by its name.
    let streams = eventually("every watch is up", || {
        let streams = samples(&exporter, "drift_watch_stream_up");
        (streams.len() >= 23 && streams.iter().all(|(_, value)| value == "1")).then_some(streams)
    });
    assert!(streams.iter().any(|(labels, _)| labels.contains(r#"kind="Secret""#)), "{streams:?}");
    assert_eq!(forbidden(&exporter), Vec::<String>::new());
    println!("{} streams are up", streams.len());

    // `check` reports the same.
    let settings = sources.fixture.cluster.folder().join("settings.yaml");
    let mut check = Command::new(env!("CARGO_BIN_EXE_drift-exporter"));
    check.args(["check", "--config.file"]).arg(settings);
    check.arg("--kubeconfig").arg(sources.fixture.kubeconfig(NAME, NAME));
    let output = check.output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains("may not"), "{text}");
    assert_eq!(denied_requests(&sources.fixture), Vec::<Value>::new());
}

/// Starts the exporter with these values, and waits for this number of watches without a denied request.
#[track_caller]
fn check_streams(fixture: &DeployFixture, values: &str, expected: usize) {
    fixture.install(values);
    let exporter = fixture.exporter(&[]).ready();
    eventually(&format!("{expected} watches are up"), || {
        let streams = samples(&exporter, "drift_watch_stream_up");
        (streams.iter().filter(|(_, value)| value == "1").count() == expected).then_some(())
    });
    assert_eq!(forbidden(&exporter), Vec::<String>::new());
    assert_eq!(denied_requests(fixture), Vec::<Value>::new());
    fixture.helm.run(&["uninstall", NAME, "-n", NAME]);
}

#[test]
fn namespaced_roles_suffice_for_their_namespaces() {
    let fixture = DeployFixture::start();
    check_streams(&fixture, "{}", 2);
    check_streams(&fixture, "settings: {namespaces: [shop, ops]}", 4);
    check_streams(&fixture, "settings: {terraform_jobs: {}}", 3);
    // Seventeen default kinds are namespaced. The exporter refuses the three others without a request.
    check_streams(&fixture, "settings: {namespaces: [shop, ops], sources: {last_applied: {}}}", 34);
    let kinds = "{apiVersion: apps/v1, kind: '*', namespaces: [shop]}, {apiVersion: v1, kind: Secret, namespaces: [ops], selector: a=b}";
    check_streams(&fixture, &format!("settings: {{kinds: [{kinds}]}}"), 6);
}

#[test]
fn each_missing_permission_is_reported() {
    let sources = Sources::start();
    let permissions = sources.fixture.permissions();
    assert!(permissions.len() > 50, "{permissions:?}");
    for permission in &permissions {
        sources.fixture.without(permission, || {
            let exporter = sources.exporter();
            eventually(&format!("{permission:?} is reported as missing"), || {
                (!forbidden(&exporter).is_empty()).then_some(())
            });
        });
    }
    println!("each of {} permissions is reported when missing", permissions.len());
}
