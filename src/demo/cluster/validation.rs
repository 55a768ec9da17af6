//! Validation and defaulting of objects, per kind.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::{Map, Value, json};

use super::{
    errors::{invalid_value, required_value},
    resources::Resource,
};

/// Validates an object, and on update its immutable fields against the previous object.
pub(super) fn validate(resource: &Resource, object: &Value, previous: Option<&Value>) -> Vec<StatusCause> {
    let mut errors = Vec::new();
    let name = object["metadata"]["name"].as_str().unwrap_or("");
    if name.is_empty() {
        errors.push(required_value("metadata.name", "name or generateName is required"));
    } else if !is_dns1123_subdomain(name) {
        errors.push(invalid_value("metadata.name", &name.into(), NAME_RULE));
    }
    validate_labels("metadata.labels", &object["metadata"]["labels"], &mut errors);
    validate_annotations("metadata.annotations", &object["metadata"]["annotations"], &mut errors);
    match resource.kind {
        "Deployment" => validate_deployment(object, previous, &mut errors),
        "Service" => validate_service(object, &mut errors),
        "Secret" => {
            validate_data_keys("data", &object["data"], &mut errors);
            if previous.is_some_and(|previous| previous["type"] != object["type"]) {
                errors.push(invalid_value("type", &object["type"], "field is immutable"));
            }
        }
        "ConfigMap" => {
            ["data", "binaryData"].iter().for_each(|map| validate_data_keys(map, &object[map], &mut errors));
        }
        _ => {}
    }
    errors
}

fn validate_data_keys(map: &str, data: &Value, errors: &mut Vec<StatusCause>) {
    for key in data.as_object().into_iter().flat_map(Map::keys).filter(|key| !is_config_map_key(key)) {
        errors.push(invalid_value(format!("{map}[{key}]"), &key.as_str().into(), DATA_KEY_RULE));
    }
}

const NAME_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

const DATA_KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";

fn validate_deployment(object: &Value, previous: Option<&Value>, errors: &mut Vec<StatusCause>) {
    let spec = &object["spec"];
    if spec["replicas"].as_i64().is_some_and(|replicas| replicas < 0) {
        errors.push(invalid_value("spec.replicas", &spec["replicas"], "must be greater than or equal to 0"));
    }
    let selector = &spec["selector"];
    let template = &spec["template"];
    match selector["matchLabels"].as_object().filter(|labels| !labels.is_empty()) {
        None if selector["matchExpressions"].as_array().is_none_or(Vec::is_empty) => {
            errors.push(required_value("spec.selector", ""));
            let detail = "empty selector is invalid for deployment";
            errors.push(invalid_value("spec.template.metadata.labels", &Value::Null, detail));
        }
        None => {}
        Some(match_labels) => {
            let labels = &template["metadata"]["labels"];
            if match_labels.iter().any(|(name, value)| labels.get(name) != Some(value)) {
                let detail = "`selector` does not match template `labels`";
                errors.push(invalid_value("spec.template.metadata.labels", labels, detail));
            }
        }
    }
    validate_labels("spec.template.labels", &template["metadata"]["labels"], errors);
    validate_annotations("spec.template.annotations", &template["metadata"]["annotations"], errors);
    let containers = template["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
    if containers.is_empty() {
        errors.push(required_value("spec.template.spec.containers", ""));
    }
    for (index, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                errors.push(required_value(format!("spec.template.spec.containers[{index}].{field}"), ""));
            }
        }
    }
    if previous.is_some_and(|previous| previous["spec"]["selector"] != *selector) {
        errors.push(invalid_value("spec.selector", selector, "field is immutable"));
    }
}

fn validate_service(object: &Value, errors: &mut Vec<StatusCause>) {
    let spec = &object["spec"];
    validate_labels("spec.selector", &spec["selector"], errors);
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    if ports.is_empty() && spec["type"] != "ExternalName" && spec["clusterIP"] != "None" {
        errors.push(required_value("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        if !port["port"].as_i64().is_some_and(|number| (1..=65_535).contains(&number)) {
            let field = format!("spec.ports[{index}].port");
            errors.push(invalid_value(field, &port["port"], "must be between 1 and 65535, inclusive"));
        }
    }
}

fn is_dns1123_subdomain(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253 && name.starts_with(edge) && name.ends_with(edge) && name.chars().all(inner)
}

/// Keys of Secrets and `ConfigMaps` are file names of volumes.
fn is_config_map_key(key: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !key.is_empty() && key.len() <= 253 && key != "." && !key.starts_with("..") && key.chars().all(fits)
}

fn validate_labels(field: &str, labels: &Value, errors: &mut Vec<StatusCause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        if !is_qualified_name(key) {
            errors.push(invalid_value(field, &key.as_str().into(), QUALIFIED_NAME_RULE));
        }
        if !value.as_str().is_some_and(|value| value.is_empty() || is_label_value(value)) {
            errors.push(invalid_value(field, value, LABEL_VALUE_RULE));
        }
    }
}

/// Keys of annotations are validated in lower case, as in the real API server.
fn validate_annotations(field: &str, annotations: &Value, errors: &mut Vec<StatusCause>) {
    for key in annotations.as_object().into_iter().flat_map(Map::keys) {
        if !is_qualified_name(&key.to_lowercase()) {
            errors.push(invalid_value(field, &key.as_str().into(), QUALIFIED_NAME_RULE));
        }
    }
}

