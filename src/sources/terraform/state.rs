//! Decodes a state while it streams in, one resource at a time.

use std::{collections::HashSet, fmt, sync::Arc};

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer as _,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::{
    resource::{ResourceInstance, declared_object, sensitive_paths},
    show,
};
use crate::{
    config::BaselineLimits,
    diff::Node,
    sources::{
        budget::Budget,
        document_reader::{DecodeCache, DecodedPart},
        driver::BaselineReader,
        inflate::{InflateReader, ReadError},
        publisher::DecodedBaseline,
    },
    types::{
        BaselineFault, BaselineVersion, DeclaredObject, RedactionKey, SkipReason, SkippedResource, shorten,
    },
    watch::json_items::{ItemSplitter, ListLayout, Part, SplitError},
};

/// The format version since Terraform 0.12.
const FORMAT_VERSION: u64 = 4;

/// The Kubernetes resources of a state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TerraformState {
    /// Incremented with each write.
    pub serial: u64,
    /// Identifies the state across its versions.
    pub lineage: Box<str>,
    /// The version of Terraform or `OpenTofu` that wrote the state.
    pub terraform_version: Box<str>,
    pub objects: Vec<Arc<DeclaredObject>>,
    /// Kubernetes resources that cannot be compared.
    pub skipped: Vec<SkippedResource>,
}

/// Decodes a state in memory, with the default limits. Accepts the same formats as [`StateReader::read`], with or without gzip.
pub fn decode(bytes: &[u8], key: &RedactionKey) -> Result<TerraformState, BaselineFault> {
    let limits = BaselineLimits::default();
    let text = InflateReader::of_state(bytes, bytes.len() as u64, &limits)?;
    Ok(StateReader::new(key.clone()).read(text, &limits)?)
}

/// Decodes the versions of one state, and reuses resources that did not change.
pub struct StateReader {
    key: RedactionKey,
    cache: DecodeCache,
    /// The work units of the last version.
    work: usize,
}

impl StateReader {
    /// `key` is the key of the digests that replace sensitive values.
    pub fn new(key: RedactionKey) -> Self {
        Self { key, cache: DecodeCache::default(), work: 0 }
    }

    /// Decodes one version: a state, or the output of `terraform show -json` for a state or a plan.
    pub fn read(
        &mut self,
        text: InflateReader<'_>,
        limits: &BaselineLimits,
    ) -> Result<TerraformState, ReadError> {
        let mut budget = Budget::new(limits);
        let mut decoder = StateDecoder {
            key: &self.key,
            cache: &mut self.cache,
            budget: &mut budget,
            header: StateHeader::default(),
            state: TerraformState::default(),
        };
        let state = decoder.read_all(text).and_then(|()| decoder.finish());
        self.work = budget.work();
        if state.is_ok() {
            self.cache.commit(|part| !matches!(part, DecodedPart::Ignored));
        } else {
            self.cache.rollback();
        }
        state
    }
}

impl BaselineReader for StateReader {
    fn with_key(key: RedactionKey) -> Self {
        Self::new(key)
    }

    fn key(&self) -> &RedactionKey {
        &self.key
    }

    fn work(&self) -> usize {
        self.work
    }
}

/// Omits the cache, which holds declared values.
impl fmt::Debug for StateReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StateReader").finish_non_exhaustive()
    }
}

struct StateDecoder<'a> {
    key: &'a RedactionKey,
    cache: &'a mut DecodeCache,
    budget: &'a mut Budget,
    header: StateHeader,
    state: TerraformState,
}

/// The members of a state beside `resources`, and those of other formats.
#[derive(Default)]
struct StateHeader {
    version: Option<u64>,
    is_encrypted: bool,
    /// Whether this is the output of `terraform show -json`.
    is_show_output: bool,
    values: Option<Box<RawValue>>,
    prior_state: Option<PriorState>,
    resource_drift: Option<Box<RawValue>>,
    /// The size of these members, which are held in memory.
    bytes: usize,
}

#[derive(Deserialize)]
struct PriorState {
    values: Option<Box<RawValue>>,
}

/// All other members, like outputs, are skipped and never held in memory.
fn layout(limits: &BaselineLimits) -> ListLayout {
    ListLayout { list: "resources", members: STATE_MEMBERS, max_bytes: limits.text_bytes }
}

const STATE_MEMBERS: &[&str] = &[
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
];

