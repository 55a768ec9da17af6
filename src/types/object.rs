//! A live object, reduced to the parts that are compared and exposed, and declared objects that are absent.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use jiff::Timestamp;

use super::{
    Algorithm, ControllerStatus, DeclaredObject, Digest, FieldManager, Health, HelmRelease, LabelSet,
    ObjectKey, PathPattern, Phase, ShortText, StatusReport, UnknownReason,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveObject {
    pub key: ObjectKey,
    /// Distinguishes a recreated object from its predecessor of the same name.
    pub uid: Box<str>,
    pub resource_version: ShortText,
    pub rule_inputs: Arc<RuleInputs>,
    /// The result of the source `annotation`.
    pub hash_baseline: HashBaseline,
    pub facts: ObjectFacts,
    /// The content, if a source compares fields of this kind.
    pub document: Option<Box<LiveDocument>>,
    pub report: Option<Box<StatusReport>>,
    /// The annotation `last-applied-configuration`.
    pub applied: LastApplied,
    /// The release that its annotations name, if a source compares fields of this kind. Never redacted, because it decides trust.
    pub helm_release: Option<Box<HelmRelease>>,
}

impl LiveObject {
    /// An object with nothing but its name.
    pub fn named(key: ObjectKey) -> Self {
        Self {
            key,
            uid: Box::default(),
            resource_version: ShortText::new(),
            rule_inputs: Arc::default(),
            hash_baseline: HashBaseline::NotRequested,
            facts: ObjectFacts::default(),
            document: None,
            report: None,
            applied: LastApplied::NotRequested,
            helm_release: None,
        }
    }

    /// None if the content is not cached or not readable.
    pub fn readable_document(&self) -> Option<&Document> {
        match self.document.as_deref()? {
            LiveDocument::Readable(document) => Some(document),
            LiveDocument::Unreadable => None,
        }
    }

    /// The status that its controller reports, if the source `status_hash` reads this kind.
    pub fn controller_status(&self) -> Option<&ControllerStatus> {
        self.report.as_ref()?.record.as_ref()
    }
}

/// A declared object that the API server does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentObject {
    pub key: ObjectKey,
    /// As last read from the object, or else as declared: rules and series must not depend on whether the exporter was
    /// restarted.
    pub rule_inputs: Arc<RuleInputs>,
}

/// The object of a claim. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimedObject {
    /// As last read.
    Live(Arc<LiveObject>),
    Absent(Arc<AbsentObject>),
}

impl ClaimedObject {
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Live(object) => &object.key,
            Self::Absent(object) => &object.key,
        }
    }

    pub fn rule_inputs(&self) -> &Arc<RuleInputs> {
        match self {
            Self::Live(object) => &object.rule_inputs,
            Self::Absent(object) => &object.rule_inputs,
        }
    }

    pub fn live(&self) -> Option<&Arc<LiveObject>> {
        match self {
            Self::Live(object) => Some(object),
            Self::Absent(_) => None,
        }
    }

    /// Default facts for an absent object.
    pub fn facts(&self) -> &ObjectFacts {
        static NONE: LazyLock<ObjectFacts> = LazyLock::new(ObjectFacts::default);
        self.live().map_or(&NONE, |object| &object.facts)
    }

    /// None for an object that does not exist.
    pub fn uid(&self) -> Option<&str> {
        self.live().map(|object| &*object.uid)
    }

    /// None for an object that does not exist, or whose status the exporter does not read.
    pub fn controller_status(&self) -> Option<&ControllerStatus> {
        self.live().and_then(|object| object.controller_status())
    }
}

/// The content of a live object whose fields are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveDocument {
    Readable(Document),
    /// The object does not have the structure of its kind.
    Unreadable,
}

/// The content of a live object, without its status and with its field managers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Sensitive values are redacted.
    pub packed: PackedJson,
    /// A keyed digest of the content before redaction and without field managers, for change detection.
    pub content: u64,
    /// The same without the annotation `last-applied-configuration`: unchanged if only the annotation changed.
    pub content_beside_last_applied: u64,
}

/// A JSON document in the compact form of [`crate::diff::pack`]. Equal documents have equal bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct PackedJson(Box<[u8]>);

impl PackedJson {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Omits the content.
impl fmt::Debug for PackedJson {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PackedJson({} bytes)", self.0.len())
    }
}

/// Details of an object, taken from its spec and status. They are exposed and never compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFacts {
    pub health: Health,
    pub phase: Option<Phase>,
    /// Why the object is not healthy or not ready; empty otherwise.
    pub message: Box<str>,
    /// Desired replicas, for kinds that have them.
    pub replicas: Option<i32>,
    /// CPU request of one replica, in millicores.
    pub cpu_request: Option<u64>,
    /// Memory request of one replica, in bytes.
    pub memory_request: Option<u64>,
    /// Storage request of one replica, in bytes.
    pub storage_request: Option<u64>,
    /// A Service of type `LoadBalancer`.
    pub load_balancer: bool,
    /// The host name, if it does not follow from the name of the object.
    pub endpoint: Option<Box<str>>,
    pub port: Option<u16>,
    /// The name of the Secret with the connection details; never its content.
    pub connection_secret: Option<Box<str>>,
    /// The labels of its Pods; the selector of a Service.
    pub labels: LabelSet,
    /// The label `app.kubernetes.io/instance`.
    pub instance: Option<Box<str>>,
    /// The scale target of an autoscaler.
    pub scales: Option<Box<ObjectKey>>,
    /// The controller owner reference.
    pub owner: Option<Box<ObjectKey>>,
}