const QUALIFIED_NAME_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character, with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue')";

/// `name`, or `prefix.example/name`.
fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns1123_subdomain(prefix) && is_label_value(name),
        None => is_label_value(key),
    }
}

fn is_label_value(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| edge(c) || "-_.".contains(c);
    text.len() <= 63 && text.starts_with(edge) && text.ends_with(edge) && text.chars().all(inner)
}

pub(super) fn set_defaults(kind: &str, object: &mut Value) {
    match kind {
        "Deployment" => default_deployment(object),
        "Service" => default_service(object),
        "Namespace" => default_namespace(object),
        "Secret" => default_secret(object),
        "NetworkPolicy" => default_network_policy(object),
        "HorizontalPodAutoscaler" => default_autoscaler(object),
        "Ingress" => set_missing(object, &json!({"status": {"loadBalancer": {}}})),
        _ => {}
    }
}

fn default_deployment(object: &mut Value) {
    set_missing(object, &json!({"status": {}}));
    let spec = &mut object["spec"];
    set_missing(
        spec,
        &json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {}}),
    );
    let strategy = &mut spec["strategy"];
    set_missing(strategy, &json!({"type": "RollingUpdate"}));
    if strategy["type"] == "RollingUpdate" {
        set_missing(strategy, &json!({"rollingUpdate": {}}));
        set_missing(&mut strategy["rollingUpdate"], &json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
    }
    default_pod_spec(&mut spec["template"]["spec"]);
}

fn default_pod_spec(spec: &mut Value) {
    let defaults = json!({
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler",
    });
    set_missing(spec, &defaults);
    for list in ["containers", "initContainers"] {
        for_each_element(spec, list, default_container);
    }
    for_each_element(spec, "volumes", |volume| {
        for source in ["secret", "configMap", "downwardAPI", "projected"] {
            if let Some(source) = volume.get_mut(source) {
                set_missing(source, &json!({"defaultMode": 0o644}));
            }
        }
    });
}

fn default_container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or("");
    let tag = image.rsplit('/').next().and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
    let is_latest = !image.contains('@') && tag.is_none_or(|tag| tag == "latest");
    let defaults = json!({
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": if is_latest { "Always" } else { "IfNotPresent" }, "resources": {},
    });
    set_missing(container, &defaults);
    for_each_element(container, "ports", |port| set_missing(port, &json!({"protocol": "TCP"})));
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|probe| probe.is_object()) {
            set_missing(
                probe,
                &json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
            );
            if let Some(get) = probe.get_mut("httpGet") {
                set_missing(get, &json!({"path": "/", "scheme": "HTTP"}));
            }
        }
    }
}

fn default_service(object: &mut Value) {
    set_missing(object, &json!({"spec": {}, "status": {}}));
    set_missing(&mut object["status"], &json!({"loadBalancer": {}}));
    let spec = &mut object["spec"];
    set_missing(spec, &json!({"type": "ClusterIP", "sessionAffinity": "None"}));
    if spec["type"] != "ExternalName" {
        set_missing(spec, &json!({"internalTrafficPolicy": "Cluster"}));
    }
    for_each_element(spec, "ports", |port| {
        let number = port["port"].clone();
        set_missing(port, &json!({"protocol": "TCP", "targetPort": number}));
    });
}

fn default_namespace(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    set_missing(&mut object["metadata"], &json!({"labels": {}}));
    set_missing(&mut object["metadata"]["labels"], &json!({"kubernetes.io/metadata.name": name}));
}

/// `stringData` is write-only: the server encodes it into `data`.
fn default_secret(object: &mut Value) {
    set_missing(object, &json!({"type": "Opaque"}));
    let string_data = object.as_object_mut().and_then(|object| object.remove("stringData"));
    for (name, text) in string_data.as_ref().and_then(Value::as_object).into_iter().flatten() {
        object["data"][name] = STANDARD.encode(text.as_str().unwrap_or("")).into();
    }
}

fn default_network_policy(object: &mut Value) {
    let spec = &mut object["spec"];
    let has_egress = spec.get("egress").is_some();
    set_missing(
        spec,
        &json!({"policyTypes": if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) }}),
    );
    for direction in ["ingress", "egress"] {
        for_each_element(spec, direction, |rule| {
            for_each_element(rule, "ports", |port| set_missing(port, &json!({"protocol": "TCP"})));
        });
    }
}

fn default_autoscaler(object: &mut Value) {
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    let cpu_utilization = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    set_missing(&mut object["spec"], &json!({"minReplicas": 1, "metrics": cpu_utilization}));
    set_missing(object, &json!({"status": {"desiredReplicas": 0, "currentMetrics": null}}));
}

fn set_missing(target: &mut Value, defaults: &Value) {
    if target.is_null() {
        *target = Value::Object(Map::new());
    }
    let (Some(target), Some(defaults)) = (target.as_object_mut(), defaults.as_object()) else { return };
    for (name, value) in defaults {
        let current = target.entry(name).or_insert(Value::Null);
        if current.is_null() {
            *current = value.clone();
        }
    }
}

fn for_each_element(parent: &mut Value, list: &str, change: impl Fn(&mut Value)) {
    let elements = parent.get_mut(list).and_then(Value::as_array_mut);
    elements.into_iter().flatten().for_each(change);
}
