//! A state as a whole.

use std::{collections::HashSet, fmt, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    resource::{Instance, declared, sensitive_paths},
    show,
};
use crate::{
    sources::{
        document_reader::{Made, Memory},
        inflate::{Broken, INFLATE_LIMIT, Text},
    },
    types::{BaselineFault, DeclaredObject, RedactionKey, SkipReason, Skipped},
    watch::split::{Part, SplitError, Splitter, Wanted},
};

/// The version of the format that Terraform writes since 0.12.
const VERSION: u64 = 4;

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

/// Reads a state that is in memory, packed or not, or what `terraform show -json` made of one or of a plan.
pub fn decode(bytes: &[u8], key: &RedactionKey) -> Result<TerraformState, BaselineFault> {
    let text = Text::new(bytes, INFLATE_LIMIT);
    text.and_then(|text| StateReader::new(key.clone()).read(text)).map_err(|broken| match broken {
        Broken::Fault(fault) => fault,
        Broken::System(_) => BaselineFault::Unreadable,
    })
}

/// Reads the versions of one state. What did not change since the last one is not read again.
pub struct StateReader {
    key: RedactionKey,
    memory: Memory,
}

impl StateReader {
    /// One that has read nothing yet, and seals with this key.
    pub fn new(key: RedactionKey) -> Self {
        Self { key, memory: Memory::default() }
    }

    /// Another one that seals with the same key.
    pub(super) fn fresh(&self) -> Self {
        Self::new(self.key.clone())
    }

    /// Reads a version, a resource at a time: a state, or what `terraform show -json` made of one or of a plan.
    pub fn read(&mut self, text: Text<'_>) -> Result<TerraformState, Broken> {
        let mut version = Version {
            key: &self.key,
            memory: &mut self.memory,
            head: Head::default(),
            state: TerraformState::default(),
        };
        let read = version.take_all(text).and_then(|()| Ok(version.finish()?));
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

/// A version that is being read.
struct Version<'a> {
    key: &'a RedactionKey,
    memory: &'a mut Memory,
    head: Head,
    state: TerraformState,
}

/// What stands beside the resources of a state, or in place of them.
#[derive(Default)]
struct Head {
    version: Option<u64>,
    is_encrypted: bool,
    /// Whether it is what `terraform show -json` prints.
    is_shown: bool,
    values: Option<Box<RawValue>>,
    prior_state: Option<PriorState>,
    resource_drift: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct PriorState {
    values: Option<Box<RawValue>>,
}

/// Outputs and all else are skipped, and never in memory at once.
const WANTED: Wanted = Wanted {
    list: "resources",
    members: &[
        "version",
        "serial",
        "lineage",
        "terraform_version",
        "encryption_version",
        "encrypted_data",
        "format_version",
        "values",
        "prior_state",
        "resource_drift",
    ],
    largest: 256 << 20,
};

impl Version<'_> {
    fn take_all(&mut self, mut text: Text<'_>) -> Result<(), Broken> {
        let mut splitter = Splitter::new(WANTED);
        let mut buffer = vec![0; 1 << 16];
        let mut taken = Ok(());
        loop {
            let count = text.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            // What cannot be inflated to its end is damaged, whatever was in it before: that is the better word.
            if taken.is_ok() {
                let split = splitter.push(&buffer[..count], |part| {
                    if taken.is_ok() {
                        taken = self.take(part);
                    }
                });
                taken = taken.and(split.map_err(fault_of));
            }
        }
        taken?;
        Ok(splitter.finish().map_err(fault_of)?)
    }

