//! Metric families that are not about single objects: counts, counters, watches, sources, states, Jobs and rules.

use std::collections::BTreeMap;

use super::{
    catalog::{
        ACTORS, AGES, CACHE, DETECTIONS, JOB_DURATION, JOB_RESULT, JOB_START, RESOLUTIONS, RESOURCES,
        RULE_EXPIRY, RULE_MATCHES, SOURCE_UP, STATE_LOCK, STATE_READABLE, STATE_RESOURCES, STATE_SERIAL,
        STATE_WRITTEN, STREAM_UP,
    },
    lines::{BlockLines, TallyKey},
    text::line,
};
use crate::{
    engine::{AGE_BOUNDS, ClaimBlock, CounterKey, DriftCounters, KindState, Snapshot},
    server::{
        Metric,
        query::{LatestJobs, TerraformJobs},
    },
    types::{Baseline, Kind, Source, UnknownReason, VerdictKind, WatchHealth},
};

/// `drift_resources`, summed over the blocks of each kind. Claims whose watch is down are `unknown`.
pub(super) fn resources<'a>(
    blocks: impl Iterator<Item = (&'a KindState, &'a ClaimBlock, &'a BlockLines)>,
) -> String {
    let mut totals: BTreeMap<(&str, &str, TallyKey), u64> = BTreeMap::new();
    for (state, block, lines) in blocks {
        let mut add = |namespace: &str, source, (verdict, reason), count| {
            let key = (&*state.kind.group, &*state.kind.kind, (namespace.into(), source, verdict, reason));
            *totals.entry(key).or_insert(0) += count;
        };
        // Watches of single objects become stale one by one.
        if state.watches.iter().any(|watch| watch.spec.selects_by_name()) {
            for entry in block.entries() {
                add(&entry.object.key.namespace, entry.claim.source, state.reported_verdict(entry), 1);
            }
            continue;
        }
        for ((namespace, source, verdict, reason), count) in &lines.tally {
            let stale = (VerdictKind::Unknown, Some(UnknownReason::Stale));
            let reported = if state.is_stale(namespace, "") { stale } else { (*verdict, *reason) };
            add(namespace, *source, reported, *count);
        }
    }
    let mut out = String::new();
    for ((group, kind, (namespace, source, verdict, reason)), count) in totals {
        let labels = [
            ("group", group),
            ("kind", kind),
            ("namespace", &*namespace),
            ("source", source.as_str()),
            ("verdict", verdict.as_str()),
            ("reason", reason.map_or("", UnknownReason::as_str)),
        ];
        line(&mut out, RESOURCES.name, &labels, count);
    }
    out
}

pub(super) fn detections(counters: &DriftCounters) -> String {
    let mut out = String::new();
    for (key, count) in &counters.detections {
        line(&mut out, DETECTIONS.name, &counter_labels(key), count);
    }
    out
}

pub(super) fn actors(counters: &DriftCounters) -> String {
    let mut out = String::new();
    for ((source, actor, severity), count) in &counters.actors {
        let labels =
            [("source", source.as_str()), ("actor", actor.as_str()), ("severity", severity.as_str())];
        line(&mut out, ACTORS.name, &labels, count);
    }
    out
}

pub(super) fn resolutions(counters: &DriftCounters) -> String {
    let mut out = String::new();
    for ((key, cause), count) in &counters.resolutions {
        let [group, kind, namespace, source] = counter_labels(key);
        let labels = [group, kind, namespace, source, ("cause", cause.as_str())];
        line(&mut out, RESOLUTIONS.name, &labels, count);
    }
    out
}

pub(super) fn ages(counters: &DriftCounters) -> String {
    let mut out = String::new();
    for ((source, cause, severity), ages) in &counters.ages {
        let labels =
            [("source", source.as_str()), ("cause", cause.as_str()), ("severity", severity.as_str())];
        let count: u64 = ages.buckets.iter().sum();
        line(&mut out, &format!("{}_sum", AGES.name), &labels, ages.sum);
        line(&mut out, &format!("{}_count", AGES.name), &labels, count);
        let bounds = AGE_BOUNDS.iter().map(|bound| format!("{bound}.0")).chain(["+Inf".to_owned()]);
        let mut below = 0;
        for (bound, in_bucket) in bounds.zip(ages.buckets) {
            below += in_bucket;
            let [source, cause, severity] = labels;
            line(
                &mut out,
                &format!("{}_bucket", AGES.name),
                &[source, cause, severity, ("le", &bound)],
                below,
            );
        }
    }
    out
}

pub(super) fn watches(snapshot: &Snapshot) -> String {
    // Watches of single objects in one namespace share a series, which is 1 if all of them are up.
    let mut all_up: BTreeMap<(&Kind, &str), bool> = BTreeMap::new();
    for watch in snapshot.watches() {
        let up = watch.health == WatchHealth::Up;
        all_up.entry((&watch.spec.kind, watch.spec.scope())).and_modify(|all| *all &= up).or_insert(up);
    }
    let mut out = String::new();
    for ((kind, scope), up) in all_up {
        let labels =
            [("group", &*kind.group), ("version", &kind.version), ("kind", &kind.kind), ("scope", scope)];
        line(&mut out, STREAM_UP.name, &labels, u8::from(up));
    }
    out
}

