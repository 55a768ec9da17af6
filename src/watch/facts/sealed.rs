//! What facts may not tell.

use crate::types::{Facts, LabelSet, is_within};

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
