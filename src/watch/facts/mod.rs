//! The facts about an object that the API exposes: health, replicas, requests, endpoint. Each kind is parsed only as far as
//! its facts need.

mod custom;
mod infrastructure;
#[cfg(test)]
pub(super) mod kinds_with_facts;
mod workloads;

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{BorrowedStrDeserializer, MapAccessDeserializer, SeqAccessDeserializer},
    },
};

use super::status::{MAX_MESSAGE_CHARS, truncate};
use crate::{
    diff::{JsonPart, SpecView, Text},
    types::{GroupKind, Health, Kind, LabelSet, ObjectFacts, ObjectKey, Phase, WHOLE_OBJECT, is_within},
};

/// The parts of an object that have facts.
#[derive(Clone, Copy, Debug)]
pub(super) struct FactParts<'a> {
    pub(super) spec: Option<JsonPart<'a>>,
    pub(super) status: Option<JsonPart<'a>>,
    pub(super) generation: Option<i64>,
}

/// The facts of an object. `view` is its parsed spec if the kind has a view.
pub(super) fn facts(kind: &Kind, view: &SpecView<'_>, parts: FactParts<'_>) -> ObjectFacts {
    match view {
        SpecView::Deployment(view) => workloads::deployment_facts(view, parts),
        SpecView::Service(view) => infrastructure::service_facts(view, parts),
        SpecView::Other => facts_without_view(kind, parts),
    }
}

fn facts_without_view(kind: &Kind, parts: FactParts<'_>) -> ObjectFacts {
    match kind.group_kind() {
        GroupKind { group: "apps", kind: "StatefulSet" } => workloads::stateful_set_facts(parts),
        GroupKind { group: "apps", kind: "DaemonSet" } => workloads::daemon_set_facts(parts),
        GroupKind { group: "apps", kind: "ReplicaSet" }
        | GroupKind { group: "", kind: "ReplicationController" } => workloads::replica_set_facts(parts),
        GroupKind { group: "batch", kind: "Job" } => workloads::job_facts(parts),
        GroupKind { group: "batch", kind: "CronJob" } => workloads::cron_job_facts(parts),
        GroupKind { group: "", kind: "Pod" } => workloads::pod_facts(parts),
        GroupKind { group: "", kind: "PersistentVolumeClaim" } => infrastructure::volume_claim_facts(parts),
        GroupKind { group: "", kind: "PersistentVolume" } => {
            infrastructure::volume_health(parts).into_facts()
        }
        GroupKind { group: "", kind: "Namespace" } => infrastructure::namespace_health(parts).into_facts(),
        GroupKind { group: "networking.k8s.io" | "extensions", kind: "Ingress" } => {
            infrastructure::ingress_facts(parts)
        }
        GroupKind { group: "autoscaling", kind: "HorizontalPodAutoscaler" } => {
            infrastructure::autoscaler_health(parts).into_facts()
        }
        GroupKind { group: "policy", kind: "PodDisruptionBudget" } => {
            infrastructure::disruption_budget_health(parts).into_facts()
        }
        GroupKind { group: "apiregistration.k8s.io", kind: "APIService" } => {
            infrastructure::api_service_health(parts).into_facts()
        }
        GroupKind { group: "apiextensions.k8s.io", kind: "CustomResourceDefinition" } => {
            infrastructure::crd_health(parts).into_facts()
        }
        GroupKind { group, kind }
            if STATUSLESS.iter().any(|(other, kinds)| *other == group && kinds.contains(&kind)) =>
        {
            HealthStatus::healthy().into_facts()
        }
        _ => custom::custom_resource_facts(parts),
    }
}

