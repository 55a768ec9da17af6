//! What is read of an object's status: what its controller recorded, and how a Job ran.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{DecodeConfig, decode::reason};
use crate::{
    diff::{Algorithm, Owners, Recorded, find, fingerprint, sha256_jcs},
    types::{
        Digest, Facts, FieldPath, HashBaseline, HashMismatch, Health, JobOutcome, JobRun, JobSpec, Kind,
        ObservedState, Progress, Record, RecordAlgorithm, RecordSpec, Report, UnknownReason,
    },
};

/// Longest message that is kept, in characters.
pub(super) const LONGEST_MESSAGE: usize = 256;
/// Longest name of a phase, a reason or an output.
pub(super) const LONGEST_NAME: usize = 64;
/// Most names of outputs that are kept.
const MOST_OUTPUTS: usize = 100;

/// Reads what is asked for of the status of objects of one kind.
#[derive(Clone, Debug)]
pub(super) struct ReportReader {
    records: Arc<[RecordSpec]>,
    jobs: Option<JobSpec>,
    prefix: Box<str>,
}

impl ReportReader {
    /// A reader of what is asked for of one kind.
    pub(super) fn new(reading: &DecodeConfig) -> Self {
        Self {
            records: reading.records.clone(),
            jobs: reading.jobs.clone(),
            prefix: reading.annotation_prefix.clone(),
        }
    }

    /// What the object's status tells, and what follows from it for its health. None where nobody asks.
    pub(super) fn read(&self, kind: &Kind, text: &str, facts: &mut Facts) -> Option<Box<Report>> {
        if self.records.is_empty() && self.jobs.is_none() {
            return None;
        }
        let object: Value = serde_json::from_str(text).ok()?;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("");
        let label = |name: &str| object["metadata"]["labels"][name].as_str();
        let spec = self.records.iter().find(|spec| spec.objects.wants(kind, namespace, label));
        let record = spec.map(|spec| self.record(spec, kind, text, &object));
        let run = self.jobs.as_ref().filter(|spec| spec.objects.wants(kind, namespace, label));
        let run = run.map(|spec| job_run(spec, &object));
        if let Some(record) = &record {
            judge_health(record, facts);
        }
        (record.is_some() || run.is_some()).then(|| Box::new(Report { record, run }))
    }

    fn record(&self, spec: &RecordSpec, kind: &Kind, text: &str, object: &Value) -> Record {
        let words = |path: &FieldPath, longest| {
            cut(find(object, path).and_then(Value::as_str).unwrap_or_default(), longest)
        };
        let phase = spec.phase.as_ref().map(|path| words(path, LONGEST_NAME)).unwrap_or_default();
        let progress = if spec.error_phases.contains(&phase) {
            Progress::Failed
        } else if spec.in_flight_phases.contains(&phase) {
            Progress::Underway
        } else {
            Progress::Settled
        };
        let owners = Owners::of(object);
        let owned_at = |path: &FieldPath| owners.owner(path).and_then(|writer| writer.time);
        let (standing, behind_since) = self.standing(spec, kind, text, object, &owners);
        let since = match (&spec.phase, progress) {
            (Some(path), Progress::Underway) => owned_at(path),
            (Some(_) | None, _) => behind_since,
        };
        let (message, outputs) = (words(&spec.message, LONGEST_MESSAGE), outputs(spec, object));
        Record { standing, phase, progress, message, outputs, since, grace: spec.grace }
    }

    /// Whether what the controller has applied is what is declared, and since when it may not be.
    fn standing(
        &self,
        spec: &RecordSpec,
        kind: &Kind,
        text: &str,
        object: &Value,
        owners: &Owners<'_>,
    ) -> (ObservedState, Option<Timestamp>) {
        let recorded = find(object, &spec.recorded).filter(|value| !value.is_null() && *value != "");
        let stamped = owners.owner(&spec.recorded).and_then(|writer| writer.time);
        // Who owns what is declared may have written before the record, or after.
        let last = owners.owner(&spec.hashed).cloned();
        let writer = last.clone().filter(|writer| writer.time > stamped);
        let since = writer.as_ref().and_then(|writer| writer.time);
        let standing = match spec.algorithm {
            RecordAlgorithm::Hash(algorithm) => ObservedState::Hash(match recorded {
                None => HashBaseline::Absent,
                Some(recorded) => {
                    let actual = || self.hash(algorithm, spec, kind, text, object);
                    let both = recorded_hash(algorithm, recorded).and_then(|own| Ok((own, actual()?)));
                    match both {
                        Err(reason) => HashBaseline::Unusable(reason),
                        Ok((expected, actual)) if expected == actual => HashBaseline::Match(actual),
                        Ok((expected, actual)) => HashBaseline::Mismatch(Box::new(HashMismatch {
                            algorithm,
                            expected,
                            actual,
                            writer,
                            recorder: last,
                        })),
                    }
                }
            }),
            RecordAlgorithm::Generation => match (recorded, recorded.and_then(Value::as_i64)) {
                (Some(_), None) => ObservedState::Hash(HashBaseline::Unusable(UnknownReason::BadHash)),
                (_, observed) => {
                    let current = object["metadata"]["generation"].as_i64().unwrap_or_default();
                    ObservedState::Generation { observed, current, writer: last }
                }
            },
        };
        (standing, since)
    }

