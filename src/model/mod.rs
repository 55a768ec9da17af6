//! The words of the product as types: pure values, no I/O, no Kubernetes client.

mod algorithm;
mod baseline;
mod change;
mod clock;
mod closed_sets;
mod declared;
mod difference;
mod digest;
mod field_path;
mod glob;
mod json_path;
mod kind;
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
pub use change::{Change, DownReason, StreamHealth};
pub use clock::Clock;
pub use closed_sets::{
    Actor, Advice, BaselineFault, Cause, ChangeKind, ClosedSet, Expectation, FieldClass, Health, Restart,
    Severity, Source, WatchEvent,
};
pub use declared::{DeclaredBody, DeclaredObject, ObjectName};
pub use difference::{Difference, Finding, Writer};
pub use digest::Digest;
pub use field_path::{FieldPath, Segment};
pub use glob::Glob;
pub use kind::Kind;
pub use look::Look;
pub use name_set::NameSet;
pub use object::{Applied, Document, Extras, Facts, LiveObject, Mismatch, Stamp};
pub use object_key::ObjectKey;
pub use packed::Packed;
pub use path_pattern::PathPattern;
pub use path_syntax::PathError;
pub use plan::{Plan, Unwatched};
pub use report::{JobOutcome, JobRun, Progress, Record, Report, Standing};
pub use report_spec::{JobSpec, RecordAlgorithm, RecordSpec};
pub use scope::Scope;
pub use seal_key::SealKey;
pub use sealing::{Sealing, is_within};
pub use selector::Selector;
pub use served::{Served, ServedKind};
pub use stream::{Clause, StreamSpec};
pub use value_digest::ValueDigest;
pub use verdict::{Episode, Held, Ignored, Judgement, Trouble, UnknownReason, Verdict, VerdictKind, Worst};
pub use wanted_kind::{KindName, WantedKind};
