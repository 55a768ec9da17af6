//! Desired state: a Terraform state, a Helm release or a set of manifests, and the objects it declares.

use std::{collections::BTreeMap, fmt, sync::Arc};

use jiff::Timestamp;

use super::{BaselineFault, Packed, RedactionKey, Source, UnknownReason, closed_sets::closed_set, kind};

/// One place that declares objects, as it was last read. What it declares is what it last declared when it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// Whose it is.
    pub source: Source,
    /// What it is called: `<namespace>/<workspace>/<suffix>`, the path of a file, the published name, `<namespace>/<release>`.
    pub name: Arc<str>,
    /// Where it was read from.
    pub origin: Origin,
    /// Its version; none if it could never be read.
    pub version: Option<BaselineVersion>,
    /// What it declares.
    pub objects: Vec<Arc<DeclaredObject>>,
    /// What it has of Kubernetes and cannot be compared.
    pub skipped: Vec<Skipped>,
    /// Why it cannot be read now.
    pub fault: Option<BaselineTrouble>,
    /// Who writes it right now.
    pub lock: Option<Lock>,
    /// Whether settings say that it declares objects of this cluster, so that nobody has to find out.
    pub here: bool,
}

closed_set! {
    /// Where a baseline was read from.
    Origin {
        /// The Secrets of Terraform's Kubernetes backend.
        StateSecret = "state_secret",
        /// A file.
        File = "file",
        /// Secrets that `drift-exporter baseline` made.
        Published = "published",
        /// A Secret that Helm keeps a release in.
        HelmSecret = "helm_secret",
        /// A ConfigMap that Helm keeps a release in.
        HelmConfigMap = "helm_config_map",
        /// A directory of manifests, or one of them.
        Manifests = "manifests",
    }
}

/// Which version of a baseline it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineVersion {
    /// How often it was written; the revision of a release.
    pub serial: u64,
    /// Which one it is: the same for all its versions.
    pub lineage: Box<str>,
    /// The version of the tool that wrote it.
    pub tool_version: Box<str>,
    /// When it was last written, as far as anybody says.
    pub written: Option<Timestamp>,
    /// What a release was made from.
    pub chart: Option<Chart>,
}

/// A chart of Helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// What it is called.
    pub name: Box<str>,
    /// Its version.
    pub version: Box<str>,
    /// The version of what it installs; empty where it does not say.
    pub app_version: Box<str>,
}

/// `shop-1.2.0`, as Helm writes it.
impl fmt::Display for Chart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.name, self.version)
    }
}

/// A resource that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its address.
    pub address: Box<str>,
    /// Its type.
    pub resource_type: Box<str>,
    /// Why.
    pub reason: SkipReason,
}

closed_set! {
    /// Why a resource is not compared at all.
    SkipReason {
        /// The type is not in our table.
        UnknownType = "unknown_type",
        /// It does not say which object it is.
        NoIdentity = "no_identity",
        /// Its attributes are not what they should be.
        Unreadable = "unreadable",
        /// It is no YAML: something of a template is left in it.
        NotYaml = "not_yaml",
        /// There are two of the same address, or of the same object; the first one counts.
        Duplicate = "duplicate",
    }
}

/// Why a baseline cannot be read now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineTrouble {
    /// The class of what is wrong.
    pub fault: BaselineFault,
    /// What is wrong, where, and what to do; never a value of the baseline.
    pub message: Box<str>,
}

/// Somebody holds the lock of a baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// What they do: `OperationTypeApply`.
    pub operation: Box<str>,
    /// Who they are: `ci@runner-7`.
    pub who: Box<str>,
    /// Since when.
    pub created: Option<Timestamp>,
    /// Until when differences are put down to them: none where they do not change objects.
    pub holds_until: Option<Timestamp>,
}

impl Lock {
    /// What a lock is called when it was released a moment ago.
    pub const RELEASED: &'static str = "released";