    fn hash(
        &self,
        algorithm: Algorithm,
        spec: &RecordSpec,
        kind: &Kind,
        text: &str,
        object: &Value,
    ) -> Result<Digest, UnknownReason> {
        // What another version calls its fields says nothing about what was hashed.
        if spec.objects.version.as_ref().is_some_and(|version| *version != kind.version) {
            return Err(UnknownReason::OtherVersion);
        }
        match algorithm {
            Algorithm::Sha256Jcs => {
                let hashed = find(object, &spec.hashed).ok_or(UnknownReason::Unhashable)?;
                sha256_jcs(hashed).map_err(|_| UnknownReason::Unhashable)
            }
            Algorithm::TfdriftV1 | Algorithm::JcsV1 | Algorithm::Opr8rV1 => {
                fingerprint(algorithm, kind, text, &self.prefix).map_err(|error| reason(&error))
            }
        }
    }
}

fn recorded_hash(algorithm: Algorithm, recorded: &Value) -> Result<Digest, UnknownReason> {
    let text = recorded.as_str().ok_or(UnknownReason::BadHash)?;
    Recorded::parse_as(algorithm, text).map(|recorded| recorded.digest)
}

/// Names only, whatever their values are.
fn outputs(spec: &RecordSpec, object: &Value) -> Box<[Box<str>]> {
    let found = spec.outputs.as_ref().and_then(|path| find(object, path)).and_then(Value::as_object);
    let names = found.into_iter().flat_map(|outputs| outputs.keys());
    let mut names: Vec<Box<str>> = names.map(|name| cut(name, LONGEST_NAME)).collect();
    names.sort();
    names.truncate(MOST_OUTPUTS);
    names.into()
}

/// A phase tells how an object is where no condition does.
fn judge_health(record: &Record, facts: &mut Facts) {
    match record.progress {
        Progress::Failed => {
            facts.health = Health::Unhealthy;
            facts.message = record.message.clone();
        }
        Progress::Settled if facts.health == Health::Unknown && &*record.phase == "Ready" => {
            facts.health = Health::Healthy;
            facts.message = Box::default();
        }
        Progress::Settled | Progress::Underway => {}
    }
}

/// The beginning of a text.
pub(super) fn cut(text: &str, longest: usize) -> Box<str> {
    text.chars().take(longest).collect::<String>().into()
}

/// How a Job ran, or runs.
pub(super) fn job_run(spec: &JobSpec, object: &Value) -> JobRun {
    let (metadata, status) = (&object["metadata"], &object["status"]);
    let time = |value: &Value| value.as_str().and_then(|time| time.parse::<Timestamp>().ok());
    let word = |value: &Value, longest| cut(value.as_str().unwrap_or_default(), longest);
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is = |name: &str| {
        conditions.iter().find(|condition| condition["type"] == name && condition["status"] == "True")
    };
    let ended = is("Complete").map(|own| (true, own)).or_else(|| is("Failed").map(|own| (false, own)));
    let outcome = ended.map(|(succeeded, condition)| JobOutcome {
        succeeded,
        // Only those that succeed have a time of completion.
        ended: time(&status["completionTime"]).or_else(|| time(&condition["lastTransitionTime"])),
        reason: word(&condition["reason"], LONGEST_NAME),
        message: word(&condition["message"], LONGEST_MESSAGE),
    });
    let (created, started) = (time(&metadata["creationTimestamp"]), time(&status["startTime"]));
    JobRun { subject: subject(spec, metadata).into(), created, started, outcome }
}

