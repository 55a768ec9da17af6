//! The lines about Jobs that run Terraform.

use super::{
    catalog::{JOB_DURATION, JOB_RESULT, JOB_START},
    text::line,
};
use crate::server::{
    Metric,
    query::{Latest, Runs},
};

/// How the last run ended that did.
pub(super) fn results(runs: &Runs<'_>) -> String {
    lines(runs, &JOB_RESULT, |latest| Some(if latest.ended?.1.succeeded { 1.0 } else { 0.0 }))
}

pub(super) fn starts(runs: &Runs<'_>) -> String {
    lines(runs, &JOB_START, |latest| Some(latest.newest.run.started?.as_duration().as_secs_f64()))
}

/// How long the newest run took, once it has ended.
pub(super) fn durations(runs: &Runs<'_>) -> String {
    lines(runs, &JOB_DURATION, |latest| Some(latest.newest.run.lasted()?.as_secs_f64()))
}

fn lines(runs: &Runs<'_>, metric: &Metric, value: impl Fn(&Latest<'_>) -> Option<f64>) -> String {
    let mut out = String::new();
    for (namespace, name, latest) in runs.iter() {
        if let Some(value) = value(latest) {
            line(&mut out, metric.name, &[("namespace", namespace), ("name", name)], value);
        }
    }
    out
}
