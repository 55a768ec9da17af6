//! `deploy/install.yaml` and `deploy/kustomize` are what the chart renders to. `make install-yaml` writes them anew.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::support::{
    chart::{NAME, kinds, objects, render},
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
    check("kustomize/base/namespace.yaml", &yaml(&[namespace()]));
    check("kustomize/base/drift-exporter.yaml", &yaml(&defaults));
    check("kustomize/components/prometheus-operator/monitoring.yaml", &yaml(&monitoring()));
    // What was written can be read, and says the same.
    let there = fs::read_to_string(path("install.yaml")).expect("install.yaml");
    assert_eq!(objects(&there), [vec![namespace()], defaults].concat());
}

#[test]
fn kustomize_builds_the_same() {
    let wanted = [vec![namespace()], plain("{}")].concat();
    assert_eq!(sorted(built(&path("kustomize/base"))), sorted(wanted));
}

#[test]
fn a_component_adds_what_the_prometheus_operator_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().canonicalize().expect("a path");
    // kustomize takes no absolute paths.
    let up = "../".repeat(own.components().count() - 1);
    let there = |name: &str| format!("{up}{}", path(name).display().to_string().trim_start_matches('/'));
    let text = format!(
        "resources: [{}]\ncomponents: [{}]\nimages: [{{name: registry.example.com/drift-exporter, newName: registry.acme.io/drift, newTag: v1}}]\n",
        there("kustomize/base"),
        there("kustomize/components/prometheus-operator"),
    );
    fs::write(own.join("kustomization.yaml"), text).expect("written");
    let objects = built(&own);
    assert!(
        ["ServiceMonitor", "PrometheusRule", "Deployment"].iter().all(|kind| kinds(&objects).contains(kind))
    );
    let rule = objects.iter().find(|object| object["kind"] == "PrometheusRule").expect("rules");
    assert_eq!(
        rule["spec"],
        monitoring().iter().find(|own| own["kind"] == "PrometheusRule").expect("rules")["spec"]
    );
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").expect("a Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.acme.io/drift:v1");
}
