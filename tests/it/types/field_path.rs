//! Field paths and patterns: syntax, errors, matching.

use drift_exporter::types::{FieldPath, PathPattern, Segment, ShortText};
use proptest::prelude::*;

fn word() -> impl Strategy<Value = ShortText> {
    prop_oneof![4 => "[a-zA-Z][a-zA-Z0-9]{0,8}", 2 => "[-a-z./*]{0,8}", 1 => any::<String>()]
        .prop_map(Into::into)
}

fn segment() -> impl Strategy<Value = Segment> {
    prop_oneof![
        4 => word().prop_map(Segment::Field),
        1 => prop::collection::vec((word(), word()), 1..3).prop_map(|keys| Segment::Element(keys.into())),
        1 => (0..20_usize).prop_map(Segment::Index),
        1 => word().prop_map(Segment::Value),
    ]
}

proptest! {
    #[test]
    fn path_round_trips_through_its_text(segments in prop::collection::vec(segment(), 1..6)) {
        let parsed = FieldPath::new(segments.clone()).as_str().parse::<FieldPath>();
        prop_assert_eq!(parsed.as_ref().map(FieldPath::segments), Ok(&*segments));
    }

    #[test]
    fn path_parser_never_panics(text in "[a-z.*\\[\\]\"=,\\\\0-9 /]{0,20}") {
        if let Ok(path) = text.parse::<FieldPath>() {
            let parsed = path.as_str().parse::<FieldPath>();
            prop_assert_eq!(parsed.as_ref().map(FieldPath::segments), Ok(path.segments()));
        }
    }
}

#[test]
fn paths_use_the_shortest_syntax() {
    for text in [
        "spec.template.spec.containers[name=web].image",
        "metadata.annotations[\"kubectl.kubernetes.io/restartedAt\"]",
        "spec.ports[port=80,protocol=TCP].nodePort",
        "spec.args[0]",
        "metadata.finalizers[=example.com/hold]",
        "data[\"a \\\"quote\\\"\"]",
    ] {
        assert_eq!(text.parse::<FieldPath>().unwrap().to_string(), text);
    }
}

#[test]
fn path_errors_have_a_column_and_a_reason() {
    for (text, column, message) in [
        ("", 1, "a field name is missing"),
        ("spec..replicas", 6, "a field name is missing"),
        ("spec.containers[web].image", 17, "quote a field name"),
        ("spec.containers[name=web", 25, "the bracket is not closed"),
        ("spec.containers.[name=web]", 17, "unexpected `.` before `[`"),
        ("metadata.annotations[\"a", 22, "the quote is not closed"),
        ("spec.re plicas", 8, "unexpected ` `"),
        ("spec.*", 6, "`*` is allowed"),
    ] {
        let error = text.parse::<FieldPath>().unwrap_err();
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.problem.to_string().contains(message), "{text}: {error}");
    }
}

#[track_caller]
fn check(pattern: &str, matching: &[&str], others: &[&str]) {
    let parsed: PathPattern = pattern.parse().unwrap();
    for path in matching {
        assert!(parsed.matches(&path.parse().unwrap()), "{pattern} should match {path}");
    }
    for path in others {
        assert!(!parsed.matches(&path.parse().unwrap()), "{pattern} should not match {path}");
    }
}

#[test]
fn pattern_matches_the_named_field_and_everything_below() {
    check("spec.template", &["spec.template", "spec.template.spec.x"], &["spec", "spec.templates"]);
}

#[test]
fn stars_match_segments() {
    check(
        "spec.*.image",
        &["spec.a.image", "spec[0].image", "spec.a.image.b"],
        &["spec.image", "spec.a.b.image"],
    );
    check("**.image", &["image", "spec.a[name=b].image"], &["spec.a", "spec.images"]);
    check("a.**.c.**.e", &["a.c.e", "a.b.c.d.e", "a.c.c.d.d.e.f"], &["a.e.c", "a.b.c.d"]);
    check("**", &["a", "a.b"], &[]);
    check("a.**", &["a", "a.b"], &["b.a"]);
}

#[test]
fn elements_match_by_their_keys() {
    let containers = "spec.containers[name=web].image";
    check(containers, &[containers], &["spec.containers[name=db].image", "spec.containers[0].image"]);
    check("spec.containers[name=w*]", &[containers], &["spec.containers[name=db]"]);
    check("spec.containers[name=*].image", &[containers], &["spec.containers[id=web].image"]);
    check("spec.containers[*].image", &[containers, "spec.containers[3].image"], &["spec.containers.image"]);
    check("ports[port=80]", &["ports[port=80,protocol=TCP]"], &["ports[port=81,protocol=TCP]"]);
}

