//! A real API server takes everything that the chart renders to, and lets its pods into a namespace that enforces what is restricted.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::world::World;
use crate::support::chart::{NAME, ci_values, one, render};

/// The Pod that a Deployment makes.
fn pod(deployment: &Value, name: &str) -> Value {
    let template = &deployment["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAME, "labels": labels}, "spec": template["spec"]})
}

#[test]
fn the_server_takes_every_object_and_every_pod() {
    let world = World::open();
    for file in ci_values() {
        let objects = render(&fs::read_to_string(&file).expect("values"));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let said = world.kubectl.run(&["create", "--dry-run=server", "--validate=strict", "-f", "-"], &list);
        assert_eq!(said.lines().count(), objects.len(), "{file:?}: {said}");
        let name = file.file_stem().expect("a name").to_string_lossy();
        world.create(&[pod(one(&objects, "Deployment"), &name)]);
    }
    // What is enforced is enforced: each part of it is needed.
    let objects = render("{}");
    for part in [
        "/spec/securityContext/runAsNonRoot",
        "/spec/securityContext/seccompProfile",
        "/spec/containers/0/securityContext/allowPrivilegeEscalation",
        "/spec/containers/0/securityContext/capabilities",
    ] {
        let mut loose = pod(one(&objects, "Deployment"), "loose");
        *loose.pointer_mut(part).expect(part) = Value::Null;
        let said = world.kubectl.fail(&["create", "-f", "-"], &loose.to_string());
        assert!(said.contains("violates PodSecurity \"restricted:latest\""), "{part}: {said}");
    }
}

#[test]
fn helm_installs_and_removes_it_and_manifests_do_without() {
    let world = World::open();
    let said = world
        .install("prometheusRule: {enabled: true}\nserviceMonitor: {enabled: true}\nevents: true\nweb: {auth: kubernetes}");
    for wanted in [
        "kubectl -n drift-exporter port-forward service/drift-exporter 10374:10374",
        "-- /drift-exporter check --config.file=/etc/drift-exporter/settings/settings.yaml --events --web.auth=kubernetes\n",
        "NOTE: image.repository is a placeholder",
        "NOTE: links in alerts lead to placeholders",
        "NOTE: tokens are sent in plain text",
    ] {
        assert!(said.contains(wanted), "{said}");
    }
    assert!(!said.contains("nothing scrapes it"), "{said}");
    world.helm.run(&["uninstall", NAME, "-n", NAME]);
    let left = world
        .kubectl
        .run(&["get", "clusterroles", "-l", "app.kubernetes.io/name=drift-exporter", "-o", "name"], "");
    assert_eq!(left, "");

    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let apply = |flag: &str, name: &str| {
        let path = deploy.join(name).display().to_string();
        world.kubectl.run(&["apply", "--server-side", "--validate=strict", flag, &path], "")
    };
    let said = apply("-f", "install.yaml");
    assert_eq!(said.lines().count(), 7, "{said}");
    let said = apply("-k", "kustomize/base");
    assert_eq!(said.lines().count(), 6, "{said}");
    let said = apply("-f", "kustomize/components/prometheus-operator/monitoring.yaml");
    assert_eq!(said.lines().count(), 2, "{said}");
}
