//! Jobs and `CronJobs`: what runs until it is done.

use serde::{Deserialize, de::IgnoredAny};

use super::{
    Parts,
    pods::of_template,
    wellness::{Conditions, Wellness, read},
};
use crate::{
    diff::{TemplateView, Text},
    types::{Facts, Health, Phase},
};

#[derive(Default, Deserialize)]
struct JobSpec<'a> {
    parallelism: Option<i32>,
    #[serde(default)]
    suspend: Option<bool>,
    #[serde(borrow)]
    template: Option<TemplateView<'a>>,
}

/// Facts about a Job. What has ended, or waits, runs nothing.
pub(super) fn of_job(parts: Parts<'_>) -> Facts {
    #[derive(Default, Deserialize)]
    struct Status<'a> {
        #[serde(borrow, default)]
        conditions: Conditions<'a>,
    }
    let spec = read::<JobSpec<'_>>(parts.spec).unwrap_or_default();
    let conditions = read::<Status<'_>>(parts.status).unwrap_or_default().conditions;
    let wellness = if let Some(failed) = conditions.when("Failed", "True") {
        Wellness::new(Health::Unhealthy, failed.words())
    } else if conditions.when("Complete", "True").is_some() {
        Wellness::completed()
    } else if conditions.when("Suspended", "True").is_some() || spec.suspend == Some(true) {
        Wellness::suspended("it is suspended")
    } else {
        Wellness::progressing(Health::Healthy, "")
    };
    let runs = wellness.phase == Some(Phase::Progressing);
    let replicas = if runs { spec.parallelism.unwrap_or(1) } else { 0 };
    of_template(Facts { replicas: Some(replicas), ..wellness.into_facts() }, spec.template.as_ref())
}

/// Facts about a `CronJob`, whose replicas are the Jobs that run now.
pub(super) fn of_cron_job(parts: Parts<'_>) -> Facts {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        suspend: Option<bool>,
        #[serde(borrow)]
        job_template: Option<JobTemplate<'a>>,
    }
    #[derive(Deserialize)]
    struct JobTemplate<'a> {
        #[serde(borrow)]
        spec: Option<JobSpec<'a>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status<'a> {
        active: Option<Vec<IgnoredAny>>,
        #[serde(borrow, default)]
        last_schedule_time: Text<'a>,
        #[serde(borrow, default)]
        last_successful_time: Text<'a>,
    }
    let spec = read::<Spec<'_>>(parts.spec).unwrap_or_default();
    let status = read::<Status<'_>>(parts.status).unwrap_or_default();
    let running = status.active.map_or(0, |active| active.len());
    // Times of this form are in order as their texts are.
    let failed = status.last_schedule_time > status.last_successful_time;
    let wellness = if spec.suspend == Some(true) {
        Wellness::suspended("it is suspended")
    } else if running > 0 {
        Wellness::progressing(Health::Healthy, format!("{running} of its Jobs run"))
    } else if failed {
        Wellness::new(Health::Degraded, "its last run has not succeeded")
    } else {
        Wellness::healthy()
    };
    let replicas = i32::try_from(running).ok();
    let job = spec.job_template.and_then(|template| template.spec).unwrap_or_default();
    of_template(Facts { replicas, ..wellness.into_facts() }, job.template.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::check_of;
    use crate::types::{Health, Phase};

    #[test]
    fn a_job_runs_waits_fails_or_is_done() {
        let check = check_of("batch", "Job");
        let status = |name: &str, status: &str| json!({"conditions": [{"type": name, "status": status, "message": "why"}]});
        let spec = json!({"parallelism": 2});
        check(&spec, &json!({"active": 2}), Health::Healthy, Some(Phase::Progressing), "");
        check(&spec, &json!(null), Health::Healthy, Some(Phase::Progressing), "");
        check(&spec, &status("Failed", "True"), Health::Unhealthy, None, "why");
        check(&spec, &status("Failed", "False"), Health::Healthy, Some(Phase::Progressing), "");
        check(&spec, &status("Complete", "True"), Health::Healthy, Some(Phase::Completed), "");
        check(
            &spec,
            &status("Suspended", "True"),
            Health::Healthy,
            Some(Phase::Suspended),
            "it is suspended",
        );
        check(&spec, &status("Suspended", "False"), Health::Healthy, Some(Phase::Progressing), "");
    }

    #[test]
    fn a_cron_job_is_as_well_as_its_last_run() {
        let check = check_of("batch", "CronJob");
        let (on, off) = (json!({"schedule": "@daily"}), json!({"suspend": true}));
        let ran = |scheduled: &str, succeeded: Value| json!({"lastScheduleTime": scheduled, "lastSuccessfulTime": succeeded});
        check(&on, &json!({}), Health::Healthy, None, "");
        check(&on, &ran("2026-01-02T00:00:00Z", json!("2026-01-02T00:01:00Z")), Health::Healthy, None, "");
        let failed = "its last run has not succeeded";
        check(
            &on,
            &ran("2026-01-02T00:00:00Z", json!("2026-01-01T00:01:00Z")),
            Health::Degraded,
            None,
            failed,
        );
        check(&on, &ran("2026-01-02T00:00:00Z", json!(null)), Health::Degraded, None, failed);
        let runs = json!({"active": [{}, {}], "lastScheduleTime": "2026-01-02T00:00:00Z"});
        check(&on, &runs, Health::Healthy, Some(Phase::Progressing), "2 of its Jobs run");
        check(&off, &runs, Health::Healthy, Some(Phase::Suspended), "it is suspended");
    }
}
