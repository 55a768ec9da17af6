//! How bad a difference is, and what to do about it.

use jiff::Timestamp;

use super::classify;
use crate::model::{Advice, Difference, Expectation, FieldClass, Finding, Severity};

/// Rates a finding that was first seen at `now`.
///
/// Its onset is when the newest owner of the field wrote it: that survives restarts with nothing stored anywhere.
/// Another machine's clock may run ahead of ours, so an onset is never later than now.
pub fn rate(finding: Finding, now: Timestamp) -> Difference {
    let actor = classify(finding.writer.as_ref());
    let onset = finding.writer.as_ref().and_then(|writer| writer.time).map_or(now, |time| time.min(now));
    let severity = match finding.class {
        FieldClass::Existence | FieldClass::Rbac | FieldClass::Security => Severity::Critical,
        FieldClass::Replicas
        | FieldClass::Image
        | FieldClass::Env
        | FieldClass::Resources
        | FieldClass::Ports
        | FieldClass::Selector
        | FieldClass::Labels
        | FieldClass::Annotations
        | FieldClass::Probes
        | FieldClass::Volumes
        | FieldClass::Data
        | FieldClass::Hash
        | FieldClass::Other => Severity::Warning,
    };
    Difference {
        finding,
        severity,
        expectation: Expectation::Unexpected,
        // A hash does not tell which field it was, so a person has to look.
        advice: Advice::AlertOnly,
        actor,
        onset,
    }
}
