//! Random values for tests. `tests/it` includes this file, too.

use super::{FieldValue, RedactionKey};

/// Values of all forms. Many have a text that reads like another form.
#[cfg(test)]
pub(crate) fn any_value() -> impl proptest::strategy::Strategy<Value = FieldValue> {
    use proptest::prelude::*;
    let digest = |value: &str| RedactionKey::new([1; 32]).digest(value.as_bytes());
    let imitation = ["", "\"", "[\"", "{\"a\":\"", "!redacted ", "|\n  ", "hidden …", "\n"];
    let text = prop_oneof![
        prop::sample::select(vec![
            "",
            "null",
            "\"\"",
            "\"null\"",
            "absent",
            "and 1 more fields differ",
            "and 2 more redacted fields differ",
            "true",
            "|",
            "{}",
            "a, b"
        ])
        .prop_map(str::to_owned),
        ("[a-c]", prop::sample::select(imitation.to_vec()))
            .prop_map(move |(value, prefix)| format!("{prefix}{}", digest(&value))),
        "[a-c]".prop_map(move |value| format!("[\"{}\"]", digest(&value))),
        "[a-c]".prop_map(move |value| format!("hidden …{}", &digest(&value).to_string()[40..])),
        "[\u{0}-\u{1f}\u{7f}-\u{9f}]{1,3}",
        "[a-c1-3]{1,2}",
        any::<String>(),
    ];
    let json = prop_oneof![
        "[1-3]{1,2}|true|\\{\\}|\\[1\\]",
        "[a-c]".prop_map(move |value| format!("[\"{}\"]", digest(&value))),
        "[a-c]".prop_map(move |value| format!("{{\"a\":\"{}\"}}", digest(&value))),
        "[a-c]".prop_map(move |value| format!("{{\"{}\":1}}", digest(&value))),
    ];
    let partly_redacted =
        ("[a-c]", prop::sample::select(vec![("[\"", "\"]"), ("{\"a\":\"", "\"}"), ("[\"", "\",1]")]))
            .prop_map(move |(value, (start, end))| format!("{start}{}{end}", digest(&value)));
    prop_oneof![
        Just(FieldValue::Absent),
        Just(FieldValue::Null),
        text.prop_map(|text| FieldValue::Text(text.into())),
        json.prop_map(|json| FieldValue::Json(json.into())),
        "[a-c]".prop_map(move |value| FieldValue::Redacted(digest(&value))),
        partly_redacted.prop_map(|json| FieldValue::PartlyRedacted(json.into())),
        (1..3_usize, any::<bool>()).prop_map(|(count, redacted)| FieldValue::Omitted { count, redacted }),
    ]
}