pub(super) fn cache(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    let watched = |state: &KindState| state.watches.iter().any(|watch| !watch.spec.matches_nothing());
    for state in snapshot.kinds.iter().filter(|state| watched(state)) {
        let labels = [("group", &*state.kind.group), ("kind", &*state.kind.kind)];
        line(&mut out, CACHE.name, &labels, state.blocks.count());
    }
    out
}

pub(super) fn rule_matches(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    for (rule, count) in snapshot.rules.matches() {
        line(&mut out, RULE_MATCHES.name, &[("rule", rule.name())], count);
    }
    out
}

pub(super) fn rule_expiries(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    for rule in snapshot.rules.set().rules() {
        if let Some(expires) = rule.expires() {
            line(&mut out, RULE_EXPIRY.name, &[("rule", rule.name())], expires.as_second());
        }
    }
    out
}

fn counter_labels(key: &CounterKey) -> [(&str, &str); 4] {
    [
        ("group", &key.kind.group),
        ("kind", &key.kind.kind),
        ("namespace", &key.namespace),
        ("source", key.source.as_str()),
    ]
}

pub(super) fn state_serials(snapshot: &Snapshot) -> String {
    state_lines(snapshot, &STATE_SERIAL, |state| i64::try_from(state.version.as_ref()?.serial).ok())
}

/// Kubernetes resources, compared or not.
pub(super) fn state_resources(snapshot: &Snapshot) -> String {
    state_lines(snapshot, &STATE_RESOURCES, |state| {
        i64::try_from(state.objects.len() + state.skipped.len()).ok()
    })
}

pub(super) fn state_last_writes(snapshot: &Snapshot) -> String {
    state_lines(snapshot, &STATE_WRITTEN, |state| Some(state.version.as_ref()?.written?.as_second()))
}

pub(super) fn state_readable(snapshot: &Snapshot) -> String {
    state_lines(snapshot, &STATE_READABLE, |state| Some(i64::from(state.fault.is_none())))
}

pub(super) fn state_locks(snapshot: &Snapshot) -> String {
    state_lines(snapshot, &STATE_LOCK, |state| Some(state.lock.as_ref()?.created?.as_second()))
}

pub(super) fn sources(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    for (source, health) in &snapshot.sources {
        let up = u8::from(*health == WatchHealth::Up);
        line(&mut out, SOURCE_UP.name, &[("source", source.as_str())], up);
    }
    out
}

fn state_lines(snapshot: &Snapshot, metric: &Metric, value: impl Fn(&Baseline) -> Option<i64>) -> String {
    let mut out = String::new();
    let states = snapshot.baselines.iter().map(|tracked| &tracked.baseline);
    for state in states.filter(|state| state.source == Source::Terraform) {
        if let Some(value) = value(state) {
            line(&mut out, metric.name, &[("state", &*state.name)], value);
        }
    }
    out
}

/// The result of the last finished run.
pub(super) fn job_results(runs: &TerraformJobs<'_>) -> String {
    job_lines(runs, &JOB_RESULT, |latest| Some(if latest.ended?.1.succeeded { 1.0 } else { 0.0 }))
}

pub(super) fn job_starts(runs: &TerraformJobs<'_>) -> String {
    job_lines(runs, &JOB_START, |latest| Some(latest.newest.run.started?.as_duration().as_secs_f64()))
}

/// The duration of the newest run, once it has finished.
pub(super) fn job_durations(runs: &TerraformJobs<'_>) -> String {
    job_lines(runs, &JOB_DURATION, |latest| Some(latest.newest.run.duration()?.as_secs_f64()))
}

fn job_lines(
    runs: &TerraformJobs<'_>,
    metric: &Metric,
    value: impl Fn(&LatestJobs<'_>) -> Option<f64>,
) -> String {
    let mut out = String::new();
    for (namespace, name, latest) in runs.iter() {
        if let Some(value) = value(latest) {
            line(&mut out, metric.name, &[("namespace", namespace), ("name", name)], value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::watches;
    use crate::{
        engine::{ClaimBlocks, KindState, Snapshot, WatchState},
        types::{DownReason, Kind, WatchHealth, WatchSpec},
    };

    #[test]
    fn watches_of_single_objects_share_a_series() {
        let kind = Arc::new(Kind::service());
        let watch = |name: &str, health: WatchHealth| {
            let (namespace, name) = (Some("shop".into()), Some(name.into()));
            let spec = Arc::new(WatchSpec { namespace, name, ..WatchSpec::all(kind.clone()) });
            WatchState { spec, health, synced: true, answered: true }
        };
        let down = WatchHealth::Down { reason: DownReason::Forbidden, message: "no".into() };
        let both = vec![watch("a", WatchHealth::Up), watch("b", down)];
        let state = KindState { kind: kind.clone(), watches: both, blocks: ClaimBlocks::default() };
        let snapshot = Snapshot { kinds: vec![Arc::new(state)], ..Snapshot::default() };
        let line = "drift_watch_stream_up{group=\"\",version=\"v1\",kind=\"Service\",scope=\"shop\"} 0\n";
        assert_eq!(watches(&snapshot), line);
    }
}