impl StateDecoder<'_> {
    fn read_all(&mut self, mut text: InflateReader<'_>) -> Result<(), ReadError> {
        let limits = *self.budget.limits();
        let fault_of = |error| match error {
            SplitError::Malformed => BaselineFault::Unreadable.into(),
            SplitError::Truncated => BaselineFault::Truncated.into(),
            SplitError::TooLarge(_) => ReadError::TooLarge(limits.text_exceeded()),
        };
        let mut splitter = ItemSplitter::new(layout(&limits));
        let mut buffer = vec![0; 1 << 16];
        let mut decoded: Result<(), ReadError> = Ok(());
        loop {
            let count = text.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            // After a decode error, inflate the rest: if the gzip data is damaged, that is the cause to report. A state that
            // exceeds a limit is not inflated any further.
            if matches!(decoded, Err(ReadError::TooLarge(_))) {
                return decoded;
            }
            if decoded.is_ok() {
                let split = splitter.push(&buffer[..count], |part| {
                    if decoded.is_ok() {
                        decoded = self.decode_part(part);
                    }
                });
                decoded = decoded.and(split.map_err(fault_of));
            }
        }
        decoded?;
        splitter.finish().map_err(fault_of)
    }

    fn decode_part(&mut self, part: Part<'_>) -> Result<(), ReadError> {
        let (name, text) = match part {
            Part::Item(resource) if self.header.version.is_none_or(|version| version == FORMAT_VERSION) => {
                return self.decode_resource(resource);
            }
            Part::Item(_) => return Ok(()),
            Part::Member(name, text) => (name, text),
        };
        let (header, state) = (&mut self.header, &mut self.state);
        header.bytes += text.len();
        if header.bytes > self.budget.limits().text_bytes {
            return Err(self.budget.limits().text_exceeded().into());
        }
        match name {
            "version" => header.version = parse(text)?,
            "serial" => state.serial = parse::<Option<_>>(text)?.unwrap_or(0),
            "lineage" => state.lineage = parse_short(text)?,
            "terraform_version" => state.terraform_version = parse_short(text)?,
            "format_version" => header.is_show_output = is_set(text)?,
            "values" => header.values = parse(text)?,
            "prior_state" => header.prior_state = parse(text)?,
            "resource_drift" => header.resource_drift = parse(text)?,
            _ => header.is_encrypted |= is_set(text)?,
        }
        Ok(())
    }

    fn decode_resource(&mut self, text: &[u8]) -> Result<(), ReadError> {
        let resource: StateResource<'_> = parse(text)?;
        let Some(instances) =
            resource.instances.filter(|_| is_kubernetes_resource(&resource.mode, &resource.kind))
        else {
            return Ok(());
        };
        let mut decoded = Ok(());
        let mut decode_next = |raw: &RawValue| {
            self.budget.add_object()?;
            let module = resource.module.as_deref().unwrap_or("");
            let inputs = [module, &resource.kind, &resource.name, raw.get()];
            let decode = || decode_instance(&resource, raw, self.key, self.budget);
            self.state.push(self.cache.get_or_decode(&inputs, decode)?);
            Ok(())
        };
        let each = EachElement(|raw: &RawValue| {
            decoded = decode_next(raw);
            decoded.is_ok()
        });
        let visited = serde_json::Deserializer::from_str(instances.get()).deserialize_seq(each);
        decoded.and(visited.map_err(|_| BaselineFault::Unreadable.into()))
    }

    fn finish(self) -> Result<TerraformState, ReadError> {
        let Self { key, cache, budget, header, mut state } = self;
        if header.is_encrypted {
            return Err(BaselineFault::Encrypted.into());
        }
        if header.is_show_output {
            let values = header.values.or(header.prior_state.and_then(|prior| prior.values));
            let values = values.ok_or(BaselineFault::Unreadable)?;
            show::decode_show(&values, header.resource_drift.as_deref(), key, (cache, budget), &mut state)?;
        } else if header.version != Some(FORMAT_VERSION) {
            let has_version = header.version.is_some();
            let fault =
                if has_version { BaselineFault::UnsupportedVersion } else { BaselineFault::Unreadable };
            return Err(fault.into());
        }
        skip_duplicates(&mut state);
        Ok(state)
    }
}

/// Visits the elements of a JSON array during parsing, until the function returns `false`.
struct EachElement<F>(F);

impl<'de, F: FnMut(&'de RawValue) -> bool> Visitor<'de> for EachElement<F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            if !(self.0)(element) {
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

