//! Where things can be reached, as far as watched Services tell.

use crate::{
    model::{LiveObject, ObjectKey},
    state::Snapshot,
};

/// The Services of a snapshot by one label each that they select pods by: a workload asks for its own labels, not for all Services.
///
/// Sorted by that label's hash and the namespace. A map would take longer to fill than most questions take to answer.
#[derive(Debug, Default)]
pub(super) struct Reach<'a>(Vec<(u64, &'a str, &'a LiveObject)>);

/// A place where something answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

impl<'a> Reach<'a> {
    /// The Services in one namespace, or in all of them.
    pub(super) fn of(snapshot: &'a Snapshot, namespace: Option<&str>) -> Self {
        let kinds =
            snapshot.kinds.iter().filter(|state| is_service_kind(&state.kind.group, &state.kind.kind));
        let services = kinds.flat_map(|state| state.blocks.objects()).filter_map(|service| {
            let hash = service.facts.labels.hashes().first()?;
            Some((*hash, &*service.key.namespace, &**service))
        });
        let is_near = |own: &(u64, &str, _)| namespace.is_none_or(|namespace| namespace == own.1);
        let mut services: Vec<_> = services.filter(is_near).collect();
        services.sort_unstable_by_key(|(hash, namespace, _)| (*hash, *namespace));
        Self(services)
    }

    /// Where an object answers that does not tell itself: behind the first Service that selects its pods.
    pub(super) fn endpoint(&self, object: &LiveObject) -> Option<Endpoint> {
        let service = self.service_of(object)?;
        let host = service.facts.endpoint.as_deref().map_or_else(|| name_of(&service.key), str::to_owned);
        Some(Endpoint { host, port: service.facts.port.or(object.facts.port) })
    }

    /// The Service whose selector fits the pods of a workload; the first by name where there are several.
    fn service_of(&self, object: &LiveObject) -> Option<&'a LiveObject> {
        let labels = &object.facts.labels;
        let near = labels.hashes().iter().flat_map(|hash| self.near(*hash, &object.key.namespace));
        let fitting = near.filter(|service| labels.has_all(&service.facts.labels));
        fitting.min_by_key(|service| &service.key.name)
    }

    /// The Services in a namespace that are kept under this label.
    fn near(&self, hash: u64, namespace: &str) -> impl Iterator<Item = &'a LiveObject> {
        let start = self.0.partition_point(|(own, place, _)| (*own, *place) < (hash, namespace));
        let rest = self.0[start..].iter();
        rest.take_while(move |(own, place, _)| (*own, *place) == (hash, namespace))
            .map(|(.., service)| *service)
    }
}

/// Where an object answers by its own word, or under its name.
pub(super) fn own_endpoint(object: &LiveObject) -> Option<Endpoint> {
    let facts = &object.facts;
    if let Some(host) = &facts.endpoint {
        return Some(Endpoint { host: host.to_string(), port: facts.port });
    }
    is_service(&object.key).then(|| Endpoint { host: name_of(&object.key), port: facts.port })
}

fn is_service_kind(group: &str, kind: &str) -> bool {
    (group, kind) == ("", "Service")
}

fn is_service(key: &ObjectKey) -> bool {
    is_service_kind(&key.kind.group, &key.kind.kind)
}

/// The name that the cluster's DNS gives a Service.
fn name_of(service: &ObjectKey) -> String {
    format!("{}.{}.svc.cluster.local", service.name, service.namespace)
}
