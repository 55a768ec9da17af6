//! Verdicts: the result of comparing one claim, and the last known result while a claim cannot be compared.

use jiff::Timestamp;

use super::{
    Actor, Difference, Expectation, FieldClass, Finding, OnsetSource, Severity, closed_sets::closed_set,
};

closed_set! {
    VerdictKind {
        InSync = "in_sync",
        /// Fields differ.
        Drifted = "drifted",
        /// The declared object does not exist.
        Missing = "missing",
        /// An object with another UID has the name of the declared object.
        Replaced = "replaced",
        /// Rules ignore every difference.
        Ignored = "ignored",
        /// Cannot be judged yet: an apply, a grace period, or a pending relist or schema.
        InFlight = "in_flight",
        NoBaseline = "no_baseline",
        /// Could not be compared.
        Unknown = "unknown",
        /// Only baselines without authority over the object declare it. Their differences do not count.
        Untrusted = "untrusted",
    }
}

impl VerdictKind {
    /// Whether the object deviates from its baseline.
    pub fn is_drifted(self) -> bool {
        matches!(self, Self::Drifted | Self::Missing | Self::Replaced)
    }

    /// Whether the verdict is inconclusive. Its severity is unknown then.
    pub fn is_undecided(self) -> bool {
        matches!(self, Self::Unknown | Self::InFlight)
    }
}

closed_set! {
    /// Why a claim could not be compared.
    UnknownReason {
        /// The object does not have the structure of its kind.
        Unreadable = "unreadable",
        /// The recorded hash is malformed.
        BadHash = "bad_hash",
        UnknownAlgorithm = "unknown_algorithm",
        /// The algorithm does not support this kind or content.
        Unhashable = "unhashable",
        /// The controller has recorded nothing in the object's status.
        NoStatus = "no_status",
        /// The controller reports that it failed to apply the object.
        PhaseError = "phase_error",
        /// The watch that delivers the object is down.
        Stale = "stale",
        /// The kind cannot be watched, so the existence of the object is unknown.
        Unwatched = "unwatched",
        /// The object is read in another API version than the baseline declares.
        OtherVersion = "other_version",
        /// No object of the baseline was found in this cluster.
        OtherCluster = "other_cluster",
        /// A newer provider than the supported ones wrote the baseline.
        NewerSchema = "newer_schema",
        Encrypted = "encrypted",
        /// Parts of the baseline are missing, or belong to different versions of it.
        IncompleteBaseline = "torn",
        TooLarge = "too_large",
        UnsupportedVersion = "unsupported_version",
        UnreadableBaseline = "unreadable_baseline",
    }
}

impl UnknownReason {
    /// The reason as a clause, without a full stop.
    pub fn description(self) -> &'static str {
        match self {
            Self::Unreadable => "the object does not have the structure of its kind",
            Self::BadHash => "the recorded hash is malformed",
            Self::UnknownAlgorithm => "the algorithm of the recorded hash is unknown",
            Self::Unhashable => "the hash algorithm does not support this kind or content",
            Self::NoStatus => "its controller has recorded nothing in its status",
            Self::PhaseError => "its controller could not apply it",
            Self::Stale => "its watch is down, so changes do not arrive",
            Self::Unwatched => "its kind cannot be watched, so its existence is unknown",
            Self::OtherVersion => "it is read in another API version than its baseline declares",
            Self::OtherCluster => "no object of its baseline was found in this cluster",
            Self::NewerSchema => "its baseline was written by a newer provider than the supported ones",
            Self::Encrypted => "its baseline is encrypted",
            Self::IncompleteBaseline => "a part of its baseline is missing",
            Self::TooLarge => "its baseline is too large",
            Self::UnsupportedVersion => "the format version of its baseline is not supported",
            Self::UnreadableBaseline => "its baseline cannot be read",
        }
    }
}

/// The result of comparing one object with one baseline, independent of earlier results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    InSync,
    Drifted(Vec<Finding>),
    Missing(Finding),
    Replaced(Finding),
    InFlight,
    NoBaseline,
    Unknown(UnknownReason),
    /// The findings of untrusted baselines.
    Untrusted(Vec<Finding>),
}

/// How a claim deviates from its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftKind {
    Drifted,
    Missing,
    Replaced,
}

/// The time during which a claim deviates from its baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Episode {
    pub drift_kind: DriftKind,
    /// The earliest onset of its differences; never moves to a later time.
    pub onset: Timestamp,
    /// The differences that count, the worst first.
    pub differences: Vec<Difference>,
    /// Differences that rules ignore. They are kept because rules may change.
    pub ignored: Vec<Difference>,
}

impl Episode {
    /// The source of the onset; none if the difference that the onset comes from has ended.
    pub fn onset_source(&self) -> Option<OnsetSource> {
        let first = self.differences.iter().chain(&self.ignored).find(|first| first.onset == self.onset);
        first.map(|first| first.onset_source)
    }
}

/// A claim of which rules ignore every difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    pub drift_kind: DriftKind,
    /// The worst first. They keep their onsets for when the rules change.
    pub differences: Vec<Difference>,
    /// The onset of the episode that a rule ended. The next episode has it too if the rule is removed.
    pub onset: Option<Timestamp>,
}

/// The last result of a claim that cannot be compared now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastKnown {
    /// The claim was never compared.
    NeverJudged,
    InSync,
    Ignored(Box<Ignored>),
    /// The episode continues.
    Episode(Box<Episode>),
}

