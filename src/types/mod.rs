//! The domain types: pure values, no I/O, no Kubernetes client.

mod baseline;
mod clock;
mod closed_sets;
mod difference;
mod event;
mod field_path;
mod hash;
mod key;
mod kind;
mod object;
mod redaction;
mod selector;
mod status;
mod verdict;

pub use baseline::{
    Baseline, BaselineTrouble, BaselineVersion, Chart, DeclaredBody, DeclaredObject, Lock, ObjectName,
    Origin, SkipReason, Skipped,
};
pub use clock::Clock;
pub use closed_sets::{
    Actor, Advice, BaselineFault, Cause, ChangeKind, ClosedSet, Expectation, FieldClass, Health, Phase,
    Restart, Severity, Source, WatchEvent,
};
pub use difference::{Difference, FieldManager, Finding};
pub use event::{Clause, DownReason, Event, Plan, Unwatched, WatchHealth, WatchMode, WatchSpec};
pub use field_path::{FieldPath, PathError, PathPattern, Segment};
pub use hash::{Algorithm, Digest, ValueDigest};
pub use key::{ObjectKey, ShortText};
pub use kind::{ApiVersion, Kind, KindName, Served, ServedKind, WantedKind};
pub use object::{Document, Facts, HashBaseline, HashMismatch, LastApplied, LiveObject, Packed, RuleInputs};
pub use redaction::{RedactionKey, RedactionPolicy, is_within};
pub use selector::{Glob, LabelSet, NameSet, Scope, Selector};
pub use status::{
    JobOutcome, JobRun, JobSpec, ObservedState, Progress, Record, RecordAlgorithm, RecordSpec, Report,
};
pub use verdict::{
    DriftKind, Episode, Ignored, Judgement, LastKnown, UnknownReason, Verdict, VerdictKind, Worst,
};
