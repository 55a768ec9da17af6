//! Label selectors, label sets, globs and scopes.

use drift_exporter::types::{Glob, LabelSet, Scope, Selector};

#[track_caller]
fn check(text: &str, wanted: bool) {
    let labels = [("app", "web"), ("a/b", "1")];
    let value_of = |key: &str| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let selector = Selector::parse(text).unwrap();
    assert_eq!(selector.matches(value_of), wanted, "{text}");
    assert_eq!(Selector::parse(&selector.to_string()), Ok(selector), "{text} does not round-trip");
}

#[test]
fn all_operators_are_parsed_and_matched() {
    for (text, wanted) in [
        ("app=web", true),
        ("app==web", true),
        ("app = web", true),
        ("app!=web", false),
        ("other!=web", true),
        ("app", true),
        ("!app", false),
        ("!other", true),
        ("app in (x, web)", true),
        ("app notin (x,web)", false),
        ("other notin (x,web)", true),
        ("app in (web),a/b=1", true),
        ("app=web,a/b=2", false),
        ("app=", false),
        ("", true),
    ] {
        check(text, wanted);
    }
}

#[test]
fn equal_selectors_compare_equal() {
    assert_eq!(Selector::parse("b=1, a in (y,x)"), Selector::parse("a in (x,y),b==1"));
    assert_ne!(Selector::parse("a=1"), Selector::parse("a!=1"));
    assert!(Selector::parse(" ").unwrap().is_empty());
}

#[test]
fn invalid_selectors_are_rejected() {
    for text in ["a b", "app in web", "app in (web", "=x", "!", "a=b c", "a=b&watch=1", "a b (c)"] {
        assert!(Selector::parse(text).is_err(), "{text}");
    }
    assert!(Selector::parse(&format!("a={}", "x".repeat(64))).is_err());
}

#[test]
fn selectors_that_kubectl_rejects_are_rejected_with_the_reason() {
    for (text, expected) in [
        ("a in ()", "`a in ()` has no values; want at least one, such as in (a, b)"),
        ("a notin ( )", "`a notin ( )` has no values"),
        ("a=b,", "empty requirement"),
        ("a,,b", "empty requirement"),
        (" , ", "empty requirement"),
        ("a=-b", "invalid label value `-b`"),
        ("a in (b,c.)", "invalid label value `c.`"),
        ("-a=b", "invalid label name `-a`"),
        ("a/b/c", "invalid label name `a/b/c`"),
        ("Example.com/a", "invalid label name `Example.com/a`"),
        ("/a", "invalid label name `/a`"),
        ("a/", "invalid label name `a/`"),
        ("a>1", "invalid label name `a>1`"),
    ] {
        let error = Selector::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    assert!(Selector::parse(&"x".repeat(64)).is_err());
    // An empty value is valid, even in a list.
    assert!(["a=", "a in (b,)"].iter().all(|text| Selector::parse(text).is_ok()));
}

#[test]
fn label_set_contains_another() {
    let web = LabelSet::new([("app", "web"), ("tier", "front")]);
    assert!(web.is_superset_of(&LabelSet::new([("tier", "front")])));
    assert!(!web.is_superset_of(&LabelSet::new([("app", "front")])), "names and values belong together");
    assert!(!web.is_superset_of(&LabelSet::new([("app", "web"), ("a", "b")])));
    assert!(web.is_superset_of(&LabelSet::default()));
}

#[track_caller]
fn check_glob(glob: &str, matching: &[&str], others: &[&str]) {
    for name in matching {
        assert!(Glob::new(glob).matches(name), "{glob} should match {name}");
    }
    for name in others {
        assert!(!Glob::new(glob).matches(name), "{glob} should not match {name}");
    }
}

#[test]
fn star_matches_any_characters() {
    check_glob("web", &["web"], &["", "we", "webs", "Web"]);
    check_glob("*", &["", "web"], &[]);
    check_glob("web-*", &["web-", "web-1"], &["web", "a-web-1"]);
    check_glob("*-web", &["-web", "a-web"], &["web", "a-web-1"]);
    check_glob("a*b*c", &["abc", "a1b2c", "abbc", "abcbc"], &["ab", "acb", "abcd"]);
    check_glob("a**c", &["ac", "abc"], &["a"]);
    check_glob("aa*aa", &["aaaa", "aabaa"], &["aa", "aaa"]);
}

#[test]
fn scope_operations_are_set_operations() {
    let scopes = [
        Scope::default(),
        Scope::new(["a", "b"], []),
        Scope::new(["b", "c"], ["c"]),
        Scope::new([], ["b"]),
        Scope::new(["a"], ["a"]),
    ];
    for one in &scopes {
        for other in &scopes {
            for namespace in ["a", "b", "c", "d"] {
                let (a, b) = (one.has(namespace), other.has(namespace));
                let got = [one.within(other), one | other, one - other].map(|scope| scope.has(namespace));
                assert_eq!(got, [a && b, a || b, a && !b], "{one:?} {other:?} {namespace}");
            }
        }
    }
}
