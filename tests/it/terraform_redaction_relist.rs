//! Relists with another redaction policy or key: they are not edits and end no episode.

use drift_exporter::{
    diff::{terraform::sensitive_fields, unpack},
    engine::EpisodeChange,
    types::{Baseline, FieldValue, Lock, RedactionKey, RedactionPolicy, ResolutionCause, VerdictKind},
};
use jiff::Timestamp;

use crate::support::engine::{EngineFixture, key, sensitive_state, state};

type Map = (&'static str, &'static str, &'static str);

const A: Map = ("a", "u-a", "hunter1");
const EDITED: Map = ("a", "u-a", "hunter2");

/// The redaction policy for these baselines.
fn redaction(baselines: &[&Baseline], keys: &[&RedactionKey]) -> RedactionPolicy {
    let mut redaction = RedactionPolicy::new(key(1));
    for declared in baselines.iter().flat_map(|baseline| &baseline.objects) {
        redaction.add_fields(&declared.object, sensitive_fields(declared));
    }
    keys.iter().for_each(|key| redaction.add_key(key));
    redaction
}

/// Lists the same version of the object again, with another redaction policy.
fn relist(fixture: &mut EngineFixture, map: Map, redaction: RedactionPolicy) {
    fixture.redaction = redaction;
    fixture.version -= 1;
    fixture.list(&[map]);
}

fn locked(baseline: &Baseline) -> Baseline {
    let lock = Lock {
        operation: Some("OperationTypeApply".into()),
        who: "ci".into(),
        created: Timestamp::from_second(1_000).ok(),
        in_flight_until: Timestamp::from_second(9_000).ok(),
    };
    Baseline { lock: Some(lock), ..baseline.clone() }
}

/// Whether the cached object contains the plain value.
fn is_plain(fixture: &EngineFixture) -> bool {
    let snapshot = fixture.engine.snapshot();
    let entries = snapshot.kinds[0].blocks.get("shop", "a");
    let document = entries[0].object.live().unwrap().readable_document().unwrap();
    unpack(&document.packed).to_string().contains("hunter")
}

fn transition_count(fixture: &EngineFixture) -> usize {
    fixture.engine.snapshot().history.newest_first().count()
}

#[test]
fn newly_redacted_value_keeps_verdict_and_digests() {
    for map in [A, EDITED] {
        let (plain, sensitive) = (state("s", 1, &[A]), sensitive_state("s", 2, &[A], &key(1)));
        let mut fixture = EngineFixture::new(&[plain], &[A]);
        fixture.observe("a", "u-a", map.2);
        let verdict = fixture.verdict("a").0;
        fixture.set_baseline(sensitive.clone());
        let (before, transitions) = (fixture.claims("a"), transition_count(&fixture));
        assert!(is_plain(&fixture), "the object was read before the value was sensitive");
        relist(&mut fixture, map, redaction(&[&sensitive], &[]));
        assert!(!is_plain(&fixture));
        fixture.assert_verdict("a", verdict);
        assert_eq!(
            (fixture.claims("a"), transition_count(&fixture)),
            (before, transitions),
            "the digests are unchanged"
        );
        relist(&mut fixture, map, RedactionPolicy::new(key(1)));
        assert!(is_plain(&fixture));
        fixture.assert_verdict("a", verdict);
        assert_eq!(
            (transition_count(&fixture), fixture.detections()),
            (transitions, u64::from(verdict == VerdictKind::Drifted))
        );
    }
}

#[test]
fn edit_of_redacted_value_is_drift_until_reverted() {
    let sensitive = sensitive_state("s", 1, &[A], &key(1));
    let mut fixture = EngineFixture::new(std::slice::from_ref(&sensitive), &[A]);
    relist(&mut fixture, A, redaction(&[&sensitive], &[]));
    fixture.observe("a", "u-a", "hunter2");
    fixture.assert_verdict("a", VerdictKind::Drifted);
    let claim = fixture.claims("a").remove(0);
    let finding = &claim.verdict.episode().unwrap().differences[0].finding;
    let digest = |value: &[u8]| FieldValue::Redacted(key(1).digest(value));
    assert_eq!(finding.path.as_str(), "data.key");
    assert_eq!((&finding.expected, &finding.actual), (&digest(b"hunter1"), &digest(b"hunter2")));
    assert_eq!(finding.owner.as_ref().map(|owner| &*owner.manager), Some("kubectl-edit"));
    fixture.observe("a", "u-a", "hunter1");
    assert_eq!(fixture.last_episode_change(), Some(EpisodeChange::Ended(ResolutionCause::Reverted)));
}

/// An apply absorbs or reverts an edit and marks the value as sensitive: the object is relisted during the apply.
#[test]
fn value_redacted_during_apply_is_absorbed_or_reverted() {
    for (declared, cause) in [(EDITED, ResolutionCause::Absorbed), (A, ResolutionCause::Reverted)] {
        for other_version in [false, true] {
            let after = sensitive_state("s", 2, &[declared], &key(1));
            let mut fixture = EngineFixture::new(&[state("s", 1, &[A])], &[A]);
            fixture.observe("a", "u-a", "hunter2").set_baseline(locked(&after));
            fixture.assert_verdict("a", VerdictKind::InFlight);
            // A status change at the same time creates another resource version.
            fixture.version += u64::from(other_version || cause == ResolutionCause::Reverted);
            relist(&mut fixture, declared, redaction(&[&after], &[]));
            fixture.assert_verdict("a", VerdictKind::InFlight);
            fixture.set_baseline(after);
            fixture.assert_verdict("a", VerdictKind::InSync);
            assert_eq!(fixture.last_episode_change(), Some(EpisodeChange::Ended(cause)));
        }
    }
}

#[test]
fn baseline_with_another_key_waits_for_relist() {
    for (declared, verdict) in [(A, VerdictKind::Drifted), (EDITED, VerdictKind::InSync)] {
        let first = sensitive_state("s", 1, &[A], &key(2));
        let mut fixture = EngineFixture::new(std::slice::from_ref(&first), &[A]);
        relist(&mut fixture, A, redaction(&[&first], &[&key(2)]));
        fixture.observe("a", "u-a", "hunter2");
        fixture.assert_verdict("a", VerdictKind::Drifted);
        let republished = sensitive_state("s", 2, &[declared], &key(3));
        fixture.set_baseline(republished.clone());
        fixture.assert_verdict("a", VerdictKind::InFlight);
        relist(&mut fixture, EDITED, redaction(&[&republished], &[&key(3)]));
        fixture.assert_verdict("a", verdict);
        let change = if verdict == VerdictKind::InSync {
            EpisodeChange::Ended(ResolutionCause::Absorbed)
        } else {
            EpisodeChange::Started
        };
        assert_eq!((fixture.last_episode_change(), fixture.detections()), (Some(change), 1));
    }
}

#[test]
fn baselines_with_different_keys_agree() {
    let (from_state, published) = (sensitive_state("own", 1, &[A], &key(1)), state_of_another_key());
    let mut fixture = EngineFixture::new(&[from_state.clone(), published.clone()], &[A]);
    relist(&mut fixture, A, redaction(&[&from_state, &published], &[&key(2)]));
    assert!(!is_plain(&fixture));
    fixture.assert_verdict("a", VerdictKind::InSync);
    fixture.observe("a", "u-a", "hunter2");
    fixture.assert_verdict("a", VerdictKind::Drifted);
    let claim = fixture.claims("a").remove(0);
    assert_eq!(claim.declared_by().len(), 2);
    let verdict_text = format!("{:?}", claim.verdict);
    assert!(!verdict_text.contains("hunter"), "{verdict_text}");
    // The state that does not mark the value reports the same alone.
    fixture
        .engine
        .apply(drift_exporter::event::Event::BaselineRemoved(from_state.source, from_state.name.clone()));
    fixture.assert_verdict("a", VerdictKind::Drifted);
    let verdict_text = format!("{:?}", fixture.claims("a").remove(0).verdict);
    assert!(!verdict_text.contains("hunter"), "{verdict_text}");
}

/// A baseline with another key that marks nothing as sensitive.
fn state_of_another_key() -> Baseline {
    let mut baseline = state("published", 1, &[A]);
    for object in &mut baseline.objects {
        std::sync::Arc::make_mut(object).key = key(2);
    }
    baseline
}
