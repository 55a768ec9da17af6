//! Decodes what controllers record in the status of an object, and how a Job ran.

use jiff::Timestamp;

use super::{DecodeConfig, decode::unknown_reason};
use crate::{
    diff::{Algorithm, FieldOwners, JsonPart, Node, RecordedHash, hash_object, sha256_jcs, value_at},
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
    object: &Node,
    facts: &mut ObjectFacts,
) -> Option<Box<StatusReport>> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("");
    let label = |name: &str| object["metadata"]["labels"][name].as_str();
    let spec = config.records.iter().find(|spec| spec.objects.matches_object(kind, namespace, label));
    let prefix = &config.annotation_prefix;
    let record = spec.map(|spec| RecordDecoder { spec, kind, object, prefix }.decode());
    let run = config.jobs.as_ref().filter(|spec| spec.objects.matches_object(kind, namespace, label));
    let run = run.map(|spec| job_run(spec, object));
    if let Some(record) = &record {
        set_health_from_phase(record, facts);
    }
    (record.is_some() || run.is_some()).then(|| Box::new(StatusReport { record, run }))
}

struct RecordDecoder<'a> {
    spec: &'a StatusHashSpec,
    kind: &'a Kind,
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
        let Self { spec, kind, object, prefix } = self;
        // Fields have other names in other versions, so the hash of one version says nothing about another.
        if spec.objects.version.as_ref().is_some_and(|version| *version != kind.version) {
            return Err(UnknownReason::OtherVersion);
        }
        match algorithm {
            Algorithm::Sha256Jcs => {
                let hashed = value_at(object, &spec.hashed).ok_or(UnknownReason::Unhashable)?;
                sha256_jcs(hashed).map_err(|_| UnknownReason::Unhashable)
            }
            Algorithm::TfdriftV1 | Algorithm::JcsV1 | Algorithm::Opr8rV1 => {
                hash_object(algorithm, kind, JsonPart::Tree(object), prefix)
                    .map_err(|error| unknown_reason(&error))
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
