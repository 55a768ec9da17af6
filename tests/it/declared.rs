//! Diffs of declared and live objects, case by case. `tests/real/declared` checks the same cases with a real API server and
//! kubectl.

use drift_exporter::{
    diff::{
        self, Comparison, MAX_FINDINGS, Node, ReportLimits, ReportedFields,
        manifest::{Schemas, declared_object, normalize},
        pack_live_object, unpack,
    },
    types::{DeclaredObject, FieldClass, FieldValue, ObjectRef, RedactionKey, RedactionPolicy},
};
use serde_json::{Value, json};

use crate::support::diff::{cached, compare, diff, diff_with, kind_of, paths, texts};

fn declared_by_manifest(kind: &str, declared: &Value) -> DeclaredObject {
    let (api_version, kind) = kind.split_once(' ').unwrap();
    let mut document = declared.clone();
    document["apiVersion"] = api_version.into();
    document["kind"] = kind.into();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    declared_object(ObjectRef::new(group, version, kind, "", ""), document, &RedactionKey::new([7; 32]))
}

pub(crate) fn compared(kind: &str, declared: &Value, live: &Value, schemas: &Schemas) -> Comparison {
    diff_with(&declared_by_manifest(kind, declared), live, schemas)
}

/// Path, expected and actual of each finding.
#[track_caller]
pub(crate) fn check(kind: &str, declared: &Value, live: &Value, findings: &[(&str, &str, &str)]) {
    let found = compared(kind, declared, live, &Schemas::default()).findings;
    let found = texts(&found);
    let found: Vec<_> =
        found.iter().map(|(path, expected, actual)| (&**path, &**expected, &**actual)).collect();
    assert_eq!(found, findings, "declared {declared}, live {live}");
}

