//! The small facts about an object that the API shows. Each kind is read as far as its facts need, and not at all where it has none.

mod custom;
mod infrastructure;
mod workloads;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::status::{LONGEST_MESSAGE, cut};
use crate::{
    diff::{SpecView, Text},
    types::{Facts, Health, Kind, LabelSet, ObjectKey, Phase, is_within},
};

/// What facts are made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) spec: Option<&'a RawValue>,
    pub(super) status: Option<&'a RawValue>,
    pub(super) generation: Option<i64>,
}

/// Facts about an object whose spec was read before, as far as its kind is known there.
pub(super) fn facts(kind: &Kind, view: &SpecView<'_>, parts: Parts<'_>) -> Facts {
    match view {
        SpecView::Deployment(view) => workloads::of_deployment(view, parts),
        SpecView::Service(view) => infrastructure::of_service(view, parts),
        SpecView::Other => of_other(kind, parts),
    }
}

fn of_other(kind: &Kind, parts: Parts<'_>) -> Facts {
    match (&*kind.group, &*kind.kind) {
        ("apps", "StatefulSet") => workloads::of_stateful_set(parts),
        ("apps", "DaemonSet") => workloads::of_daemon_set(parts),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => workloads::of_replica_set(parts),
        ("batch", "Job") => workloads::of_job(parts),
        ("batch", "CronJob") => workloads::of_cron_job(parts),
        ("", "Pod") => workloads::of_pod(parts),
        ("", "PersistentVolumeClaim") => infrastructure::of_claim(parts),
        ("", "PersistentVolume") => infrastructure::of_volume(parts),
        ("", "Namespace") => infrastructure::of_namespace(parts).into_facts(),
        ("networking.k8s.io" | "extensions", "Ingress") => infrastructure::of_ingress(parts),
        ("autoscaling", "HorizontalPodAutoscaler") => infrastructure::of_autoscaler(parts).into_facts(),
        ("policy", "PodDisruptionBudget") => infrastructure::of_budget(parts).into_facts(),
        ("apiregistration.k8s.io", "APIService") => infrastructure::of_api_service(parts).into_facts(),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            infrastructure::of_definition(parts).into_facts()
        }
        (group, name) if STATUSLESS.contains(&(group, name)) => Wellness::healthy().into_facts(),
        _ => custom::of_custom(parts),
    }
}

/// Kinds whose objects do nothing but stand there: they have no status by nature, or none that says how they are.
const STATUSLESS: &[(&str, &str)] = &[
    ("", "ConfigMap"),
    ("", "Endpoints"),
    ("", "LimitRange"),
    ("", "PodTemplate"),
    ("", "ResourceQuota"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apps", "ControllerRevision"),
    ("coordination.k8s.io", "Lease"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "StorageClass"),
];

/// Facts about an object of generation 2.
#[cfg(test)]
fn facts_of(group: &str, kind: &str, spec: &serde_json::Value, status: &serde_json::Value) -> Facts {
    use serde_json::value::to_raw_value;
    let kind = Kind::unseen(group, "v1", kind);
    let (spec, status) = (to_raw_value(spec).unwrap(), to_raw_value(status).unwrap());
    let view = SpecView::read(&kind, spec.get()).unwrap();
    facts(&kind, &view, Parts { spec: Some(&spec), status: Some(&status), generation: Some(2) })
}

/// Checks how well an object of a kind is.
#[cfg(test)]
fn check_of(
    group: &'static str,
    kind: &'static str,
) -> impl Fn(&serde_json::Value, &serde_json::Value, crate::types::Health, Option<crate::types::Phase>, &str)
{
    move |spec, status, health, phase, message| {
        let facts = facts_of(group, kind, spec, status);
        assert_eq!(
            (facts.health, facts.phase, &*facts.message),
            (health, phase, message),
            "{kind} {spec} {status}"
        );
    }
}

/// How well an object is, what it is doing, and why it is not well or not done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wellness {
    pub(super) health: Health,
    pub(super) phase: Option<Phase>,
    pub(super) message: String,
}

impl Wellness {
    pub(super) fn healthy() -> Self {
        Self::new(Health::Healthy, String::new())
    }

    pub(super) fn new(health: Health, message: impl Into<String>) -> Self {
        Self { health, phase: None, message: message.into() }
    }

    /// Not done yet; it may work all the same.
    pub(super) fn progressing(health: Health, message: impl Into<String>) -> Self {
        Self { phase: Some(Phase::Progressing), ..Self::new(health, message) }
    }

    pub(super) fn suspended(message: impl Into<String>) -> Self {
        Self { phase: Some(Phase::Suspended), ..Self::new(Health::Healthy, message) }
    }

