//! What `terraform show -json` prints of a state or a plan.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    resource::{Instance, sensitive_marks},
    state::{TerraformState, is_ours, make},
};
use crate::{
    sources::document_reader::{Made, Memory},
    types::{BaselineFault, RedactionKey},
};

/// Takes in the resources of all modules. A plan has refreshed the state, and `drift` says what it was before.
pub(super) fn read(
    values: &RawValue,
    drift: Option<&RawValue>,
    key: &RedactionKey,
    memory: &mut Memory,
    state: &mut TerraformState,
) -> Result<(), BaselineFault> {
    let values: Values<'_> = serde_json::from_str(values.get()).map_err(|_| BaselineFault::Unreadable)?;
    let drift = drift.map_or(Ok(Vec::new()), |drift| serde_json::from_str::<Vec<Drifted<'_>>>(drift.get()));
    let drift = drift.map_err(|_| BaselineFault::Unreadable)?;
    let drift = drift.iter().filter(|own| own.change.before.is_some_and(|before| before.get() != "null"));
    let mut drift: BTreeMap<&str, &Drifted<'_>> = drift.map(|own| (&*own.address, own)).collect();
    let mut modules: Vec<Module<'_>> = values.root_module.into_iter().collect();
    while let Some(module) = modules.pop() {
        modules.extend(module.child_modules);
        for resource in module.resources.iter().filter(|resource| is_ours(&resource.mode, &resource.kind)) {
            let before = drift.remove(resource.address.as_str()).map(|own| &own.change);
            let values = before.map_or(resource.values, |own| own.before).map_or("null", RawValue::get);
            let marks = before.map_or(resource.sensitive_values, |own| own.before_sensitive);
            let marks = marks.map_or("null", RawValue::get);
            let texts = [&resource.address, &resource.kind, values, marks];
            state.take(memory.recall(&texts, || read_instance(resource, values, marks, key))?);
        }
    }
    // What is left is gone from the cluster, and still declared.
    for gone in drift.into_values().filter(|own| is_ours(&own.mode, &own.kind)) {
        let resource = Resource {
            address: gone.address.clone(),
            mode: gone.mode.clone(),
            kind: gone.kind.clone(),
            schema_version: 1,
            values: gone.change.before,
            sensitive_values: gone.change.before_sensitive,
        };
        let values = resource.values.map_or("null", RawValue::get);
        let marks = resource.sensitive_values.map_or("null", RawValue::get);
        state.take(read_instance(&resource, values, marks, key)?);
    }
    Ok(())
}

fn read_instance(
    resource: &Resource<'_>,
    values: &str,
    marks: &str,
    key: &RedactionKey,
) -> Result<Made, BaselineFault> {
    let read = |text: &str| serde_json::from_str::<Value>(text).map_err(|_| BaselineFault::Unreadable);
    let instance = Instance {
        address: resource.address.as_str().into(),
        resource_type: &resource.kind,
        schema_version: resource.schema_version,
        attributes: read(values)?,
        sensitive: sensitive_marks(&read(marks)?),
        identity: None,
    };
    Ok(make(instance, key))
}

/// A resource that a plan found changed.
#[derive(Deserialize)]
struct Drifted<'a> {
    address: String,
    mode: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    change: PlannedChange<'a>,
}

#[derive(Deserialize)]
struct PlannedChange<'a> {
    #[serde(borrow)]
    before: Option<&'a RawValue>,
    #[serde(borrow)]
    before_sensitive: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Values<'a> {
    #[serde(borrow)]
    root_module: Option<Module<'a>>,
}

#[derive(Deserialize)]
struct Module<'a> {
    #[serde(borrow, default)]
    resources: Vec<Resource<'a>>,
    #[serde(borrow, default)]
    child_modules: Vec<Self>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    address: String,
    mode: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    schema_version: u64,
    /// Not read before it is known whose they are.
    #[serde(borrow)]
    values: Option<&'a RawValue>,
    #[serde(borrow)]
    sensitive_values: Option<&'a RawValue>,
}
