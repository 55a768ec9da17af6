//! Where things can be reached, as far as watched Services tell.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use crate::{
    engine::Snapshot,
    types::{LiveObject, ObjectKey},
};

/// Where objects of a snapshot can be reached. Services are looked up for the first object that does not tell itself where it answers.
#[derive(Debug)]
pub(super) struct Reach {
    snapshot: Arc<Snapshot>,
    /// All of them where none is named.
    namespace: Option<String>,
    services: OnceLock<Services>,
}

/// Services by one label each that they select pods by: a workload asks for its own labels, not for all Services.
///
/// Sorted by that label's hash and the namespace. A map would take longer to fill than most questions take to answer.
#[derive(Debug)]
struct Services(Vec<(u64, Arc<LiveObject>)>);

/// A place where something answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint<'a> {
    pub(super) host: Host<'a>,
    pub(super) port: Option<u16>,
}

/// A host name or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host<'a> {
    /// What an object tells itself.
    Told(&'a str),
    /// The name that the cluster's DNS gives a Service.
    Service(&'a ObjectKey),
}

impl Reach {
    /// For objects in one namespace, or in all of them.
    pub(super) fn new(snapshot: Arc<Snapshot>, namespace: Option<String>) -> Self {
        Self { snapshot, namespace, services: OnceLock::new() }
    }

    /// Where an object answers: by its own word, under its own name, or behind the first Service that selects its pods.
    pub(super) fn endpoint<'a>(&'a self, object: &'a LiveObject) -> Option<Endpoint<'a>> {
        own_endpoint(object).or_else(|| self.services().endpoint(object))
    }

    fn services(&self) -> &Services {
        self.services.get_or_init(|| Services::of(&self.snapshot, self.namespace.as_deref()))
    }
}

impl Services {
    fn of(snapshot: &Snapshot, namespace: Option<&str>) -> Self {
        let kinds =
            snapshot.kinds.iter().filter(|state| is_service_kind(&state.kind.group, &state.kind.kind));
        let is_near = |service: &&Arc<LiveObject>| {
            namespace.is_none_or(|namespace| *namespace == *service.key.namespace)
        };
        let near = kinds.flat_map(|state| state.blocks.objects()).filter(is_near);
        let labelled =
            near.filter_map(|service| Some((*service.facts.labels.hashes().first()?, service.clone())));
        let mut services: Vec<_> = labelled.collect();
        services.sort_unstable_by(|(a, one), (b, other)| {
            a.cmp(b).then_with(|| one.key.namespace.cmp(&other.key.namespace))
        });
        Self(services)
    }

    fn endpoint(&self, object: &LiveObject) -> Option<Endpoint<'_>> {
        let service = self.service_of(object)?;
        let host = service.facts.endpoint.as_deref().map_or(Host::Service(&service.key), Host::Told);
        Some(Endpoint { host, port: service.facts.port.or(object.facts.port) })
    }

    /// The Service whose selector fits the pods of a workload; the first by name where there are several.
    fn service_of(&self, object: &LiveObject) -> Option<&LiveObject> {
        let labels = &object.facts.labels;
        let near = labels.hashes().iter().flat_map(|hash| self.near(*hash, &object.key.namespace));
        let fitting = near.filter(|service| labels.has_all(&service.facts.labels));
        fitting.min_by_key(|service| &service.key.name)
    }

    /// The Services in a namespace that are kept under this label.
    fn near(&self, hash: u64, namespace: &str) -> impl Iterator<Item = &LiveObject> {
        let order = move |(own, service): &(u64, Arc<LiveObject>)| {
            own.cmp(&hash).then_with(|| (*service.key.namespace).cmp(namespace))
        };
        let start = self.0.partition_point(|own| order(own).is_lt());
        self.0[start..].iter().take_while(move |own| order(own).is_eq()).map(|(_, service)| &**service)
    }
}

fn own_endpoint(object: &LiveObject) -> Option<Endpoint<'_>> {
    let facts = &object.facts;
    let named = || is_service(&object.key).then_some(Host::Service(&object.key));
    let host = facts.endpoint.as_deref().map(Host::Told).or_else(named)?;
    Some(Endpoint { host, port: facts.port })
}

fn is_service_kind(group: &str, kind: &str) -> bool {
    (group, kind) == ("", "Service")
}

fn is_service(key: &ObjectKey) -> bool {
    is_service_kind(&key.kind.group, &key.kind.kind)
}

impl fmt::Display for Host<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Told(host) => formatter.write_str(host),
            Self::Service(key) => write!(formatter, "{}.{}.svc.cluster.local", key.name, key.namespace),
        }
    }
}
