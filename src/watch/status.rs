//! Decodes what controllers record in the status of an object, and how a Job ran.

use jiff::Timestamp;

use super::{DecodeConfig, decode::unknown_reason};
use crate::{
    diff::{Algorithm, Digests, FieldOwners, Node, RecordedHash, fingerprint, sha256_jcs, value_at},
    types::{
        ControllerStatus, Digest, FieldPath, HashBaseline, HashMismatch, Health, JobOutcome, JobRun, Kind,
        ObjectFacts, ObservedState, Progress, StatusHashAlgorithm, StatusHashSpec, StatusReport,
        TerraformJobSpec, UnknownReason,
    },
};

pub(super) const MAX_MESSAGE_CHARS: usize = 256;
/// Limit for the name of a phase, a reason or an output.
const MAX_NAME_CHARS: usize = 64;
const MAX_OUTPUTS: usize = 100;

/// Returns `None` if no spec matches the object. A recorded phase also sets the health in `facts`.
pub(super) fn decode_status(
    config: &DecodeConfig,
    kind: &Kind,
    text: &str,
    facts: &mut ObjectFacts,
) -> Option<Box<StatusReport>> {
    if config.records.is_empty() && config.jobs.is_none() {
        return None;
    }
    let object: Node = serde_json::from_str(text).ok()?;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("");
    let label = |name: &str| object["metadata"]["labels"][name].as_str();
    let spec = config.records.iter().find(|spec| spec.objects.matches_object(kind, namespace, label));
    let prefix = &config.annotation_prefix;
    let record = spec.map(|spec| RecordDecoder { spec, kind, json: text, object: &object, prefix }.decode());
    let run = config.jobs.as_ref().filter(|spec| spec.objects.matches_object(kind, namespace, label));
    let run = run.map(|spec| job_run(spec, &object));
    if let Some(record) = &record {
        set_health_from_phase(record, facts);
    }
    (record.is_some() || run.is_some()).then(|| Box::new(StatusReport { record, run }))
}

struct RecordDecoder<'a> {
    spec: &'a StatusHashSpec,
    kind: &'a Kind,
    json: &'a str,
    object: &'a Node,
    prefix: &'a str,
}

impl RecordDecoder<'_> {
    fn decode(&self) -> ControllerStatus {
        let Self { spec, object, .. } = self;
        let text = |path: &FieldPath, max_chars| {
            truncate(value_at(object, path).and_then(Node::as_str).unwrap_or_default(), max_chars)
        };
        let phase = spec.phase.as_ref().map(|path| text(path, MAX_NAME_CHARS)).unwrap_or_default();
        let progress = if spec.error_phases.contains(&phase) {
            Progress::Failed
        } else if spec.in_flight_phases.contains(&phase) {
            Progress::InProgress
        } else {
            Progress::Done
        };
        let owners = FieldOwners::of(object);
        let (observed_state, edited_at) = self.observed_state(&owners);
        let since = match (&spec.phase, progress) {
            (Some(path), Progress::InProgress) => owners.owner_at(path).and_then(|manager| manager.time),
            (Some(_) | None, _) => edited_at,
        };
        let (message, outputs) = (text(&spec.message, MAX_MESSAGE_CHARS), outputs(spec, object));
        ControllerStatus { observed_state, phase, progress, message, outputs, since, grace: spec.grace }
    }

    /// Compares what the controller recorded with what is declared. The time is that of the last edit since the record.
    fn observed_state(&self, owners: &FieldOwners<'_>) -> (ObservedState, Option<Timestamp>) {
        let Self { spec, object, .. } = self;
        let recorded =
            value_at(object, &spec.recorded).filter(|value| !value.is_null() && value.as_str() != Some(""));
        let recorded_at = owners.owner_at(&spec.recorded).and_then(|manager| manager.time);
        let last_writer = owners.owner_at(&spec.hashed).cloned();
        let owner = last_writer.clone().filter(|manager| manager.time > recorded_at);
        let edited_at = owner.as_ref().and_then(|manager| manager.time);
        let state = match spec.algorithm {
            StatusHashAlgorithm::Hash(algorithm) => ObservedState::Hash(match recorded {
                None => HashBaseline::Absent,
                Some(recorded) => {
                    let both = |expected| Ok((expected, self.hash(algorithm)?));
                    match recorded_hash(algorithm, recorded).and_then(both) {
                        Err(reason) => HashBaseline::Unusable(reason),
                        Ok((expected, actual)) if expected == actual => HashBaseline::Match(actual),
                        Ok((expected, actual)) => HashBaseline::Mismatch(Box::new(HashMismatch {
                            algorithm,
                            expected,
                            actual,
                            owner,
                            recorded_by: last_writer,
                        })),
                    }
                }
            }),
            StatusHashAlgorithm::Generation => match (recorded, recorded.and_then(Node::as_i64)) {
                (Some(_), None) => ObservedState::Hash(HashBaseline::Unusable(UnknownReason::BadHash)),
                (_, observed) => {
                    let current = object["metadata"]["generation"].as_i64().unwrap_or_default();
                    ObservedState::Generation { observed, current, owner: last_writer }
                }
            },
        };
        (state, edited_at)
    }

    fn hash(&self, algorithm: Algorithm) -> Result<Digest, UnknownReason> {
        let Self { spec, kind, json, object, prefix } = self;
        // Fields have other names in other versions, so the hash of one version says nothing about another.
        if spec.objects.version.as_ref().is_some_and(|version| *version != kind.version) {
            return Err(UnknownReason::OtherVersion);
        }
        match algorithm {
            Algorithm::Sha256Jcs => {
                let hashed = value_at(object, &spec.hashed).ok_or(UnknownReason::Unhashable)?;
                sha256_jcs(&hashed.to_value(&Digests::to_text)).map_err(|_| UnknownReason::Unhashable)
            }
            Algorithm::TfdriftV1 | Algorithm::JcsV1 | Algorithm::Opr8rV1 => {
                fingerprint(algorithm, kind, json, prefix).map_err(|error| unknown_reason(&error))
            }
        }
    }
}