/// The parts of an object that only rules and extra series labels read. Objects without any share one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleInputs {
    /// The labels that were read from the object, sorted: those that rules and settings refer to. None if no label was read.
    pub label_names: Option<Arc<[Box<str>]>>,
    /// Those of them that the object has. If no label was read of an object that does not exist, all declared labels.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The value of the annotation `<prefix>/ignore`, paths separated by commas. None if the object does not have it, or the
    /// settings disable it.
    pub muted_paths: Option<Box<str>>,
}

impl RuleInputs {
    /// The patterns of the annotation. Invalid ones match nothing.
    pub fn muted_patterns(&self) -> Vec<PathPattern> {
        let patterns = self.muted_paths.iter().flat_map(|paths| PathPattern::split_list(paths));
        patterns.filter_map(|pattern| pattern.parse().ok()).collect()
    }

    /// Whether any of these was read from a live object. All others are declared.
    pub fn has_read_any(&self) -> bool {
        self.label_names.is_some() || self.muted_paths.is_some()
    }

    /// Whether all these labels were read, so that a label which is not in `labels` is not on the object.
    pub fn covers_labels(&self, label_names: &[Box<str>]) -> bool {
        let read = self.label_names.as_deref().unwrap_or_default();
        label_names.iter().all(|name| read.binary_search(name).is_ok())
    }
}

/// The annotation `last-applied-configuration` of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastApplied {
    /// The source `last_applied` does not read the object.
    NotRequested,
    /// The object does not have the annotation.
    Absent,
    Declared(Box<DeclaredObject>),
}

impl LastApplied {
    pub fn declared(&self) -> Option<&DeclaredObject> {
        match self {
            Self::Declared(declared) => Some(declared),
            Self::NotRequested | Self::Absent => None,
        }
    }
}

/// The hash that an object carries, compared with the hash of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashBaseline {
    /// No source reads hashes of this kind.
    NotRequested,
    /// No hash is recorded.
    Absent,
    /// The recorded hash cannot be compared.
    Unusable(UnknownReason),
    Match(Digest),
    Mismatch(Box<HashMismatch>),
}

/// A recorded hash that differs from the hash of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashMismatch {
    pub algorithm: Algorithm,
    /// The recorded hash.
    pub expected: Digest,
    /// The hash of the object.
    pub actual: Digest,
    /// The manager that wrote the hashed part after the hash was recorded.
    pub owner: Option<FieldManager>,
    /// The manager that recorded the hash, as long as the hash is not known to have matched: then the object differs since that write.
    pub recorded_by: Option<FieldManager>,
}

impl HashBaseline {
    /// Whether both compare the same hashes with the same result. The responsible managers may differ: [`Self::after`] corrects them.
    pub fn has_same_hashes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Mismatch(a), Self::Mismatch(b)) => {
                (a.algorithm, a.expected, a.actual) == (b.algorithm, b.expected, b.actual)
            }
            _ => self == other,
        }
    }

    /// Corrects the responsible manager by the previous state of the object.
    ///
    /// `managedFields` names the owners of existing fields. It does not name the manager that removed a field or that scaled to 0
    /// replicas. If the hash matched before, the manager that recorded it did not cause the mismatch, unless it has just written
    /// again.
    #[must_use]
    pub fn after(mut self, before: &Self, now: Timestamp) -> Self {
        if let Self::Mismatch(mismatch) = &mut self {
            let expected = mismatch.expected;
            match before {
                // Neither hash changed, so the responsible manager stays the same.
                Self::Mismatch(previous)
                    if previous.expected == expected && previous.actual == mismatch.actual =>
                {
                    mismatch.recorded_by.clone_from(&previous.recorded_by);
                    // A controller that records hashes in the status may write there again without causing the mismatch.
                    mismatch.owner = mismatch.owner.take().or_else(|| previous.owner.clone());
                }
                Self::Mismatch(previous) if previous.expected == expected => mismatch.clear_recorder(now),
                Self::Match(digest) if *digest == expected => mismatch.clear_recorder(now),
                Self::NotRequested
                | Self::Absent
                | Self::Unusable(_)
                | Self::Match(_)
                | Self::Mismatch(_) => {}
            }
        }
        self
    }
}

impl HashMismatch {
    /// The manager to name as the cause of the mismatch.
    pub fn responsible_manager(&self) -> Option<&FieldManager> {
        self.owner.as_ref().or(self.recorded_by.as_ref())
    }

    fn clear_recorder(&mut self, now: Timestamp) {
        self.recorded_by.take_if(|recorded_by| !recorded_by.has_just_written(now));
    }
}
