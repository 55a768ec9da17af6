//! What we think of a claim, and what its series go on showing while we do not know.

use jiff::Timestamp;

use super::{Actor, Difference, Expectation, FieldClass, Finding, Severity, closed_sets::closed_set};

closed_set! {
    /// The word for a verdict.
    VerdictKind {
        /// As declared.
        InSync = "in_sync",
        /// Fields differ.
        Drifted = "drifted",
        /// The declared object does not exist.
        Missing = "missing",
        /// Another object has taken its name.
        Replaced = "replaced",
        /// Every difference is ignored by a rule.
        Ignored = "ignored",
        /// Its baseline is being applied right now.
        InFlight = "in_flight",
        /// Nothing is declared.
        NoBaseline = "no_baseline",
        /// Could not be compared.
        Unknown = "unknown",
    }
}

closed_set! {
    /// Why a claim could not be judged.
    UnknownReason {
        /// The object is not what its kind should look like.
        Unreadable = "unreadable",
        /// The recorded baseline is not a hash.
        BadHash = "bad_hash",
        /// The recorded hash names an algorithm that we do not have.
        UnknownAlgorithm = "unknown_algorithm",
        /// The algorithm has no definition for this kind or for this content.
        Unhashable = "unhashable",
        /// The controller has recorded nothing in the object's status.
        NoStatus = "no_status",
        /// The controller says that it could not apply the object.
        PhaseError = "phase_error",
        /// The stream that carries the object is down or silent.
        Stale = "stale",
        /// The kind of the object cannot be watched, so nobody knows whether it exists.
        Unwatched = "unwatched",
        /// The object is read in another version than the one that its baseline is written for.
        OtherVersion = "other_version",
        /// No object of the baseline is known to be in this cluster.
        OtherCluster = "other_cluster",
        /// The baseline was written by a provider that is newer than anything we know.
        NewerSchema = "newer_schema",
        /// The baseline is encrypted.
        Encrypted = "encrypted",
        /// A part of the baseline is missing, or its parts do not belong together.
        Torn = "torn",
        /// The baseline is larger than anything we read.
        TooLarge = "too_large",
        /// The baseline is written in a version that we do not know.
        UnsupportedVersion = "unsupported_version",
        /// The baseline is broken.
        UnreadableBaseline = "unreadable_baseline",
    }
}

impl UnknownReason {
    /// The reason as the end of a sentence.
    pub fn because(self) -> &'static str {
        match self {
            Self::Unreadable => "it does not look as its kind should",
            Self::BadHash => "what is recorded as its hash is no hash",
            Self::UnknownAlgorithm => "its hash was made by an algorithm that is not known here",
            Self::Unhashable => "the hash has no definition for this kind or content",
            Self::NoStatus => "its controller has recorded nothing in its status",
            Self::PhaseError => "its controller could not apply it",
            Self::Stale => "its stream is down, so changes do not arrive",
            Self::Unwatched => "its kind cannot be watched, so nobody knows whether it exists",
            Self::OtherVersion => "it is read in another version than its baseline is written for",
            Self::OtherCluster => "no object of its baseline is known to be in this cluster",
            Self::NewerSchema => "its baseline was written by a newer provider than is known here",
            Self::Encrypted => "its baseline is encrypted",
            Self::Torn => "a part of its baseline is missing",
            Self::TooLarge => "its baseline is too large",
            Self::UnsupportedVersion => "its baseline is written in a version that is not known here",
            Self::UnreadableBaseline => "its baseline cannot be read",
        }
    }
}

/// What comparing one object with one baseline says, without memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// As declared.
    InSync,
    /// Not as declared, in these fields.
    Drifted(Vec<Finding>),
    /// Declared, and not there.
    Missing(Finding),
    /// Another object has taken its name.
    Replaced(Finding),
    /// Its baseline is being applied right now.
    InFlight,
    /// Nothing is declared.
    NoBaseline,
    /// Could not be compared.
    Unknown(UnknownReason),
}

/// How a claim in an episode is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftKind {
    /// Fields differ.
    Drifted,
    /// The declared object does not exist.
    Missing,
    /// Another object has taken its name.
    Replaced,
}

/// The time from drifting until settled otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Episode {
    /// How the claim is off.
    pub trouble: DriftKind,
    /// Since when: the oldest onset of its differences, never moved later.
    pub onset: Timestamp,
    /// The differences that count, the worst first.
    pub differences: Vec<Difference>,
    /// Those that rules ignore. They do not count, and are kept for when the rules change.
    pub ignored: Vec<Difference>,
}

/// A claim all of whose differences are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// How the claim would be off.
    pub trouble: DriftKind,
    /// The differences, the worst first. Their onsets return when the rules go.
    pub differences: Vec<Difference>,
    /// The onset of the episode that a rule ended, to go on from if the rules let it.
    pub onset: Option<Timestamp>,
}

/// The last settled value of a claim that cannot be judged now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastKnown {
    /// It was never settled.
    Nothing,
    /// It was in sync.
    Clean,
    /// It was ignored.
    Ignored(Box<Ignored>),
    /// It was in an episode, which goes on.
    Episode(Box<Episode>),
}

