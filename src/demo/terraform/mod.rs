//! What Terraform manages in the demo: the objects of `main.tf`, and its state and lock in the cluster.
//!
//! `shop.tfstate` is what real Terraform wrote for that configuration, and `objects.json` what it made of it on a real API
//! server. Here only what the server gives to an object is put in place: uid, versions, address.

mod lock;
mod state;

use serde_json::{Map, Value};

use super::{
    cluster::{Cluster, Refusal},
    shop::TERRAFORM,
    stored::object_key,
};

pub(super) use lock::lock;

/// The namespace of state and lock.
pub(super) const NAMESPACE: &str = "terraform";

/// Makes everything as it is declared, records it, and lets go of the lock.
pub(super) fn apply(cluster: &Cluster) -> Result<(), Refusal> {
    for object in declared().values() {
        let key = object_key(object)?;
        if cluster.get(&key).is_none() {
            cluster.create(&key.kind, TERRAFORM, object.clone())?;
        } else {
            cluster.replace(&key, TERRAFORM, object.clone())?;
        }
    }
    state::write(cluster, state::declared())?;
    lock::release(cluster)
}

/// Takes one value of an object over into the state, as `terraform apply -refresh-only` would.
pub(super) fn accept(cluster: &Cluster, address: &str, attribute: &str, value: &str) -> Result<(), Refusal> {
    lock(cluster)?;
    let mut state = state::read(cluster).unwrap_or_else(state::declared);
    for (own, attributes) in state::instances(&mut state) {
        if let Some(old) = attributes.pointer_mut(attribute).filter(|_| own == address) {
            *old = value.into();
        }
    }
    state::write(cluster, state)?;
    lock::release(cluster)
}

/// The objects of the configuration, by address.
fn declared() -> Map<String, Value> {
    serde_json::from_str(include_str!("objects.json")).expect("the file was written as JSON")
}
