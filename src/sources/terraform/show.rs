//! Decodes the output of `terraform show -json` for a state or a plan.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    resource::{ResourceInstance, sensitive_marks},
    state::{TerraformState, is_kubernetes_resource, object_or_skipped},
};
use crate::{
    sources::{
        budget::Budget,
        document_reader::{DecodeCache, DecodedPart},
        inflate::ReadError,
    },
    types::{BaselineFault, RedactionKey, shorten},
};

/// Decodes the resources of all modules. The values of a plan are refreshed; `drift` contains those from before.
pub(super) fn decode_show(
    values: &RawValue,
    drift: Option<&RawValue>,
    key: &RedactionKey,
    (cache, budget): (&mut DecodeCache, &mut Budget),
    state: &mut TerraformState,
) -> Result<(), ReadError> {
    let values: ShowValues<'_> = serde_json::from_str(values.get()).map_err(|_| BaselineFault::Unreadable)?;
    let drift =
        drift.map_or(Ok(Vec::new()), |drift| serde_json::from_str::<Vec<DriftedResource<'_>>>(drift.get()));
    let drift = drift.map_err(|_| BaselineFault::Unreadable)?;
    let drift =
        drift.iter().filter(|drifted| drifted.change.before.is_some_and(|before| before.get() != "null"));
    let mut drift: BTreeMap<&str, &DriftedResource<'_>> =
        drift.map(|drifted| (&*drifted.address, drifted)).collect();
    let mut modules: Vec<ShowModule<'_>> = values.root_module.into_iter().collect();
    while let Some(module) = modules.pop() {
        modules.extend(module.child_modules);
        for resource in
            module.resources.iter().filter(|resource| is_kubernetes_resource(&resource.mode, &resource.kind))
        {
            let change = drift.remove(resource.address.as_str()).map(|drifted| &drifted.change);
            let values = change.map_or(resource.values, |change| change.before);
            let marks = change.map_or(resource.sensitive_values, |change| change.before_sensitive);
            let inputs = [&resource.address, &resource.kind, json_text(values), json_text(marks)];
            budget.add_object()?;
            let decode = || decode_instance(inputs, resource.schema_version, key, budget);
            state.push(cache.get_or_decode(&inputs, decode)?);
        }
    }
    // The others were deleted from the cluster, and are still declared.
    let deleted = drift.into_values().filter(|drifted| is_kubernetes_resource(&drifted.mode, &drifted.kind));
    for drifted in deleted {
        let PlannedChange { before, before_sensitive } = &drifted.change;
        let inputs = [&drifted.address, &drifted.kind, json_text(*before), json_text(*before_sensitive)];
        budget.add_object()?;
        state.push(decode_instance(inputs, 1, key, budget)?);
    }
    Ok(())
}

fn json_text(value: Option<&RawValue>) -> &str {
    value.map_or("null", RawValue::get)
}

/// `marks` has the shape of `values`, with `true` for sensitive ones.
fn decode_instance(
    [address, resource_type, values, marks]: [&str; 4],
    schema_version: u64,
    key: &RedactionKey,
    budget: &mut Budget,
) -> Result<DecodedPart, ReadError> {
    budget.add_json(values)?;
    budget.add_json(marks)?;
    let unreadable = |_| BaselineFault::Unreadable;
    let marks: Value = serde_json::from_str(marks).map_err(unreadable)?;
    let instance = ResourceInstance {
        address: shorten(address).into(),
        resource_type,
        schema_version,
        attributes: serde_json::from_str(values).map_err(unreadable)?,
        sensitive: sensitive_marks(&marks),
        identity: None,
    };
    Ok(object_or_skipped(instance, key))
}

/// A resource that was changed outside of Terraform.
#[derive(Deserialize)]
struct DriftedResource<'a> {
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
    before_sensitive: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ShowValues<'a> {
    #[serde(borrow)]
    root_module: Option<ShowModule<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ShowModule<'a> {
    #[serde(borrow)]
    resources: Vec<ShowResource<'a>>,
    child_modules: Vec<Self>,
}

#[derive(Deserialize)]
struct ShowResource<'a> {
    address: String,
    mode: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    schema_version: u64,
    /// Parsed only for Kubernetes resources.
    #[serde(borrow)]
    values: Option<&'a RawValue>,
    sensitive_values: Option<&'a RawValue>,
}
