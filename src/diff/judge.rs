//! The judgement on one object by the hash it carries.

use crate::types::{
    FieldClass, FieldManager, Finding, HashBaseline, Judgement, LiveObject, ObservedState, Progress, Record,
    UnknownReason,
};

/// Judges an object against its own stamp.
pub fn judge(object: &LiveObject) -> Judgement {
    judge_stamp(&object.stamp)
}

/// Judges an object by what its controller recorded. `rests`: it is at work, or behind, and that does not count yet.
pub fn judge_record(record: &Record, rests: bool) -> Judgement {
    if record.progress == Progress::Failed {
        return Judgement::Unknown(UnknownReason::PhaseError);
    }
    if rests {
        return Judgement::InFlight;
    }
    match &record.standing {
        // Whoever is to record something has not: that is no proof that nothing is declared.
        ObservedState::Hash(HashBaseline::Unasked | HashBaseline::Absent)
        | ObservedState::Generation { observed: None, .. } => Judgement::Unknown(UnknownReason::NoStatus),
        ObservedState::Hash(stamp) => judge_stamp(stamp),
        ObservedState::Generation { observed: Some(observed), current, .. } if observed >= current => {
            Judgement::InSync
        }
        ObservedState::Generation { observed: Some(observed), current, writer } => {
            drifted(generation_text(*observed), generation_text(*current), writer.as_ref())
        }
    }
}

/// A generation as a value that is shown.
fn generation_text(generation: i64) -> String {
    format!("generation {generation}")
}

/// A hash that differs is one finding on the path `spec`.
fn judge_stamp(stamp: &HashBaseline) -> Judgement {
    match stamp {
        HashBaseline::Unasked | HashBaseline::Absent => Judgement::NoBaseline,
        HashBaseline::Unusable(reason) => Judgement::Unknown(*reason),
        HashBaseline::Match(_) => Judgement::InSync,
        HashBaseline::Mismatch(mismatch) => {
            drifted(mismatch.expected.to_string(), mismatch.actual.to_string(), mismatch.culprit())
        }
    }
}

fn drifted(expected: String, actual: String, writer: Option<&FieldManager>) -> Judgement {
    Judgement::Drifted(vec![Finding {
        path: "spec".into(),
        class: FieldClass::Hash,
        expected: expected.into(),
        actual: actual.into(),
        writer: writer.cloned(),
    }])
}