fn recorded_hash(algorithm: Algorithm, recorded: &Node) -> Result<Digest, UnknownReason> {
    let text = recorded.as_str().ok_or(UnknownReason::BadHash)?;
    RecordedHash::parse_as(algorithm, text).map(|recorded| recorded.digest)
}

/// Names only: values may be secret.
fn outputs(spec: &StatusHashSpec, object: &Node) -> Box<[Box<str>]> {
    let outputs = spec.outputs.as_ref().and_then(|path| value_at(object, path)).and_then(Node::as_object);
    let names = outputs.into_iter().flat_map(|outputs| outputs.keys());
    let mut names: Vec<Box<str>> = names.map(|name| truncate(name, MAX_NAME_CHARS)).collect();
    names.sort();
    names.truncate(MAX_OUTPUTS);
    names.into()
}

/// A failed phase outranks conditions; the phase `Ready` counts where conditions are inconclusive.
fn set_health_from_phase(record: &ControllerStatus, facts: &mut ObjectFacts) {
    match record.progress {
        Progress::Failed => {
            facts.health = Health::Unhealthy;
            facts.message = record.message.clone();
        }
        Progress::Done if facts.health == Health::Unknown && &*record.phase == "Ready" => {
            facts.health = Health::Healthy;
            facts.message = Box::default();
        }
        Progress::Done | Progress::InProgress => {}
    }
}

pub(super) fn truncate(text: &str, max_chars: usize) -> Box<str> {
    text.chars().take(max_chars).collect::<String>().into()
}

fn job_run(spec: &TerraformJobSpec, object: &Node) -> JobRun {
    let (metadata, status) = (&object["metadata"], &object["status"]);
    let time = |value: &Node| value.as_str().and_then(|time| time.parse::<Timestamp>().ok());
    let text = |value: &Node, max_chars| truncate(value.as_str().unwrap_or_default(), max_chars);
    let conditions = status["conditions"].elements();
    let condition = |name: &str| {
        conditions.iter().find(|condition| condition["type"] == name && condition["status"] == "True")
    };
    let complete = condition("Complete").map(|condition| (true, condition));
    let outcome = complete.or_else(|| condition("Failed").map(|condition| (false, condition)));
    let outcome = outcome.map(|(succeeded, condition)| JobOutcome {
        succeeded,
        // Failed Jobs have no completionTime.
        ended: time(&status["completionTime"]).or_else(|| time(&condition["lastTransitionTime"])),
        reason: text(&condition["reason"], MAX_NAME_CHARS),
        message: text(&condition["message"], MAX_MESSAGE_CHARS),
    });
    let (created, started) = (time(&metadata["creationTimestamp"]), time(&status["startTime"]));
    JobRun { subject: job_subject(spec, metadata).into(), created, started, outcome }
}

