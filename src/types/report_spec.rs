//! What is to be read of the status of objects.

use jiff::SignedDuration;

use super::{Algorithm, FieldPath, Kind, KindName, Segment, Selector, WantedKind};

/// Where the controller of a kind records what it has applied, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSpec {
    /// Which objects.
    pub objects: WantedKind,
    /// How what is recorded was made.
    pub algorithm: RecordAlgorithm,
    /// Where it is recorded.
    pub recorded: FieldPath,
    /// What is hashed.
    pub hashed: FieldPath,
    /// Where the controller says what it is doing.
    pub phase: Option<FieldPath>,
    /// Where it says more about that.
    pub message: FieldPath,
    /// Where the names of what came out of it are.
    pub outputs: Option<FieldPath>,
    /// Phases in which it is at work.
    pub in_flight_phases: Vec<Box<str>>,
    /// Phases that say that it failed.
    pub error_phases: Vec<Box<str>>,
    /// How long it may be at work, or behind, until that counts.
    pub grace: SignedDuration,
}

/// How what a controller records was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordAlgorithm {
    /// A hash.
    Hash(Algorithm),
    /// The newest generation that it has seen.
    Generation,
}

/// Jobs that run Terraform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// Which Jobs.
    pub objects: WantedKind,
    /// The label whose value names what a Job runs for.
    pub label: Box<str>,
}

impl RecordSpec {
    /// The group and kind of opr8r's custom resource.
    pub const SIMPLE_RESOURCE: (&'static str, &'static str) = ("infra.opr8r", "SimpleResource");

    /// opr8r's `SimpleResource`.
    pub fn simple_resource() -> Self {
        let (group, kind) = Self::SIMPLE_RESOURCE;
        Self::usual(
            WantedKind::exactly(&Kind::unseen(group, "v1alpha1", kind)),
            RecordAlgorithm::Hash(Algorithm::Opr8rV1),
            within("status", "lastAppliedHash"),
        )
    }

    /// What most operators do: a phase, a message and outputs in the status.
    pub fn usual(objects: WantedKind, algorithm: RecordAlgorithm, recorded: FieldPath) -> Self {
        Self {
            objects,
            algorithm,
            recorded,
            hashed: FieldPath::new(vec![Segment::Field("spec".into())]),
            phase: Some(within("status", "phase")),
            message: within("status", "message"),
            outputs: Some(within("status", "outputs")),
            in_flight_phases: ["Pending", "Applying", "Destroying"].map(Into::into).into(),
            error_phases: vec!["Error".into()],
            grace: SignedDuration::from_mins(5),
        }
    }
}

impl RecordAlgorithm {
    /// All there are.
    pub fn all() -> impl Iterator<Item = Self> {
        Algorithm::ALL.iter().copied().map(Self::Hash).chain([Self::Generation])
    }

    /// Its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash(algorithm) => algorithm.name(),
            Self::Generation => "generation",
        }
    }

    /// Where it is usually recorded, where there is a usual place.
    pub fn usual_place(self) -> Option<FieldPath> {
        match self {
            Self::Hash(Algorithm::Opr8rV1) => Some(within("status", "lastAppliedHash")),
            Self::Hash(_) => None,
            Self::Generation => Some(within("status", "observedGeneration")),
        }
    }
}

impl Default for JobSpec {
    /// Those that opr8r makes.
    fn default() -> Self {
        Self::labelled("infra.opr8r/simpleresource")
    }
}

impl JobSpec {
    /// Jobs that have this label.
    pub fn labelled(label: &str) -> Self {
        let jobs = WantedKind {
            group: "batch".into(),
            version: Some("v1".into()),
            kind: KindName::Named("Job".into()),
            ..WantedKind::exactly(&Kind::deployment())
        };
        Self { objects: WantedKind { selector: Some(Selector::exists(label)), ..jobs }, label: label.into() }
    }
}

fn within(part: &str, field: &str) -> FieldPath {
    FieldPath::new(vec![Segment::Field(part.into()), Segment::Field(field.into())])
}
