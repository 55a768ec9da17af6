//! Status reports of controllers, and runs of Jobs.

use jiff::{SignedDuration, Timestamp};

use super::{Algorithm, FieldManager, FieldPath, GroupKind, HashBaseline, Kind, Selector, WantedKind};

/// The parts of an object's status that a source reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusReport {
    /// The status that the controller of the object reports.
    pub record: Option<ControllerStatus>,
    pub run: Option<JobRun>,
}

/// The status that a controller reports about an object that it reconciles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerStatus {
    pub observed_state: ObservedState,
    /// The phase in the controller's words; empty if it does not report one.
    pub phase: Box<str>,
    pub progress: Progress,
    /// The controller's message, truncated.
    pub message: Box<str>,
    /// The names of outputs; never their values.
    pub outputs: Box<[Box<str>]>,
    /// The start of the phase, or of the time during which the controller is behind. The engine sets it to the time of the first
    /// observation if the status does not say.
    pub since: Option<Timestamp>,
    /// How long the phase or the delay may last before it is reported.
    pub grace: SignedDuration,
}

/// Whether the controller has applied the declared state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedState {
    /// By the hash that it recorded.
    Hash(HashBaseline),
    /// By `status.observedGeneration`.
    Generation {
        observed: Option<i64>,
        /// `metadata.generation`.
        current: i64,
        /// The manager that last wrote the spec.
        owner: Option<FieldManager>,
    },
}

/// The progress of a controller, by its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Finished, or not reported.
    Done,
    InProgress,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRun {
    /// The value of the Job's label: the custom resource or workspace that it runs for.
    pub subject: Box<str>,
    pub created: Option<Timestamp>,
    pub started: Option<Timestamp>,
    /// None while it runs.
    pub outcome: Option<JobOutcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOutcome {
    pub succeeded: bool,
    pub ended: Option<Timestamp>,
    /// The reason of the condition, `BackoffLimitExceeded`.
    pub reason: Box<str>,
    pub message: Box<str>,
}

impl StatusReport {
    /// Carries the start time and the responsible manager over from the previous report of the object.
    #[must_use]
    pub fn after(self, before: Option<&Self>, now: Timestamp) -> Self {
        let previous = before.and_then(|before| before.record.as_ref());
        Self { record: self.record.map(|record| record.after(previous, now)), ..self }
    }
}

impl ControllerStatus {
    /// The end of the grace period, if the controller is working or behind.
    pub fn grace_ends(&self) -> Option<Timestamp> {
        let is_pending = self.progress == Progress::InProgress || self.observed_state.is_behind();
        let since = self.since.filter(|_| is_pending && self.progress != Progress::Failed)?;
        Some(since.checked_add(self.grace).unwrap_or(Timestamp::MAX))
    }

    pub fn in_grace_period(&self, now: Timestamp) -> bool {
        self.grace_ends().is_some_and(|end| now < end)
    }

    /// Keeps the start of an unchanged phase even if the status was written again.
    fn after(mut self, before: Option<&Self>, now: Timestamp) -> Self {
        let unchanged = before.filter(|previous| {
            (&previous.phase, previous.progress) == (&self.phase, self.progress)
                && previous.observed_state.unobserved_generation()
                    == self.observed_state.unobserved_generation()
        });
        let reported = self.since.map_or(now, |since| since.min(now));
        let earlier = unchanged.and_then(|previous| previous.since);
        self.since = Some(earlier.map_or(reported, |earlier| earlier.min(reported)));
        self.observed_state = self.observed_state.after(before.map(|previous| &previous.observed_state), now);
        self
    }
}

impl ObservedState {
    fn is_behind(&self) -> bool {
        self.unobserved_generation().is_some()
    }

    /// The current generation, if the controller has not observed it.
    fn unobserved_generation(&self) -> Option<i64> {
        match self {
            Self::Generation { observed: Some(observed), current, .. } if observed < current => {
                Some(*current)
            }
            Self::Generation { .. } | Self::Hash(_) => None,
        }
    }

    fn after(self, before: Option<&Self>, now: Timestamp) -> Self {
        let generation = self.unobserved_generation();
        match (self, before) {
            (Self::Hash(hash), Some(Self::Hash(previous))) => Self::Hash(hash.after(previous, now)),
            (Self::Generation { observed, current, owner }, Some(previous)) if generation.is_some() => {
                let owner = match previous {
                    // The generation did not change, so the responsible manager stays the same.
                    Self::Generation { owner, .. } if previous.unobserved_generation() == generation => {
                        owner.clone()
                    }
                    // `managedFields` does not name a manager that removed a field; an owner with an old write did not cause this.
                    Self::Generation { .. } => owner.filter(|owner| owner.has_just_written(now)),
                    Self::Hash(_) => owner,
                };
                Self::Generation { observed, current, owner }
            }
            (state, _) => state,
        }
    }
}

impl JobRun {
    /// When the Job started, or was created. The run with the latest start is the current one.
    pub fn start_time(&self) -> Option<Timestamp> {
        self.started.or(self.created)
    }

    /// None while it runs.
    pub fn duration(&self) -> Option<SignedDuration> {
        let ended = self.outcome.as_ref()?.ended?;
        Some(ended.duration_since(self.started?).max(SignedDuration::ZERO))
    }
}

/// One entry of the source `status_hash`: where the controller of a kind reports its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusHashSpec {
    pub objects: WantedKind,
    pub algorithm: StatusHashAlgorithm,
    /// The field with the recorded hash or generation.
    pub recorded: FieldPath,
    /// The field that `sha256-jcs` hashes.
    pub hashed: FieldPath,
    pub phase: Option<FieldPath>,
    pub message: FieldPath,
    /// A map whose keys are the names of outputs.
    pub outputs: Option<FieldPath>,
    pub in_flight_phases: Vec<Box<str>>,
    pub error_phases: Vec<Box<str>>,
    /// How long the controller may be working or behind before it is reported.
    pub grace: SignedDuration,
}