/// The name that stays the same over all runs: the value of the label, else the controller, else the Job itself.
fn job_subject<'a>(spec: &TerraformJobSpec, metadata: &'a Node) -> &'a str {
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let controller = || {
        owners
            .filter(|owner| owner["controller"] == Node::Bool(true))
            .find_map(|owner| owner["name"].as_str())
    };
    let label = metadata["labels"][&*spec.label].as_str().filter(|name| !name.is_empty());
    label.or_else(controller).or_else(|| metadata["name"].as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{JobRun, ObjectFacts, TerraformJobSpec, decode_status, job_run};
    use crate::{
        types::{
            ControllerStatus, Digest, HashBaseline, Health, Kind, KindName, ObservedState, Progress,
            StatusHashAlgorithm, StatusHashSpec, UnknownReason, WantedKind,
        },
        watch::DecodeConfig,
    };

    const APPLIED: &str = "16:testupper=true";

    fn simple() -> Kind {
        Kind::undiscovered("infra.opr8r", "v1alpha1", "SimpleResource")
    }

    fn decode(
        spec: StatusHashSpec,
        kind: &Kind,
        object: &Value,
        facts: &mut ObjectFacts,
    ) -> Option<ControllerStatus> {
        let config = DecodeConfig { records: [spec].into(), ..DecodeConfig::default() };
        decode_status(&config, kind, &object.to_string(), facts)?.record
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
        decode(spec, &simple(), object, &mut ObjectFacts::default()).unwrap()
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
        for bad in
            [json!(7), json!("abc"), json!({"a": "b"}), json!([]), json!(true), json!("a".repeat(1 << 20))]
        {
            check(&json!({"lastAppliedHash": bad}), &HashBaseline::Unusable(UnknownReason::BadHash));
        }
        check(
            &json!({"lastAppliedHash": "md5:00"}),
            &HashBaseline::Unusable(UnknownReason::UnknownAlgorithm),
        );
    }

    #[test]
    fn mismatch_names_the_manager_of_the_spec_not_of_the_status() {
        let mismatch = |object: &Value| match record(StatusHashSpec::simple_resource(), object).observed_state
        {
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
        let found = decode(spec, &newer, &resource(&status), &mut ObjectFacts::default()).unwrap();
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
        let mut facts = ObjectFacts::default();
        let spec = StatusHashSpec::simple_resource();
        let found = decode(spec, &simple(), &resource(&status), &mut facts).unwrap();
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
        let spec = StatusHashSpec::with_defaults(
            WantedKind::exactly(&simple()),
            StatusHashAlgorithm::Generation,
            usual,
        );
        let edited: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let found = record(spec.clone(), &resource(&json!({"observedGeneration": 3})));
        assert_eq!(found.since, Some(edited));
        assert!(matches!(
            found.observed_state,
            ObservedState::Generation { observed: Some(3), current: 4, .. }
        ));
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
                StatusHashAlgorithm::Hash(crate::diff::Algorithm::Sha256Jcs),
                "metadata.annotations[\"example.com/hash\"]".parse().unwrap(),
            )
        };
        let digest = Digest::of(br#"{"a":[1,"x"],"b":2}"#);
        let object = json!({"spec": {"gear": {"b": 2, "a": [1, "x"]}, "other": 1},
        "metadata": {"name": "w", "annotations": {"example.com/hash": digest.to_string()}}});
        let found = |object: &Value| {
            decode(spec.clone(), &widget, object, &mut ObjectFacts::default()).unwrap().observed_state
        };
        assert_eq!(found(&object), ObservedState::Hash(HashBaseline::Match(digest)));
        let mut without = object;
        without["spec"] = json!({});
        let unhashable = ObservedState::Hash(HashBaseline::Unusable(UnknownReason::Unhashable));
        assert_eq!(found(&without), unhashable);
    }

    #[test]
    fn objects_outside_the_spec_are_skipped() {
        let mut spec = StatusHashSpec::simple_resource();
        spec.objects.scope = crate::types::Scope::new(["ops"], []);
        let object = resource(&json!({}));
        assert_eq!(decode(spec, &simple(), &object, &mut ObjectFacts::default()), None);
        let mut spec = StatusHashSpec::simple_resource();
        spec.objects.selector = Some(crate::types::Selector::equals("team", "a"));
        assert_eq!(decode(spec, &simple(), &object, &mut ObjectFacts::default()), None);
        let any = StatusHashSpec {
            objects: WantedKind { kind: KindName::Any, ..StatusHashSpec::simple_resource().objects },
            ..StatusHashSpec::simple_resource()
        };
        assert!(decode(any, &simple(), &object, &mut ObjectFacts::default()).is_some());
    }

    fn run(metadata: &Value, status: &Value) -> JobRun {
        job_run(&TerraformJobSpec::default(), &json!({"metadata": metadata, "status": status}).into())
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
        let done = ended(
            json!([{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}]),
        );
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
}
