//! What `terraform show -json` prints of a state or a plan.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    resource::Instance,
    secrets::sensitive_marks,
    state::{TerraformState, is_ours},
};
use crate::model::{BaselineFault, SealKey};

/// Takes in the resources of all modules.
pub(super) fn read(
    values: &RawValue,
    key: &SealKey,
    state: &mut TerraformState,
) -> Result<(), BaselineFault> {
    let values: Values<'_> = serde_json::from_str(values.get()).map_err(|_| BaselineFault::Unreadable)?;
    let mut modules: Vec<Module<'_>> = values.root_module.into_iter().collect();
    while let Some(module) = modules.pop() {
        modules.extend(module.child_modules);
        for resource in module.resources.iter().filter(|resource| is_ours(&resource.mode, &resource.kind)) {
            let read = |raw: Option<&RawValue>| -> Result<Value, BaselineFault> {
                raw.map_or(Ok(Value::Null), |raw| serde_json::from_str(raw.get()))
                    .map_err(|_| BaselineFault::Unreadable)
            };
            state.take(
                Instance {
                    address: resource.address.as_str().into(),
                    resource_type: &resource.kind,
                    schema_version: resource.schema_version,
                    attributes: read(resource.values)?,
                    sensitive: sensitive_marks(&read(resource.sensitive_values)?),
                    identity: None,
                },
                key,
            );
        }
    }
    Ok(())
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