/// Kinds without a status, or with one that says nothing about health.
const STATUSLESS: &[(&str, &[&str])] = &[
    (
        "",
        &["ConfigMap", "Endpoints", "LimitRange", "PodTemplate", "ResourceQuota", "Secret", "ServiceAccount"],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apps", &["ControllerRevision"]),
    ("coordination.k8s.io", &["Lease"]),
    ("discovery.k8s.io", &["EndpointSlice"]),
    ("networking.k8s.io", &["IngressClass", "NetworkPolicy"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    ("storage.k8s.io", &["CSIDriver", "StorageClass"]),
];

/// The health of an object, with a message if it is unhealthy or not finished.
#[derive(Debug, PartialEq, Eq)]
struct HealthStatus {
    health: Health,
    phase: Option<Phase>,
    message: String,
}

impl HealthStatus {
    fn healthy() -> Self {
        Self::new(Health::Healthy, String::new())
    }

    fn new(health: Health, message: impl Into<String>) -> Self {
        Self { health, phase: None, message: message.into() }
    }

    /// An object may be healthy while it progresses.
    fn progressing(health: Health, message: impl Into<String>) -> Self {
        Self { phase: Some(Phase::Progressing), ..Self::new(health, message) }
    }

    fn suspended(message: impl Into<String>) -> Self {
        Self { phase: Some(Phase::Suspended), ..Self::new(Health::Healthy, message) }
    }

    fn completed() -> Self {
        Self { phase: Some(Phase::Completed), ..Self::healthy() }
    }

    fn no_status() -> Self {
        Self::new(Health::Unknown, "no status")
    }

    /// The status is about an older generation.
    fn not_observed() -> Self {
        Self::progressing(Health::Unknown, "its controller has not seen this version yet")
    }

    /// Facts without any but the health.
    fn into_facts(self) -> ObjectFacts {
        let Self { health, phase, message } = self;
        ObjectFacts {
            health,
            phase,
            message: truncate(&message, MAX_MESSAGE_CHARS),
            ..ObjectFacts::default()
        }
    }
}

struct Condition<'a> {
    r#type: Text<'a>,
    status: Text<'a>,
    reason: Text<'a>,
    message: Text<'a>,
}

impl Condition<'_> {
    fn message_or_reason(&self) -> String {
        if self.message.0.is_empty() { self.reason.0.to_string() } else { self.message.0.to_string() }
    }

    fn as_health(&self, health: Health) -> HealthStatus {
        HealthStatus::new(health, self.message_or_reason())
    }
}

#[derive(Default)]
struct Conditions<'a>(Vec<Condition<'a>>);

/// Skips conditions of an unexpected shape.
impl<'de: 'a, 'a> Deserialize<'de> for Conditions<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(default)]
        struct LenientCondition<'a> {
            #[serde(borrow)]
            r#type: Lenient<Text<'a>>,
            status: Lenient<Text<'a>>,
            reason: Lenient<Text<'a>>,
            message: Lenient<Text<'a>>,
        }
        impl Default for LenientCondition<'_> {
            fn default() -> Self {
                let empty = || Lenient(Some(Text::default()));
                Self { r#type: empty(), status: empty(), reason: empty(), message: empty() }
            }
        }
        let condition = |Lenient(condition): Lenient<LenientCondition<'a>>| {
            let LenientCondition { r#type, status, reason, message } = condition?;
            Some(Condition { r#type: r#type.0?, status: status.0?, reason: reason.0?, message: message.0? })
        };
        let Lenient(conditions) = Lenient::<Vec<_>>::deserialize(deserializer)?;
        Ok(Self(conditions.into_iter().flatten().filter_map(condition).collect()))
    }
}

impl<'a> Conditions<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, name: &str) -> Option<&Condition<'a>> {
        self.0.iter().find(|condition| condition.r#type.0 == name)
    }

    fn with_status(&self, name: &str, status: &str) -> Option<&Condition<'a>> {
        self.get(name).filter(|condition| condition.status.0 == status)
    }
}

/// `None` if the value has an unexpected type. Custom resources give other types to common names, and that must not hide
/// the fields beside them. `T` is a scalar, or everything in it is lenient.
pub(super) struct Lenient<T>(pub(super) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue(PhantomData)).map(Self)
    }
}

