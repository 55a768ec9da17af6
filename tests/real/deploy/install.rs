//! A real API server accepts every rendered object, and admits its pods to a namespace that enforces the restricted Pod Security Standard.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::fixture::DeployFixture;
use crate::support::chart::{NAME, ci_values, one, render};

/// The Pod of a Deployment.
fn pod(deployment: &Value, name: &str) -> Value {
    let template = &deployment["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAME, "labels": labels}, "spec": template["spec"]})
}

#[test]
fn api_server_accepts_every_object_and_pod() {
    let fixture = DeployFixture::start();
    for file in ci_values() {
        let objects = render(&fs::read_to_string(&file).expect("values"));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let output =
            fixture.kubectl.run(&["create", "--dry-run=server", "--validate=strict", "-f", "-"], &list);
        assert_eq!(output.lines().count(), objects.len(), "{file:?}: {output}");
        let name = file.file_stem().expect("a name").to_string_lossy();
        fixture.create(&[pod(one(&objects, "Deployment"), &name)]);
    }
    // The restricted profile is enforced: each part of the security context is needed.
    let objects = render("{}");
    for part in [
        "/spec/securityContext/runAsNonRoot",
        "/spec/securityContext/seccompProfile",
        "/spec/containers/0/securityContext/allowPrivilegeEscalation",
        "/spec/containers/0/securityContext/capabilities",
    ] {
        let mut loose = pod(one(&objects, "Deployment"), "loose");
        *loose.pointer_mut(part).expect(part) = Value::Null;
        let output = fixture.kubectl.fail(&["create", "-f", "-"], &loose.to_string());
        assert!(output.contains("violates PodSecurity \"restricted:latest\""), "{part}: {output}");
    }
}

#[test]
fn helm_installs_and_uninstalls_and_kubectl_applies_the_manifests() {
    let fixture = DeployFixture::start();
    let notes = fixture
        .install("prometheusRule: {enabled: true}\nserviceMonitor: {enabled: true}\nevents: true\nweb: {auth: kubernetes}");
    for expected in [
        "kubectl -n drift-exporter port-forward service/drift-exporter 10374:10374",
        "-- /drift-exporter check --config.file=/etc/drift-exporter/settings/settings.yaml --events --web.auth=kubernetes\n",
        "NOTE: image.repository is a placeholder",
        "NOTE: links in alerts lead to placeholders",
        "NOTE: tokens are sent in plain text",
    ] {
        assert!(notes.contains(expected), "{notes}");
    }
    assert!(!notes.contains("nothing scrapes it"), "{notes}");
    fixture.helm.run(&["uninstall", NAME, "-n", NAME]);
    let left = fixture
        .kubectl
        .run(&["get", "clusterroles", "-l", "app.kubernetes.io/name=drift-exporter", "-o", "name"], "");
    assert_eq!(left, "");

    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let apply = |flag: &str, name: &str| {
        let path = deploy.join(name).display().to_string();
        fixture.kubectl.run(&["apply", "--server-side", "--validate=strict", flag, &path], "")
    };
    let output = apply("-f", "install.yaml");
    assert_eq!(output.lines().count(), 7, "{output}");
    let output = apply("-k", "kustomize/base");
    assert_eq!(output.lines().count(), 6, "{output}");
    let output = apply("-f", "kustomize/components/prometheus-operator/monitoring.yaml");
    assert_eq!(output.lines().count(), 2, "{output}");
}
