//! What is known about the places that declare objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    model::{Baseline, Chart, Lock, Source, StreamHealth},
    state::{BaselineState, Belonging, Snapshot},
};

/// Whether the baselines of each source can be found.
pub(super) fn sources(snapshot: &Snapshot) -> Vec<Value> {
    let source = |(source, health): (&Source, &StreamHealth)| {
        let (state, reason, message) = health_words(health);
        json!({"source": source.as_str(), "state": state, "reason": reason, "message": message})
    };
    snapshot.sources.iter().map(source).collect()
}

/// Every baseline: its version, what is wrong with it, and who writes it.
pub(super) fn baselines(snapshot: &Snapshot, now: Timestamp) -> Vec<Value> {
    snapshot.baselines.iter().map(|state| baseline(state, now)).collect()
}

fn baseline(state: &BaselineState, now: Timestamp) -> Value {
    let own: &Baseline = &state.baseline;
    let version = own.version.as_ref();
    let skipped: Vec<Value> = own
        .skipped
        .iter()
        .map(|own| json!({"address": own.address, "type": own.resource_type, "reason": own.reason.as_str()}))
        .collect();
    json!({
        "source": own.source.as_str(),
        "state": *own.name,
        "origin": own.origin.as_str(),
        "serial": version.map(|version| version.serial),
        "lineage": version.map(|version| &version.lineage),
        "toolVersion": version.map(|version| &version.tool_version),
        "written": version.and_then(|version| version.written),
        "chart": version.and_then(|version| version.chart.as_ref()).map(chart),
        "cluster": match state.belonging {
            Belonging::Undecided => "undecided",
            Belonging::Here => "this",
            Belonging::Elsewhere => "other",
        },
        "objects": own.objects.len(),
        "skipped": skipped,
        "unknownTypes": own.unknown_types(),
        "fault": own.fault.as_ref().map(|own| json!({"reason": own.fault.as_str(), "message": own.message})),
        "lock": own.lock.as_ref().map(|own| lock(own, now)),
        "inFlight": state.in_flight,
    })
}

fn chart(chart: &Chart) -> Value {
    json!({"name": chart.name, "version": chart.version, "appVersion": chart.app_version})
}

fn lock(lock: &Lock, now: Timestamp) -> Value {
    json!({
        "operation": lock.operation,
        "who": lock.who,
        "created": lock.created,
        "ageSeconds": lock.created.map(|created| now.duration_since(created).as_secs()),
    })
}

/// A state, and why it is not up.
pub(super) fn health_words(health: &StreamHealth) -> (&'static str, Option<&'static str>, Option<&str>) {
    match health {
        StreamHealth::Starting => ("starting", None, None),
        StreamHealth::Up => ("up", None, None),
        StreamHealth::Down { reason, message } => ("down", Some(reason.as_str()), Some(message)),
    }
}
