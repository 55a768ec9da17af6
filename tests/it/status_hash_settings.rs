//! Settings about controllers that record what they have applied, and about Jobs that run Terraform.

use drift_exporter::{
    config::{Overrides, load},
    types::{Source, WantedKind},
};

use crate::settings::check;

#[test]
fn mistakes_about_a_controller_have_their_places() {
    let entry = |more: &str| {
        format!("sources:\n  status_hash:\n  - {{apiVersion: a.example/v1, kind: Widget, {more}}}\n")
    };
    let place = "sources.status_hash[0]";
    for (more, wanted) in [
        (
            "algorithm: opr8r-v2",
            format!(
                "line 3, …{place}.algorithm: unknown algorithm `opr8r-v2`; want one of tfdrift-v1, jcs-v1, opr8r-v1, sha256-jcs, generation…did you mean `opr8r-v1`?"
            ),
        ),
        (
            "algorithm: opr8r-v1",
            format!("{place}.algorithm: opr8r-v1 supports SimpleResource only, not Widget"),
        ),
        (
            "algorithm: tfdrift-v1",
            format!("{place}.algorithm: tfdrift-v1 supports Deployment and Service only"),
        ),
        (
            "algorithm: sha256-jcs",
            format!("line 3, column 5: {place}: missing field `recorded`: sha256-jcs has no default"),
        ),
        (
            "algorithm: jcs-v1, recorded: .status.hash, hashed: .spec",
            format!("{place}.hashed: only sha256-jcs has a configurable field"),
        ),
        (
            "algorithm: generation, recorded: '.status.conditions[*].observedGeneration'",
            format!(
                "line 3, column 79: {place}.recorded: invalid path `.status.conditions[*].observedGeneration`: `*`"
            ),
        ),
        (
            "algorithm: generation, phase: .status..phase",
            format!("{place}.phase: invalid path `.status..phase`"),
        ),
        ("algorithm: generation, grace: soon", format!("{place}.grace: invalid duration `soon`")),
        ("algorithm: generation, grace: -5m", format!("{place}.grace: invalid duration `-5m`")),
        (
            "algorithm: generation, namespaces: [Shop]",
            format!("{place}.namespaces[0]: invalid namespace `Shop`"),
        ),
        ("algorithm: generation, selector: 'a b'", format!("{place}.selector: ")),
        ("algorithm: generation, phases: [x]", "unknown field `phases`".to_owned()),
        ("recorded: .status.hash", "missing field `algorithm`".to_owned()),
    ] {
        check(&entry(more), &[wanted.as_str()]);
    }
}

#[test]
fn mistakes_about_the_whole_list_and_about_jobs_have_their_places_too() {
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
fn controllers_and_jobs_are_watched_by_themselves_where_they_are_asked_for() {
    let wanted = |text: &str, sources: Option<Vec<Source>>| -> Vec<String> {
        let overrides = Overrides { sources, ..Overrides::default() };
        let settings = load(text, &overrides).unwrap_or_else(|problems| panic!("{problems:?}")).settings;
        let selector =
            |kind: &WantedKind| kind.selector.as_ref().map_or_else(String::new, ToString::to_string);
        settings.wanted_kinds().iter().map(|kind| format!("{kind} {}", selector(kind))).collect()
    };
    let opr8r = ["infra.opr8r/v1alpha1 SimpleResource ", "batch/v1 Job infra.opr8r/simpleresource"];
    assert_eq!(wanted("", Some(vec![Source::StatusHash])), opr8r);
    assert_eq!(wanted("sources: {status_hash: []}\n", None), opr8r);
    let widget = "{apiVersion: a.example/*, kind: Widget, algorithm: generation, selector: team=a}";
    assert_eq!(
        wanted(&format!("sources: {{status_hash: [{widget}]}}\n"), None),
        ["a.example/* Widget team=a"]
    );
    let jobs = "terraform_jobs: {label: a.example/of, selector: 'team=b'}\n";
    let both = wanted(&format!("{jobs}sources: {{status_hash: [{widget}]}}\n"), None);
    assert_eq!(both, ["a.example/* Widget team=a", "batch/v1 Job team=b"]);
    assert!(wanted("", None).iter().all(|kind| !kind.contains("Job")), "nobody asked");
}
