//! The lines about Terraform states.

use super::{
    catalog::{SOURCE_UP, STATE_LOCK, STATE_READABLE, STATE_RESOURCES, STATE_SERIAL, STATE_WRITTEN},
    text::line,
};
use crate::{
    engine::Snapshot,
    server::Metric,
    types::{Baseline, Source, WatchHealth},
};

pub(super) fn serials(snapshot: &Snapshot) -> String {
    lines(snapshot, &STATE_SERIAL, |state| i64::try_from(state.version.as_ref()?.serial).ok())
}

/// What is compared and what is not, of Kubernetes.
pub(super) fn resources(snapshot: &Snapshot) -> String {
    lines(snapshot, &STATE_RESOURCES, |state| i64::try_from(state.objects.len() + state.skipped.len()).ok())
}

pub(super) fn last_writes(snapshot: &Snapshot) -> String {
    lines(snapshot, &STATE_WRITTEN, |state| Some(state.version.as_ref()?.written?.as_second()))
}

pub(super) fn readable(snapshot: &Snapshot) -> String {
    lines(snapshot, &STATE_READABLE, |state| Some(i64::from(state.fault.is_none())))
}

pub(super) fn locks(snapshot: &Snapshot) -> String {
    lines(snapshot, &STATE_LOCK, |state| Some(state.lock.as_ref()?.created?.as_second()))
}

/// Whether the baselines of each source can be found.
pub(super) fn sources(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    for (source, health) in &snapshot.sources {
        let up = u8::from(*health == WatchHealth::Up);
        line(&mut out, SOURCE_UP.name, &[("source", source.as_str())], up);
    }
    out
}

fn lines(snapshot: &Snapshot, metric: &Metric, value: impl Fn(&Baseline) -> Option<i64>) -> String {
    let mut out = String::new();
    let states = snapshot.baselines.iter().map(|own| &own.baseline);
    for state in states.filter(|own| own.source == Source::Terraform) {
        if let Some(value) = value(state) {
            line(&mut out, metric.name, &[("state", &*state.name)], value);
        }
    }
    out
}
