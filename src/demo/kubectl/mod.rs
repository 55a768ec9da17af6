//! What somebody applied with kubectl in the demo: `banner.json`, and on the object what kubectl writes down of it.

use serde_json::{Value, json};

use super::{
    cluster::{Cluster, Refusal},
    stored::object_key,
};
use crate::diff::LAST_APPLIED;

/// The namespace of those who apply with kubectl.
pub(super) const NAMESPACE: &str = "marketing";
/// The field manager of `kubectl apply`.
const APPLY: &str = "kubectl-client-side-apply";

/// Applies the manifest: makes the object, or puts back what others changed of what is declared.
pub(super) fn apply(cluster: &Cluster) -> Result<(), Refusal> {
    let mut object: Value =
        serde_json::from_str(include_str!("banner.json")).expect("the file was written as JSON");
    object["metadata"]["annotations"] = json!({});
    let applied = format!("{object}\n");
    object["metadata"]["annotations"][LAST_APPLIED] = applied.into();
    let key = object_key(&object)?;
    match cluster.get(&key) {
        None => cluster.create(&key.kind, APPLY, object)?,
        Some(_) => cluster.merge(&key, APPLY, object)?,
    };
    Ok(())
}
