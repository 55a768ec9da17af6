//! How a Job ran, from its status.

use jiff::Timestamp;
use serde_json::Value;

use super::report::{LONGEST_MESSAGE, LONGEST_NAME, cut};
use crate::types::{JobOutcome, JobRun, JobSpec};

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
    use serde_json::{Value, json};

    use super::{JobRun, JobSpec, job_run};

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
