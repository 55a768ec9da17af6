//! `deploy/install.yaml` and `deploy/kustomize` are what the chart renders to. `make install-yaml` writes them anew.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::support::{
    chart::{NAME, kinds, objects, one, render},
    parts::program,
};

const HEADER: &str = "# Generated from deploy/chart by `make install-yaml`; not to be edited.\n";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name)
}

/// Objects without the labels that tell of Helm, which is not there.
fn plain(values: &str) -> Vec<Value> {
    let mut objects = render(values);
    for object in &mut objects {
        let labels = object["metadata"]["labels"].as_object_mut().expect("labels");
        labels.remove("helm.sh/chart").expect("a label of Helm's");
        labels.remove("app.kubernetes.io/managed-by").expect("a label of Helm's");
    }
    objects
}

/// The namespace, which a chart leaves to Helm. It takes nothing but what is restricted.
fn namespace() -> Value {
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME, "labels": labels}})
}

fn yaml(objects: &[Value]) -> String {
    let mut text = HEADER.to_owned();
    for object in objects {
        let object = serde_saphyr::to_string(object).expect("YAML");
        let _ = write!(text, "---\n{}\n", object.trim_end());
    }
    text
}

#[track_caller]
fn check(name: &str, wanted: &str) {
    if std::env::var_os("UPDATE_INSTALL").is_some() {
        fs::create_dir_all(path(name).parent().expect("a folder")).expect("a folder");
        fs::write(path(name), wanted).expect("written");
    }
    let there = fs::read_to_string(path(name)).unwrap_or_default();
    assert!(there == wanted, "deploy/{name} is not current: run `make install-yaml`");
}

/// What kustomize makes of a folder.
fn built(folder: &Path) -> Vec<Value> {
    let mut kubectl = Command::new(program("kube-apiserver", "kubectl"));
    let output = kubectl.arg("kustomize").arg(folder).output().expect("kubectl can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    objects(&String::from_utf8(output.stdout).expect("text"))
}

fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|object| format!("{} {}", object["kind"], object["metadata"]["name"]));
    objects
}

const OPERATED: &str = "serviceMonitor: {enabled: true}\nprometheusRule: {enabled: true}\n";

/// What the Prometheus Operator is told.
fn monitoring() -> Vec<Value> {
    let all = plain(OPERATED).into_iter();
    all.filter(|object| object["apiVersion"] == "monitoring.coreos.com/v1").collect()
}

#[test]
fn manifests_are_what_the_chart_renders_to() {
    let defaults = plain("{}");
    check("install.yaml", &yaml(&[vec![namespace()], defaults.clone()].concat()));
    check("kustomize/components/namespace/namespace.yaml", &yaml(&[namespace()]));
    check("kustomize/base/drift-exporter.yaml", &yaml(&defaults));
    check("kustomize/components/prometheus-operator/monitoring.yaml", &yaml(&monitoring()));
    // What was written can be read, and says the same.
    let there = fs::read_to_string(path("install.yaml")).expect("install.yaml");
    assert_eq!(objects(&there), [vec![namespace()], defaults].concat());
}

#[test]
fn kustomize_builds_the_same() {
    assert_eq!(sorted(built(&path("kustomize/base"))), sorted(plain("{}")));
}

/// What kustomize makes of the base with components and more lines.
fn composed(components: &[&str], more: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().canonicalize().expect("a path");
    // kustomize takes no absolute paths.
    let up = "../".repeat(own.components().count() - 1);
    let there = |name: &str| format!("{up}{}", path(name).display().to_string().trim_start_matches('/'));
    let components: Vec<String> =
        components.iter().map(|name| there(&format!("kustomize/components/{name}"))).collect();
    let text = format!(
        "resources: [{}]\ncomponents: [{}]\n{more}\n",
        there("kustomize/base"),
        components.join(", ")
    );
    fs::write(own.join("kustomization.yaml"), text).expect("written");
    built(&own)
}

#[test]
fn a_component_adds_what_the_prometheus_operator_reads() {
    let image =
        "images: [{name: registry.example.com/drift-exporter, newName: registry.acme.io/drift, newTag: v1}]";
    let objects = composed(&["prometheus-operator"], image);
    let wanted: Vec<Value> = monitoring().iter().map(|own| own["spec"].clone()).collect();
    let specs = ["PrometheusRule", "ServiceMonitor"].map(|kind| one(&objects, kind)["spec"].clone());
    assert_eq!(specs[..], wanted);
    let container = &one(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.acme.io/drift:v1");
}

#[test]
fn kustomize_moves_all_of_it_into_another_namespace() {
    let objects = composed(&["prometheus-operator"], "namespace: monitoring");
    assert!(
        !kinds(&objects).contains(&"Namespace"),
        "what a namespace that is there enforces is not ours to say"
    );
    for object in
        objects.iter().filter(|own| !own["kind"].as_str().is_some_and(|kind| kind.starts_with("Cluster")))
    {
        assert_eq!(object["metadata"]["namespace"], "monitoring", "{object}");
    }
    assert_eq!(one(&objects, "ClusterRoleBinding")["subjects"][0]["namespace"], "monitoring");
    let selected = &one(&objects, "ServiceMonitor")["spec"]["namespaceSelector"];
    assert!(selected.is_null(), "it would select nothing: {selected}");
    // A namespace of its own, for those who want one.
    let objects = composed(&["namespace"], "namespace: drift");
    assert_eq!(one(&objects, "Namespace")["metadata"]["name"], "drift");
}
