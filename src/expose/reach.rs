//! Where things can be reached, as far as watched Services tell.

use std::collections::HashMap;

use crate::{
    model::{LiveObject, ObjectKey},
    state::Snapshot,
};

/// The Services of a snapshot by one label each that they select pods by: a workload asks for its own labels, not for all Services.
#[derive(Debug, Default)]
pub(super) struct Reach<'a>(HashMap<(&'a str, u64), Vec<&'a LiveObject>>);

/// A place where something answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

impl<'a> Reach<'a> {
    /// The Services in one namespace, or in all of them.
    pub(super) fn of(snapshot: &'a Snapshot, namespace: Option<&str>) -> Self {
        let mut reach = Self::default();
        let services =
            snapshot.kinds.iter().filter(|state| is_service_kind(&state.kind.group, &state.kind.kind));
        for service in services.flat_map(|state| state.blocks.objects()) {
            let own = &*service.key.namespace;
            if let Some(hash) = service.facts.labels.hashes().first()
                && namespace.is_none_or(|namespace| namespace == own)
            {
                reach.0.entry((own, *hash)).or_default().push(service);
            }
        }
        reach
    }

    /// Where an object answers: as it says itself, under its name, or behind the first Service that selects its pods.
    pub(super) fn endpoint(&self, object: &LiveObject) -> Option<Endpoint> {
        let facts = &object.facts;
        if let Some(host) = &facts.endpoint {
            return Some(Endpoint { host: host.to_string(), port: facts.port });
        }
        if is_service(&object.key) {
            return Some(Endpoint { host: name_of(&object.key), port: facts.port });
        }
        let service = self.service_of(object)?;
        let host = service.facts.endpoint.as_deref().map_or_else(|| name_of(&service.key), str::to_owned);
        Some(Endpoint { host, port: service.facts.port.or(facts.port) })
    }

    /// The Service whose selector fits the pods of a workload; the first by name where there are several.
    fn service_of(&self, object: &LiveObject) -> Option<&'a LiveObject> {
        let labels = &object.facts.labels;
        let near = labels.hashes().iter().filter_map(|hash| self.0.get(&(&*object.key.namespace, *hash)));
        let fitting = near.flatten().filter(|service| labels.has_all(&service.facts.labels));
        fitting.min_by_key(|service| &service.key.name).copied()
    }
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
