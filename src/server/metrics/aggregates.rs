//! The lines that are not about single objects: counts by verdict, what happened, how the streams fare.

use std::collections::BTreeMap;

use super::{
    catalog::{
        ACTORS, AGES, CACHE, DETECTIONS, RESOLUTIONS, RESOURCES, RULE_EXPIRY, RULE_MATCHES, STREAM_UP,
    },
    lines::{BlockLines, TallyKey},
    text::line,
};
use crate::{
    engine::{AGE_BOUNDS, Block, DriftCounters, KindState, Place, Snapshot},
    types::{Kind, UnknownReason, VerdictKind, WatchHealth},
};

/// `drift_resources`, summed over the blocks of each kind. Claims whose stream is down are `unknown`.
pub(super) fn resources<'a>(
    blocks: impl Iterator<Item = (&'a KindState, &'a Block, &'a BlockLines)>,
) -> String {
    let mut totals: BTreeMap<(&str, &str, TallyKey), u64> = BTreeMap::new();
    for (state, block, lines) in blocks {
        let mut add = |namespace: &str, source, (verdict, reason), count| {
            let key = (&*state.kind.group, &*state.kind.kind, (namespace.into(), source, verdict, reason));
            *totals.entry(key).or_insert(0) += count;
        };
        // Where single objects have streams of their own, each may be stale by itself.
        if state.streams.iter().any(|stream| stream.spec.is_of_single_objects()) {
            for entry in block.entries() {
                add(&entry.object.key.namespace, entry.claim.source, state.shown_verdict(entry), 1);
            }
            continue;
        }
        for ((namespace, source, verdict, reason), count) in &lines.tally {
            let stale = (VerdictKind::Unknown, Some(UnknownReason::Stale));
            let shown = if state.is_stale(namespace, "") { stale } else { (*verdict, *reason) };
            add(namespace, *source, shown, *count);
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

pub(super) fn detections(ledger: &DriftCounters) -> String {
    let mut out = String::new();
    for (place, count) in &ledger.detections {
        line(&mut out, DETECTIONS.name, &place_labels(place), count);
    }
    out
}

pub(super) fn actors(ledger: &DriftCounters) -> String {
    let mut out = String::new();
    for ((source, actor, severity), count) in &ledger.actors {
        let labels =
            [("source", source.as_str()), ("actor", actor.as_str()), ("severity", severity.as_str())];
        line(&mut out, ACTORS.name, &labels, count);
    }
    out
}

pub(super) fn resolutions(ledger: &DriftCounters) -> String {
    let mut out = String::new();
    for ((place, cause), count) in &ledger.resolutions {
        let [group, kind, namespace, source] = place_labels(place);
        let labels = [group, kind, namespace, source, ("cause", cause.as_str())];
        line(&mut out, RESOLUTIONS.name, &labels, count);
    }
    out
}

pub(super) fn ages(ledger: &DriftCounters) -> String {
    let mut out = String::new();
    for ((source, cause, severity), ages) in &ledger.ages {
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

pub(super) fn streams(snapshot: &Snapshot) -> String {
    // Streams of single objects in one namespace share a line: it says whether all of them are up.
    let mut all_up: BTreeMap<(&Kind, &str), bool> = BTreeMap::new();
    for stream in snapshot.streams() {
        let up = stream.health == WatchHealth::Up;
        all_up.entry((&stream.spec.kind, stream.spec.scope())).and_modify(|all| *all &= up).or_insert(up);
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
    let watched = |state: &KindState| state.streams.iter().any(|stream| !stream.spec.is_nothing());
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

fn place_labels(place: &Place) -> [(&str, &str); 4] {
    [
        ("group", &place.kind.group),
        ("kind", &place.kind.kind),
        ("namespace", &place.namespace),
        ("source", place.source.as_str()),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::streams;
    use crate::{
        engine::{Blocks, KindState, Snapshot, WatchState},
        types::{DownReason, Kind, WatchHealth, WatchSpec},
    };

    #[test]
    fn streams_of_single_objects_share_a_line_that_says_whether_all_are_up() {
        let kind = Arc::new(Kind::service());
        let stream = |name: &str, health: WatchHealth| {
            let (namespace, name) = (Some("shop".into()), Some(name.into()));
            let spec = Arc::new(WatchSpec { namespace, name, ..WatchSpec::whole(kind.clone()) });
            WatchState { spec, health, listed: true, answered: true }
        };
        let down = WatchHealth::Down { reason: DownReason::Forbidden, message: "no".into() };
        let both = vec![stream("a", WatchHealth::Up), stream("b", down)];
        let state = KindState { kind: kind.clone(), streams: both, blocks: Blocks::default() };
        let snapshot = Snapshot { kinds: vec![Arc::new(state)], ..Snapshot::default() };
        let line = "drift_watch_stream_up{group=\"\",version=\"v1\",kind=\"Service\",scope=\"shop\"} 0\n";
        assert_eq!(streams(&snapshot), line);
    }
}
