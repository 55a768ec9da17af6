//! What Helm manages in the demo: the objects of `chart`, and its release in the cluster.
//!
//! `release.json` is what real Helm stored for that chart, and `objects.json` what it made of it on a real API server. Here
//! only times and revisions are put in place.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{
    cluster::{Cluster, Refusal},
    stored::{gzip, object_key},
};

/// The field manager of Helm.
pub(super) const HELM: &str = "helm";
/// The namespace of the release.
const NAMESPACE: &str = "platform";
const RELEASE: &str = "notifier";

/// Installs the chart.
pub(super) fn install(cluster: &Cluster) -> Result<(), Refusal> {
    store(cluster, 1, "pending-install")?;
    deploy(cluster)?;
    store(cluster, 1, "deployed")
}

/// Begins to deploy the same once more, as a revision of its own.
pub(super) fn begin_rollback(cluster: &Cluster) -> Result<(), Refusal> {
    store(cluster, newest(cluster) + 1, "pending-rollback")
}

/// Puts back what others changed in the release, and forgets the revision before, so that few are kept.
pub(super) fn finish_rollback(cluster: &Cluster) -> Result<(), Refusal> {
    let revision = newest(cluster);
    deploy(cluster)?;
    store(cluster, revision, "deployed")?;
    let before = object_key(&secret(revision.saturating_sub(1), ""))?;
    if cluster.get(&before).is_some() { cluster.delete(&before) } else { Ok(()) }
}

fn deploy(cluster: &Cluster) -> Result<(), Refusal> {
    let objects: Map<String, Value> =
        serde_json::from_str(include_str!("objects.json")).expect("the file was written as JSON");
    for object in objects.into_iter().map(|(_, object)| object) {
        let key = object_key(&object)?;
        match cluster.get(&key) {
            None => cluster.create(&key.kind, HELM, object)?,
            Some(_) => cluster.replace(&key, HELM, object)?,
        };
    }
    Ok(())
}

/// The highest revision there is.
fn newest(cluster: &Cluster) -> u64 {
    let secrets = Cluster::kind("v1", "Secret").map(|kind| cluster.objects(&kind)).unwrap_or_default();
    let of_release = secrets.values().filter(|secret| secret["metadata"]["labels"]["name"] == RELEASE);
    let revisions =
        of_release.filter_map(|secret| secret["metadata"]["labels"]["version"].as_str()?.parse().ok());
    revisions.max().unwrap_or(0)
}

/// Stores a revision with this status, as Helm's usual driver does.
fn store(cluster: &Cluster, revision: u64, status: &str) -> Result<(), Refusal> {
    let mut release: Value =
        serde_json::from_str(include_str!("release.json")).expect("the file was written as JSON");
    release["version"] = revision.into();
    release["info"]["status"] = status.into();
    release["info"]["last_deployed"] = cluster.now().to_string().into();
    let mut secret = secret(revision, status);
    secret["data"] = json!({"release": STANDARD.encode(STANDARD.encode(gzip(&release.to_string())))});
    let key = object_key(&secret)?;
    match cluster.get(&key) {
        None => cluster.create(&key.kind, HELM, secret)?,
        Some(_) => cluster.replace(&key, HELM, secret)?,
    };
    Ok(())
}

fn secret(revision: u64, status: &str) -> Value {
    let labels = json!({"name": RELEASE, "owner": "helm", "status": status, "version": revision.to_string()});
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"namespace": NAMESPACE, "name": format!("sh.helm.release.v1.{RELEASE}.v{revision}"), "labels": labels},
    })
}