/// What a Job runs for: by its label, else by what made it, else itself. Names of Jobs change with each run, the others stay.
fn subject<'a>(spec: &JobSpec, metadata: &'a Value) -> &'a str {
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let maker =
        || owners.filter(|owner| owner["controller"] == true).find_map(|owner| owner["name"].as_str());
    let label = metadata["labels"][&*spec.label].as_str().filter(|name| !name.is_empty());
    label.or_else(maker).or_else(|| metadata["name"].as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{Facts, JobRun, JobSpec, ReportReader, job_run};
    use crate::{
        types::{
            Digest, HashBaseline, Health, Kind, KindName, ObservedState, Progress, Record, RecordAlgorithm,
            RecordSpec, UnknownReason, WantedKind,
        },
        watch::DecodeConfig,
    };

    const APPLIED: &str = "16:testupper=true";

    fn simple() -> Kind {
        Kind::unseen("infra.opr8r", "v1alpha1", "SimpleResource")
    }

    fn reader(spec: RecordSpec) -> ReportReader {
        ReportReader::new(&DecodeConfig { records: [spec].into(), ..DecodeConfig::default() })
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

    fn record(spec: RecordSpec, object: &Value) -> Record {
        let report = reader(spec).read(&simple(), &object.to_string(), &mut Facts::default());
        report.unwrap().record.unwrap()
    }

    #[track_caller]
    fn check(status: &Value, wanted: &HashBaseline) {
        let found = record(RecordSpec::simple_resource(), &resource(status));
        assert_eq!(found.standing, ObservedState::Hash(wanted.clone()), "{status}");
    }

    #[test]
    fn a_recorded_hash_fits_or_does_not_or_is_none() {
        let own = Digest::of(APPLIED.as_bytes());
        check(&json!({"lastAppliedHash": own.to_string()}), &HashBaseline::Match(own));
        check(&json!({"lastAppliedHash": format!(" sha256:{own}\n")}), &HashBaseline::Match(own));
        check(&json!({"lastAppliedHash": format!("opr8r-v1:{own}")}), &HashBaseline::Match(own));
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
    fn another_hash_names_who_wrote_the_spec_and_not_who_wrote_the_status() {
        let status = json!({"lastAppliedHash": "0".repeat(64)});
        let mut object = resource(&status);
        let ObservedState::Hash(HashBaseline::Mismatch(other)) =
            record(RecordSpec::simple_resource(), &object).standing
        else {
            panic!("it differs")
        };
        assert_eq!(other.actual, Digest::of(APPLIED.as_bytes()));
        assert_eq!(other.culprit().map(|writer| &*writer.manager), Some("kubectl-edit"));
        // The controller has written its status again since.
        object["metadata"]["managedFields"][1]["time"] = json!("2026-01-03T00:00:00Z");
        let ObservedState::Hash(HashBaseline::Mismatch(later)) =
            record(RecordSpec::simple_resource(), &object).standing
        else {
            panic!("it differs")
        };
        assert_eq!((&later.writer, &later.recorder), (&None, &other.recorder));
    }

    #[test]
    fn a_spec_that_opr8r_could_not_read_and_another_version_have_no_hash() {
        let status = json!({"lastAppliedHash": "0".repeat(64)});
        for vars in [json!({"a": 1}), json!({"a": {"b": "c"}}), json!([1])] {
            let mut object = resource(&status);
            object["spec"]["vars"] = vars;
            let found = record(RecordSpec::simple_resource(), &object).standing;
            assert_eq!(found, ObservedState::Hash(HashBaseline::Unusable(UnknownReason::Unreadable)));
        }
        let newer = Kind::unseen("infra.opr8r", "v1", "SimpleResource");
        let object = resource(&status).to_string();
        let report = reader(RecordSpec::simple_resource()).read(&newer, &object, &mut Facts::default());
        let found = report.unwrap().record.unwrap().standing;
        assert_eq!(found, ObservedState::Hash(HashBaseline::Unusable(UnknownReason::OtherVersion)));
    }

    #[test]
    fn phase_message_and_names_of_outputs_are_kept_within_bounds_and_values_never() {
        let many: serde_json::Map<String, Value> =
            (0..300).map(|at| (format!("{at:03}-{}", "x".repeat(200)), json!("hunter2"))).collect();
        let status = json!({"phase": "Error", "message": "m".repeat(9999), "outputs": many});
        let object = resource(&status);
        let mut facts = Facts::default();
        let report = reader(RecordSpec::simple_resource()).read(&simple(), &object.to_string(), &mut facts);
        let found = report.unwrap().record.unwrap();
        assert_eq!((found.progress, found.message.len(), found.outputs.len()), (Progress::Failed, 256, 100));
        assert!(found.outputs[0].starts_with("000-x") && found.outputs[0].len() == 64);
        assert!(!format!("{found:?}").contains("hunter2"));
        assert_eq!((facts.health, facts.message.len()), (Health::Unhealthy, 256));
        for outputs in [json!("text"), json!(["hunter2"]), json!(7)] {
            let object = resource(&json!({"phase": 7, "message": {}, "outputs": outputs}));
            let found = record(RecordSpec::simple_resource(), &object);
            assert_eq!((&*found.phase, &*found.message, found.outputs.len()), ("", "", 0));
        }
    }

    #[test]
    fn a_phase_lasts_since_the_status_was_written() {
        let found = record(RecordSpec::simple_resource(), &resource(&json!({"phase": "Applying"})));
        let written: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!((found.progress, found.since), (Progress::Underway, Some(written)));
    }

    #[test]
    fn generations_are_compared_and_their_lag_is_as_old_as_the_edit() {
        let usual = RecordAlgorithm::Generation.usual_place().unwrap();
        let spec = RecordSpec::usual(WantedKind::exactly(&simple()), RecordAlgorithm::Generation, usual);
        let edited: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let found = record(spec.clone(), &resource(&json!({"observedGeneration": 3})));
        assert_eq!(found.since, Some(edited));
        assert!(matches!(found.standing, ObservedState::Generation { observed: Some(3), current: 4, .. }));
        let none = record(spec.clone(), &resource(&json!({}))).standing;
        assert!(matches!(none, ObservedState::Generation { observed: None, current: 4, .. }));
        for bad in [json!("4"), json!(1.5), json!({})] {
            let found = record(spec.clone(), &resource(&json!({"observedGeneration": bad}))).standing;
            assert_eq!(found, ObservedState::Hash(HashBaseline::Unusable(UnknownReason::BadHash)));
        }
    }

    #[test]
    fn any_part_of_an_object_can_be_what_is_hashed() {
        let widget = Kind::unseen("example.com", "v1", "Widget");
        let spec = RecordSpec {
            hashed: "spec.gear".parse().unwrap(),
            ..RecordSpec::usual(
                WantedKind::exactly(&widget),
                RecordAlgorithm::Hash(crate::diff::Algorithm::Sha256Jcs),
                "metadata.annotations[\"example.com/hash\"]".parse().unwrap(),
            )
        };
        let own = Digest::of(br#"{"a":[1,"x"],"b":2}"#);
        let object = json!({"spec": {"gear": {"b": 2, "a": [1, "x"]}, "other": 1},
        "metadata": {"name": "w", "annotations": {"example.com/hash": own.to_string()}}});
        let found =
            |object: &Value| reader(spec.clone()).read(&widget, &object.to_string(), &mut Facts::default());
        assert_eq!(
            found(&object).unwrap().record.unwrap().standing,
            ObservedState::Hash(HashBaseline::Match(own))
        );
        let mut without = object;
        without["spec"] = json!({});
        let unhashable = ObservedState::Hash(HashBaseline::Unusable(UnknownReason::Unhashable));
        assert_eq!(found(&without).unwrap().record.unwrap().standing, unhashable);
    }

    #[test]
    fn only_objects_that_are_asked_for_are_read() {
        let mut spec = RecordSpec::simple_resource();
        spec.objects.scope = crate::types::Scope::new(["ops"], []);
        let object = resource(&json!({})).to_string();
        assert_eq!(reader(spec).read(&simple(), &object, &mut Facts::default()), None);
        let mut spec = RecordSpec::simple_resource();
        spec.objects.selector = Some(crate::types::Selector::has("team", "a"));
        assert_eq!(reader(spec).read(&simple(), &object, &mut Facts::default()), None);
        let any = RecordSpec {
            objects: WantedKind { kind: KindName::Every, ..RecordSpec::simple_resource().objects },
            ..RecordSpec::simple_resource()
        };
        assert!(reader(any).read(&simple(), &object, &mut Facts::default()).is_some());
    }

    fn run(metadata: &Value, status: &Value) -> JobRun {
        job_run(&JobSpec::default(), &json!({"metadata": metadata, "status": status}))
    }

    #[test]
    fn a_job_runs_until_a_condition_says_how_it_ended() {
        let labelled = json!({"name": "j-1", "labels": {"infra.opr8r/simpleresource": "db"}});
        let begun = json!({"startTime": "2026-01-01T00:00:00Z", "active": 1});
        let running = run(&labelled, &begun);
        assert_eq!((&*running.subject, running.outcome.is_none(), running.lasted()), ("db", true, None));
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
        assert_eq!(failed.lasted().map(|lasted| lasted.as_secs()), Some(90));
        let done = ended(
            json!([{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}]),
        );
        assert!(done.outcome.unwrap().succeeded);
        for odd in [json!([{"type": "Failed", "status": "False"}]), json!("text"), json!([7]), json!(null)] {
            assert_eq!(ended(odd).outcome, None);
        }
    }

    #[test]
    fn a_job_without_the_label_runs_for_what_made_it() {
        let made = json!({"name": "nightly-1", "ownerReferences": [{"name": "x"}, {"name": "nightly", "controller": true}]});
        assert_eq!(&*run(&made, &json!({})).subject, "nightly");
        assert_eq!(&*run(&json!({"name": "alone"}), &json!({})).subject, "alone");
    }
}