fn pod(spec: &Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

const DEPLOYMENT: &str = "apps/v1 Deployment";

#[test]
fn undeclared_fields_are_not_compared() {
    let declared = json!({"metadata": {"name": "a", "labels": {"a": "1"}, "creationTimestamp": null}, "spec": {"replicas": 2}, "status": {}});
    let live = json!({"metadata": {"name": "b", "labels": {"a": "1", "b": "2"}, "uid": "x"},
        "spec": {"replicas": 2, "paused": true}, "status": {"replicas": 1}});
    check(DEPLOYMENT, &declared, &live, &[]);
    check(
        DEPLOYMENT,
        &declared,
        &json!({"metadata": {"labels": {"b": "2"}}, "spec": {"replicas": 3}}),
        &[("spec.replicas", "2", "3"), ("metadata.labels.a", "1", "")],
    );
}

#[test]
fn findings_are_limited_and_the_last_one_counts_the_others() {
    let data: serde_json::Map<String, Value> =
        (0..50_000).map(|key| (format!("k{key:05}"), "declared".into())).collect();
    let declared = json!({"data": data, "metadata": {"labels": {"a": "1"}}});
    let Comparison { findings, attributes, .. } =
        compared("v1 ConfigMap", &declared, &json!({"data": {}}), &Schemas::default());
    assert_eq!((findings.len(), attributes.len()), (MAX_FINDINGS + 1, MAX_FINDINGS + 1));
    let last = findings.last().unwrap();
    assert_eq!((last.class, &*last.actual.text()), (FieldClass::Existence, "and 49001 more fields differ"));
    assert_eq!(last.actual, FieldValue::Omitted { count: 49_001, redacted: false });
    assert_eq!(last.path.as_str(), "metadata.name", "of more than one field of the object");

    let declared = json!({"data": data});
    let findings = compared("v1 ConfigMap", &declared, &json!({"data": {}}), &Schemas::default()).findings;
    assert_eq!(findings.last().unwrap().path.as_str(), "data");
    let in_sync = compared("v1 ConfigMap", &declared, &declared, &Schemas::default());
    assert!(in_sync.findings.is_empty());

    // The count of redacted values is marked: an untrusted declaration must not read it.
    let declared = declared_by_manifest("v1 ConfigMap", &declared);
    let mut policy = RedactionPolicy::new(declared.key.clone());
    policy.add_fields(&declared.object, ["data".into()]);
    let data: serde_json::Map<String, Value> =
        (0..MAX_FINDINGS + 5).map(|key| (format!("k{key:05}"), "live".into())).collect();
    let live = pack_live_object(json!({"data": data}), &kind_of(&declared), &policy);
    let findings = compare(&declared, &live, &Schemas::default()).findings;
    let omitted: Vec<&FieldValue> = findings.iter().rev().take(2).map(|finding| &finding.actual).collect();
    let plain = 50_000 - (MAX_FINDINGS + 5) - MAX_FINDINGS;
    let [plain, redacted] =
        [(plain, false), (5, true)].map(|(count, redacted)| FieldValue::Omitted { count, redacted });
    assert_eq!(omitted, [&redacted, &plain]);
}

/// List elements are matched by their values, and only so many differences are listed.
#[test]
fn differences_that_are_not_public_do_not_change_the_public_ones() {
    let egress =
        |address: &str, port: u16| json!({"to": [{"ipBlock": {"cidr": address}}], "ports": [{"port": port}]});
    let labels: serde_json::Map<String, Value> =
        (0..MAX_FINDINGS + 5).map(|key| (format!("l{key:05}"), "declared".into())).collect();
    let policy = |egress: &[Value], annotation: &str, labels: &serde_json::Map<String, Value>| json!({"metadata": {"annotations": {"a": annotation}, "labels": labels}, "spec": {"egress": egress}});
    let live =
        policy(&[egress("10.9.9.9/32", 2), egress("10.0.0.1/32", 1)], "hunter2", &serde_json::Map::default());
    let findings = |address: &str, annotation: &str, fields: ReportedFields| {
        let declared = policy(&[egress(address, 1)], annotation, &labels);
        let declared = declared_by_manifest("networking.k8s.io/v1 NetworkPolicy", &declared);
        let kind = kind_of(&declared);
        let live = pack_live_object(live.clone(), &kind, &RedactionPolicy::new(declared.key.clone()));
        let limits = ReportLimits { fields, ..ReportLimits::default() };
        diff::compare(&declared, &unpack(&live.packed), &Schemas::default(), limits).findings
    };
    let guesses = [("10.0.0.1/32", "hunter2"), ("10.0.0.1/32", "wrong"), ("10.0.0.2/32", "hunter2")];
    let of = |fields| guesses.map(|(address, annotation)| findings(address, annotation, fields));
    let [right, annotation, address] = of(ReportedFields::All);
    assert!(right != annotation && right != address);
    let [right, annotation, address] = of(ReportedFields::Public);
    assert_eq!((&right, &right), (&annotation, &address));
    assert_eq!(right.last().unwrap().actual, FieldValue::Omitted { count: 6, redacted: false });
    assert!(right.iter().all(|finding| finding.class.is_public()), "{right:?}");
}

#[test]
fn empty_values_equal_missing_if_the_server_drops_them() {
    let declared = json!({"hostNetwork": false, "tolerations": [], "nodeSelector": {}, "hostname": "", "affinity": null});
    check(DEPLOYMENT, &pod(&declared), &pod(&json!({})), &[]);
    let live = json!({"hostNetwork": true, "tolerations": [{"key": "a"}], "nodeSelector": {"a": "b"}, "hostname": "x"});
    check(
        DEPLOYMENT,
        &pod(&declared),
        &pod(&live),
        &[
            ("spec.template.spec.hostNetwork", "false", "true"),
            ("spec.template.spec.hostname", "", "x"),
            ("spec.template.spec.tolerations[0].key", "", "a"),
        ],
    );
}

#[test]
fn empty_values_are_compared_if_the_server_keeps_them() {
    let declared = json!({"automountServiceAccountToken": false, "securityContext": {"runAsUser": 0}, "volumes": [{"name": "a", "emptyDir": {}}]});
    check(DEPLOYMENT, &pod(&declared), &pod(&declared), &[]);
    check(
        DEPLOYMENT,
        &pod(&declared),
        &pod(&json!({"securityContext": {}, "volumes": [{"name": "a", "hostPath": {}}]})),
        &[
            ("spec.template.spec.automountServiceAccountToken", "false", ""),
            ("spec.template.spec.securityContext.runAsUser", "0", ""),
            ("spec.template.spec.volumes[name=a].emptyDir", "{}", ""),
        ],
    );
    check("v1 ConfigMap", &json!({"data": {"a": ""}}), &json!({"data": {}}), &[("data.a", "\"\"", "")]);
}

#[test]
fn empty_fields_that_controllers_fill_are_not_compared() {
    let declared = json!({"spec": {"type": "", "clusterIP": "", "clusterIPs": [], "ports": [{"port": 80, "nodePort": 0, "targetPort": 0}]}});
    let live = json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001, "targetPort": 80}]}});
    check("v1 Service", &declared, &live, &[]);
    let none = json!({"spec": {"clusterIP": "None"}});
    check("v1 Service", &none, &live, &[("spec.clusterIP", "None", "10.0.0.1")]);
    let hook = |bundle: &str| json!({"webhooks": [{"name": "a", "clientConfig": {"caBundle": bundle}}]});
    let kind = "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration";
    for placeholder in ["", "Cg=="] {
        check(kind, &hook(placeholder), &hook("Y2VydA=="), &[]);
    }
    let path = "webhooks[name=a].clientConfig.caBundle";
    check(kind, &hook("b3RoZXI="), &hook("Y2VydA=="), &[(path, "b3RoZXI=", "Y2VydA==")]);
}

