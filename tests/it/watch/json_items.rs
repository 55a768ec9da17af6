//! The items of a list, split while the list arrives.

use drift_exporter::watch::json_items::{ItemSplitter, ListLayout, Part, SplitError};
use proptest::prelude::*;
use serde_json::{Value, json};

const LIST: ListLayout = ListLayout { list: "items", members: &["metadata"], max_bytes: 1 << 10 };

fn split(chunks: &[&[u8]]) -> Result<(Vec<Value>, Option<Value>), SplitError> {
    let (mut items, mut metadata) = (Vec::new(), None);
    let mut splitter = ItemSplitter::new(LIST);
    for chunk in chunks {
        splitter.push(chunk, |part| match part {
            Part::Item(item) => items.push(serde_json::from_slice(item).unwrap()),
            Part::Member(_, value) => metadata = Some(serde_json::from_slice(value).unwrap()),
        })?;
    }
    splitter.finish()?;
    Ok((items, metadata))
}

#[test]
fn chunk_boundaries_do_not_change_the_items() {
    let items = vec![json!({"a": "}]\"\\", "b": [1, {"c": null}]}), json!({}), json!({"é": "\n\\u{1}"})];
    let list =
        json!({"kind": "L", "n": 1, "metadata": {"resourceVersion": "7"}, "items": items, "z": [true]});
    let text = serde_json::to_vec_pretty(&list).unwrap();
    for cut in 0..=text.len() {
        let (found, metadata) = split(&[&text[..cut], &text[cut..]]).unwrap();
        assert_eq!((found, metadata), (items.clone(), Some(json!({"resourceVersion": "7"}))), "cut at {cut}");
    }
}

#[test]
fn null_and_empty_lists_have_no_items() {
    assert_eq!(split(&[br#"{"items":null,"metadata":{}}"#]).unwrap().0, Vec::<Value>::new());
    assert_eq!(split(&[br#"{"items":[]}"#]).unwrap().0, Vec::<Value>::new());
}

#[test]
fn malformed_and_truncated_lists_are_errors() {
    assert_eq!(split(&[b"no list"]), Err(SplitError::Malformed));
    assert_eq!(split(&[br#"{"items":[{"a":1}"#]), Err(SplitError::Truncated));
    assert_eq!(split(&[br#"{"items":[{"a":1"#]), Err(SplitError::Truncated));
    assert_eq!(split(&[b""]), Err(SplitError::Truncated));
    for text in [
        r#"{"items":[}"#,
        r#"{"items":[{"a":1}}"#,
        r#"{"items":[,]}"#,
        r#"{"a":}"#,
        r#"{"a":,"b":1}"#,
        r#"{"a\"b":1}"#,
    ] {
        for cut in 0..=text.len() {
            let chunks = [&text.as_bytes()[..cut], &text.as_bytes()[cut..]];
            assert!(split(&chunks).is_err() || text.contains("[,]"), "{text} cut at {cut}");
        }
    }
}

#[test]
fn skipped_members_are_not_buffered() {
    let large = "x".repeat(LIST.max_bytes + 1);
    let text = json!({"a": large, "items": [1], "metadata": null, "z": [large]}).to_string();
    let chunks: Vec<&[u8]> = text.as_bytes().chunks(100).collect();
    assert_eq!(split(&chunks), Ok((vec![json!(1)], Some(Value::Null))));
    let text = json!({"items": [large]}).to_string();
    let chunks: Vec<&[u8]> = text.as_bytes().chunks(100).collect();
    assert_eq!(split(&chunks), Err(SplitError::TooLarge(LIST.max_bytes)));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map("[a-z\"\\\\]{0,4}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn corrupted_input_terminates(items in prop::collection::vec(any_json(), 0..4), at in any::<prop::sample::Index>(), byte in any::<u8>(), size in 1_usize..64) {
        let mut text = serde_json::to_vec(&json!({"metadata": {}, "items": items})).unwrap();
        let at = at.index(text.len());
        text[at] = byte;
        let mut splitter = ItemSplitter::new(LIST);
        let mut parts = 0;
        for chunk in text.chunks(size) {
            if splitter.push(chunk, |_| parts += 1).is_err() {
                break;
            }
        }
        prop_assert!(parts <= text.len());
    }

    #[test]
    fn items_are_emitted_unchanged(items in prop::collection::vec(any_json(), 0..8), size in 1_usize..64) {
        let text = serde_json::to_vec(&json!({"metadata": {"resourceVersion": "1"}, "items": items})).unwrap();
        let chunks: Vec<&[u8]> = text.chunks(size).collect();
        prop_assert_eq!(split(&chunks).unwrap().0, items);
    }
}
