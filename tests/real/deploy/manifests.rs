//! `deploy/install.yaml` and `deploy/kustomize` match the rendered chart. `make install-yaml` updates them.

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

/// Objects without Helm's labels.
fn without_helm_labels(values: &str) -> Vec<Value> {
    let mut objects = render(values);
    for object in &mut objects {
        let labels = object["metadata"]["labels"].as_object_mut().expect("labels");
        labels.remove("helm.sh/chart").expect("a label of Helm's");
        labels.remove("app.kubernetes.io/managed-by").expect("a label of Helm's");
    }
    objects
}

/// The namespace, which a chart leaves to Helm. It enforces the restricted Pod Security Standard.
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
fn check(name: &str, expected: &str) {
    if std::env::var_os("UPDATE_INSTALL").is_some() {
        fs::create_dir_all(path(name).parent().expect("a folder")).expect("a folder");
        fs::write(path(name), expected).expect("written");
    }
    let there = fs::read_to_string(path(name)).unwrap_or_default();
    assert!(there == expected, "deploy/{name} is not current: run `make install-yaml`");
}

/// The objects that kustomize builds from a folder.
fn kustomize_build(folder: &Path) -> Vec<Value> {
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

/// The objects of the Prometheus Operator.
fn monitoring() -> Vec<Value> {
    let all = without_helm_labels(OPERATED).into_iter();
    all.filter(|object| object["apiVersion"] == "monitoring.coreos.com/v1").collect()
}

#[test]
fn manifests_match_the_rendered_chart() {
    let defaults = without_helm_labels("{}");
    check("install.yaml", &yaml(&[vec![namespace()], defaults.clone()].concat()));
    check("kustomize/components/namespace/namespace.yaml", &yaml(&[namespace()]));
    check("kustomize/base/drift-exporter.yaml", &yaml(&defaults));
    check("kustomize/components/prometheus-operator/monitoring.yaml", &yaml(&monitoring()));
    // The written file parses to the same objects.
    let there = fs::read_to_string(path("install.yaml")).expect("install.yaml");
    assert_eq!(objects(&there), [vec![namespace()], defaults].concat());
}

#[test]
fn kustomize_build_matches_the_manifests() {
    assert_eq!(sorted(kustomize_build(&path("kustomize/base"))), sorted(without_helm_labels("{}")));
}

/// Builds the base with components and additional lines.
fn build_with_components(components: &[&str], more: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().canonicalize().expect("a path");
    // kustomize accepts no absolute paths.
    let up = "../".repeat(directory.components().count() - 1);
    let there = |name: &str| format!("{up}{}", path(name).display().to_string().trim_start_matches('/'));
    let components: Vec<String> =
        components.iter().map(|name| there(&format!("kustomize/components/{name}"))).collect();
    let text = format!(
        "resources: [{}]\ncomponents: [{}]\n{more}\n",
        there("kustomize/base"),
        components.join(", ")
    );
    fs::write(directory.join("kustomization.yaml"), text).expect("written");
    kustomize_build(&directory)
}

#[test]
fn component_adds_monitors_and_rules() {
    let image =
        "images: [{name: registry.example.com/drift-exporter, newName: registry.acme.io/drift, newTag: v1}]";
    let objects = build_with_components(&["prometheus-operator"], image);
    let expected: Vec<Value> = monitoring().iter().map(|object| object["spec"].clone()).collect();
    let specs = ["PrometheusRule", "ServiceMonitor"].map(|kind| one(&objects, kind)["spec"].clone());
    assert_eq!(specs[..], expected);
    let container = &one(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.acme.io/drift:v1");
}

#[test]
fn kustomize_namespace_applies_to_all_objects() {
    let objects = build_with_components(&["prometheus-operator"], "namespace: monitoring");
    assert!(
        !kinds(&objects).contains(&"Namespace"),
        "what a namespace that is there enforces is not ours to say"
    );
    for object in objects
        .iter()
        .filter(|object| !object["kind"].as_str().is_some_and(|kind| kind.starts_with("Cluster")))
    {
        assert_eq!(object["metadata"]["namespace"], "monitoring", "{object}");
    }
    assert_eq!(one(&objects, "ClusterRoleBinding")["subjects"][0]["namespace"], "monitoring");
    let selected = &one(&objects, "ServiceMonitor")["spec"]["namespaceSelector"];
    assert!(selected.is_null(), "it would select nothing: {selected}");
    // The namespace itself is an optional component.
    let objects = build_with_components(&["namespace"], "namespace: drift");
    assert_eq!(one(&objects, "Namespace")["metadata"]["name"], "drift");
}