/// The verdict on a claim. What only claims have that are off stands apart, since most are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As declared.
    InSync,
    /// Drifted, missing or replaced.
    Off(Box<Episode>),
    /// Every difference is ignored by a rule.
    Ignored(Box<Ignored>),
    /// Its baseline is being applied right now.
    InFlight(LastKnown),
    /// The object takes part, but nothing is declared for it.
    NoBaseline,
    /// Could not be compared.
    Unknown(UnknownReason, LastKnown),
}

/// What is told about an episode where there is room for one difference only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst<'a> {
    /// How bad it is.
    pub severity: Severity,
    /// Whether it happens by itself.
    pub expectation: Expectation,
    /// The class of tool that made it.
    pub actor: Actor,
    /// The raw name of that tool's field manager.
    pub manager: Option<&'a str>,
    /// What kind of field it is.
    pub field: FieldClass,
}

impl Episode {
    /// The worst difference. An object that is missing or replaced has none, and that cannot wait.
    pub fn worst(&self) -> Worst<'_> {
        match self.differences.first() {
            Some(worst) => Worst {
                severity: worst.severity,
                expectation: worst.expectation,
                actor: worst.actor,
                manager: worst.manager(),
                field: worst.finding.class,
            },
            None => Worst {
                severity: Severity::Critical,
                expectation: Expectation::Unexpected,
                actor: Actor::Nobody,
                manager: None,
                field: FieldClass::Existence,
            },
        }
    }
}

impl Verdict {
    /// The word for it.
    pub fn kind(&self) -> VerdictKind {
        match self {
            Self::InSync => VerdictKind::InSync,
            Self::Off(episode) => match episode.trouble {
                DriftKind::Drifted => VerdictKind::Drifted,
                DriftKind::Missing => VerdictKind::Missing,
                DriftKind::Replaced => VerdictKind::Replaced,
            },
            Self::Ignored(_) => VerdictKind::Ignored,
            Self::InFlight(_) => VerdictKind::InFlight,
            Self::NoBaseline => VerdictKind::NoBaseline,
            Self::Unknown(..) => VerdictKind::Unknown,
        }
    }

    /// Why it is unknown.
    pub fn reason(&self) -> Option<UnknownReason> {
        match self {
            Self::Unknown(reason, _) => Some(*reason),
            Self::InSync | Self::Off(_) | Self::Ignored(_) | Self::InFlight(_) | Self::NoBaseline => None,
        }
    }

    /// The episode that the series show, a held one included.
    pub fn episode(&self) -> Option<&Episode> {
        match self {
            Self::Off(episode)
            | Self::InFlight(LastKnown::Episode(episode))
            | Self::Unknown(_, LastKnown::Episode(episode)) => Some(episode),
            Self::InSync | Self::Ignored(_) | Self::InFlight(_) | Self::NoBaseline | Self::Unknown(..) => {
                None
            }
        }
    }

    /// What is ignored in full, where that is what the series show, held or not.
    pub fn ignored(&self) -> Option<&Ignored> {
        match self {
            Self::Ignored(ignored)
            | Self::InFlight(LastKnown::Ignored(ignored))
            | Self::Unknown(_, LastKnown::Ignored(ignored)) => Some(ignored),
            Self::InSync | Self::Off(_) | Self::InFlight(_) | Self::NoBaseline | Self::Unknown(..) => None,
        }
    }

    /// All differences that are kept, those that are ignored or held included; those that count come first.
    pub fn differences(&self) -> impl Iterator<Item = &Difference> {
        let episode = self.episode().into_iter().flat_map(|own| own.differences.iter().chain(&own.ignored));
        episode.chain(self.ignored().into_iter().flat_map(|own| &own.differences))
    }

    /// The differences that rules keep from counting.
    pub fn ignored_differences(&self) -> impl Iterator<Item = &Difference> {
        self.differences().filter(|difference| difference.ignored_by.is_some())
    }

    /// The value of `drift_resource_drifted`, where there is one.
    pub fn drifted(&self) -> Option<bool> {
        match self {
            Self::Off(_) => Some(true),
            Self::InSync | Self::Ignored(_) => Some(false),
            Self::NoBaseline => None,
            Self::InFlight(held) | Self::Unknown(_, held) => match held {
                LastKnown::Nothing => None,
                LastKnown::Clean | LastKnown::Ignored(_) => Some(false),
                LastKnown::Episode(_) => Some(true),
            },
        }
    }

    /// What remains to be shown if the claim cannot be judged from now on.
    pub fn into_held(self) -> LastKnown {
        match self {
            Self::InSync => LastKnown::Clean,
            Self::Ignored(ignored) => LastKnown::Ignored(ignored),
            Self::Off(episode) => LastKnown::Episode(episode),
            Self::InFlight(held) | Self::Unknown(_, held) => held,
            Self::NoBaseline => LastKnown::Nothing,
        }
    }
}
