//! Pods come and go: what the deployment controller and the nodes would do to a Deployment's status.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tracing::warn;

use super::cluster::Cluster;
use crate::types::{Kind, ObjectKey};

const STEP: Duration = Duration::from_millis(400);

/// Moves every Deployment's status towards its spec, one pod at a time, for ever.
pub async fn roll_out(cluster: Cluster) {
    let mut interval = tokio::time::interval(STEP);
    loop {
        interval.tick().await;
        step(&cluster);
    }
}

/// Moves every Deployment's status to where its spec wants it.
pub(super) fn settle(cluster: &Cluster) {
    while step(cluster) {}
}

/// One pod more or less for each Deployment that wants it; whether there was any.
fn step(cluster: &Cluster) -> bool {
    let kind = Arc::new(Kind::deployment());
    let mut moved = false;
    // One at a time: all of them as trees take many times the memory of their texts.
    for (namespace, name) in cluster.names(&kind) {
        let key = ObjectKey { kind: kind.clone(), namespace: (*namespace).into(), name: (*name).into() };
        let Some(status) = cluster.get(&key).and_then(|deployment| next_status(&deployment)) else {
            continue;
        };
        match cluster.merge_status(&key, "kube-controller-manager", &status) {
            Ok(_) => moved = true,
            Err(error) if cluster.get(&key).is_some() => warn!(object = %key, %error, "Cannot set a status."),
            // Somebody has just deleted it.
            Err(_) => {}
        }
    }
    moved
}

/// The status after one more step; none when there is nothing left to do.
fn next_status(deployment: &Value) -> Option<Value> {
    let count = |value: &Value| value.as_i64().unwrap_or(0);
    let (generation, wanted) =
        (&deployment["metadata"]["generation"], count(&deployment["spec"]["replicas"]));
    let status = &deployment["status"];
    let ready = count(&status["readyReplicas"]);
    let next = ready + (wanted - ready).signum();
    if status["observedGeneration"] == *generation && next == ready && status["replicas"] == wanted {
        return None;
    }
    let available = if next >= wanted { "True" } else { "False" };
    Some(json!({
        "observedGeneration": generation, "replicas": wanted, "updatedReplicas": wanted,
        "readyReplicas": next, "availableReplicas": next, "unavailableReplicas": (wanted - next).max(0),
        "conditions": [{"type": "Available", "status": available, "reason": "MinimumReplicas"}],
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::next_status;

    #[test]
    fn pods_come_one_by_one_until_all_are_there() {
        let mut deployment = json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": {}});
        let mut ready = Vec::new();
        while let Some(status) = next_status(&deployment) {
            ready.push(status["readyReplicas"].clone());
            deployment["status"] = status;
        }
        assert_eq!(Value::Array(ready), json!([1, 2, 3]));
        deployment["spec"]["replicas"] = 0.into();
        deployment["metadata"]["generation"] = 3.into();
        assert_eq!(next_status(&deployment).unwrap()["readyReplicas"], 2);
    }
}