#[test]
fn quantities_times_and_base64_compare_by_value() {
    let resources = |cpu: Value, memory: &str| json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": cpu, "memory": memory}}}]});
    check(DEPLOYMENT, &pod(&resources(json!(0.5), "1.5Gi")), &pod(&resources(json!("500m"), "1536Mi")), &[]);
    check(DEPLOYMENT, &pod(&resources(json!("0.0001"), "0")), &pod(&resources(json!("1m"), "0")), &[]);
    let path = "spec.template.spec.containers[name=a].resources.limits.cpu";
    check(
        DEPLOYMENT,
        &pod(&resources(json!(1), "1")),
        &pod(&resources(json!("1001m"), "1")),
        &[(path, "1", "1001m")],
    );
    let lease = |time: &str| json!({"spec": {"renewTime": time}});
    let kind = "coordination.k8s.io/v1 Lease";
    check(kind, &lease("2026-01-01T02:00:00.250000+01:00"), &lease("2026-01-01T01:00:00.250000Z"), &[]);
    let blob = |text: &str| json!({"binaryData": {"a": text}});
    check("v1 ConfigMap", &blob("aGVs\nbG8=\n"), &blob("aGVsbG8="), &[]);
    check("v1 ConfigMap", &blob("aGVsbG8="), &blob("aGVsbG9v"), &[("binaryData.a", "aGVsbG8=", "aGVsbG9v")]);
}

#[test]
fn list_elements_match_by_key_and_added_elements_are_drift() {
    let ports = |ports: Value| json!({"spec": {"ports": ports}});
    let declared =
        ports(json!([{"port": 53, "name": "tcp"}, {"port": 53, "protocol": "UDP", "name": "udp"}]));
    let both = [
        json!({"port": 53, "protocol": "UDP", "name": "udp"}),
        json!({"port": 53, "protocol": "TCP", "name": "tcp"}),
    ];
    check("v1 Service", &declared, &ports(json!(both)), &[]);
    check(
        "v1 Service",
        &declared,
        &ports(json!([both[1], {"port": 80, "protocol": "TCP"}])),
        &[
            ("spec.ports[port=53,protocol=UDP].name", "udp", ""),
            ("spec.ports[port=53,protocol=UDP].port", "53", ""),
            ("spec.ports[port=53,protocol=UDP].protocol", "UDP", ""),
            ("spec.ports[port=80,protocol=TCP].port", "", "80"),
            ("spec.ports[port=80,protocol=TCP].protocol", "", "TCP"),
        ],
    );
    let env = |env: Value| pod(&json!({"containers": [{"name": "a", "env": env}]}));
    let twice = env(json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]));
    check(DEPLOYMENT, &twice, &twice, &[]);
    let changed = env(json!([{"name": "A", "value": "1"}, {"name": "A", "value": "3"}]));
    check(
        DEPLOYMENT,
        &twice,
        &changed,
        &[("spec.template.spec.containers[name=a].env[name=A].value", "2", "3")],
    );
}

