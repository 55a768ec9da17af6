//! What the API server fills in where nothing was said.

use serde_json::{Map, Value, json};

/// Fills in the defaults of a kind.
pub(super) fn fill_in(kind: &str, object: &mut Value) {
    match kind {
        "Deployment" => deployment(object),
        "Service" => service(object),
        "Namespace" => namespace(object),
        _ => {}
    }
}

fn deployment(object: &mut Value) {
    fill(object, &json!({"status": {}}));
    let spec = &mut object["spec"];
    fill(
        spec,
        &json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {}}),
    );
    let strategy = &mut spec["strategy"];
    fill(strategy, &json!({"type": "RollingUpdate"}));
    if strategy["type"] == "RollingUpdate" {
        fill(strategy, &json!({"rollingUpdate": {}}));
        fill(&mut strategy["rollingUpdate"], &json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
    }
    pod(&mut spec["template"]["spec"]);
}

fn pod(spec: &mut Value) {
    let own = json!({
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler",
    });
    fill(spec, &own);
    for list in ["containers", "initContainers"] {
        each(spec, list, container);
    }
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or("");
    let tag = image.rsplit('/').next().and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
    let newest = !image.contains('@') && tag.is_none_or(|tag| tag == "latest");
    let own = json!({
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": if newest { "Always" } else { "IfNotPresent" }, "resources": {},
    });
    fill(container, &own);
    each(container, "ports", |port| fill(port, &json!({"protocol": "TCP"})));
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|probe| probe.is_object()) {
            fill(
                probe,
                &json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
            );
            if let Some(get) = probe.get_mut("httpGet") {
                fill(get, &json!({"path": "/", "scheme": "HTTP"}));
            }
        }
    }
}

fn service(object: &mut Value) {
    fill(object, &json!({"spec": {}, "status": {}}));
    fill(&mut object["status"], &json!({"loadBalancer": {}}));
    let spec = &mut object["spec"];
    fill(spec, &json!({"type": "ClusterIP", "sessionAffinity": "None"}));
    if spec["type"] != "ExternalName" {
        fill(spec, &json!({"internalTrafficPolicy": "Cluster"}));
    }
    each(spec, "ports", |port| {
        let number = port["port"].clone();
        fill(port, &json!({"protocol": "TCP", "targetPort": number}));
    });
}

fn namespace(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    fill(&mut object["metadata"], &json!({"labels": {}}));
    fill(&mut object["metadata"]["labels"], &json!({"kubernetes.io/metadata.name": name}));
}

/// Sets the fields that are not there.
fn fill(target: &mut Value, defaults: &Value) {
    if target.is_null() {
        *target = Value::Object(Map::new());
    }
    let (Some(target), Some(defaults)) = (target.as_object_mut(), defaults.as_object()) else { return };
    for (name, value) in defaults {
        let own = target.entry(name).or_insert(Value::Null);
        if own.is_null() {
            *own = value.clone();
        }
    }
}

fn each(parent: &mut Value, list: &str, change: impl Fn(&mut Value)) {
    let elements = parent.get_mut(list).and_then(Value::as_array_mut);
    elements.into_iter().flatten().for_each(change);
}
