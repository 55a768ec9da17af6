//! Whether two scalars are the same to the API server.

use serde_json::Value;

use super::{place::Place, shapes::FieldType};
use crate::diff::{
    encoded::decode,
    findings::{Findings, text},
    guessed::is_amount,
    quantity::Quantity,
    sealed::is_sealed,
};

/// Compares what is declared with what is there, of which one is no object and no list.
pub(super) fn compare_scalars(place: Place<'_>, declared: &Value, live: &Value, findings: &mut Findings<'_>) {
    if is_same(place, declared, live, findings) {
        return;
    }
    findings.differs(&told(place, declared), &told(place, live));
}

/// A value as findings tell it. Where empty ones count, one that is there is not the same as none.
pub(super) fn told(place: Place<'_>, value: &Value) -> String {
    match text(value) {
        empty if empty.is_empty() && !value.is_null() && place.keeps_empty() => "\"\"".to_owned(),
        text => text,
    }
}

/// Whether both say the same, as the field understands it.
pub(super) fn is_same(place: Place<'_>, declared: &Value, live: &Value, findings: &Findings<'_>) -> bool {
    if declared == live {
        return true;
    }
    if live.is_null() {
        return place.is_empty(declared) && !place.keeps_empty();
    }
    let (expected, actual) = (text(declared), text(live));
    if is_sealed(&expected) || is_sealed(&actual) {
        return findings.is_exactly(&expected, &actual);
    }
    if let (Value::Number(declared), Value::Number(live)) = (declared, live) {
        return declared.as_f64() == live.as_f64() && (declared.is_f64() || live.is_f64());
    }
    match place.holds {
        FieldType::Any => false,
        FieldType::Quantity => expected == actual || Quantity::are_same(&expected, &actual),
        FieldType::Amount => expected == actual || Quantity::are_same_in_thousandths(&expected, &actual),
        FieldType::Bytes => {
            let bytes = decode(&expected);
            bytes.is_some() && bytes == decode(&actual)
        }
        FieldType::Time => is_same_time(&expected, &actual),
        FieldType::Unknown => {
            expected == actual || is_amount(place.name) && Quantity::are_same(&expected, &actual)
        }
        FieldType::Plain
        | FieldType::Nothing
        | FieldType::Fields(_)
        | FieldType::Map(_)
        | FieldType::List(..) => expected == actual,
    }
}

/// The server writes most times without fractions of seconds.
fn is_same_time(declared: &str, live: &str) -> bool {
    let (Ok(declared), Ok(live)) = (declared.parse::<jiff::Timestamp>(), live.parse::<jiff::Timestamp>())
    else {
        return declared == live;
    };
    declared == live || live.subsec_nanosecond() == 0 && declared.as_second() == live.as_second()
}