/// Visits a value of any type, to the end. After an error, a parser could not go on with the next field.
struct AnyValue<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> AnyValue<T> {
    fn read<E>(value: impl IntoDeserializer<'de, E>) -> Option<T>
    where
        E: Error,
    {
        T::deserialize(value.into_deserializer()).ok()
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AnyValue<T> {
    type Value = Option<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(Self::read::<E>(()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<T>, E> {
        Ok(Self::read::<E>(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Option<T>, E> {
        Ok(Self::read::<E>(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<T>, E> {
        Ok(Self::read::<E>(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<T>, E> {
        Ok(Self::read::<E>(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<T>, E> {
        Ok(Self::read::<E>(text))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Option<T>, E> {
        Ok(T::deserialize(BorrowedStrDeserializer::<E>::new(text)).ok())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<T>, A::Error> {
        let value = T::deserialize(SeqAccessDeserializer::new(&mut list)).ok();
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(value)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<T>, A::Error> {
        let value = T::deserialize(MapAccessDeserializer::new(&mut map)).ok();
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(value)
    }
}

/// A part of an unexpected shape has no facts; the object is decoded without it.
fn parse<'a, T: Deserialize<'a>>(part: Option<JsonPart<'a>>) -> Option<T> {
    part?.read().ok()
}

/// Whether a status is about an older generation of the object.
fn is_stale(observed: Option<i64>, generation: Option<i64>) -> bool {
    observed.zip(generation).is_some_and(|(observed, generation)| observed < generation)
}

/// A reference to an object in the same namespace, or without one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReference<'a> {
    #[serde(borrow, default)]
    api_version: Text<'a>,
    kind: Text<'a>,
    name: Text<'a>,
    controller: Option<bool>,
}

impl ObjectReference<'_> {
    fn to_key(&self, referrer: &ObjectKey) -> ObjectKey {
        let (group, version) = self.api_version.0.split_once('/').unwrap_or(("", &self.api_version.0));
        let kind = Kind::undiscovered(group, version, &self.kind.0);
        ObjectKey::new(kind, &referrer.namespace, &self.name.0)
    }
}

/// The object whose replicas an autoscaler sets; `None` for other kinds.
pub(super) fn scale_target(autoscaler: &ObjectKey, spec: Option<JsonPart<'_>>) -> Option<Box<ObjectKey>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        #[serde(borrow)]
        scale_target_ref: ObjectReference<'a>,
    }
    if !autoscaler.kind.is_autoscaler() {
        return None;
    }
    Some(Box::new(parse::<Spec<'_>>(spec)?.scale_target_ref.to_key(autoscaler)))
}

/// The controller of an object, else its first owner.
pub(super) fn controller_of(
    object: &ObjectKey,
    owner_references: Option<JsonPart<'_>>,
) -> Option<Box<ObjectKey>> {
    let owners = parse::<Vec<ObjectReference<'_>>>(owner_references)?;
    let controller = owners.iter().find(|owner| owner.controller == Some(true)).or(owners.first())?;
    Some(Box::new(controller.to_key(object)))
}

/// Drops the facts that reveal a redacted field.
pub(super) fn redact(mut facts: ObjectFacts, redacted: &[&str]) -> ObjectFacts {
    let is_redacted = |field: &str| redacted.iter().any(|path| overlap(field, path));
    let any_redacted = |fields: &[&str]| fields.iter().any(|field| is_redacted(field));
    let in_pods: Vec<&str> = redacted.iter().filter_map(|path| pod_field(path)).collect();
    let any_in_pods =
        |fields: &[&str]| fields.iter().any(|field| in_pods.iter().any(|path| overlap(field, path)));
    if any_redacted(&["spec.replicas", "spec.parallelism"]) {
        (facts.replicas, facts.message) = (None, Box::default());
    }
    if any_in_pods(&["containers.resources.requests"]) {
        (facts.cpu_request, facts.memory_request) = (None, None);
    }
    if any_redacted(&["spec.resources", "spec.volumeClaimTemplates"]) {
        facts.storage_request = None;
    }
    if is_redacted("spec.type") {
        facts.load_balancer = false;
    }
    if any_redacted(&["spec.ports", "spec.tls"]) || any_in_pods(&["containers.ports"]) {
        facts.port = None;
    }
    if any_redacted(&["spec.externalName", "spec.loadBalancerIP", "spec.rules"]) {
        facts.endpoint = None;
    }
    if any_redacted(SECRET_NAMES) || any_in_pods(SECRET_NAMES_IN_PODS) {
        facts.connection_secret = None;
    }
    if any_redacted(TEMPLATE_LABELS) {
        facts.labels = LabelSet::default();
    }
    if is_redacted("metadata.labels") {
        facts.instance = None;
    }
    if is_redacted("metadata.ownerReferences") {
        facts.owner = None;
    }
    facts
}

/// Whether one of two fields contains the other.
fn overlap(one: &str, other: &str) -> bool {
    is_within(one, other) || is_within(other, one)
}

/// The pod specs of a `CronJob`, of another workload, and of a Pod.
const POD_SPECS: &[&str] = &["spec.jobTemplate.spec.template.spec", "spec.template.spec", "spec"];

/// The path of a field within a pod spec: [`WHOLE_OBJECT`] if the field contains the pod spec, `None` if it is outside.
fn pod_field(field: &str) -> Option<&str> {
    POD_SPECS.iter().find_map(|pod| {
        if is_within(pod, field) {
            return Some(WHOLE_OBJECT);
        }
        field.strip_prefix(pod)?.strip_prefix('.')
    })
}

const SECRET_NAMES: &[&str] = &["spec.writeConnectionSecretToRef", "spec.secretName", "status.binding"];
const SECRET_NAMES_IN_PODS: &[&str] = &["containers.env.valueFrom", "containers.envFrom", "volumes"];
const TEMPLATE_LABELS: &[&str] =
    &["spec.selector", "spec.template.metadata.labels", "spec.jobTemplate.spec.template.metadata.labels"];

#[cfg(test)]
mod tests {
    use super::{LabelSet, ObjectFacts, redact};

    #[test]
    fn redacted_fields_have_no_facts() {
        let facts = ObjectFacts {
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
            ..ObjectFacts::default()
        };
        assert_eq!(redact(facts.clone(), &["data", "spec.template.spec.containers.env.value"]), facts);
        assert_eq!(redact(facts.clone(), &[""]), ObjectFacts::default());
        let endpoint = ObjectFacts { endpoint: None, ..facts.clone() };
        assert_eq!(redact(facts.clone(), &["spec.externalName"]), endpoint);
        let secret = ObjectFacts { connection_secret: None, ..facts.clone() };
        assert_eq!(redact(facts.clone(), &["spec.template.spec.containers.env"]), secret);
        let requests = "spec.template.spec.containers.resources.requests.cpu";
        assert_eq!(
            redact(facts.clone(), &[requests]).memory_request,
            None,
            "paths have no index of a container"
        );
        // Every pod spec is covered.
        for pod in ["spec.jobTemplate.spec.template.spec", "spec.template.spec", "spec"] {
            let without = |field: &str| redact(facts.clone(), &[&format!("{pod}.containers.{field}")]);
            let requests = ObjectFacts { cpu_request: None, memory_request: None, ..facts.clone() };
            assert_eq!(without("resources.requests.cpu"), requests, "{pod}");
            assert_eq!(without("ports"), ObjectFacts { port: None, ..facts.clone() }, "{pod}");
            assert_eq!(without("envFrom"), secret, "{pod}");
            assert_eq!(without("image"), facts, "{pod}");
        }
        let port = ObjectFacts { port: None, ..facts.clone() };
        assert_eq!(redact(facts.clone(), &["spec.tls.secretName"]), port);
        let replicas = ObjectFacts { replicas: None, message: "".into(), ..facts.clone() };
        assert_eq!(redact(facts.clone(), &["spec.parallelism"]), replicas);
        let cron = redact(facts, &["spec.jobTemplate"]);
        assert_eq!(
            (cron.cpu_request, cron.connection_secret, cron.labels),
            (None, None, LabelSet::default())
        );
    }
}
