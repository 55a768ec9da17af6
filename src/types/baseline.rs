//! Desired state: a Terraform state, a Helm release or a set of manifests, and the objects it declares.

use std::{collections::BTreeMap, fmt, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    Authority, BaselineFault, ObjectRef, PackedJson, RedactionKey, Source, UnknownReason,
    closed_sets::closed_set,
};

/// One Terraform state, Helm release or set of manifests. After a failed read it keeps the objects of the last successful one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    pub source: Source,
    /// `<namespace>/<workspace>/<suffix>`, the path of a file, the published name, or `<namespace>/<release>`.
    pub name: Arc<str>,
    pub origin: BaselineOrigin,
    /// None if no read has succeeded.
    pub version: Option<BaselineVersion>,
    pub objects: Vec<Arc<DeclaredObject>>,
    pub skipped: SkippedResources,
    /// Why the last read failed.
    pub fault: Option<BaselineError>,
    pub lock: Option<Lock>,
    /// The settings assert that its objects belong to this cluster, so no UID has to prove it.
    pub this_cluster: bool,
    /// The objects that it has authority over.
    pub authority: Authority,
}

closed_set! {
    BaselineOrigin {
        /// The Secrets of Terraform's Kubernetes backend.
        StateSecret = "state_secret",
        File = "file",
        /// Secrets that `drift-exporter baseline` published.
        Published = "published",
        HelmSecret = "helm_secret",
        HelmConfigMap = "helm_config_map",
        /// A directory of manifests, or a single file.
        Manifests = "manifests",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineVersion {
    /// The serial of a state, the revision of a release.
    pub serial: u64,
    /// Equal for all versions of one baseline.
    pub lineage: Box<str>,
    pub tool_version: Box<str>,
    pub written: Option<Timestamp>,
    pub chart: Option<Chart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    pub name: Box<str>,
    pub version: Box<str>,
    pub app_version: Option<Box<str>>,
}

/// `shop-1.2.0`, as Helm writes it.
impl fmt::Display for Chart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.name, self.version)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedResource {
    pub address: Box<str>,
    pub resource_type: Box<str>,
    #[serde(deserialize_with = "reason_or_unreadable")]
    pub reason: SkipReason,
}

/// The resources of a baseline that cannot be compared: the first ones, and counts of all of them. Tenants control
/// their number, and they produce no claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedResources {
    listed: Vec<SkippedResource>,
    counts: BTreeMap<SkipReason, usize>,
    unknown_types: BTreeMap<Box<str>, usize>,
}

impl SkippedResources {
    /// The number of resources that [`Self::truncate`] keeps, and of unknown types that are counted.
    pub const MAX_LISTED: usize = 100;

    /// Drops all but the first resources. The counts stay.
    pub fn truncate(&mut self) {
        self.listed.truncate(Self::MAX_LISTED);
        self.listed.shrink_to_fit();
    }

    /// All of them before [`Self::truncate`], else the first ones.
    pub fn listed(&self) -> &[SkippedResource] {
        &self.listed
    }

