//! What controllers say about their objects in the status of these, as far as a source asks.

use jiff::{SignedDuration, Timestamp};

use super::{FieldManager, HashBaseline};

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