    pub(super) fn completed() -> Self {
        Self { phase: Some(Phase::Completed), ..Self::healthy() }
    }

    pub(super) fn no_status() -> Self {
        Self::new(Health::Unknown, "no status")
    }

    /// What a status tells that is about an older version of the object says nothing about this one.
    pub(super) fn unseen() -> Self {
        Self::progressing(Health::Unknown, "its controller has not seen this version yet")
    }

    /// Facts that have nothing but this.
    pub(super) fn into_facts(self) -> Facts {
        let Self { health, phase, message } = self;
        Facts { health, phase, message: cut(&message, LONGEST_MESSAGE), ..Facts::default() }
    }
}

/// One condition of a status.
#[derive(Deserialize)]
pub(super) struct Condition<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Text<'a>,
    #[serde(borrow, default)]
    pub(super) status: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reason: Text<'a>,
    #[serde(borrow, default)]
    pub(super) message: Text<'a>,
}

impl Condition<'_> {
    /// What it says, or at least why.
    pub(super) fn words(&self) -> String {
        if self.message.0.is_empty() { self.reason.0.to_string() } else { self.message.0.to_string() }
    }
}

/// The conditions of a status.
#[derive(Default)]
pub(super) struct Conditions<'a>(Vec<Condition<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Conditions<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Lenient(all) = Lenient::<Vec<Lenient<Condition<'a>>>>::deserialize(deserializer)?;
        Ok(Self(all.into_iter().flatten().filter_map(|own| own.0).collect()))
    }
}

/// Something, where it looks as it should: others put other things under the same names, and these must not hide what stands beside them.
pub(super) struct Lenient<T>(pub(super) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let part = <&RawValue>::deserialize(deserializer)?;
        Ok(Self(read(Some(part))))
    }
}

impl<'a> Conditions<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Condition<'a>> {
        self.0.iter().find(|condition| condition.r#type.0 == name)
    }

    /// The condition of this name, if it is in this state.
    pub(super) fn when(&self, name: &str, status: &str) -> Option<&Condition<'a>> {
        self.get(name).filter(|condition| condition.status.0 == status)
    }
}

/// A part that does not look as it should tells nothing; it must not hide the object.
pub(super) fn read<'a, T: Deserialize<'a>>(part: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(part?.get()).ok()
}

/// Whether a status is about an older version of the object.
pub(super) fn is_behind(observed: Option<i64>, generation: Option<i64>) -> bool {
    observed.zip(generation).is_some_and(|(observed, own)| observed < own)
}

/// An object in the same namespace, or without one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    #[serde(borrow, default)]
    api_version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    controller: Option<bool>,
}

impl Reference<'_> {
    fn seen_from(&self, object: &ObjectKey) -> ObjectKey {
        let (group, version) = self.api_version.0.split_once('/').unwrap_or(("", &self.api_version.0));
        let kind = Arc::new(Kind::unseen(group, version, &self.kind.0));
        ObjectKey { kind, namespace: object.namespace.clone(), name: self.name.0.as_ref().into() }
    }
}

