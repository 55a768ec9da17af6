//! The judgement on one object by the hash it carries.

use crate::model::{FieldClass, Finding, Judgement, LiveObject, Stamp};

/// Judges an object against its own stamp. A hash that differs is one finding on the path `spec`.
pub fn judge(object: &LiveObject) -> Judgement {
    match &object.stamp {
        Stamp::Unasked | Stamp::Absent => Judgement::NoBaseline,
        Stamp::Unusable(reason) => Judgement::Unknown(*reason),
        Stamp::Match(_) => Judgement::InSync,
        Stamp::Mismatch(mismatch) => Judgement::Drifted(vec![Finding {
            path: "spec".into(),
            class: FieldClass::Hash,
            expected: mismatch.expected.to_string().into(),
            actual: mismatch.actual.to_string().into(),
            writer: mismatch.culprit().cloned(),
        }]),
    }
}
