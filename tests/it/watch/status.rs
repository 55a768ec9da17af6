//! What controllers record in the status of an object, and how a Job ran.

use drift_exporter::{
    types::{
        Algorithm, ControllerStatus, Digest, HashBaseline, Health, JobRun, Kind, KindName, LiveObject,
        ObservedState, Progress, Scope, Selector, StatusHashAlgorithm, StatusHashSpec, TerraformJobSpec,
        UnknownReason, WantedKind,
    },
    watch::DecodeConfig,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::objects::decode_live;

const APPLIED: &str = "16:testupper=true";

fn simple() -> Kind {
    Kind::undiscovered("infra.opr8r", "v1alpha1", "SimpleResource")
}

fn live(spec: StatusHashSpec, kind: &Kind, object: &Value) -> LiveObject {
    decode_live(kind, &DecodeConfig { records: [spec].into(), ..DecodeConfig::default() }, object)
}

fn decode(spec: StatusHashSpec, kind: &Kind, object: &Value) -> Option<ControllerStatus> {
    live(spec, kind, object).report?.record
}

fn resource(status: &Value) -> Value {
    json!({
        "metadata": {"name": "a", "namespace": "shop", "generation": 4, "managedFields": [
            {"manager": "kubectl-edit", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:spec": {"f:length": {}}}},
            {"manager": "manager", "time": "2026-01-01T00:00:00Z", "subresource": "status", "fieldsV1": {"f:status": {"f:lastAppliedHash": {}, "f:phase": {}}}},
        ]},
        "spec": {"length": 16, "prefix": "test", "vars": {"upper": "true"}}, "status": status,
    })
}

fn record(spec: StatusHashSpec, object: &Value) -> ControllerStatus {
    decode(spec, &simple(), object).unwrap()
}

#[track_caller]
fn check(status: &Value, wanted: &HashBaseline) {
    let found = record(StatusHashSpec::simple_resource(), &resource(status));
    assert_eq!(found.observed_state, ObservedState::Hash(wanted.clone()), "{status}");
}

#[test]
fn recorded_hash_matches_is_absent_or_is_unusable() {
    let digest = Digest::of(APPLIED.as_bytes());
    check(&json!({"lastAppliedHash": digest.to_string()}), &HashBaseline::Match(digest));
    check(&json!({"lastAppliedHash": format!(" sha256:{digest}\n")}), &HashBaseline::Match(digest));
    check(&json!({"lastAppliedHash": format!("opr8r-v1:{digest}")}), &HashBaseline::Match(digest));
    for nothing in [
        json!(null),
        json!({}),
        json!("text"),
        json!([]),
        json!(7),
        json!({"lastAppliedHash": null}),
        json!({"lastAppliedHash": ""}),
    ] {
        check(&nothing, &HashBaseline::Absent);
    }
    for bad in [json!(7), json!("abc"), json!({"a": "b"}), json!([]), json!(true), json!("a".repeat(1 << 20))]
    {
        check(&json!({"lastAppliedHash": bad}), &HashBaseline::Unusable(UnknownReason::BadHash));
    }
    check(&json!({"lastAppliedHash": "md5:00"}), &HashBaseline::Unusable(UnknownReason::UnknownAlgorithm));
}

#[test]
fn mismatch_names_the_manager_of_the_spec_not_of_the_status() {
    let mismatch = |object: &Value| match record(StatusHashSpec::simple_resource(), object).observed_state {
        ObservedState::Hash(HashBaseline::Mismatch(mismatch)) => mismatch,
        state => panic!("{state:?}"),
    };
    let mut object = resource(&json!({"lastAppliedHash": "0".repeat(64)}));
    let other = mismatch(&object);
    assert_eq!(other.actual, Digest::of(APPLIED.as_bytes()));
    assert_eq!(other.responsible_manager().map(|owner| &*owner.manager), Some("kubectl-edit"));
    // The controller has written its status after the edit.
    object["metadata"]["managedFields"][1]["time"] = json!("2026-01-03T00:00:00Z");
    let later = mismatch(&object);
    assert_eq!((&later.owner, &later.recorded_by), (&None, &other.recorded_by));
}

#[test]
fn unreadable_spec_and_other_version_have_no_hash() {
    let status = json!({"lastAppliedHash": "0".repeat(64)});
    for vars in [json!({"a": 1}), json!({"a": {"b": "c"}}), json!([1])] {
        let mut object = resource(&status);
        object["spec"]["vars"] = vars;
        let found = record(StatusHashSpec::simple_resource(), &object).observed_state;
        assert_eq!(found, ObservedState::Hash(HashBaseline::Unusable(UnknownReason::Unreadable)));
    }
    let newer = Kind::undiscovered("infra.opr8r", "v1", "SimpleResource");
    let spec = StatusHashSpec::simple_resource();
    let found = decode(spec, &newer, &resource(&status)).unwrap();
    assert_eq!(
        found.observed_state,
        ObservedState::Hash(HashBaseline::Unusable(UnknownReason::OtherVersion))
    );
}

#[test]
fn phase_message_and_output_names_are_truncated_and_output_values_dropped() {
    let many: serde_json::Map<String, Value> =
        (0..300).map(|at| (format!("{at:03}-{}", "x".repeat(200)), json!("hunter2"))).collect();
    let status = json!({"phase": "Error", "message": "m".repeat(9999), "outputs": many});
    let live = live(StatusHashSpec::simple_resource(), &simple(), &resource(&status));
    let (found, facts) = (live.report.unwrap().record.unwrap(), live.facts);
    assert_eq!((found.progress, found.message.len(), found.outputs.len()), (Progress::Failed, 256, 100));
    assert!(found.outputs[0].starts_with("000-x") && found.outputs[0].len() == 64);
    assert!(!format!("{found:?}").contains("hunter2"));
    assert_eq!((facts.health, facts.message.len()), (Health::Unhealthy, 256));
    for outputs in [json!("text"), json!(["hunter2"]), json!(7)] {
        let object = resource(&json!({"phase": 7, "message": {}, "outputs": outputs}));
        let found = record(StatusHashSpec::simple_resource(), &object);
        assert_eq!((&*found.phase, &*found.message, found.outputs.len()), ("", "", 0));
    }
}

#[test]
fn phase_starts_when_the_status_was_written() {
    let found = record(StatusHashSpec::simple_resource(), &resource(&json!({"phase": "Applying"})));
    let written: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!((found.progress, found.since), (Progress::InProgress, Some(written)));
}

#[test]
fn generation_lag_starts_with_the_edit() {
    let usual = StatusHashAlgorithm::Generation.default_path().unwrap();
    let spec =
        StatusHashSpec::with_defaults(WantedKind::exactly(&simple()), StatusHashAlgorithm::Generation, usual);
    let edited: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    let found = record(spec.clone(), &resource(&json!({"observedGeneration": 3})));
    assert_eq!(found.since, Some(edited));
    assert!(matches!(found.observed_state, ObservedState::Generation { observed: Some(3), current: 4, .. }));
    let none = record(spec.clone(), &resource(&json!({}))).observed_state;
    assert!(matches!(none, ObservedState::Generation { observed: None, current: 4, .. }));
    for bad in [json!("4"), json!(1.5), json!({})] {
        let found = record(spec.clone(), &resource(&json!({"observedGeneration": bad}))).observed_state;
        assert_eq!(found, ObservedState::Hash(HashBaseline::Unusable(UnknownReason::BadHash)));
    }
}

#[test]
fn any_field_of_an_object_can_be_hashed() {
    let widget = Kind::undiscovered("example.com", "v1", "Widget");
    let spec = StatusHashSpec {
        hashed: "spec.gear".parse().unwrap(),
        ..StatusHashSpec::with_defaults(
            WantedKind::exactly(&widget),
            StatusHashAlgorithm::Hash(Algorithm::Sha256Jcs),
            "metadata.annotations[\"example.com/hash\"]".parse().unwrap(),
        )
    };
    let digest = Digest::of(br#"{"a":[1,"x"],"b":2}"#);
    let object = json!({"spec": {"gear": {"b": 2, "a": [1, "x"]}, "other": 1},
    "metadata": {"name": "w", "annotations": {"example.com/hash": digest.to_string()}}});
    let found = |object: &Value| decode(spec.clone(), &widget, object).unwrap().observed_state;
    assert_eq!(found(&object), ObservedState::Hash(HashBaseline::Match(digest)));
    let mut without = object;
    without["spec"] = json!({});
    let unhashable = ObservedState::Hash(HashBaseline::Unusable(UnknownReason::Unhashable));
    assert_eq!(found(&without), unhashable);
}

#[test]
fn objects_outside_the_spec_are_skipped() {
    let mut spec = StatusHashSpec::simple_resource();
    spec.objects.scope = Scope::new(["ops"], []);
    let object = resource(&json!({}));
    assert_eq!(decode(spec, &simple(), &object), None);
    let mut spec = StatusHashSpec::simple_resource();
    spec.objects.selector = Some(Selector::equals("team", "a"));
    assert_eq!(decode(spec, &simple(), &object), None);
    let any = StatusHashSpec {
        objects: WantedKind { kind: KindName::Any, ..StatusHashSpec::simple_resource().objects },
        ..StatusHashSpec::simple_resource()
    };
    assert!(decode(any, &simple(), &object).is_some());
}

fn run(metadata: &Value, status: &Value) -> JobRun {
    let mut spec = TerraformJobSpec::default();
    spec.objects.selector = None;
    let config = DecodeConfig { jobs: Some(spec), ..DecodeConfig::default() };
    let job = json!({"metadata": metadata, "status": status});
    decode_live(&Kind::undiscovered("batch", "v1", "Job"), &config, &job).report.unwrap().run.unwrap()
}

#[test]
fn job_runs_until_a_condition_reports_its_outcome() {
    let labelled = json!({"name": "j-1", "labels": {"infra.opr8r/simpleresource": "db"}});
    let begun = json!({"startTime": "2026-01-01T00:00:00Z", "active": 1});
    let running = run(&labelled, &begun);
    assert_eq!((&*running.subject, running.outcome.is_none(), running.duration()), ("db", true, None));
    let ended = |conditions: Value| {
        run(&labelled, &json!({"startTime": "2026-01-01T00:00:00Z", "conditions": conditions}))
    };
    let failed = ended(json!([
        {"type": "FailureTarget", "status": "True"},
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m".repeat(999), "lastTransitionTime": "2026-01-01T00:01:30Z"},
    ]));
    let outcome = failed.outcome.clone().unwrap();
    assert_eq!(
        (outcome.succeeded, &*outcome.reason, outcome.message.len()),
        (false, "BackoffLimitExceeded", 256)
    );
    assert_eq!(failed.duration().map(|lasted| lasted.as_secs()), Some(90));
    let done =
        ended(json!([{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}]));
    assert!(done.outcome.unwrap().succeeded);
    for odd in [json!([{"type": "Failed", "status": "False"}]), json!("text"), json!([7]), json!(null)] {
        assert_eq!(ended(odd).outcome, None);
    }
}

#[test]
fn job_without_the_label_belongs_to_its_controller() {
    let made = json!({"name": "nightly-1", "ownerReferences": [{"name": "x"}, {"name": "nightly", "controller": true}]});
    assert_eq!(&*run(&made, &json!({})).subject, "nightly");
    assert_eq!(&*run(&json!({"name": "alone"}), &json!({})).subject, "alone");
}
