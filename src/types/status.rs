//! Status reports of controllers, and runs of Jobs.

use jiff::{SignedDuration, Timestamp};

use super::{
    Algorithm, FieldManager, FieldPath, HashBaseline, Kind, KindName, Segment, Selector, WantedKind,
};

/// What the status of an object tells. Most objects are not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What its controller recorded about what it has applied.
    pub record: Option<Record>,
    /// How it ran, where it is a Job that runs Terraform.
    pub run: Option<JobRun>,
}

/// What a controller recorded about an object: what it has applied, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whether what it has applied is what is declared now.
    pub standing: ObservedState,
    /// How the controller calls what it is doing; empty where it does not say.
    pub phase: Box<str>,
    /// What that means.
    pub progress: Progress,
    /// What the controller says beside it, cut to a bearable length.
    pub message: Box<str>,
    /// The names of what came out of it. Values are never kept.
    pub outputs: Box<[Box<str>]>,
    /// Since when the phase lasts, or the controller is behind; the engine says when it first saw it where nobody else does.
    pub since: Option<Timestamp>,
    /// How long that may last until it counts.
    pub grace: SignedDuration,
}

/// Whether what a controller has applied is what is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedState {
    /// By the hash that it recorded.
    Hash(HashBaseline),
    /// By the newest generation that it has seen, if it says so, and the newest there is.
    Generation {
        /// The newest that the controller has seen.
        observed: Option<i64>,
        /// The newest there is.
        current: i64,
        /// Who wrote what is declared last.
        writer: Option<FieldManager>,
    },
}

/// How far a controller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is done, or does not say.
    Settled,
    /// It is at work.
    Underway,
    /// It could not do it.
    Failed,
}

/// One run of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRun {
    /// What it ran for: the name of a custom resource, or of whatever makes such Jobs.
    pub subject: Box<str>,
    /// When the Job was made.
    pub created: Option<Timestamp>,
    /// When it began to run.
    pub started: Option<Timestamp>,
    /// How it ended; none while it runs.
    pub outcome: Option<JobOutcome>,
}

/// How a Job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOutcome {
    /// Whether it did what it should.
    pub succeeded: bool,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Why, in a word: `BackoffLimitExceeded`.
    pub reason: Box<str>,
    /// Why, in a sentence.
    pub message: Box<str>,
}

impl Report {
    /// The same, in the light of what was known about the same object.
    #[must_use]
    pub fn after(self, before: Option<&Self>, now: Timestamp) -> Self {
        let known = before.and_then(|before| before.record.as_ref());
        Self { record: self.record.map(|record| record.after(known, now)), ..self }
    }
}

impl Record {
    /// Until when nothing is said about it, where it is at work or behind.
    pub fn rests_until(&self) -> Option<Timestamp> {
        let waits = self.progress == Progress::Underway || self.standing.is_behind();
        let since = self.since.filter(|_| waits && self.progress != Progress::Failed)?;
        Some(since.checked_add(self.grace).unwrap_or(Timestamp::MAX))
    }

    /// Whether nothing is said about it yet.
    pub fn rests(&self, now: Timestamp) -> bool {
        self.rests_until().is_some_and(|until| now < until)
    }

    /// What lasted goes on from when it began, also where the status has been written again since.
    fn after(mut self, before: Option<&Self>, now: Timestamp) -> Self {
        let lasts = before.filter(|known| {
            (&known.phase, known.progress) == (&self.phase, self.progress)
                && known.standing.generation() == self.standing.generation()
        });
        let own = self.since.map_or(now, |since| since.min(now));
        self.since = Some(lasts.and_then(|known| known.since).map_or(own, |known| known.min(own)));
        self.standing = self.standing.after(before.map(|known| &known.standing), now);
        self
    }
}

impl ObservedState {
    /// Whether the controller has not seen the newest generation.
    fn is_behind(&self) -> bool {
        self.generation().is_some()
    }

