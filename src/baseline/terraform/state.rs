//! A state as a whole.

use std::{collections::HashSet, fmt, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    address::address,
    memory::{Made, Memory},
    resource::{Instance, declared},
    secrets::sensitive_paths,
    show,
};
use crate::model::{BaselineFault, DeclaredObject, SealKey, SkipReason, Skipped};

/// What a state declares in Kubernetes, and nothing else of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TerraformState {
    /// How often it was written.
    pub serial: u64,
    /// Which state it is: the same for all its versions.
    pub lineage: Box<str>,
    /// The version of Terraform or `OpenTofu` that wrote it.
    pub terraform_version: Box<str>,
    /// The objects it declares.
    pub objects: Vec<Arc<DeclaredObject>>,
    /// The resources of Kubernetes that cannot be compared.
    pub skipped: Vec<Skipped>,
}

/// Reads a state, or what `terraform show -json` made of one or of a plan.
pub fn decode(bytes: &[u8], key: &SealKey) -> Result<TerraformState, BaselineFault> {
    StateReader::new(key.clone()).read(bytes)
}

/// Reads the versions of one state. What did not change since the last one is not read again.
pub struct StateReader {
    key: SealKey,
    memory: Memory,
}

impl StateReader {
    /// One that has read nothing yet, and seals with this key.
    pub fn new(key: SealKey) -> Self {
        Self { key, memory: Memory::default() }
    }

    /// Another one that seals with the same key.
    pub(super) fn fresh(&self) -> Self {
        Self::new(self.key.clone())
    }

    /// Reads a version: a state, or what `terraform show -json` made of one or of a plan.
    pub fn read(&mut self, bytes: &[u8]) -> Result<TerraformState, BaselineFault> {
        let read = read(bytes, &self.key, &mut self.memory);
        if read.is_ok() {
            self.memory.turn();
        } else {
            self.memory.give_up();
        }
        read
    }
}

/// Tells nothing of what it has read.
impl fmt::Debug for StateReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StateReader").finish_non_exhaustive()
    }
}

fn read(bytes: &[u8], key: &SealKey, memory: &mut Memory) -> Result<TerraformState, BaselineFault> {
    let head: Head<'_> = serde_json::from_slice(bytes)
        .map_err(|error| if error.is_eof() { BaselineFault::Truncated } else { BaselineFault::Unreadable })?;
    if head.encrypted_data.is_some() || head.encryption_version.is_some() {
        return Err(BaselineFault::Encrypted);
    }
    let mut state = TerraformState {
        serial: head.serial.unwrap_or(0),
        lineage: head.lineage.unwrap_or_default(),
        terraform_version: head.terraform_version.unwrap_or_default(),
        ..TerraformState::default()
    };
    if head.format_version.is_some() {
        let values = head.values.or(head.prior_state.and_then(|prior| prior.values));
        show::read(values.ok_or(BaselineFault::Unreadable)?, head.resource_drift, key, memory, &mut state)?;
    } else if head.version == Some(4) {
        read_resources(&head.resources.unwrap_or_default(), key, memory, &mut state)?;
    } else {
        return Err(if head.version.is_some() {
            BaselineFault::UnsupportedVersion
        } else {
            BaselineFault::Unreadable
        });
    }
    forget_duplicates(&mut state);
    Ok(state)
}

impl TerraformState {
    /// Takes in what was made of one instance of a resource.
    pub(super) fn take(&mut self, made: Made) {
        match made {
            Made::Object(object) => self.objects.push(object),
            Made::Skipped(skipped) => self.skipped.push(skipped),
            Made::Nothing => {}
        }
    }
}

/// What an instance declares, or why nobody can tell.
pub(super) fn make(instance: Instance<'_>, key: &SealKey) -> Made {
    let (address, resource_type) = (instance.address.clone(), instance.resource_type);
    match declared(instance, key) {
        Ok(object) => Made::Object(Arc::new(object)),
        Err(reason) => Made::Skipped(Skipped { address, resource_type: resource_type.into(), reason }),
    }
}

/// Whether resources of this type are objects of Kubernetes.
pub(super) fn is_ours(mode: &str, resource_type: &str) -> bool {
    mode == "managed" && (resource_type.starts_with("kubernetes_") || resource_type == "kubectl_manifest")
}

/// Only what is named here is kept in memory; outputs and all else are skipped while reading.
#[derive(Deserialize)]
struct Head<'a> {
    version: Option<u64>,
    serial: Option<u64>,
    lineage: Option<Box<str>>,
    terraform_version: Option<Box<str>>,
    #[serde(borrow)]
    resources: Option<Vec<Resource<'a>>>,
    encryption_version: Option<&'a RawValue>,
    encrypted_data: Option<&'a RawValue>,
    format_version: Option<&'a RawValue>,
    #[serde(borrow)]
    values: Option<&'a RawValue>,
    #[serde(borrow)]
    prior_state: Option<PriorState<'a>>,
    #[serde(borrow)]
    resource_drift: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PriorState<'a> {
    #[serde(borrow)]
    values: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    module: Option<String>,
    mode: String,
    #[serde(rename = "type")]
    kind: String,
    name: String,
    /// Not read before it is known whose they are.
    #[serde(borrow)]
    instances: Option<&'a RawValue>,
}

/// Without `private`, which is the provider's own.
#[derive(Deserialize)]
struct RawInstance {
    index_key: Option<Value>,
    deposed: Option<String>,
    #[serde(default)]
    schema_version: u64,
    #[serde(default)]
    attributes: Value,
    #[serde(default)]
    sensitive_attributes: Value,
    identity: Option<Value>,
}

fn read_resources(
    resources: &[Resource<'_>],
    key: &SealKey,
    memory: &mut Memory,
    state: &mut TerraformState,
) -> Result<(), BaselineFault> {
    for resource in resources.iter().filter(|resource| is_ours(&resource.mode, &resource.kind)) {
        let Some(instances) = resource.instances else { continue };
        let instances: Vec<&RawValue> =
            serde_json::from_str(instances.get()).map_err(|_| BaselineFault::Unreadable)?;
        for raw in instances {
            let module = resource.module.as_deref().unwrap_or("");
            let texts = [module, &resource.kind, &resource.name, raw.get()];
            state.take(memory.recall(&texts, || read_instance(resource, raw, key))?);
        }
    }
    Ok(())
}

fn read_instance(resource: &Resource<'_>, raw: &RawValue, key: &SealKey) -> Result<Made, BaselineFault> {
    let instance: RawInstance = serde_json::from_str(raw.get()).map_err(|_| BaselineFault::Unreadable)?;
    if instance.deposed.is_some() {
        return Ok(Made::Nothing);
    }
    let Resource { module, kind, name, .. } = resource;
    let instance = Instance {
        address: address(module.as_deref(), kind, name, instance.index_key.as_ref()),
        resource_type: kind,
        schema_version: instance.schema_version,
        attributes: instance.attributes,
        sensitive: sensitive_paths(&instance.sensitive_attributes),
        identity: instance.identity,
    };
    Ok(make(instance, key))
}

/// Of two resources with one address neither can be told to be the right one; the first stays.
fn forget_duplicates(state: &mut TerraformState) {
    let mut seen = HashSet::new();
    let skipped = &mut state.skipped;
    state.objects.retain(|object| {
        let is_new = seen.insert(object.address.clone());
        if !is_new {
            skipped.push(Skipped {
                address: object.address.clone(),
                resource_type: object.resource_type.clone(),
                reason: SkipReason::Duplicate,
            });
        }
        is_new
    });
}
