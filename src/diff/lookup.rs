//! Finding the value at a path.

use serde_json::Value;

use crate::types::{FieldPath, Segment};

/// The value at a path, if there is one. Of several elements that have the keys, the first.
pub fn find<'a>(object: &'a Value, path: &FieldPath) -> Option<&'a Value> {
    path.segments().iter().try_fold(object, |at, segment| match segment {
        Segment::Field(name) => at.get(&**name),
        Segment::Index(index) => at.as_array()?.get(*index),
        Segment::Value(value) => at.as_array()?.iter().find(|element| is(element, value)),
        Segment::Element(keys) => at.as_array()?.iter().find(|element| {
            keys.iter().all(|(key, value)| element.get(&**key).is_some_and(|own| is(own, value)))
        }),
    })
}

fn is(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        Value::Number(own) => own.to_string() == *text,
        Value::Bool(own) => text.parse() == Ok(*own),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::find;

    #[track_caller]
    fn check(path: &str, wanted: &Value) {
        let ready = json!({"type": "Ready", "observed": 3, "reason": "Applied"});
        let object =
            json!({"status": {"phase": "Ready", "conditions": [{"type": "Synced"}, 7, ready], "set": ["a"]}});
        assert_eq!(
            find(&object, &path.parse().unwrap()),
            Some(wanted).filter(|wanted| !wanted.is_null()),
            "{path}"
        );
    }

    #[test]
    fn a_path_leads_to_one_value_or_to_none() {
        check("status.phase", &json!("Ready"));
        check("status.conditions[type=Ready].reason", &json!("Applied"));
        check("status.conditions[observed=3].reason", &json!("Applied"));
        check("status.conditions[0].type", &json!("Synced"));
        check("status.set[=a]", &json!("a"));
        for nothing in [
            "status.phase.more",
            "status.conditions[9]",
            "status.conditions[type=X].a",
            "spec[0]",
            "status[0]",
        ] {
            check(nothing, &Value::Null);
        }
    }
}