impl LastKnown {
    /// The verdict of a claim that can be compared again with the same result.
    pub fn into_verdict(self) -> Verdict {
        match self {
            Self::NeverJudged => Verdict::NoBaseline,
            Self::InSync => Verdict::InSync,
            Self::Ignored(ignored) => Verdict::Ignored(ignored),
            Self::Episode(episode) => Verdict::Drifted(episode),
        }
    }
}

/// The verdict of a claim. Data of deviating claims is boxed, because most claims are in sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    InSync,
    /// Drifted, missing or replaced: see [`DriftKind`].
    Drifted(Box<Episode>),
    Ignored(Box<Ignored>),
    InFlight(LastKnown),
    /// The object opted in, but no source declares it.
    NoBaseline,
    Unknown(UnknownReason, LastKnown),
    /// Only baselines without authority over the object declare it. Their differences are listed. No rule applies to them, and
    /// they never count.
    Untrusted(Box<[Difference]>),
}

/// The worst difference of an episode, for series and lists that have room for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstDifference<'a> {
    pub severity: Severity,
    pub expectation: Expectation,
    pub actor: Actor,
    /// The name of the field manager.
    pub manager: Option<&'a str>,
    pub field: FieldClass,
}

impl Episode {
    /// The worst difference. A missing or replaced object without differences is critical and unexpected.
    pub fn worst(&self) -> WorstDifference<'_> {
        match self.differences.first() {
            Some(worst) => WorstDifference {
                severity: worst.severity,
                expectation: worst.expectation,
                actor: worst.actor,
                manager: worst.manager(),
                field: worst.finding.class,
            },
            None => WorstDifference {
                severity: Severity::Critical,
                expectation: Expectation::Unexpected,
                actor: Actor::Unknown,
                manager: None,
                field: FieldClass::Existence,
            },
        }
    }
}

impl Verdict {
    pub fn kind(&self) -> VerdictKind {
        match self {
            Self::InSync => VerdictKind::InSync,
            Self::Drifted(episode) => match episode.drift_kind {
                DriftKind::Drifted => VerdictKind::Drifted,
                DriftKind::Missing => VerdictKind::Missing,
                DriftKind::Replaced => VerdictKind::Replaced,
            },
            Self::Ignored(_) => VerdictKind::Ignored,
            Self::InFlight(_) => VerdictKind::InFlight,
            Self::NoBaseline => VerdictKind::NoBaseline,
            Self::Unknown(..) => VerdictKind::Unknown,
            Self::Untrusted(_) => VerdictKind::Untrusted,
        }
    }

    pub fn reason(&self) -> Option<UnknownReason> {
        match self {
            Self::Unknown(reason, _) => Some(*reason),
            Self::InSync
            | Self::Drifted(_)
            | Self::Ignored(_)
            | Self::InFlight(_)
            | Self::NoBaseline
            | Self::Untrusted(_) => None,
        }
    }

    /// The current episode, or the last known one.
    pub fn episode(&self) -> Option<&Episode> {
        match self {
            Self::Drifted(episode)
            | Self::InFlight(LastKnown::Episode(episode))
            | Self::Unknown(_, LastKnown::Episode(episode)) => Some(episode),
            Self::InSync
            | Self::Ignored(_)
            | Self::InFlight(_)
            | Self::NoBaseline
            | Self::Unknown(..)
            | Self::Untrusted(_) => None,
        }
    }

    /// The ignored drift of a claim without an episode, current or last known.
    pub fn ignored(&self) -> Option<&Ignored> {
        match self {
            Self::Ignored(ignored)
            | Self::InFlight(LastKnown::Ignored(ignored))
            | Self::Unknown(_, LastKnown::Ignored(ignored)) => Some(ignored),
            Self::InSync
            | Self::Drifted(_)
            | Self::InFlight(_)
            | Self::NoBaseline
            | Self::Unknown(..)
            | Self::Untrusted(_) => None,
        }
    }

    pub fn is_untrusted(&self) -> bool {
        matches!(self, Self::Untrusted(_))
    }

    /// The differences of untrusted baselines.
    pub fn untrusted_differences(&self) -> &[Difference] {
        if let Self::Untrusted(differences) = self { differences } else { &[] }
    }

    /// All differences that rules apply to, current or last known. Those that rules ignore come last.
    pub fn differences(&self) -> impl Iterator<Item = &Difference> {
        let of_episode =
            self.episode().into_iter().flat_map(|episode| episode.differences.iter().chain(&episode.ignored));
        of_episode.chain(self.ignored().into_iter().flat_map(|ignored| &ignored.differences))
    }

    pub fn ignored_differences(&self) -> impl Iterator<Item = &Difference> {
        self.differences().filter(|difference| difference.ignored_by.is_some())
    }

    /// The value of `drift_resource_drifted`; none if the claim has no such series.
    pub fn drifted_value(&self) -> Option<bool> {
        match self {
            Self::Drifted(_) => Some(true),
            Self::InSync | Self::Ignored(_) => Some(false),
            Self::NoBaseline | Self::Untrusted(_) => None,
            Self::InFlight(last) | Self::Unknown(_, last) => match last {
                LastKnown::NeverJudged => None,
                LastKnown::InSync | LastKnown::Ignored(_) => Some(false),
                LastKnown::Episode(_) => Some(true),
            },
        }
    }

    /// The result to keep while the claim cannot be compared.
    pub fn into_last_known(self) -> LastKnown {
        match self {
            Self::InSync => LastKnown::InSync,
            Self::Ignored(ignored) => LastKnown::Ignored(ignored),
            Self::Drifted(episode) => LastKnown::Episode(episode),
            Self::InFlight(last) | Self::Unknown(_, last) => last,
            Self::NoBaseline | Self::Untrusted(_) => LastKnown::NeverJudged,
        }
    }
}