    /// The generation that the controller has not seen.
    fn generation(&self) -> Option<i64> {
        match self {
            Self::Generation { observed: Some(observed), current, .. } if observed < current => {
                Some(*current)
            }
            Self::Generation { .. } | Self::Hash(_) => None,
        }
    }

    fn after(self, before: Option<&Self>, now: Timestamp) -> Self {
        let generation = self.generation();
        match (self, before) {
            (Self::Hash(stamp), Some(Self::Hash(known))) => Self::Hash(stamp.after(known, now)),
            (Self::Generation { observed, current, writer }, Some(known)) if generation.is_some() => {
                let writer = match known {
                    // Nothing that counts has changed, so whoever is to blame still is.
                    Self::Generation { writer, .. } if known.generation() == generation => writer.clone(),
                    // Whoever took a field away is not named, and an owner who wrote long ago did not do it.
                    Self::Generation { .. } => writer.filter(|writer| writer.has_just_written(now)),
                    Self::Hash(_) => writer,
                };
                Self::Generation { observed, current, writer }
            }
            (standing, _) => standing,
        }
    }
}

impl JobRun {
    /// When it began, as far as anybody knows: later runs count more.
    pub fn begun(&self) -> Option<Timestamp> {
        self.started.or(self.created)
    }

    /// How long it ran; none while it runs.
    pub fn lasted(&self) -> Option<SignedDuration> {
        let ended = self.outcome.as_ref()?.ended?;
        Some(ended.duration_since(self.started?).max(SignedDuration::ZERO))
    }
}

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

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{FieldManager, ObservedState, Progress, Record};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn behind(current: i64, since: Option<i64>, writer: Option<i64>) -> Record {
        let writer = writer.map(|second| FieldManager {
            manager: "kubectl-edit".into(),
            subresource: "".into(),
            time: Some(at(second)),
        });
        Record {
            standing: ObservedState::Generation { observed: Some(1), current, writer },
            phase: "".into(),
            progress: Progress::Settled,
            message: "".into(),
            outputs: Box::default(),
            since: since.map(at),
            grace: SignedDuration::from_mins(5),
        }
    }

    fn writer(record: &Record) -> Option<Timestamp> {
        match &record.standing {
            ObservedState::Generation { writer, .. } => writer.as_ref().and_then(|writer| writer.time),
            ObservedState::Hash(_) => None,
        }
    }

    #[test]
    fn what_lasts_goes_on_from_when_it_began() {
        let first = behind(2, Some(100), Some(100)).after(None, at(101));
        assert_eq!(first.rests_until(), Some(at(400)));
        let again = behind(2, None, Some(100)).after(Some(&first), at(350));
        assert_eq!((again.rests_until(), writer(&again)), (Some(at(400)), Some(at(100))));
        let edited = behind(3, Some(360), Some(360)).after(Some(&again), at(361));
        assert_eq!(edited.rests_until(), Some(at(660)));
        let unnamed = behind(2, None, None).after(None, at(50));
        assert_eq!(unnamed.rests_until(), Some(at(350)), "when it was first seen");
        let future = behind(2, Some(9000), None).after(None, at(50));
        assert_eq!(future.rests_until(), Some(at(350)), "nobody wrote later than now");
    }

    #[test]
    fn an_owner_who_wrote_long_ago_did_not_do_it() {
        let fine = behind(1, None, Some(10)).after(None, at(1000));
        assert_eq!(fine.rests_until(), None);
        let taken = behind(2, None, Some(10)).after(Some(&fine), at(1000));
        assert_eq!(writer(&taken), None);
        let first_sight = behind(2, None, Some(10)).after(None, at(1000));
        assert_eq!(writer(&first_sight), Some(at(10)), "all that is known");
    }

    #[test]
    fn an_endless_grace_is_no_overflow_and_a_failure_waits_for_nothing() {
        let endless = Record { grace: SignedDuration::MAX, ..behind(2, Some(1), None) };
        assert_eq!(endless.rests_until(), Some(Timestamp::MAX));
        let failed = Record { progress: Progress::Failed, ..behind(2, Some(1), None) };
        assert_eq!(failed.rests_until(), None);
    }
}
