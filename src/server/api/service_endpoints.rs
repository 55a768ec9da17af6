//! The endpoints of objects: their own, or those of the Services that select their pods.

use std::{fmt, sync::Arc};

use crate::{
    engine::Snapshot,
    types::{ClaimedObject, GroupKind, Kind, LiveObject, ObjectKey},
};

/// Services with the hash of one label of their selectors, sorted by that hash and by namespace. A workload looks up its
/// own labels instead of all Services. Filling a map would take longer than most requests.
#[derive(Debug)]
pub(super) struct ServiceEndpoints(Vec<(u64, Arc<LiveObject>)>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint<'a> {
    pub(super) host: Host<'a>,
    pub(super) port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host<'a> {
    /// A host name or an address from the object's spec or status.
    Address(&'a str),
    /// The cluster DNS name of a Service.
    Service(&'a ObjectKey),
}

impl ServiceEndpoints {
    /// The Services of one namespace, or of all.
    pub(super) fn new(snapshot: &Snapshot, namespace: Option<&str>) -> Self {
        let kinds = snapshot.kinds.iter().filter(|state| is_service(&state.kind));
        let services = kinds
            .flat_map(|state| state.blocks.objects())
            .filter(|service| namespace.is_none_or(|namespace| *namespace == *service.key.namespace));
        let mut index: Vec<_> = services
            .filter_map(|service| Some((*service.facts.labels.hashes().first()?, service.clone())))
            .collect();
        index.sort_unstable_by(|(a, one), (b, other)| {
            a.cmp(b).then_with(|| one.key.namespace.cmp(&other.key.namespace))
        });
        Self(index)
    }

    /// The object's own endpoint, else that of the first Service that selects its pods.
    pub(super) fn endpoint<'a>(&'a self, object: &'a ClaimedObject) -> Option<Endpoint<'a>> {
        let Some(object) = object.live() else {
            return dns_name(object.key()).map(|host| Endpoint { host, port: None });
        };
        own_endpoint(object).or_else(|| {
            let service = self.service_for(object)?;
            let host = service.facts.endpoint.as_deref().map_or(Host::Service(&service.key), Host::Address);
            Some(Endpoint { host, port: service.facts.port.or(object.facts.port) })
        })
    }

    /// The Service whose selector matches the pods of a workload; the first by name if there are several.
    fn service_for(&self, object: &LiveObject) -> Option<&LiveObject> {
        let labels = &object.facts.labels;
        let candidates =
            labels.hashes().iter().flat_map(|hash| self.with_label(*hash, &object.key.namespace));
        let selecting = candidates.filter(|service| labels.is_superset_of(&service.facts.labels));
        selecting.min_by_key(|service| &service.key.name)
    }

    fn with_label(&self, hash: u64, namespace: &str) -> impl Iterator<Item = &LiveObject> {
        let order = move |(label, service): &(u64, Arc<LiveObject>)| {
            label.cmp(&hash).then_with(|| (*service.key.namespace).cmp(namespace))
        };
        let start = self.0.partition_point(|service| order(service).is_lt());
        self.0[start..]
            .iter()
            .take_while(move |service| order(service).is_eq())
            .map(|(_, service)| &**service)
    }
}

fn own_endpoint(object: &LiveObject) -> Option<Endpoint<'_>> {
    let facts = &object.facts;
    let host = facts.endpoint.as_deref().map(Host::Address).or_else(|| dns_name(&object.key))?;
    Some(Endpoint { host, port: facts.port })
}

fn dns_name(key: &ObjectKey) -> Option<Host<'_>> {
    is_service(&key.kind).then_some(Host::Service(key))
}

fn is_service(kind: &Kind) -> bool {
    kind.group_kind() == GroupKind::SERVICE
}

impl fmt::Display for Host<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => formatter.write_str(address),
            Self::Service(key) => write!(formatter, "{}.{}.svc.cluster.local", key.name, key.namespace),
        }
    }
}
