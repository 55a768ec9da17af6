//! The lock of the state, as Terraform's Kubernetes backend keeps it: a Lease with a note about who holds it.

use serde_json::{Value, json};

use super::{
    NAMESPACE,
    state::{declared, labels},
};
use crate::demo::{
    cluster::{Cluster, Refusal, uid},
    shop::TERRAFORM,
    stored::object_key,
};

const NAME: &str = "lock-tfstate-default-payments";
const NOTE: &str = "app.terraform.io/lock-info";

/// Takes the lock for an apply.
pub(in crate::demo) fn lock(cluster: &Cluster) -> Result<(), Refusal> {
    let id = uid();
    let note = json!({
        "ID": id, "Operation": "OperationTypeApply", "Info": "", "Who": "ci@runner-7",
        "Version": declared()["terraform_version"], "Created": cluster.now().to_string(), "Path": "",
    });
    write(cluster, &json!({NOTE: note.to_string()}), &json!({"holderIdentity": id}))
}

/// Lets go of it; the Lease stays.
pub(super) fn release(cluster: &Cluster) -> Result<(), Refusal> {
    write(cluster, &json!({}), &json!({}))
}

fn write(cluster: &Cluster, annotations: &Value, spec: &Value) -> Result<(), Refusal> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": NAMESPACE, "name": NAME, "labels": labels(), "annotations": annotations},
        "spec": spec,
    });
    let key = object_key(&lease)?;
    match cluster.get(&key) {
        None => cluster.create(&key.kind, TERRAFORM, lease)?,
        Some(_) => cluster.replace(&key, TERRAFORM, lease)?,
    };
    Ok(())
}
