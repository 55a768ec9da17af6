//! Alternative values that the API server may accept.

use serde_json::{Value, json};

/// Pairs of exchangeable words.
const WORDS: &[&[&str]] = &[
    &["Always", "IfNotPresent", "Never", "OnFailure", "OnRootMismatch"],
    &["TCP", "UDP", "SCTP"],
    &["ClusterIP", "NodePort", "LoadBalancer"],
    &["RollingUpdate", "Recreate", "OnDelete"],
    &["NoSchedule", "NoExecute", "PreferNoSchedule"],
    &["Exists", "Equal", "In", "NotIn", "DoesNotExist", "Gt", "Lt"],
    &["Default", "ClusterFirst", "None", "ClusterFirstWithHostNet", "Unmasked"],
    &["File", "FallbackToLogsOnError", "ReadWriteOnceWithFSType", "None", "Socket", "Directory"],
    &["HTTP", "HTTPS"],
    &["Fail", "Ignore", "Count", "FailJob", "FailIndex"],
    &["Exact", "Equivalent", "Prefix", "ImplementationSpecific"],
    &["None", "NoneOnDryRun", "ClientIP", "Webhook"],
    &["Cluster", "Local", "Namespaced", "*"],
    &["Retain", "Delete", "Recycle"],
    &["Percent", "Pods"],
    &["Max", "Min", "Disabled"],
    &["Forbid", "Allow", "Replace"],
    &["RuntimeDefault", "Unconfined"],
    &["Parallel", "OrderedReady"],
    &["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"],
    &["Audit", "Warn", "Deny"],
    &["get", "create", "list", "watch"],
    &["slow", "fast"],
    &["NotRequired", "RestartContainer"],
    &["IfHealthyBudget", "AlwaysAllow"],
    &["CREATE", "UPDATE", "DELETE"],
    &["User", "Group"],
    &["Ingress", "Egress"],
    &["DoNotSchedule", "ScheduleAnyway", "Honor", "Ignore"],
    &["HostToContainer", "None"],
    &["Ephemeral", "Persistent"],
    &["Failed", "TerminatingOrFailed"],
    &["SingleStack", "PreferDualStack"],
    &["Immediate", "WaitForFirstConsumer"],
    &["IfNeeded", "Never"],
    &["Never", "PreemptLowerPriority"],
    &["ByUser", "ByNamespace"],
    &["Queue", "Reject"],
    &["Invalid", "Forbidden"],
    &["string", "integer", "boolean"],
    &["set", "atomic"],
    &["Memory", "HugePages"],
    &["/", "/other"],
    &["IPv4", "IPv6"],
    &["v1", "v1beta1", "v2"],
];

/// Values that can replace a value.
pub(super) fn alternatives(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(set) => vec![json!(!set)],
        Value::Number(number) => match number.as_i64() {
            Some(number) => {
                vec![json!(number + 1), json!(number - 1), json!(number * 2 + 2), json!(1), json!(5)]
            }
            None => vec![json!(number.as_f64().unwrap_or_default() + 0.5)],
        },
        Value::String(text) => {
            let words = WORDS.iter().filter(|words| words.contains(&text.as_str())).copied().flatten();
            let words = words.filter(|word| *word != text).map(|word| json!(word));
            let spelled = [
                format!("{text}x"),
                format!("{text}1"),
                format!("x{text}"),
                text.replace('1', "7"),
                text.replace('0', "5"),
                text.replace("2026", "2025"),
            ];
            let fixed = [
                "other",
                "7",
                "3Gi",
                "30%",
                "b3RoZXI=",
                "10.9.9.9",
                "10.9.0.0/16",
                "metadata.namespace",
                "true",
            ];
            let spelled = spelled.into_iter().filter(|other| other != text).map(Value::from);
            words.chain(spelled).chain(fixed.map(Value::from)).collect()
        }
        Value::Null | Value::Array(_) | Value::Object(_) => Vec::new(),
    }
}

/// Fields that are list keys, or must be unique.
pub(super) const UNIQUE_FIELDS: &[&str] = &[
    "name",
    "protocol",
    "whenUnsatisfiable",
    "containerPort",
    "port",
    "mountPath",
    "devicePath",
    "ip",
    "key",
    "path",
    "topologyKey",
    "type",
    "jsonPath",
    "rule",
    "expression",
    "host",
    "conditionType",
    "uid",
    "nodePort",
    "resourceName",
    "scopeName",
    "audience",
];

/// Elements that can be added next to one.
pub(super) fn new_elements(value: &Value) -> Vec<Value> {
    let Value::Object(members) = value else {
        return alternatives(value);
    };
    let unique: Vec<&String> = members.keys().filter(|name| UNIQUE_FIELDS.contains(&name.as_str())).collect();
    let changed = |names: &[&String], way: usize| {
        let mut element = value.clone();
        for name in names {
            let mut values = alternatives(&members[*name]);
            if way < values.len() {
                element[name.as_str()] = values.swap_remove(way);
            }
        }
        element
    };
    let mut elements: Vec<Value> = (0..3).map(|way| changed(&unique, way)).collect();
    for name in &unique {
        elements.extend((0..4).map(|way| changed(&[*name], way)));
    }
    elements.push(value.clone());
    elements
}

/// Values for an absent field: a scalar, or a list with an element.
pub(super) fn new_values(field: &str) -> Vec<Value> {
    let value = match field {
        "tolerations" => json!([{"operator": "Exists"}]),
        "imagePullSecrets" => json!([{"name": "other"}]),
        "initContainers" => {
            json!([{"name": "other", "image": "other:1", "terminationMessagePolicy": "File"}])
        }
        "volumes" => json!([{"name": "other", "emptyDir": {}}]),
        "volumeMounts" => json!([{"name": "scratch", "mountPath": "/other"}]),
        "env" => json!([{"name": "OTHER", "value": "1"}]),
        "envFrom" => json!([{"configMapRef": {"name": "other"}}]),
        "hostAliases" => json!([{"ip": "10.9.9.9", "hostnames": ["other.example"]}]),
        "args" | "command" | "tags" | "steps" => json!(["other"]),
        "finalizers" => json!(["example.com/other"]),
        "ownerReferences" => json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "1"}]),
        "externalIPs" => json!(["192.0.2.9"]),
        "ingress" | "egress" => json!([{}]),
        "ports" => json!([{"port": 81}]),
        "rules" => json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
        "minReadySeconds" => json!(5),
        "binaryData" => json!({"other": "b3RoZXI="}),
        "livenessProbe" => json!({"tcpSocket": {"port": 80}}),
        "scopes" => json!(["NotTerminating"]),
        "note" => json!("other"),
        _ => return Vec::new(),
    };
    vec![value]
}
