//! The Helm release of the demo: the objects of `chart`, and the Secrets that store its revisions.
//!
//! `release.json` is the release that real Helm stored for the chart, and `objects.json` are the objects that it created
//! on a real API server. Only the status, times and revision numbers are set here.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{
    cluster::{Cluster, StatusError},
    gzip,
};

const FIELD_MANAGER: &str = "helm";
const NAMESPACE: &str = "platform";
const RELEASE: &str = "notifier";

pub(super) fn install(cluster: &Cluster) -> Result<(), StatusError> {
    store_revision(cluster, 1, "pending-install")?;
    apply_objects(cluster)?;
    store_revision(cluster, 1, "deployed")
}

/// Stores the next revision, which has the same content, as pending.
pub(super) fn begin_rollback(cluster: &Cluster) -> Result<(), StatusError> {
    store_revision(cluster, latest_revision(cluster) + 1, "pending-rollback")
}

/// Restores the objects and deletes the previous revision, so that the history does not grow.
pub(super) fn finish_rollback(cluster: &Cluster) -> Result<(), StatusError> {
    let revision = latest_revision(cluster);
    apply_objects(cluster)?;
    store_revision(cluster, revision, "deployed")?;
    let previous = Cluster::key_of(&release_secret(revision.saturating_sub(1), ""))?;
    if cluster.get(&previous).is_some() { cluster.delete(&previous) } else { Ok(()) }
}

fn apply_objects(cluster: &Cluster) -> Result<(), StatusError> {
    let objects: Map<String, Value> =
        serde_json::from_str(include_str!("objects.json")).expect("objects.json is valid JSON");
    objects.into_iter().try_for_each(|(_, object)| cluster.create_or_replace(FIELD_MANAGER, object))
}

fn latest_revision(cluster: &Cluster) -> u64 {
    let secrets =
        Cluster::resolve_kind("v1", "Secret").map(|kind| cluster.objects(&kind)).unwrap_or_default();
    let of_release = secrets.values().filter(|secret| secret["metadata"]["labels"]["name"] == RELEASE);
    let revisions =
        of_release.filter_map(|secret| secret["metadata"]["labels"]["version"].as_str()?.parse().ok());
    revisions.max().unwrap_or(0)
}

/// Stores a revision as Helm's default storage driver does.
fn store_revision(cluster: &Cluster, revision: u64, status: &str) -> Result<(), StatusError> {
    let mut release: Value =
        serde_json::from_str(include_str!("release.json")).expect("release.json is valid JSON");
    release["version"] = revision.into();
    release["info"]["status"] = status.into();
    release["info"]["last_deployed"] = cluster.now().to_string().into();
    let mut secret = release_secret(revision, status);
    secret["data"] = json!({"release": STANDARD.encode(STANDARD.encode(gzip(&release.to_string())))});
    cluster.create_or_replace(FIELD_MANAGER, secret)
}

fn release_secret(revision: u64, status: &str) -> Value {
    let labels = json!({"name": RELEASE, "owner": "helm", "status": status, "version": revision.to_string()});
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"namespace": NAMESPACE, "name": format!("sh.helm.release.v1.{RELEASE}.v{revision}"), "labels": labels},
    })
}