/// The object whose replicas an autoscaler sets: it is in the same namespace.
pub(in crate::watch) fn scaled_by(autoscaler: &ObjectKey, spec: Option<&RawValue>) -> Option<Box<ObjectKey>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        #[serde(borrow)]
        scale_target_ref: Reference<'a>,
    }
    if !autoscaler.kind.is_autoscaler() {
        return None;
    }
    Some(Box::new(read::<Spec<'_>>(spec)?.scale_target_ref.seen_from(autoscaler)))
}

/// The object that made another one and looks after it.
pub(in crate::watch) fn owner_of(
    object: &ObjectKey,
    references: Option<&RawValue>,
) -> Option<Box<ObjectKey>> {
    let references = read::<Vec<Reference<'_>>>(references)?;
    let own = references.iter().find(|own| own.controller == Some(true)).or(references.first())?;
    Some(Box::new(own.seen_from(object)))
}

/// Facts without those that tell something about fields whose values may not be told.
pub(in crate::watch) fn without_sealed(mut facts: Facts, sealed: &[&str]) -> Facts {
    let is_sealed = |field: &str| sealed.iter().any(|own| meet(field, own));
    let any_sealed = |fields: &[&str]| fields.iter().any(|field| is_sealed(field));
    let in_pods: Vec<&str> = sealed.iter().filter_map(|own| in_pod(own)).collect();
    let any_in_pods = |fields: &[&str]| fields.iter().any(|field| in_pods.iter().any(|own| meet(field, own)));
    if any_sealed(&["spec.replicas", "spec.parallelism"]) {
        (facts.replicas, facts.message) = (None, Box::default());
    }
    if any_in_pods(&["containers.resources.requests"]) {
        (facts.cpu_request, facts.memory_request) = (None, None);
    }
    if any_sealed(&["spec.resources", "spec.volumeClaimTemplates"]) {
        facts.storage_request = None;
    }
    if is_sealed("spec.type") {
        facts.load_balancer = false;
    }
    if any_sealed(&["spec.ports", "spec.tls"]) || any_in_pods(&["containers.ports"]) {
        facts.port = None;
    }
    if any_sealed(&["spec.externalName", "spec.loadBalancerIP", "spec.rules"]) {
        facts.endpoint = None;
    }
    if any_sealed(SECRET_NAMES) || any_in_pods(SECRET_NAMES_IN_PODS) {
        facts.connection_secret = None;
    }
    if any_sealed(TEMPLATE_LABELS) {
        facts.labels = LabelSet::default();
    }
    if is_sealed("metadata.labels") {
        facts.instance = None;
    }
    if is_sealed("metadata.ownerReferences") {
        facts.owner = None;
    }
    facts
}

/// Whether one of two fields is within the other.
fn meet(field: &str, own: &str) -> bool {
    is_within(field, own) || is_within(own, field)
}

/// Where pods are described: by a `CronJob`, by a workload, by a Pod itself.
const PODS: &[&str] = &["spec.jobTemplate.spec.template.spec", "spec.template.spec", "spec"];

/// The way to a field within the description of a pod, whoever describes it; empty where it is all of it, none where it is elsewhere.
fn in_pod(field: &str) -> Option<&str> {
    PODS.iter().find_map(|pod| {
        if is_within(pod, field) {
            return Some("");
        }
        field.strip_prefix(pod)?.strip_prefix('.')
    })
}

/// Where the names of Secrets stand.
const SECRET_NAMES: &[&str] = &["spec.writeConnectionSecretToRef", "spec.secretName", "status.binding"];
const SECRET_NAMES_IN_PODS: &[&str] = &["containers.env.valueFrom", "containers.envFrom", "volumes"];
const TEMPLATE_LABELS: &[&str] =
    &["spec.selector", "spec.template.metadata.labels", "spec.jobTemplate.spec.template.metadata.labels"];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json, value::to_raw_value};

    use super::{Facts, Kind, LabelSet, ObjectKey, check_of, facts_of, owner_of, scaled_by, without_sealed};
    use crate::types::Health;

    #[test]
    fn what_only_stands_there_is_well() {
        check_of("", "ConfigMap")(&json!(null), &json!(null), Health::Healthy, None, "");
        check_of("networking.k8s.io", "NetworkPolicy")(&json!({}), &json!({}), Health::Healthy, None, "");
        check_of("example.com", "ConfigMap")(&json!({}), &json!(null), Health::Unknown, None, "no status");
    }

    #[test]
    fn every_workload_tells_what_its_pods_ask_for() {
        let pod = json!({
            "containers": [
                {"name": "web", "ports": [{"containerPort": 8080}], "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
                    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "single", "key": "k"}}}]},
                {"name": "side", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}, "envFrom": [{"secretRef": {"name": "whole"}}]},
            ],
            "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}],
        });
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod});
        for (group, kind) in [
            ("apps", "Deployment"),
            ("apps", "StatefulSet"),
            ("apps", "DaemonSet"),
            ("apps", "ReplicaSet"),
            ("batch", "Job"),
        ] {
            let facts = facts_of(group, kind, &json!({"template": template}), &json!({}));
            assert_eq!((facts.cpu_request, facts.memory_request), (Some(1250), Some(128 << 20)), "{kind}");
            assert_eq!(
                (facts.port, facts.connection_secret.as_deref()),
                (Some(8080), Some("whole")),
                "{kind}"
            );
            assert_eq!(facts.labels, LabelSet::new([("app", "web")]), "{kind}");
        }
        let nested = json!({"jobTemplate": {"spec": {"template": template}}});
        assert_eq!(facts_of("batch", "CronJob", &nested, &json!({})).cpu_request, Some(1250));
        assert_eq!(facts_of("", "Pod", &pod, &json!({"phase": "Running"})).cpu_request, Some(1250));
        let mounted = json!({"template": {"spec": {"containers": [{"name": "web"}], "volumes": [{"secret": {"secretName": "mounted"}}]}}});
        let facts = facts_of("apps", "Deployment", &mounted, &json!({}));
        assert_eq!(facts.connection_secret.as_deref(), Some("mounted"));
    }

    #[track_caller]
    fn check_target(kind: Kind, spec: &Value, target: Option<(&str, &str)>) {
        let key = ObjectKey { kind: Arc::new(kind), namespace: "shop".into(), name: "web-scaler".into() };
        let scaled = scaled_by(&key, Some(&to_raw_value(spec).unwrap()));
        let told = scaled.as_ref().map(|own| (&*own.kind.group, own.to_string()));
        assert_eq!(told, target.map(|(group, object)| (group, object.to_owned())), "{spec}");
    }

    #[test]
    fn an_autoscaler_tells_what_it_scales_in_whatever_version() {
        let spec = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
        let web = Some(("apps", "Deployment shop/web"));
        check_target(Kind::autoscaler(), &spec, web);
        check_target(Kind { version: "v1".into(), ..Kind::autoscaler() }, &spec, web);
        check_target(Kind::deployment(), &spec, None);
        let core =
            json!({"scaleTargetRef": {"apiVersion": "v1", "kind": "ReplicationController", "name": "old"}});
        check_target(Kind::autoscaler(), &core, Some(("", "ReplicationController shop/old")));
        check_target(Kind::autoscaler(), &json!({"scaleTargetRef": {"name": "web"}}), None);
        check_target(Kind::autoscaler(), &json!({"scaleTargetRef": 7}), None);
    }

    #[test]
    fn of_several_owners_the_one_counts_that_looks_after_it() {
        let pod = Arc::new(Kind::unseen("", "v1", "Pod"));
        let key = ObjectKey { kind: pod, namespace: "shop".into(), name: "web-1".into() };
        let owner = |references: Value| {
            owner_of(&key, Some(&to_raw_value(&references).unwrap())).map(|own| own.to_string())
        };
        let other = json!({"apiVersion": "v1", "kind": "Node", "name": "n"});
        let maker = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": true});
        assert_eq!(owner(json!([other, maker])).as_deref(), Some("ReplicaSet shop/web"));
        assert_eq!(owner(json!([other])).as_deref(), Some("Node shop/n"));
        assert_eq!((owner(json!([])), owner(json!("odd")), owner_of(&key, None)), (None, None, None));
    }

    #[test]
    fn nothing_is_told_of_what_is_sealed() {
        let facts = Facts {
            replicas: Some(3),
            message: "1 of 3 replicas are available".into(),
            cpu_request: Some(100),
            memory_request: Some(100),
            storage_request: Some(100),
            load_balancer: true,
            endpoint: Some("db.example.com".into()),
            port: Some(80),
            connection_secret: Some("db".into()),
            labels: LabelSet::new([("app", "web")]),
            instance: Some("shop".into()),
            ..Facts::default()
        };
        assert_eq!(
            without_sealed(facts.clone(), &["data", "spec.template.spec.containers.env.value"]),
            facts
        );
        assert_eq!(without_sealed(facts.clone(), &[""]), Facts::default());
        let endpoint = Facts { endpoint: None, ..facts.clone() };
        assert_eq!(without_sealed(facts.clone(), &["spec.externalName"]), endpoint);
        let secret = Facts { connection_secret: None, ..facts.clone() };
        assert_eq!(without_sealed(facts.clone(), &["spec.template.spec.containers.env"]), secret);
        let requests = "spec.template.spec.containers.resources.requests.cpu";
        assert_eq!(
            without_sealed(facts.clone(), &[requests]).memory_request,
            None,
            "no index tells which it is"
        );
        // The same wherever pods are described.
        for pod in ["spec.jobTemplate.spec.template.spec", "spec.template.spec", "spec"] {
            let without =
                |field: &str| without_sealed(facts.clone(), &[&format!("{pod}.containers.{field}")]);
            let requests = Facts { cpu_request: None, memory_request: None, ..facts.clone() };
            assert_eq!(without("resources.requests.cpu"), requests, "{pod}");
            assert_eq!(without("ports"), Facts { port: None, ..facts.clone() }, "{pod}");
            assert_eq!(without("envFrom"), secret, "{pod}");
            assert_eq!(without("image"), facts, "{pod}");
        }
        let port = Facts { port: None, ..facts.clone() };
        assert_eq!(without_sealed(facts.clone(), &["spec.tls.secretName"]), port);
        let replicas = Facts { replicas: None, message: "".into(), ..facts.clone() };
        assert_eq!(without_sealed(facts.clone(), &["spec.parallelism"]), replicas);
        let cron = without_sealed(facts, &["spec.jobTemplate"]);
        assert_eq!(
            (cron.cpu_request, cron.connection_secret, cron.labels),
            (None, None, LabelSet::default())
        );
    }
}