    fn take(&mut self, part: Part<'_>) -> Result<(), BaselineFault> {
        let (name, text) = match part {
            Part::Item(resource) if self.head.version.is_none_or(|version| version == VERSION) => {
                return self.resource(resource);
            }
            Part::Item(_) => return Ok(()),
            Part::Member(name, text) => (name, text),
        };
        let (head, state) = (&mut self.head, &mut self.state);
        match name {
            "version" => head.version = parse(text)?,
            "serial" => state.serial = parse::<Option<_>>(text)?.unwrap_or(0),
            "lineage" => state.lineage = parse::<Option<_>>(text)?.unwrap_or_default(),
            "terraform_version" => state.terraform_version = parse::<Option<_>>(text)?.unwrap_or_default(),
            "format_version" => head.is_shown = is_set(text)?,
            "values" => head.values = parse(text)?,
            "prior_state" => head.prior_state = parse(text)?,
            "resource_drift" => head.resource_drift = parse(text)?,
            _ => head.is_encrypted |= is_set(text)?,
        }
        Ok(())
    }

    fn resource(&mut self, text: &[u8]) -> Result<(), BaselineFault> {
        let resource: Resource<'_> = parse(text)?;
        let Some(instances) = resource.instances.filter(|_| is_ours(&resource.mode, &resource.kind)) else {
            return Ok(());
        };
        for raw in parse::<Vec<&RawValue>>(instances.get().as_bytes())? {
            let module = resource.module.as_deref().unwrap_or("");
            let texts = [module, &resource.kind, &resource.name, raw.get()];
            let made = self.memory.recall(&texts, || read_instance(&resource, raw, self.key))?;
            self.state.take(made);
        }
        Ok(())
    }

    fn finish(self) -> Result<TerraformState, BaselineFault> {
        let Self { key, memory, head, mut state } = self;
        if head.is_encrypted {
            return Err(BaselineFault::Encrypted);
        }
        if head.is_shown {
            let values = head.values.or(head.prior_state.and_then(|prior| prior.values));
            let values = values.ok_or(BaselineFault::Unreadable)?;
            show::read(&values, head.resource_drift.as_deref(), key, memory, &mut state)?;
        } else if head.version != Some(VERSION) {
            let is_old = head.version.is_some();
            return Err(if is_old { BaselineFault::UnsupportedVersion } else { BaselineFault::Unreadable });
        }
        forget_duplicates(&mut state);
        Ok(state)
    }
}

fn fault_of(error: SplitError) -> BaselineFault {
    match error {
        SplitError::NotAList => BaselineFault::Unreadable,
        SplitError::TooLarge(_) => BaselineFault::TooLarge,
        SplitError::Truncated => BaselineFault::Truncated,
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, BaselineFault> {
    serde_json::from_slice(text).map_err(|_| BaselineFault::Unreadable)
}

/// Whether something is there, whatever it is.
fn is_set(text: &[u8]) -> Result<bool, BaselineFault> {
    Ok(parse::<Option<&RawValue>>(text)?.is_some())
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
pub(super) fn make(instance: Instance<'_>, key: &RedactionKey) -> Made {
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

fn read_instance(resource: &Resource<'_>, raw: &RawValue, key: &RedactionKey) -> Result<Made, BaselineFault> {
    let instance: RawInstance = parse(raw.get().as_bytes())?;
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

/// `module.shop["eu"].kubernetes_deployment_v1.web[0]`.
pub(super) fn address(
    module: Option<&str>,
    resource_type: &str,
    name: &str,
    index: Option<&Value>,
) -> Box<str> {
    let module =
        module.filter(|module| !module.is_empty()).map_or_else(String::new, |module| format!("{module}."));
    let index = match index {
        None | Some(Value::Null) => String::new(),
        // A text is written with quotes, a number without.
        Some(index) => format!("[{index}]"),
    };
    format!("{module}{resource_type}.{name}{index}").into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::address;

    #[test]
    fn addresses_are_written_as_terraform_writes_them() {
        assert_eq!(&*address(None, "a_b", "c", None), "a_b.c");
        assert_eq!(
            &*address(Some("module.x[\"eu\"]"), "a_b", "c", Some(&json!(0))),
            "module.x[\"eu\"].a_b.c[0]"
        );
        assert_eq!(&*address(Some(""), "a_b", "c", Some(&json!("k"))), "a_b.c[\"k\"]");
    }
}