/// What a controller records about the state that it has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusHashAlgorithm {
    Hash(Algorithm),
    Generation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerraformJobSpec {
    pub objects: WantedKind,
    /// The label that names the custom resource or workspace of a Job.
    pub label: Box<str>,
}

impl StatusHashSpec {
    /// The group and kind of opr8r's custom resource.
    pub const SIMPLE_RESOURCE: GroupKind<&'static str> = GroupKind::new("infra.opr8r", "SimpleResource");

    pub fn simple_resource() -> Self {
        let GroupKind { group, kind } = Self::SIMPLE_RESOURCE;
        Self::with_defaults(
            WantedKind::exactly(&Kind::undiscovered(group, "v1alpha1", kind)),
            StatusHashAlgorithm::Hash(Algorithm::Opr8rV1),
            FieldPath::of_fields(["status", "lastAppliedHash"]),
        )
    }

    /// Phase, message and outputs in the fields that most operators use.
    pub fn with_defaults(objects: WantedKind, algorithm: StatusHashAlgorithm, recorded: FieldPath) -> Self {
        Self {
            objects,
            algorithm,
            recorded,
            hashed: FieldPath::of_fields(["spec"]),
            phase: Some(FieldPath::of_fields(["status", "phase"])),
            message: FieldPath::of_fields(["status", "message"]),
            outputs: Some(FieldPath::of_fields(["status", "outputs"])),
            in_flight_phases: ["Pending", "Applying", "Destroying"].map(Into::into).into(),
            error_phases: vec!["Error".into()],
            grace: SignedDuration::from_mins(5),
        }
    }
}

impl StatusHashAlgorithm {
    pub fn all() -> impl Iterator<Item = Self> {
        Algorithm::ALL.iter().copied().map(Self::Hash).chain([Self::Generation])
    }

    /// The name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash(algorithm) => algorithm.as_str(),
            Self::Generation => "generation",
        }
    }

    /// The default of [`StatusHashSpec::recorded`], if the algorithm has one.
    pub fn default_path(self) -> Option<FieldPath> {
        match self {
            Self::Hash(Algorithm::Opr8rV1) => Some(FieldPath::of_fields(["status", "lastAppliedHash"])),
            Self::Hash(_) => None,
            Self::Generation => Some(FieldPath::of_fields(["status", "observedGeneration"])),
        }
    }
}

impl Default for TerraformJobSpec {
    /// The Jobs that opr8r creates.
    fn default() -> Self {
        Self::labelled("infra.opr8r/simpleresource")
    }
}

impl TerraformJobSpec {
    pub fn labelled(label: &str) -> Self {
        let jobs = WantedKind::exactly(&Kind::undiscovered("batch", "v1", "Job"));
        Self { objects: WantedKind { selector: Some(Selector::exists(label)), ..jobs }, label: label.into() }
    }
}
