//! Metric families that are not about single objects: counts, counters, watches, sources, states, Jobs and rules.

use std::{collections::BTreeMap, fmt::Display, sync::Arc};

use super::{
    catalog::{
        ACTORS, AGES, CACHE, DETECTIONS, DROPPED, JOB_DURATION, JOB_RESULT, JOB_START, RESOLUTIONS,
        RESOURCES, RULE_EXPIRY, RULE_MATCHES, SOURCE_UP, STATE_LOCK, STATE_READABLE, STATE_RESOURCES,
        STATE_SERIAL, STATE_WRITTEN, STREAM_UP,
    },
    lines::{BlockLines, TallyKey},
    text::line,
};
use crate::{
    engine::{AGE_BOUNDS, ActorKey, AgeKey, ClaimBlock, CounterKey, DriftCounters, KindState, Snapshot},
    server::{
        Metric,
        query::{LatestJobs, TerraformJobs},
    },
    types::{Baseline, GroupKind, JobRun, Kind, Source, SyncHealth, UnknownReason, VerdictKind},
};

pub(super) type Family = (&'static Metric, String);

/// All families, in the order of the page.
pub(super) fn families<'a>(
    snapshot: &Snapshot,
    blocks: impl Iterator<Item = (&'a KindState, &'a ClaimBlock, &'a BlockLines)>,
    dropped: usize,
) -> Vec<Family> {
    let (counters, jobs) = (&snapshot.counters, TerraformJobs::new(snapshot, None));
    let mut families = vec![resources(blocks)];
    families.extend(counter_families(counters));
    families.extend(state_families(snapshot));
    families.extend(job_families(&jobs));
    families.extend([
        family(
            &SOURCE_UP,
            snapshot
                .sources
                .iter()
                .map(|(source, health)| ([("source", source.as_str())], u8::from(*health == SyncHealth::Up))),
        ),
        watches(snapshot),
        cache(snapshot),
        family(
            &RULE_MATCHES,
            snapshot.rules.matches().map(|(rule, count)| ([("rule", &**rule.name())], count)),
        ),
        family(
            &RULE_EXPIRY,
            snapshot
                .rules
                .set()
                .rules()
                .iter()
                .filter_map(|rule| Some(([("rule", &**rule.name())], rule.expires()?.as_second()))),
        ),
        family(&DROPPED, [([], dropped)]),
    ]);
    families
}

fn family<'a, const N: usize>(
    metric: &'static Metric,
    samples: impl IntoIterator<Item = ([(&'a str, &'a str); N], impl Display)>,
) -> Family {
    let mut out = String::new();
    for (labels, value) in samples {
        line(&mut out, metric.name, &labels, value);
    }
    (metric, out)
}

/// Sums over the blocks of each kind. Claims whose watch is down are `unknown`.
fn resources<'a>(blocks: impl Iterator<Item = (&'a KindState, &'a ClaimBlock, &'a BlockLines)>) -> Family {
    let mut totals: BTreeMap<(GroupKind<&str>, TallyKey), u64> = BTreeMap::new();
    for (state, block, lines) in blocks {
        let mut add = |key: TallyKey, count| {
            *totals.entry((state.kind.group_kind(), key)).or_insert(0) += count;
        };
        // Watches of single objects become stale one by one.
        if state.watches.iter().any(|watch| watch.spec.selects_by_name()) {
            for entry in block.entries() {
                let (verdict, reason) = state.reported_verdict(entry);
                let (namespace, source) = (entry.key().namespace.clone(), entry.claim.source);
                add(TallyKey { namespace, source, verdict, reason }, 1);
            }
            continue;
        }
        for (key, count) in &lines.tally {
            let mut key = key.clone();
            if state.is_stale(&key.namespace, "") {
                (key.verdict, key.reason) = (VerdictKind::Unknown, Some(UnknownReason::Stale));
            }
            add(key, *count);
        }
    }
    let samples = totals.iter().map(|((GroupKind { group, kind }, key), count)| {
        let TallyKey { namespace, source, verdict, reason } = key;
        let labels = [
            ("group", *group),
            ("kind", *kind),
            ("namespace", &**namespace),
            ("source", source.as_str()),
            ("verdict", verdict.as_str()),
            ("reason", reason.map_or("", UnknownReason::as_str)),
        ];
        (labels, count)
    });
    family(&RESOURCES, samples)
}