/// A text that identifies the state or its writer.
fn parse_short(text: &[u8]) -> Result<Box<str>, BaselineFault> {
    Ok(shorten(&parse::<Option<String>>(text)?.unwrap_or_default()).into())
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, BaselineFault> {
    serde_json::from_slice(text).map_err(|_| BaselineFault::Unreadable)
}

/// Whether a member has any value but `null`.
fn is_set(text: &[u8]) -> Result<bool, BaselineFault> {
    Ok(parse::<Option<&RawValue>>(text)?.is_some())
}

impl TerraformState {
    pub(super) fn push(&mut self, part: DecodedPart) {
        match part {
            DecodedPart::Object(object) => self.objects.push(object),
            DecodedPart::SkippedResource(skipped) => self.skipped.push(skipped),
            DecodedPart::Ignored => {}
        }
    }

    /// `key` is the key that a published baseline brings along.
    pub(super) fn into_baseline(
        self,
        written: Option<Timestamp>,
        key: Option<RedactionKey>,
    ) -> DecodedBaseline {
        let Self { serial, lineage, terraform_version: tool_version, objects, skipped } = self;
        let version = BaselineVersion { serial, lineage, tool_version, written, chart: None };
        DecodedBaseline::new(version, objects, skipped, key)
    }
}

pub(super) fn object_or_skipped(instance: ResourceInstance<'_>, key: &RedactionKey) -> DecodedPart {
    let (address, resource_type) = (instance.address.clone(), instance.resource_type);
    match declared_object(instance, key) {
        Ok(object) => DecodedPart::Object(Arc::new(object)),
        Err(reason) => {
            let resource_type = shorten(resource_type).into();
            DecodedPart::SkippedResource(SkippedResource { address, resource_type, reason })
        }
    }
}

pub(super) fn is_kubernetes_resource(mode: &str, resource_type: &str) -> bool {
    mode == "managed" && (resource_type.starts_with("kubernetes_") || resource_type == "kubectl_manifest")
}

#[derive(Deserialize)]
struct StateResource<'a> {
    module: Option<String>,
    mode: String,
    #[serde(rename = "type")]
    kind: String,
    name: String,
    /// Parsed only for Kubernetes resources.
    #[serde(borrow)]
    instances: Option<&'a RawValue>,
}

/// Omits `private`, which is opaque data of the provider.
#[derive(Deserialize)]
struct StateInstance {
    index_key: Option<Value>,
    deposed: Option<String>,
    #[serde(default)]
    schema_version: u64,
    #[serde(default)]
    attributes: Node,
    #[serde(default)]
    sensitive_attributes: Value,
    identity: Option<Node>,
}

fn decode_instance(
    resource: &StateResource<'_>,
    raw: &RawValue,
    key: &RedactionKey,
    budget: &mut Budget,
) -> Result<DecodedPart, ReadError> {
    budget.add_json(raw.get())?;
    let instance: StateInstance = parse(raw.get().as_bytes())?;
    if instance.deposed.is_some() {
        return Ok(DecodedPart::Ignored);
    }
    let StateResource { module, kind, name, .. } = resource;
    let instance = ResourceInstance {
        address: resource_address(module.as_deref(), kind, name, instance.index_key.as_ref()),
        resource_type: kind,
        schema_version: instance.schema_version,
        attributes: instance.attributes,
        sensitive: sensitive_paths(&instance.sensitive_attributes),
        identity: instance.identity,
    };
    Ok(object_or_skipped(instance, key))
}

/// Keeps the first resource of each address.
fn skip_duplicates(state: &mut TerraformState) {
    let mut seen = HashSet::new();
    let skipped = &mut state.skipped;
    state.objects.retain(|object| {
        let is_new = seen.insert(object.address.clone());
        if !is_new {
            skipped.push(SkippedResource {
                address: object.address.clone(),
                resource_type: object.resource_type.clone(),
                reason: SkipReason::Duplicate,
            });
        }
        is_new
    });
}

/// `module.shop["eu"].kubernetes_deployment_v1.web[0]`
fn resource_address(
    module: Option<&str>,
    resource_type: &str,
    name: &str,
    index: Option<&Value>,
) -> Box<str> {
    let module =
        module.filter(|module| !module.is_empty()).map_or_else(String::new, |module| format!("{module}."));
    let index = match index {
        None | Some(Value::Null) => String::new(),
        // Strings are quoted, numbers are not.
        Some(index) => format!("[{index}]"),
    };
    shorten(&format!("{module}{resource_type}.{name}{index}")).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::resource_address;

    #[test]
    fn addresses_have_the_format_of_terraform() {
        assert_eq!(&*resource_address(None, "a_b", "c", None), "a_b.c");
        assert_eq!(
            &*resource_address(Some("module.x[\"eu\"]"), "a_b", "c", Some(&json!(0))),
            "module.x[\"eu\"].a_b.c[0]"
        );
        assert_eq!(&*resource_address(Some(""), "a_b", "c", Some(&json!("k"))), "a_b.c[\"k\"]");
    }
}
