//! Secrets and Leases as Helm and Terraform store them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// A revision of a Helm release; `packed` is its content before base64.
pub fn release_secret(namespace: &str, name: &str, revision: u64, status: &str, packed: &[u8]) -> Value {
    let labels = json!({"owner": "helm", "name": name, "status": status, "version": revision.to_string()});
    let metadata = json!({"name": format!("sh.helm.release.v1.{name}.v{revision}"), "namespace": namespace, "labels": labels});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "helm.sh/release.v1",
        "data": {"release": STANDARD.encode(STANDARD.encode(packed))}})
}

/// A Terraform state of the default workspace; `packed` is its content before base64.
pub fn state_secret(namespace: &str, name: &str, packed: &[u8]) -> Value {
    let labels = json!({"tfstate": "true", "tfstateWorkspace": "default", "tfstateSecretSuffix": name});
    let metadata =
        json!({"name": format!("tfstate-default-{name}"), "namespace": namespace, "labels": labels});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"tfstate": STANDARD.encode(packed)}})
}

/// The lock of a Terraform state of the default workspace; `info` is what Terraform writes about its holder.
pub fn lock_lease(namespace: &str, state: &str, info: &Value) -> Value {
    let metadata = json!({"name": format!("lock-tfstate-default-{state}"), "namespace": namespace,
        "labels": {"tfstate": "true"}, "annotations": {"app.terraform.io/lock-info": info.to_string()}});
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": info["ID"]}, "metadata": metadata})
}