#[test]
fn sets_ignore_order_and_other_lists_do_not() {
    let kept = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    check(
        "v1 PersistentVolumeClaim",
        &kept(json!(["a/b", "c/d"])),
        &kept(json!(["c/d", "kubernetes.io/pvc-protection", "a/b"])),
        &[],
    );
    check(
        "v1 PersistentVolumeClaim",
        &kept(json!(["a/b"])),
        &kept(json!(["c/d"])),
        &[("metadata.finalizers[=a/b]", "a/b", ""), ("metadata.finalizers[=c/d]", "", "c/d")],
    );
    let args = |args: Value| pod(&json!({"containers": [{"name": "a", "args": args}]}));
    let path = "spec.template.spec.containers[name=a].args";
    check(
        DEPLOYMENT,
        &args(json!(["a", "b"])),
        &args(json!(["b", "a"])),
        &[(path, "[\"a\",\"b\"]", "[\"b\",\"a\"]")],
    );
    let metrics = |first: &str, other: &str| json!({"spec": {"metrics": [{"type": first}, {"type": other}]}});
    check(
        "autoscaling/v2 HorizontalPodAutoscaler",
        &metrics("Pods", "Resource"),
        &metrics("Resource", "Pods"),
        &[],
    );
}

#[test]
fn atomic_lists_compare_whole_except_for_defaults() {
    let policy = |peer: Value, port: Value| json!({"spec": {"ingress": [{"from": [peer], "ports": [port]}]}});
    let declared = policy(json!({"podSelector": {"matchLabels": {"a": "b"}}}), json!({"port": 80}));
    let kind = "networking.k8s.io/v1 NetworkPolicy";
    check(
        kind,
        &declared,
        &policy(json!({"podSelector": {"matchLabels": {"a": "b"}}}), json!({"port": 80, "protocol": "TCP"})),
        &[],
    );
    let wider = json!({"podSelector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {}});
    check(
        kind,
        &declared,
        &policy(wider, json!({"port": 80, "protocol": "UDP", "endPort": 90})),
        &[
            ("spec.ingress[0].from[0].namespaceSelector", "", "{}"),
            ("spec.ingress[0].ports[0].endPort", "", "90"),
            ("spec.ingress[0].ports[0].protocol", "", "UDP"),
        ],
    );
    let rules = |rules: Value| json!({"rules": rules});
    let rule = |verb: &str| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
    let kind = "rbac.authorization.k8s.io/v1 Role";
    let more = rules(json!([rule("delete"), rule("get"), rule("list")]));
    let paths = ["apiGroups", "resources", "verbs"].map(|field| format!("rules[0].{field}"));
    check(
        kind,
        &rules(json!([rule("get"), rule("list")])),
        &more,
        &[(&paths[0], "", "[\"\"]"), (&paths[1], "", "[\"pods\"]"), (&paths[2], "", "[\"delete\"]")],
    );
}

#[test]
fn injected_volumes_and_tolerations_are_drift_only_in_templates() {
    let spec = |volumes: Value, tolerations: Value| json!({"volumes": volumes, "tolerations": tolerations});
    let declared = spec(json!([{"name": "a", "emptyDir": {}}]), json!([{"key": "a", "operator": "Exists"}]));
    let live = spec(
        json!([{"name": "a", "emptyDir": {}}, {"name": "kube-api-access-x2x2x", "projected": {"defaultMode": 420}}]),
        json!([{"key": "a", "operator": "Exists"}, {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]),
    );
    check("v1 Pod", &json!({"spec": declared}), &json!({"spec": live}), &[]);
    let found = compared(DEPLOYMENT, &pod(&declared), &pod(&live), &Schemas::default()).findings;
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn deprecated_field_counts_unless_its_successor_is_declared() {
    let live = pod(&json!({"serviceAccountName": "b", "serviceAccount": "b"}));
    let path = "spec.template.spec.serviceAccount";
    check(DEPLOYMENT, &pod(&json!({"serviceAccount": "b"})), &live, &[]);
    check(DEPLOYMENT, &pod(&json!({"serviceAccount": "a"})), &live, &[(path, "a", "b")]);
    check(DEPLOYMENT, &pod(&json!({"serviceAccount": "a", "serviceAccountName": "b"})), &live, &[]);
}

#[test]
fn aggregated_cluster_role_rules_are_not_compared() {
    let aggregated =
        |rules: Value| json!({"aggregationRule": {"clusterRoleSelectors": [{}]}, "rules": rules});
    let kind = "rbac.authorization.k8s.io/v1 ClusterRole";
    check(kind, &aggregated(json!([])), &aggregated(json!([{"verbs": ["get"]}])), &[]);
}

#[test]
fn secret_data_compares_by_bytes_and_is_redacted() {
    let declared = json!({"stringData": {"text": "canary", "both": "canary"}, "data": {"both": "bG9zdA==", "bytes": "gP/+/Q==", "lines": "Y2Fu\nYXJ5\n"}});
    let live = |bytes: &str, text: &str| json!({"data": {"text": text, "both": "Y2FuYXJ5", "bytes": bytes, "lines": "Y2FuYXJ5", "added": "eA=="}});
    assert_eq!(
        compared("v1 Secret", &declared, &live("gP/+/Q==", "Y2FuYXJ5"), &Schemas::default()),
        Comparison::default()
    );
    // Neither value is UTF-8, and both have the same lossy conversion.
    let found = compared("v1 Secret", &declared, &live("gP/+/g==", "Y2FuYXJ6"), &Schemas::default()).findings;
    assert_eq!(paths(&found), ["data.bytes", "data.text"]);
    let debug = format!("{found:?}");
    assert!(
        debug.contains("hmac:")
            && !debug.contains("anary")
            && !debug.contains("gP/+")
            && !debug.contains("Y2Fu"),
        "{debug}"
    );
}

#[test]
fn secret_redacted_with_another_key_is_not_compared() {
    let declared = declared_by_manifest("v1 Secret", &json!({"stringData": {"a": "x"}}));
    let live = cached(&declared, &json!({"data": {"a": "eA=="}}), &[RedactionKey::new([8; 32])]);
    let comparison = compare(&declared, &live, &Schemas::default());
    assert_eq!(comparison, Comparison { unknown_key: true, ..Comparison::default() });
}

#[test]
fn finding_has_the_field_manager_of_its_element() {
    let fields =
        json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:targetPort": {}}}}});
    let live = json!({"metadata": {"managedFields": [{"manager": "kubectl-edit", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields}]},
        "spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]}});
    let found = compared(
        "v1 Service",
        &json!({"spec": {"ports": [{"port": 80, "targetPort": 80}]}}),
        &live,
        &Schemas::default(),
    );
    assert_eq!(found.findings[0].owner.as_ref().map(|owner| &*owner.manager), Some("kubectl-edit"));
}

/// The live value of `spec.a`, where another value is declared.
fn live_value(kind: &str, declared: &Value, live: &Value) -> FieldValue {
    let declared = json!({"spec": {"a": declared}});
    let mut found = compared(kind, &declared, &json!({"spec": live}), &Schemas::default()).findings;
    assert_eq!(paths(&found), ["spec.a"], "{live}");
    found.remove(0).actual
}

#[test]
fn live_null_empty_string_and_absent_field_differ_in_findings() {
    let widget = "example.com/v1 Widget";
    for declared in [json!("x"), json!(1), json!(true), json!({"b": {}}), json!({}), json!(["x"])] {
        let path_of = |live: &Value| {
            let declared = json!({"spec": {"a": declared}});
            compared(widget, &declared, &json!({"spec": live}), &Schemas::default()).findings
        };
        let (absent, null) = (path_of(&json!({})), path_of(&json!({"a": null})));
        assert_eq!(paths(&absent), paths(&null), "null counts like an absent field: {declared}");
        assert_eq!(absent[0].actual, FieldValue::Absent, "{declared}");
        let is_inner = absent[0].path.as_str() != "spec.a";
        assert_eq!(
            null[0].actual,
            if is_inner { FieldValue::Absent } else { FieldValue::Null },
            "{declared}"
        );
    }
    let live = |value: Value| live_value(widget, &json!("x"), &json!({"a": value}));
    assert_eq!(live(json!("")), FieldValue::Text("".into()));
    assert_eq!(live(json!("null")), FieldValue::Text("null".into()));
    assert_eq!(live(Value::Null), FieldValue::Null);
    assert_eq!(live_value(widget, &json!("x"), &json!({})), FieldValue::Absent);
}

#[test]
fn declared_null_is_not_compared_and_a_declared_empty_string_is_a_value() {
    let widget = "example.com/v1 Widget";
    for live in [json!({}), json!({"a": null}), json!({"a": ""}), json!({"a": "x"})] {
        check(widget, &json!({"spec": {"a": null}}), &json!({"spec": live}), &[]);
    }
    check(widget, &json!({"spec": {"a": ""}}), &json!({"spec": {"a": "x"}}), &[("spec.a", "\"\"", "x")]);
    // The API server drops it.
    let hostname = |name: &str| pod(&json!({"hostname": name}));
    check(DEPLOYMENT, &hostname(""), &hostname("x"), &[("spec.template.spec.hostname", "", "x")]);
}

#[test]
fn null_in_a_set_is_not_an_empty_string() {
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    let found =
        compared("v1 Pod", &finalizers(json!(["a"])), &finalizers(json!(["a", null])), &Schemas::default());
    assert_eq!(found.findings[0].actual, FieldValue::Null);
}

/// The object is redacted because another source marks the field.
#[test]
fn list_with_redacted_elements_is_not_plain() {
    let container = |args: Value| pod(&json!({"containers": [{"name": "web", "args": args}]}));
    let declared = declared_by_manifest(DEPLOYMENT, &container(json!(["canary"])));
    let mut policy = RedactionPolicy::new(declared.key.clone());
    policy.add_fields(&declared.object, ["spec.template.spec.containers.args".into()]);
    let args = json!(["canary2", "", null]);
    let live = pack_live_object(container(args), &kind_of(&declared), &policy);
    let found = compare(&declared, &live, &Schemas::default()).findings;
    assert_eq!(paths(&found), ["spec.template.spec.containers[name=web].args"]);
    let digest = |value: &str| declared.key.digest(value.as_bytes());
    let expected = format!("[\"{}\"]", digest("canary"));
    let actual = format!("[\"{}\",\"\",null]", digest("canary2"));
    assert_eq!(found[0].expected, FieldValue::PartlyRedacted(expected.into()));
    assert_eq!(found[0].actual, FieldValue::PartlyRedacted(actual.into()));
}

#[test]
fn value_with_a_redacted_part_is_not_plain() {
    let widget = "example.com/v1 Widget";
    let declared = declared_by_manifest(widget, &json!({"spec": {"a": "x", "b": [["x"]]}}));
    let mut policy = RedactionPolicy::new(declared.key.clone());
    policy.add_fields(&declared.object, ["spec.a.b".into(), "spec.b".into()]);
    let live = json!({"spec": {"a": {"b": "canary"}, "b": [["canary"]]}});
    let live = pack_live_object(live, &kind_of(&declared), &policy);
    let found = compare(&declared, &live, &Schemas::default()).findings;
    assert_eq!(paths(&found), ["spec.a", "spec.b"]);
    for finding in &found {
        let FieldValue::PartlyRedacted(text) = &finding.actual else { panic!("{finding:?}") };
        assert!(text.contains("hmac:") && !text.contains("canary") && !text.contains('\u{1}'), "{text:?}");
    }
}

#[test]
fn normalize_keeps_only_declared_fields() {
    let key = RedactionKey::new([7; 32]);
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "deployment.kubernetes.io/revision": "3", "own": "1"});
    let document = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 1},
        "metadata": {"name": "a", "namespace": "b", "uid": "c", "annotations": annotations}, "spec": {"replicas": null, "paused": false}});
    let mut document = Node::from(document);
    normalize(&mut document, &key);
    let normalized = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": {"own": "1"}}, "spec": {"paused": false}});
    assert_eq!(document, Node::from(normalized));
    for nothing in [json!([1]), json!("a"), Value::Null] {
        let declared = declared_object(ObjectRef::new("", "v1", "Pod", "", ""), nothing, &key);
        assert_eq!(diff(&declared, &json!({"spec": 1})), Comparison::default());
    }
}
