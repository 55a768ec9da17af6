//! What facts may not tell.

use crate::model::{Facts, LabelSet, is_within};

/// Facts without those that tell something about fields whose values may not be told.
pub(in crate::watch) fn without_sealed(mut facts: Facts, sealed: &[&str]) -> Facts {
    let is_sealed = |field: &str| sealed.iter().any(|own| is_within(field, own) || is_within(own, field));
    let any_sealed = |fields: &[&str]| fields.iter().any(|field| is_sealed(field));
    if is_sealed("spec.replicas") {
        (facts.replicas, facts.message) = (None, Box::default());
    }
    if is_sealed("spec.template.spec.containers.resources.requests") {
        (facts.cpu_request, facts.memory_request) = (None, None);
    }
    if any_sealed(&["spec.resources", "spec.volumeClaimTemplates"]) {
        facts.storage_request = None;
    }
    if is_sealed("spec.type") {
        facts.load_balancer = false;
    }
    if any_sealed(&["spec.ports", "spec.template.spec.containers.ports"]) {
        facts.port = None;
    }
    if any_sealed(&["spec.externalName", "spec.loadBalancerIP", "spec.rules"]) {
        facts.endpoint = None;
    }
    if any_sealed(SECRET_NAMES) {
        facts.connection_secret = None;
    }
    if any_sealed(&["spec.selector", "spec.template.metadata.labels"]) {
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

/// Where the names of Secrets stand.
const SECRET_NAMES: &[&str] = &[
    "spec.template.spec.containers.env.valueFrom",
    "spec.template.spec.containers.envFrom",
    "spec.template.spec.volumes",
    "spec.writeConnectionSecretToRef",
    "spec.secretName",
    "status.binding",
];

#[cfg(test)]
mod tests {
    use super::{Facts, LabelSet, without_sealed};

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
        assert_eq!(without_sealed(facts, &[requests]).memory_request, None, "no index tells which it is");
    }
}
