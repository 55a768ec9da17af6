//! The judgement on one object by the hash it carries.

use crate::model::{
    FieldClass, Finding, Judgement, LiveObject, Progress, Record, Stamp, Standing, UnknownReason, Writer,
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
        Standing::Hash(Stamp::Unasked | Stamp::Absent) | Standing::Generation { observed: None, .. } => {
            Judgement::Unknown(UnknownReason::NoStatus)
        }
        Standing::Hash(stamp) => judge_stamp(stamp),
        Standing::Generation { observed: Some(observed), current, .. } if observed >= current => {
            Judgement::InSync
        }
        Standing::Generation { observed: Some(observed), current, writer } => {
            drifted(generation_text(*observed), generation_text(*current), writer.as_ref())
        }
    }
}

/// A generation as a value that is shown.
fn generation_text(generation: i64) -> String {
    format!("generation {generation}")
}

/// A hash that differs is one finding on the path `spec`.
fn judge_stamp(stamp: &Stamp) -> Judgement {
    match stamp {
        Stamp::Unasked | Stamp::Absent => Judgement::NoBaseline,
        Stamp::Unusable(reason) => Judgement::Unknown(*reason),
        Stamp::Match(_) => Judgement::InSync,
        Stamp::Mismatch(mismatch) => {
            drifted(mismatch.expected.to_string(), mismatch.actual.to_string(), mismatch.culprit())
        }
    }
}

fn drifted(expected: String, actual: String, writer: Option<&Writer>) -> Judgement {
    Judgement::Drifted(vec![Finding {
        path: "spec".into(),
        class: FieldClass::Hash,
        expected: expected.into(),
        actual: actual.into(),
        writer: writer.cloned(),
    }])
}