#[test]
fn quoted_text_is_literal() {
    let key = "metadata.annotations[\"kubectl.kubernetes.io/restartedAt\"]";
    check(key, &[key], &["metadata.annotations.kubectl"]);
    check("data[\"*\"]", &["data[\"*\"]"], &["data.a"]);
}

#[test]
fn json_pointer_is_literal() {
    check("/spec/replicas", &["spec.replicas"], &["spec.replica"]);
    check(
        "/metadata/annotations/a.b~1c~0d",
        &["metadata.annotations[\"a.b/c~d\"]"],
        &["metadata.annotations.a"],
    );
    check("/spec/args/0", &["spec.args[0]", "spec.args[\"0\"]"], &["spec.args[1]"]);
    check("/spec/*", &["spec[\"*\"]"], &["spec.a"]);
}

#[test]
fn pattern_errors_have_a_column() {
    for (text, column) in
        [("spec.temp*", 6), ("spec[na*e=web]", 5), ("/spec/a~2", 8), ("/", 2), ("//a", 2), ("spec.", 6)]
    {
        assert_eq!(text.parse::<PathPattern>().unwrap_err().column, column, "{text}");
    }
}

#[test]
fn json_path_of_a_single_field_is_parsed() {
    for (text, wanted) in [
        (".status.lastAppliedHash", "status.lastAppliedHash"),
        ("status.phase", "status.phase"),
        ("{.status.phase}", "status.phase"),
        ("{ $.status.phase }", "status.phase"),
        (".status.conditions[?(@.type==\"Ready\")].message", "status.conditions[type=Ready].message"),
        (".status.conditions[?(@.type == 'Ready')].reason", "status.conditions[type=Ready].reason"),
        (".metadata.annotations['example.com/hash']", "metadata.annotations[\"example.com/hash\"]"),
        (".status.history[0].hash", "status.history[0].hash"),
    ] {
        assert_eq!(FieldPath::from_json_path(text).unwrap().to_string(), wanted, "{text}");
    }
}

#[test]
fn other_json_paths_are_rejected_with_a_reason() {
    for (text, why) in [
        ("", "a field name is missing"),
        (".", "a field name is missing"),
        ("..phase", "a field name is missing"),
        (".status.*", "`*`"),
        (".status.conditions[*].type", "`*`"),
        (".status.conditions[0:2]", "neither an index"),
        (".status.conditions[?(@.type!=\"Ready\")].x", "`==`"),
        (".status.conditions[?(type==\"Ready\")].x", "`@.type`"),
        (".status.conditions[?(@.type==\"Ready\"", "not closed"),
        (".metadata.annotations.example\\.com/hash", "quoted"),
    ] {
        let error = FieldPath::from_json_path(text).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(text), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn json_path_parser_never_panics(text in "[a-z.*\\[\\]\"'=,\\\\?(@)0-9 {}$]{0,24}") {
        let _ = FieldPath::from_json_path(&text);
    }
}

#[test]
fn list_of_patterns_is_split_at_commas_outside_of_brackets() {
    for (list, patterns) in [
        ("spec.replicas", &["spec.replicas"][..]),
        (" spec.replicas ,, spec.paused, ", &["spec.replicas", "spec.paused"]),
        (
            "spec.ports[port=80,protocol=TCP].nodePort,spec.type",
            &["spec.ports[port=80,protocol=TCP].nodePort", "spec.type"],
        ),
        (
            "spec.containers[name=\"a,b]\\\"\"].image, spec.a",
            &["spec.containers[name=\"a,b]\\\"\"].image", "spec.a"],
        ),
        ("metadata.annotations[\"a,b\"],spec.a", &["metadata.annotations[\"a,b\"]", "spec.a"]),
        // The brackets of a JSON Pointer are literal.
        ("/metadata/labels/a[b, spec.a[0]", &["/metadata/labels/a[b", "spec.a[0]"]),
        // An invalid pattern does not hide the others.
        ("spec.a[, spec.b", &["spec.a[", "spec.b"]),
        ("spec.a[name=x, spec.b[name=y,z=1].c", &["spec.a[name=x", "spec.b[name=y,z=1].c"]),
        ("spec.a[\"x, spec.b", &["spec.a[\"x", "spec.b"]),
        ("", &[]),
    ] {
        assert_eq!(PathPattern::split_list(list).collect::<Vec<_>>(), patterns, "{list}");
    }
}

proptest! {
    #[test]
    fn list_of_paths_is_split_into_the_paths(paths in prop::collection::vec(prop::collection::vec(segment(), 1..4), 1..4)) {
        let texts: Vec<String> = paths.into_iter().map(|path| FieldPath::new(path).to_string()).collect();
        let list = texts.join(", ");
        prop_assert_eq!(PathPattern::split_list(&list).collect::<Vec<_>>(), texts);
    }
}
