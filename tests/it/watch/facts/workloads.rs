//! Health and requests of workloads.

use serde_json::{Value, json};

use super::{facts_of, health_check};

fn condition(name: &str, status: &str) -> Value {
    json!({"type": name, "status": status, "message": "why"})
}

#[test]
fn deployment_health_follows_its_available_replicas() {
    let check = health_check("apps", "Deployment");
    let spec = json!({"replicas": 3});
    let all = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3});
    check(&spec, &all, "Healthy");
    check(
        &spec,
        &json!({"observedGeneration": 1}),
        "Unknown Progressing: its controller has not seen this version yet",
    );
    let (late, quota) = (condition("Progressing", "False"), condition("ReplicaFailure", "True"));
    for (changes, expected) in [
        (json!({"availableReplicas": 1}), "Degraded Progressing: 1 of 3 replicas are available"),
        (json!({"availableReplicas": null}), "Unhealthy Progressing: 0 of 3 replicas are available"),
        (json!({"updatedReplicas": 2}), "Healthy Progressing: 2 of 3 replicas are updated"),
        (json!({"replicas": 4}), "Healthy Progressing: 1 replicas of an older version are still there"),
        (json!({"availableReplicas": 2, "conditions": [late]}), "Degraded: why"),
        (json!({"conditions": [quota]}), "Degraded: why"),
    ] {
        let mut status = all.clone();
        status.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        check(&spec, &status, expected);
    }
    let paused = json!({"replicas": 3, "paused": true});
    check(&paused, &all, "Healthy Suspended: it is paused");
    check(&json!({"replicas": 0}), &json!({"observedGeneration": 2}), "Healthy");
}

#[test]
fn stateful_set_may_keep_an_old_revision_on_purpose() {
    let check = health_check("apps", "StatefulSet");
    let ready = |updated: i32| {
        json!({"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": updated,
        "currentRevision": "a", "updateRevision": "b"})
    };
    let spec = |strategy: Value| json!({"replicas": 3, "updateStrategy": strategy});
    let rolling =
        |partition: i32| spec(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}));
    let unready = json!({"observedGeneration": 2, "readyReplicas": 2});
    for (spec, status, expected) in [
        (rolling(0), ready(3), "Healthy"),
        (rolling(0), ready(1), "Healthy Progressing: 1 of 3 replicas are updated"),
        (rolling(2), ready(1), "Healthy"),
        (rolling(1), ready(1), "Healthy Progressing: 1 of 2 replicas are updated"),
        (spec(json!({"type": "OnDelete"})), ready(0), "Healthy"),
        (
            spec(json!({"type": "RollingUpdate"})),
            ready(1),
            "Healthy Progressing: 1 of 3 replicas are updated",
        ),
        (spec(json!({"type": "OnDelete"})), unready, "Degraded Progressing: 2 of 3 replicas are ready"),
    ] {
        check(&spec, &status, expected);
    }
}

#[test]
fn daemon_set_needs_a_pod_on_every_node() {
    let check = health_check("apps", "DaemonSet");
    let status = |updated: i32, available: i32| json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": updated, "numberAvailable": available});
    let (rolling, on_delete) = (json!({}), json!({"updateStrategy": {"type": "OnDelete"}}));
    check(&rolling, &status(3, 3), "Healthy");
    check(&rolling, &status(1, 3), "Healthy Progressing: 1 of 3 nodes have the new version");
    check(&on_delete, &status(1, 3), "Healthy");
    check(&rolling, &status(3, 2), "Degraded Progressing: 2 of 3 nodes have one available");
    check(&rolling, &json!(null), "Unknown: no status");
}

#[test]
fn replica_set_reports_why_it_creates_no_pods() {
    let check = health_check("apps", "ReplicaSet");
    let spec = json!({"replicas": 2});
    let failed = json!({"observedGeneration": 2, "conditions": [condition("ReplicaFailure", "True")]});
    check(&spec, &failed, "Unhealthy: why");
    check(&spec, &json!({"observedGeneration": 2, "availableReplicas": 2}), "Healthy");
}

#[test]
fn job_progresses_is_suspended_fails_or_completes() {
    let check = health_check("batch", "Job");
    let status = |name: &str, status: &str| json!({"conditions": [{"type": name, "status": status, "message": "why"}]});
    let spec = json!({"parallelism": 2});
    check(&spec, &json!({"active": 2}), "Healthy Progressing");
    check(&spec, &json!(null), "Healthy Progressing");
    check(&spec, &status("Failed", "True"), "Unhealthy: why");
    check(&spec, &status("Failed", "False"), "Healthy Progressing");
    check(&spec, &status("Complete", "True"), "Healthy Completed");
    check(&spec, &status("Suspended", "True"), "Healthy Suspended: it is suspended");
    check(&spec, &status("Suspended", "False"), "Healthy Progressing");
}

#[test]
fn cron_job_health_follows_its_last_run() {
    let check = health_check("batch", "CronJob");
    let (on, off) = (json!({"schedule": "@daily"}), json!({"suspend": true}));
    let ran = |scheduled: &str, succeeded: Value| json!({"lastScheduleTime": scheduled, "lastSuccessfulTime": succeeded});
    check(&on, &json!({}), "Healthy");
    check(&on, &ran("2026-01-02T00:00:00Z", json!("2026-01-02T00:01:00Z")), "Healthy");
    for succeeded in [json!("2026-01-01T00:01:00Z"), json!(null)] {
        let failed = ran("2026-01-02T00:00:00Z", succeeded);
        check(&on, &failed, "Degraded: its last run has not succeeded");
    }
    let runs = json!({"active": [{}, {}], "lastScheduleTime": "2026-01-02T00:00:00Z"});
    check(&on, &runs, "Healthy Progressing: 2 of its Jobs run");
    check(&off, &runs, "Healthy Suspended: it is suspended");
}

#[test]
fn ended_pod_requests_nothing() {
    let spec = json!({"containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}}}]});
    for (phase, cpu) in [("Running", Some(1000)), ("Succeeded", None), ("Failed", None)] {
        let status = json!({"phase": phase, "reason": "Evicted"});
        assert_eq!(facts_of("", "Pod", &spec, &status).cpu_request, cpu, "{phase}");
    }
}

#[test]
fn pod_health_follows_its_containers() {
    let check = health_check("", "Pod");
    let (always, once) = (json!({"restartPolicy": "Always"}), json!({"restartPolicy": "Never"}));
    let running = |containers: Value, ready: &str| json!({"phase": "Running", "containerStatuses": containers, "conditions": [{"type": "Ready", "status": ready}]});
    check(&always, &running(json!([]), "True"), "Healthy");
    check(&always, &running(json!([]), "False"), "Degraded Progressing: it is not ready yet");
    let crashed = json!([{"name": "web", "lastState": {"terminated": {"exitCode": 3}}}]);
    check(&always, &running(crashed, "False"), "Unhealthy: container web failed with exit code 3");
    check(&once, &running(json!([]), "True"), "Healthy Progressing");
    let pulling = json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]});
    check(&always, &pulling, "Unhealthy: no such image");
    check(&once, &pulling, "Degraded Progressing: it has not started yet");
    check(&once, &json!({"phase": "Succeeded"}), "Healthy Completed");
    let killed = json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]});
    check(&once, &killed, "Unhealthy: OOMKilled");
    check(&always, &json!({"phase": "Unknown", "message": "lost"}), "Unknown: lost");
}