    /// The lock for a moment after it was released, so that late news of objects does not show as drift.
    pub fn released(until: Option<Timestamp>) -> Self {
        Self { operation: Self::RELEASED.into(), who: Box::default(), created: None, holds_until: until }
    }
}

impl Baseline {
    /// How many resources there are of each type that we do not know.
    pub fn unknown_types(&self) -> BTreeMap<&str, usize> {
        let mut types = BTreeMap::new();
        for skipped in self.skipped.iter().filter(|skipped| skipped.reason == SkipReason::UnknownType) {
            *types.entry(&*skipped.resource_type).or_default() += 1;
        }
        types
    }

    /// Whether its objects are being changed right now, by whoever holds its lock.
    pub fn is_in_flight(&self, now: Timestamp) -> bool {
        self.lock.as_ref().and_then(|lock| lock.holds_until).is_some_and(|until| now < until)
    }
}

impl BaselineFault {
    /// Why claims of a baseline with this fault cannot be judged.
    pub fn unknown_reason(self) -> UnknownReason {
        match self {
            Self::Torn => UnknownReason::Torn,
            Self::Truncated | Self::Unreadable | Self::Foreign | Self::NotDeployed => {
                UnknownReason::UnreadableBaseline
            }
            Self::TooLarge => UnknownReason::TooLarge,
            Self::Encrypted => UnknownReason::Encrypted,
            Self::UnsupportedVersion => UnknownReason::UnsupportedVersion,
        }
    }
}

/// One object as a baseline has it. Values that may not be told are in it as digests only.
#[derive(Clone, PartialEq, Eq)]
pub struct DeclaredObject {
    /// How its tool calls it: `module.shop["eu"].kubernetes_deployment_v1.web[0]`.
    pub address: Box<str>,
    /// The type of the resource, `kubernetes_deployment_v1`.
    pub resource_type: Box<str>,
    /// Which object it is.
    pub object: ObjectName,
    /// The uid of the object that was applied, where the baseline has it.
    pub uid: Option<Box<str>>,
    /// Attributes, without indices, whose values may not be told: `data`, `spec.template.spec.container.env.value`.
    pub sensitive: Vec<Box<str>>,
    /// The key of the digests in the body.
    pub key: RedactionKey,
    /// What is declared.
    pub body: DeclaredBody,
}

/// Which object a resource is, as a baseline tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// The API version that the object is read in.
    pub version: Box<str>,
    /// `Deployment`.
    pub kind: Box<str>,
    /// Empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// The object's name.
    pub name: Box<str>,
}

impl ObjectName {
    /// Whether it is of a kind that is asked for by a name or a selector only.
    pub fn is_guarded(&self) -> bool {
        kind::is_guarded(&self.group, &self.kind)
    }
}

impl DeclaredObject {
    /// Whether others may own the rest of the object.
    pub fn is_part(&self) -> bool {
        matches!(self.body, DeclaredBody::Parts(_))
    }
}

/// What is declared, in the form in which it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredBody {
    /// Attributes of a type in the table.
    Attributes(Packed),
    /// The whole object as it was read after it was applied (`kubernetes_manifest`).
    Whole(Packed),
    /// Only what somebody wrote down (`kubectl_manifest`).
    Subset(Packed),
    /// Single keys or variables of an object that others may own the rest of.
    Parts(Packed),
    /// Something that cannot be compared.
    Opaque(UnknownReason),
}

impl DeclaredBody {
    /// The document, where there is one.
    pub fn packed(&self) -> Option<&Packed> {
        match self {
            Self::Attributes(packed) | Self::Whole(packed) | Self::Subset(packed) | Self::Parts(packed) => {
                Some(packed)
            }
            Self::Opaque(_) => None,
        }
    }

    /// The same, to be replaced by another one.
    pub fn packed_mut(&mut self) -> Option<&mut Packed> {
        match self {
            Self::Attributes(packed) | Self::Whole(packed) | Self::Subset(packed) | Self::Parts(packed) => {
                Some(packed)
            }
            Self::Opaque(_) => None,
        }
    }
}

/// Tells which object it is and nothing that is declared for it.
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
