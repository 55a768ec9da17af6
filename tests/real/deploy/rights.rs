//! The exporter with the rights that the chart gives it: all of them are enough, and all but one are not.

use std::{fs, path::Path, process::Command};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::world::World;
use crate::support::{
    chart::{NAME, folder},
    cluster::User,
    exporter::Exporter,
    helm::Helm,
    wait::eventually,
};

/// What `ci/sources-values.yaml` speaks of is there: a state, releases in both places, manifests of every kind, an operator's kind.
struct Sources {
    world: World,
    manifests: TempDir,
}

impl Sources {
    fn open() -> Self {
        let own = Self { world: World::open(), manifests: tempfile::tempdir().expect("a folder") };
        own.declare_states();
        own.declare_releases();
        own.declare_manifests();
        let values = fs::read_to_string(folder().join("ci/sources-values.yaml")).expect("values");
        own.world.install(&values);
        own
    }

    /// The demo's state, which declares a Secret, and an operator's kind.
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
        self.world.create(&[definition, secret]);
        self.world
            .kubectl
            .run(&["wait", "--for=condition=Established", "crd/simpleresources.infra.opr8r"], "");
    }

    /// A release that is kept in a Secret, and one in a ConfigMap.
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
            let helm = Helm::new(&self.world.cluster.kubeconfig(User::Admin), driver);
            helm.run(&["install", &format!("small-{driver}"), &path, "-n", "charted"]);
        }
    }

    /// One object of each kind that people usually declare, and of what values name beside these. None of them is there.
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
        self.world.exporter(&[("/manifests", &self.manifests.path().display().to_string())])
    }
}

/// The samples of a metric, in their order: labels and value.
fn samples(exporter: &Exporter, metric: &str) -> Vec<(String, String)> {
    let page = exporter.get("/metrics").map(|page| page.text()).unwrap_or_default();
    let lines =
        page.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{')?.rsplit_once("} "));
    let mut samples: Vec<_> = lines.map(|(labels, value)| (labels.to_owned(), value.to_owned())).collect();
    samples.sort();
    samples
}

/// Streams and sources of which the exporter says that they are down, and that it may not have them.
fn forbidden(exporter: &Exporter) -> Vec<String> {
    let said = exporter.get("/readyz").map(|page| page.text()).unwrap_or_default();
    said.lines().filter(|line| line.contains("forbidden")).map(str::to_owned).collect()
}

/// What the exporter has asked for and is not allowed to have.
fn denied(world: &World) -> Vec<Value> {
    let account = format!("system:serviceaccount:{NAME}:{NAME}");
    let own =
        world.cluster.audited().into_iter().filter(|entry| entry["user"]["username"] == account.as_str());
    own.filter(|entry| entry["responseStatus"]["code"] == 403)
        .map(|entry| entry["requestURI"].clone())
        .collect()
}

#[test]
fn the_rights_of_the_chart_are_enough_for_every_source() {
    let sources = Sources::open();
    let exporter = sources.exporter().ready();
    let wanted =
        ["helm", "manifest", "terraform"].map(|source| (format!("source=\"{source}\""), "1".to_owned()));
    eventually("every source is read", || (samples(&exporter, "drift_source_up") == wanted).then_some(()));
    // Twenty usual kinds, ReplicaSets, opr8r's, and a Secret by its name.
    let streams = eventually("every stream is up", || {
        let streams = samples(&exporter, "drift_watch_stream_up");
        (streams.len() >= 23 && streams.iter().all(|(_, value)| value == "1")).then_some(streams)
    });
    assert!(streams.iter().any(|(labels, _)| labels.contains(r#"kind="Secret""#)), "{streams:?}");
    assert_eq!(forbidden(&exporter), Vec::<String>::new());
    println!("{} streams are up", streams.len());

    // `check` asks for the same.
    let settings = sources.world.cluster.folder().join("settings.yaml");
    let mut check = Command::new(env!("CARGO_BIN_EXE_drift-exporter"));
    check.args(["check", "--config.file"]).arg(settings);
    check.arg("--kubeconfig").arg(sources.world.kubeconfig(NAME, NAME));
    let output = check.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !said.contains("may not"), "{said}");
    assert_eq!(denied(&sources.world), Vec::<Value>::new());
}

/// Starts the exporter as these values install it, and wants so many streams to be up, and nothing that was denied.
#[track_caller]
fn check_streams(world: &World, values: &str, wanted: usize) {
    world.install(values);
    let exporter = world.exporter(&[]).ready();
    eventually(&format!("{wanted} streams are up"), || {
        let streams = samples(&exporter, "drift_watch_stream_up");
        (streams.iter().filter(|(_, value)| value == "1").count() == wanted).then_some(())
    });
    assert_eq!(forbidden(&exporter), Vec::<String>::new());
    assert_eq!(denied(world), Vec::<Value>::new());
    world.helm.run(&["uninstall", NAME, "-n", NAME]);
}

#[test]
fn roles_in_single_namespaces_are_enough_for_them() {
    let world = World::open();
    check_streams(&world, "{}", 2);
    check_streams(&world, "settings: {namespaces: [shop, ops]}", 4);
    check_streams(&world, "settings: {terraform_jobs: {}}", 3);
    // Seventeen usual kinds have namespaces. The exporter itself refuses the three others, and asks nobody.
    check_streams(&world, "settings: {namespaces: [shop, ops], sources: {last_applied: {}}}", 34);
    let kinds = "{apiVersion: apps/v1, kind: '*', namespaces: [shop]}, {apiVersion: v1, kind: Secret, namespaces: [ops], selector: a=b}";
    check_streams(&world, &format!("settings: {{kinds: [{kinds}]}}"), 6);
}

#[test]
fn without_any_one_of_them_something_is_told_to_be_down() {
    let sources = Sources::open();
    let rights = sources.world.rights();
    assert!(rights.len() > 50, "{rights:?}");
    for right in &rights {
        sources.world.without(right, || {
            let exporter = sources.exporter();
            eventually(&format!("somebody says that {right:?} is missing"), || {
                (!forbidden(&exporter).is_empty()).then_some(())
            });
        });
    }
    println!("each of {} rights was missed", rights.len());
}
