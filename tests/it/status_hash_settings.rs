//! Settings of the `status_hash` source and of Jobs that run Terraform.

use drift_exporter::{
    config::{Overrides, load},
    types::{Source, WantedKind},
};
use jiff::Timestamp;

use crate::settings::check;

#[test]
fn problems_in_an_entry_have_positions() {
    let entry = |keys: &str| {
        format!("sources:\n  status_hash:\n  - {{apiVersion: a.example/v1, kind: Widget, {keys}}}\n")
    };
    let path = "sources.status_hash[0]";
    for (keys, expected) in [
        (
            "algorithm: opr8r-v2",
            format!(
                "line 3, …{path}.algorithm: unknown algorithm `opr8r-v2`; want one of tfdrift-v1, jcs-v1, opr8r-v1, sha256-jcs, generation…did you mean `opr8r-v1`?"
            ),
        ),
        (
            "algorithm: opr8r-v1",
            format!("{path}.algorithm: opr8r-v1 supports SimpleResource only, not Widget"),
        ),
        (
            "algorithm: tfdrift-v1",
            format!("{path}.algorithm: tfdrift-v1 supports Deployment and Service only"),
        ),
        (
            "algorithm: sha256-jcs",
            format!("line 3, column 5: {path}: missing field `recorded`: sha256-jcs has no default"),
        ),
        (
            "algorithm: jcs-v1, recorded: .status.hash, hashed: .spec",
            format!("{path}.hashed: only sha256-jcs has a configurable field"),
        ),
        (
            "algorithm: generation, recorded: '.status.conditions[*].observedGeneration'",
            format!(
                "line 3, column 79: {path}.recorded: invalid path `.status.conditions[*].observedGeneration`: `*`"
            ),
        ),
        (
            "algorithm: generation, phase: .status..phase",
            format!("{path}.phase: invalid path `.status..phase`"),
        ),
        ("algorithm: generation, grace: soon", format!("{path}.grace: invalid duration `soon`")),
        ("algorithm: generation, grace: -5m", format!("{path}.grace: invalid duration `-5m`")),
        (
            "algorithm: generation, namespaces: [Shop]",
            format!("{path}.namespaces[0]: invalid namespace `Shop`"),
        ),
        ("algorithm: generation, selector: 'a b'", format!("{path}.selector: ")),
        ("algorithm: generation, phases: [x]", "unknown field `phases`".to_owned()),
        ("recorded: .status.hash", "missing field `algorithm`".to_owned()),
    ] {
        check(&entry(keys), &[expected.as_str()]);
    }
}

#[test]
fn problems_in_the_list_and_in_jobs_have_positions() {
    check(
        "sources: {status_hash: [{apiVersion: example, kind: Widget, algorithm: generation}]}\n",
        &["line 1, column 25: sources.status_hash[0]: invalid apiVersion `example`"],
    );
    check("sources: {status_hash: {}}\n", &["line 1, column 24: want a list"]);
    check(
        "terraform_jobs: {label: 'a b', selector: '=', namespaces: [Shop]}\n",
        &[
            "line 1, column 25: terraform_jobs.label: ",
            "terraform_jobs.selector: ",
            "terraform_jobs.namespaces[0]: ",
        ],
    );
}

#[test]
fn configured_resources_and_jobs_are_watched() {
    let wanted_kinds = |text: &str, sources: Option<Vec<Source>>| -> Vec<String> {
        let overrides = Overrides { sources, ..Overrides::default() };
        let settings = load(text, &overrides, Timestamp::UNIX_EPOCH)
            .unwrap_or_else(|problems| panic!("{problems:?}"))
            .settings;
        let selector =
            |kind: &WantedKind| kind.selector.as_ref().map_or_else(String::new, ToString::to_string);
        settings.wanted_kinds().iter().map(|kind| format!("{kind} {}", selector(kind))).collect()
    };
    let opr8r = ["infra.opr8r/v1alpha1 SimpleResource ", "batch/v1 Job infra.opr8r/simpleresource"];
    assert_eq!(wanted_kinds("", Some(vec![Source::StatusHash])), opr8r);
    assert_eq!(wanted_kinds("sources: {status_hash: []}\n", None), opr8r);
    let widget = "{apiVersion: a.example/*, kind: Widget, algorithm: generation, selector: team=a}";
    assert_eq!(
        wanted_kinds(&format!("sources: {{status_hash: [{widget}]}}\n"), None),
        ["a.example/* Widget team=a"]
    );
    let jobs = "terraform_jobs: {label: a.example/of, selector: 'team=b'}\n";
    let both = wanted_kinds(&format!("{jobs}sources: {{status_hash: [{widget}]}}\n"), None);
    assert_eq!(both, ["a.example/* Widget team=a", "batch/v1 Job team=b"]);
    assert!(wanted_kinds("", None).iter().all(|kind| !kind.contains("Job")), "Jobs are off by default");
}
