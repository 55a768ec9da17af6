//! What the API server fills in where nothing was said.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

/// Fills in the defaults of a kind.
pub(super) fn fill_in(kind: &str, object: &mut Value) {
    match kind {
        "Deployment" => deployment(object),
        "Service" => service(object),
        "Namespace" => namespace(object),
        "Secret" => secret(object),
        "NetworkPolicy" => network_policy(object),
        "HorizontalPodAutoscaler" => autoscaler(object),
        "Ingress" => fill(object, &json!({"status": {"loadBalancer": {}}})),
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
    each(spec, "volumes", |volume| {
        for filled in ["secret", "configMap", "downwardAPI", "projected"] {
            if let Some(source) = volume.get_mut(filled) {
                fill(source, &json!({"defaultMode": 0o644}));
            }
        }
    });
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

/// Texts become data, over what is there in base64.
fn secret(object: &mut Value) {
    fill(object, &json!({"type": "Opaque"}));
    let texts = object.as_object_mut().and_then(|object| object.remove("stringData"));
    for (name, text) in texts.as_ref().and_then(Value::as_object).into_iter().flatten() {
        object["data"][name] = STANDARD.encode(text.as_str().unwrap_or("")).into();
    }
}

fn network_policy(object: &mut Value) {
    let spec = &mut object["spec"];
    let both = spec.get("egress").is_some();
    fill(spec, &json!({"policyTypes": if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) }}));
    for direction in ["ingress", "egress"] {
        each(spec, direction, |rule| {
            each(rule, "ports", |port| fill(port, &json!({"protocol": "TCP"})));
        });
    }
}

fn autoscaler(object: &mut Value) {
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    let usual = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    fill(&mut object["spec"], &json!({"minReplicas": 1, "metrics": usual}));
    fill(object, &json!({"status": {"desiredReplicas": 0, "currentMetrics": null}}));
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
