//! The `scale` subresource: an object's replicas, as an object of its own.

use serde_json::{Value, json};

use super::refusal::Refusal;

/// The `Scale` of an object.
pub(super) fn of(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: serde_json::Map<String, Value> =
        kept.iter().map(|name| ((*name).to_owned(), metadata[*name].clone())).collect();
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(0);
    let current = object["status"]["replicas"].as_i64().unwrap_or(0);
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {}, "status": {"replicas": current, "selector": selector(object)},
    });
    // No replicas are not written, as the real server does it.
    if replicas != 0 {
        scale["spec"]["replicas"] = replicas.into();
    }
    scale
}

/// The replicas that a `Scale` asks for.
pub(super) fn read(scale: &Value) -> Result<i64, Refusal> {
    if scale["kind"].as_str().is_some_and(|kind| kind != "Scale") {
        return Err(Refusal::bad_request("the object provided is unrecognized (must be of type Scale)"));
    }
    match &scale["spec"]["replicas"] {
        Value::Null => Ok(0),
        replicas => match replicas.as_i64().map(i32::try_from) {
            Some(Ok(replicas)) if replicas >= 0 => Ok(replicas.into()),
            Some(Ok(_)) => {
                let name = scale["metadata"]["name"].as_str().unwrap_or("");
                Err(Refusal::negative_scale(name, replicas))
            }
            Some(Err(_)) | None => Err(Refusal::bad_patch(&format!("{replicas} is no number of replicas"))),
        },
    }
}

fn selector(object: &Value) -> String {
    let labels = object["spec"]["selector"]["matchLabels"].as_object();
    let pairs =
        labels.into_iter().flatten().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or("")));
    pairs.collect::<Vec<_>>().join(",")
}