fn counter_families(counters: &DriftCounters) -> [Family; 4] {
    let actors = counters.actors().map(|(ActorKey { source, actor, severity }, count)| {
        let labels =
            [("source", source.as_str()), ("actor", actor.as_str()), ("severity", severity.as_str())];
        (labels, count)
    });
    let resolutions = counters.resolutions().map(|(key, cause, count)| {
        let [group, kind, namespace, source] = counter_labels(key);
        ([group, kind, namespace, source, ("cause", cause.as_str())], count)
    });
    [
        family(&DETECTIONS, counters.detections().map(|(key, count)| (counter_labels(key), count))),
        family(&ACTORS, actors),
        family(&RESOLUTIONS, resolutions),
        (&AGES, ages(counters)),
    ]
}

fn ages(counters: &DriftCounters) -> String {
    let mut out = String::new();
    for (AgeKey { source, cause, severity }, ages) in counters.ages() {
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

fn watches(snapshot: &Snapshot) -> Family {
    // Watches of single objects in one namespace share a series, which is 1 if all of them are up.
    let mut all_up: BTreeMap<(&Kind, &str), bool> = BTreeMap::new();
    for watch in snapshot.watches() {
        let up = watch.health == SyncHealth::Up;
        all_up.entry((&watch.spec.kind, watch.spec.scope())).and_modify(|all| *all &= up).or_insert(up);
    }
    let samples = all_up.into_iter().map(|((kind, scope), up)| {
        let labels =
            [("group", &*kind.group), ("version", &kind.version), ("kind", &kind.kind), ("scope", scope)];
        (labels, u8::from(up))
    });
    family(&STREAM_UP, samples)
}

fn cache(snapshot: &Snapshot) -> Family {
    let watched = |state: &&Arc<KindState>| state.watches.iter().any(|watch| !watch.spec.matches_nothing());
    let samples =
        snapshot.kinds.iter().filter(watched).map(|state| {
            ([("group", &*state.kind.group), ("kind", &*state.kind.kind)], state.blocks.count())
        });
    family(&CACHE, samples)
}

fn counter_labels(key: &CounterKey) -> [(&str, &str); 4] {
    [
        ("group", &key.kind.group),
        ("kind", &key.kind.kind),
        ("namespace", &key.namespace),
        ("source", key.source.as_str()),
    ]
}

fn state_families(snapshot: &Snapshot) -> [Family; 5] {
    let states = || {
        let states = snapshot.baselines.values().map(|tracked| &tracked.baseline);
        states.filter(|state| state.source == Source::Terraform)
    };
    let gauge = |metric, value: fn(&Baseline) -> Option<i64>| {
        family(metric, states().filter_map(|state| Some(([("state", &*state.name)], value(state)?))))
    };
    [
        gauge(&STATE_SERIAL, |state| i64::try_from(state.version.as_ref()?.serial).ok()),
        // Kubernetes resources, compared or not.
        gauge(&STATE_RESOURCES, |state| i64::try_from(state.objects.len() + state.skipped.len()).ok()),
        gauge(&STATE_WRITTEN, |state| Some(state.version.as_ref()?.written?.as_second())),
        gauge(&STATE_READABLE, |state| Some(i64::from(state.fault.is_none()))),
        gauge(&STATE_LOCK, |state| Some(state.lock.as_ref()?.created?.as_second())),
    ]
}

fn job_families(jobs: &TerraformJobs) -> [Family; 3] {
    let gauge = |metric, value: fn(&LatestJobs, &JobRun) -> Option<f64>| {
        let samples = jobs.iter().filter_map(|latest| {
            let newest = latest.newest()?;
            let resource = newest.resource();
            let labels = [("namespace", resource.namespace), ("name", resource.name)];
            Some((labels, value(latest, newest.run)?))
        });
        family(metric, samples)
    };
    [
        // The last finished run.
        gauge(&JOB_RESULT, |latest, _| Some(if latest.outcome()?.succeeded { 1.0 } else { 0.0 })),
        gauge(&JOB_START, |_, newest| Some(newest.started?.as_duration().as_secs_f64())),
        // The newest run, once it has finished.
        gauge(&JOB_DURATION, |_, newest| Some(newest.duration()?.as_secs_f64())),
    ]
}