    /// The number of all of them.
    pub fn len(&self) -> usize {
        self.counts.values().sum()
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    pub fn count(&self, reason: SkipReason) -> usize {
        self.counts.get(&reason).copied().unwrap_or_default()
    }

    /// The first unknown types, and the number of resources of each.
    pub fn unknown_types(&self) -> &BTreeMap<Box<str>, usize> {
        &self.unknown_types
    }
}

impl From<Vec<SkippedResource>> for SkippedResources {
    fn from(listed: Vec<SkippedResource>) -> Self {
        let (mut counts, mut unknown_types) = (BTreeMap::new(), BTreeMap::<Box<str>, usize>::new());
        for SkippedResource { resource_type, reason, .. } in &listed {
            *counts.entry(*reason).or_default() += 1;
            let is_unknown = *reason == SkipReason::UnknownType;
            if is_unknown
                && (unknown_types.len() < Self::MAX_LISTED || unknown_types.contains_key(resource_type))
            {
                *unknown_types.entry(resource_type.clone()).or_default() += 1;
            }
        }
        Self { listed, counts, unknown_types }
    }
}

/// A newer exporter may have published a reason that this one does not know.
fn reason_or_unreadable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SkipReason, D::Error> {
    let reason = Box::<str>::deserialize(deserializer)?;
    Ok(SkipReason::parse(&reason).unwrap_or(SkipReason::Unreadable))
}

closed_set! {
    SkipReason {
        /// The table of Terraform types does not have the type.
        UnknownType = "unknown_type",
        /// The resource does not identify an object.
        NoIdentity = "no_identity",
        /// Its attributes are malformed.
        Unreadable = "unreadable",
        /// It is not YAML, for example an unrendered template.
        NotYaml = "not_yaml",
        /// An earlier resource has the same address or declares the same object.
        Duplicate = "duplicate",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineError {
    pub fault: BaselineFault,
    /// Never contains a value of the baseline.
    pub message: Box<str>,
}

/// The lock of a baseline, or an operation of its tool in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// `OperationTypeApply`; none if the lock was just released.
    pub operation: Option<Box<str>>,
    /// `ci@runner-7`.
    pub who: Box<str>,
    pub created: Option<Timestamp>,
    /// Until then differences are attributed to the operation; none if the operation does not change objects.
    pub in_flight_until: Option<Timestamp>,
}

impl Lock {
    /// Keeps a released lock for a moment, so that watch events which arrive late are not reported as drift.
    pub fn released(until: Option<Timestamp>) -> Self {
        Self { operation: None, who: Box::default(), created: None, in_flight_until: until }
    }
}

impl Baseline {
    pub fn fault_kind(&self) -> Option<BaselineFault> {
        self.fault.as_ref().map(|error| error.fault)
    }

    /// Whether its tool is changing its objects.
    pub fn is_in_flight(&self, now: Timestamp) -> bool {
        self.lock.as_ref().and_then(|lock| lock.in_flight_until).is_some_and(|until| now < until)
    }
}

impl BaselineFault {
    /// The reason of unknown claims of a baseline with this fault.
    pub fn unknown_reason(self) -> UnknownReason {
        match self {
            Self::Incomplete => UnknownReason::IncompleteBaseline,
            Self::Truncated | Self::Unreadable | Self::Foreign | Self::NotDeployed => {
                UnknownReason::UnreadableBaseline
            }
            Self::TooLarge => UnknownReason::TooLarge,
            Self::Encrypted => UnknownReason::Encrypted,
            Self::UnsupportedVersion => UnknownReason::UnsupportedVersion,
        }
    }
}

/// One object as a baseline declares it. Sensitive values are redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct DeclaredObject {
    /// Its name in its tool: `module.shop["eu"].kubernetes_deployment_v1.web[0]`.
    pub address: Box<str>,
    /// `kubernetes_deployment_v1`.
    pub resource_type: Box<str>,
    pub object: ObjectRef,
    /// The UID of the applied object, if the baseline records it.
    pub uid: Option<Box<str>>,
    /// Sensitive attributes, without indices: `data`, `spec.template.spec.container.env.value`.
    pub sensitive: Vec<Box<str>>,
    /// The key of the digests in the body.
    pub key: RedactionKey,
    pub body: DeclaredBody,
}

impl DeclaredObject {
    /// Without an address, a UID and sensitive attributes.
    pub fn new(resource_type: &str, object: ObjectRef, key: RedactionKey, body: DeclaredBody) -> Self {
        let (address, resource_type) = (Box::default(), resource_type.into());
        Self { address, resource_type, object, uid: None, sensitive: Vec::new(), key, body }
    }

    /// Whether other owners may declare the rest of the object.
    pub fn is_partial(&self) -> bool {
        matches!(self.body, DeclaredBody::Parts(_))
    }
}

/// The declared content, by the way it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredBody {
    /// Attributes of a type in the table of Terraform types.
    Attributes(PackedJson),
    /// The whole object as the API server returned it after the apply (`kubernetes_manifest`).
    Whole(PackedJson),
    /// A manifest: only the fields that it sets are compared (`kubectl_manifest`).
    Subset(PackedJson),
    /// Single keys or variables of an object.
    Parts(PackedJson),
    /// Cannot be compared.
    Opaque(UnknownReason),
}

impl DeclaredBody {
    pub fn packed(&self) -> Option<&PackedJson> {
        match self {
            Self::Attributes(packed) | Self::Whole(packed) | Self::Subset(packed) | Self::Parts(packed) => {
                Some(packed)
            }
            Self::Opaque(_) => None,
        }
    }

    pub fn packed_mut(&mut self) -> Option<&mut PackedJson> {
        match self {
            Self::Attributes(packed) | Self::Whole(packed) | Self::Subset(packed) | Self::Parts(packed) => {
                Some(packed)
            }
            Self::Opaque(_) => None,
        }
    }
}

/// Omits the declared content.
impl fmt::Debug for DeclaredObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DeclaredObject")
            .field("address", &self.address)
            .field("object", &self.object)
            .field("uid", &self.uid)
            .finish_non_exhaustive()
    }
}
