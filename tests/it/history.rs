//! Lines of the history file.

use drift_exporter::engine::Transition;

/// Lines that versions before this one wrote.
const LINES: [&str; 4] = [
    r#"{"sequence":7,"time":"2026-01-01T00:00:00Z","group":"apps","version":"v1","kind":"Deployment","plural":"deployments","namespaced":true,"namespace":"shop","name":"web","uid":"u","source":"annotation","from":"in_sync","to":"drifted","reason":null,"episode":{"turn":"began","onset":"2025-12-31T23:59:59.5Z","severity":"warning","actor":"kubectl","manager":"kubectl-edit","field":"hash","paths":["spec","spec.\"a\""]}}"#,
    r#"{"sequence":8,"time":"2026-01-01T00:00:01.25Z","group":"","version":"v1","kind":"Node","plural":"nodes","namespaced":false,"namespace":"","name":"one","uid":"u","source":"terraform","from":"drifted","to":null,"reason":null,"episode":{"turn":"deleted","onset":"2025-12-31T23:59:59Z","severity":"critical","actor":"none","manager":null,"field":"existence","paths":[]}}"#,
    r#"{"sequence":9,"time":"2026-01-01T00:00:02Z","group":"apps","version":"v1","kind":"Deployment","plural":"deployments","namespaced":true,"namespace":"shop","name":"web","uid":"u","source":"annotation","from":"drifted","to":"unknown","reason":"bad_hash","episode":{"turn":"goes_on","onset":"2025-12-31T23:59:59Z","severity":"info","actor":"kubectl","manager":"kubectl","field":"other","paths":["spec"]}}"#,
    r#"{"sequence":10,"time":"2026-01-01T00:00:03Z","group":"apps","version":"v1","kind":"Deployment","plural":"deployments","namespaced":true,"namespace":"shop","name":"web","uid":"u","source":"annotation","from":null,"to":"in_sync","reason":null,"episode":null}"#,
];

#[test]
fn lines_of_the_history_file_are_read_and_written_byte_for_byte() {
    for line in LINES {
        let transition: Transition = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&transition).unwrap(), line);
    }
}

#[test]
fn lines_without_optional_fields_or_with_unknown_fields_are_read() {
    let line = LINES[3].replace(r#""from":null,"#, r#""later":{"a":[1]},"#);
    let line = line.replace(r#","reason":null,"episode":null"#, "");
    let transition: Transition = serde_json::from_str(&line).unwrap();
    assert_eq!(serde_json::to_string(&transition).unwrap(), LINES[3]);
}

#[test]
fn lines_with_unknown_words_are_invalid() {
    for (word, other) in [
        ("\"annotation\"", "\"magic\""),
        ("\"in_sync\"", "\"dubious\""),
        ("\"began\"", "\"ended\""),
        ("\"warning\"", "\"Warning\""),
        ("\"kubectl\"", "null"),
        ("\"hash\"", "\"\""),
    ] {
        let line = LINES[0].replacen(word, other, 1);
        assert_ne!(line, LINES[0]);
        assert!(serde_json::from_str::<Transition>(&line).is_err(), "{line}");
    }
}
