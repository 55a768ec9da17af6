//! The words of the product as types: pure values, no I/O, no Kubernetes client.

mod algorithm;
mod baseline;
mod clock;
mod closed_sets;
mod declared;
mod difference;
mod digest;
mod event;
mod facts;
mod field_path;
mod glob;
mod json_path;
mod kind;
mod label_set;
mod look;
mod name_set;
mod object;
mod object_key;
mod packed;
mod path_pattern;
mod path_syntax;
mod plan;
mod report;
mod report_spec;
mod scope;
mod seal_key;
mod sealing;
mod selector;
mod served;
mod stream;
mod value_digest;
mod verdict;
mod wanted_kind;

pub use algorithm::Algorithm;
pub use baseline::{Baseline, BaselineTrouble, BaselineVersion, Chart, Lock, Origin, SkipReason, Skipped};
pub use clock::Clock;
pub use closed_sets::{
    Actor, Advice, BaselineFault, Cause, ChangeKind, ClosedSet, Expectation, FieldClass, Health, Phase,
    Restart, Severity, Source, WatchEvent,
};
pub use declared::{DeclaredBody, DeclaredObject, ObjectName};
pub use difference::{Difference, FieldManager, Finding};
pub use digest::Digest;
pub use event::{DownReason, Event, WatchHealth};
pub use facts::Facts;
pub use field_path::{FieldPath, Segment};
pub use glob::Glob;
pub use kind::{ApiVersion, Kind};
pub use label_set::LabelSet;
pub use look::WatchMode;
pub use name_set::NameSet;
pub use object::{Document, HashBaseline, HashMismatch, LastApplied, LiveObject, RuleInputs};
pub use object_key::{ObjectKey, ShortText};
pub use packed::Packed;
pub use path_pattern::PathPattern;
pub use path_syntax::PathError;
pub use plan::{Plan, Unwatched};
pub use report::{JobOutcome, JobRun, ObservedState, Progress, Record, Report};
pub use report_spec::{JobSpec, RecordAlgorithm, RecordSpec};
pub use scope::Scope;
pub use seal_key::RedactionKey;
pub use sealing::{RedactionPolicy, is_within};
pub use selector::Selector;
pub use served::{Served, ServedKind};
pub use stream::{Clause, WatchSpec};
pub use value_digest::ValueDigest;
pub use verdict::{
    DriftKind, Episode, Ignored, Judgement, LastKnown, UnknownReason, Verdict, VerdictKind, Worst,
};
pub use wanted_kind::{KindName, WantedKind};
