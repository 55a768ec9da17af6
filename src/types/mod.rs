//! The domain types: pure values, no I/O, no Kubernetes client.

#[cfg(test)]
mod any_value;
mod baseline;
mod clock;
mod closed_sets;
mod difference;
mod field_path;
mod hash;
mod key;
mod kind;
mod names;
mod object;
mod redaction;
mod selector;
mod status;
mod trust;
mod verdict;
mod watch;
mod watch_config;

#[cfg(test)]
pub(crate) use any_value::any_value;
pub use baseline::{
    Baseline, BaselineError, BaselineOrigin, BaselineVersion, Chart, DeclaredBody, DeclaredObject, Lock,
    SkipReason, SkippedResource, SkippedResources,
};
pub use clock::{Clock, format_age};
pub(crate) use closed_sets::closed_set;
pub use closed_sets::{
    Actor, Advice, BaselineFault, ChangeKind, ClosedSet, Expectation, FieldClass, Health, OnsetSource, Phase,
    ResolutionCause, RestartReason, Severity, Source, WatchEvent,
};
pub use difference::{Difference, FieldManager, FieldValue, Finding, MatchedBy, ValueForm};
pub use field_path::{FieldPath, JsonPathError, PathError, PathPattern, PathProblem, Segment};
pub use hash::{Algorithm, Digest, ValueDigest, ValueDigestError};
pub use key::{NamespacedName, ObjectKey, ObjectRef, ShortText};
pub use kind::{GroupKind, Kind, KindError, KindName, ServedKind, ServedKinds, WantedKind, api_version};
pub use names::{is_control, is_label_name, is_label_prefix, is_label_value, is_namespace, shorten};
pub use object::{
    AbsentObject, ClaimedObject, Document, HashBaseline, HashMismatch, LastApplied, LiveDocument, LiveObject,
    ObjectFacts, PackedJson, RuleInputs,
};
pub use redaction::{KeyId, KeyedDigest, RedactionKey, RedactionPolicy, WHOLE_OBJECT, is_within};
pub use selector::{Glob, LabelSet, NameSet, Scope, Selector, SelectorError};
pub use status::{
    ControllerStatus, JobOutcome, JobRun, ObservedState, Progress, StatusHashAlgorithm, StatusHashSpec,
    StatusReport, TerraformJobSpec,
};
pub use trust::{Authority, HelmRelease, TrustedNamespaces};
pub use verdict::{
    DriftKind, Episode, Ignored, Judgement, LastKnown, UnknownReason, Verdict, VerdictKind, WorstDifference,
};
pub use watch::{
    DownReason, HealthState, ObjectFilter, SyncHealth, Unwatched, Watch, WatchId, WatchIds, WatchMode,
    WatchPlan, WatchSpec,
};
pub use watch_config::{DecodeConfig, WatchConfig};
