//! From what sources say about an object to its claims: what was known counts, and what changes is written down.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    Claim, Details, Engine, Entry,
    claim::{Step, only_baseline_moved},
    engine::{counter_key_of, of_type_mut},
    opinion::{Opinion, Presence, opinions},
    rating::Rater,
    rerate::{count_matches, rated_alike, view},
};
use crate::types::{Cause, Judgement, LiveObject, ObjectKey, RuleInputs, Source, Verdict};

/// The circumstances in which something is found out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Whether an episode that shows now began while we watched.
    pub(super) counted: bool,
    /// Why claims end that are no longer made.
    pub(super) cause: Cause,
    /// The time.
    pub(super) now: Timestamp,
}

impl Engine {
    /// All claims on an object.
    pub(super) fn entries(&self, key: &ObjectKey) -> &[Arc<Entry>] {
        let state = self.snapshot.kinds.iter().find(|state| state.kind.is_same_type(&key.kind));
        state.map_or(&[], |state| state.blocks.get(&key.namespace, &key.name))
    }

    /// Asks all sources about an object anew, and goes on from what was known.
    pub(super) fn settle(&mut self, key: &ObjectKey, presence: &Presence, moment: Moment) -> bool {
        let before = self.entries(key).to_vec();
        let opinions = opinions(key, presence, &self.baselines, &self.shapes, moment.now);
        self.note_rest(key, presence, moment.now);
        if before.is_empty() && opinions.is_empty() {
            return false;
        }
        let object = match presence {
            Presence::Exists(object) => object.clone(),
            Presence::Absent | Presence::Unwatched | Presence::Unseen => {
                // What was read on it goes on counting for rules and series; else what is declared of it now does, so that a
                // restart changes neither.
                let was_read = |entry: &&Arc<Entry>| entry.object.extras.were_read();
                let declared =
                    || Arc::new(RuleInputs { labels: self.baselines.labels(key), ..RuleInputs::default() });
                let known = before.first().filter(was_read);
                let extras = known.map_or_else(declared, |entry| entry.object.extras.clone());
                Arc::new(LiveObject { extras, ..LiveObject::absent(self.known_key(key)) })
            }
        };
        let mut after = Vec::with_capacity(opinions.len());
        for opinion in opinions {
            let known = before.iter().find(|entry| entry.claim.source == opinion.source);
            // Something new that is said about an object that was there stood before it was said.
            let counted = moment.counted && (known.is_some() || before.is_empty());
            after.push(Arc::new(self.follow(known, opinion, &object, Moment { counted, ..moment })));
        }
        for ended in &before {
            if !after.iter().any(|entry| entry.claim.source == ended.claim.source) {
                self.end(ended, moment);
            }
        }
        self.replace(key, &before, after)
    }

    /// What becomes of a claim by what its source says now.
    fn follow(
        &mut self,
        known: Option<&Arc<Entry>>,
        opinion: Opinion,
        object: &Arc<LiveObject>,
        moment: Moment,
    ) -> Entry {
        let Opinion { source, judgement, details } = opinion;
        // What stands on the object that it is about is another one on another object of that name.
        let is_another = |known: &Entry| source.is_on_object() && known.object.uid != object.uid;
        let (known, reborn) = match known {
            Some(known) if is_another(known) => {
                self.end(known, moment);
                (None, true)
            }
            known => (known, false),
        };
        let view = view(object, source, &self.autoscalers);
        let rater = Rater { rules: self.snapshot.rules.set(), object: view, now: moment.now };
        let settles = !matches!(judgement, Judgement::InFlight | Judgement::Unknown(_));
        let (mut claim, step) = match known {
            Some(known) => {
                let moved = match (&details, &known.claim.details) {
                    (Some(new), Some(old)) => {
                        new.compared == old.compared || is_read_again(known, old, object)
                    }
                    _ => only_baseline_moved(&known.claim, object),
                };
                known.claim.clone().judged(judgement, moved, &rater)
            }
            None => Claim::new(judgement, moment.counted || reborn, &rater),
        };
        let before = known.and_then(|known| known.claim.details.as_deref());
        claim.details = details.map(|new| match before {
            // What could not be compared is still as it was when it last could.
            Some(old) if !settles => {
                Arc::new(Details { compared: old.compared, blind: old.blind.clone(), ..new })
            }
            Some(_) | None => Arc::new(new),
        });
        self.metrics.reconciled(&object.key.kind, claim.verdict.kind().as_str());
        if let Verdict::Unknown(reason, _) = &claim.verdict {
            self.metrics.could_not_judge(source, *reason);
        }
        let entry = Entry { object: object.clone(), claim };
        self.record(known.map(|known| &**known), Some(&entry), step, moment.now);
        entry
    }

    /// A claim is no longer made.
    fn end(&mut self, entry: &Entry, moment: Moment) {
        let step = match entry.claim.verdict.episode() {
            Some(_) => Step::Ended(moment.cause),
            None => Step::Nothing,
        };
        self.record(Some(entry), None, step, moment.now);
    }

    /// Takes in an object of which nothing changed that counts.
    pub(super) fn renew(&mut self, object: &Arc<LiveObject>) -> bool {
        let before = self.entries(&object.key).to_vec();
        let same = |entry: &Arc<Entry>| Entry { object: object.clone(), claim: entry.claim.clone() };
        let after = before.iter().map(|entry| Arc::new(same(entry))).collect();
        self.replace(&object.key, &before, after)
    }

    /// Puts one claim in the place of the one of the same source.
    pub(super) fn put(&mut self, entry: Entry) -> bool {
        let (key, source) = (entry.object.key.clone(), entry.claim.source);
        let before = self.entries(&key).to_vec();
        let mut after = before.clone();
        let Some(own) = after.iter_mut().find(|own| own.claim.source == source) else {
            return false;
        };
        *own = Arc::new(entry);
        self.replace(&key, &before, after)
    }

    /// Lets go of an object that is gone: what declares it elsewhere goes on declaring it.
    pub(super) fn lose(&mut self, key: &ObjectKey, moment: Moment) -> bool {
        // Streams that choose here tell of every object that nobody wants: that must cost nothing.
        if self.entries(key).is_empty() {
            return false;
        }
        let presence = self.presence_without_object(key);
        self.settle(key, &presence, moment)
    }

    /// Lets go of all that is known of an object.
    pub(super) fn forget(&mut self, key: &ObjectKey, cause: Cause, now: Timestamp) -> bool {
        let before = self.entries(key).to_vec();
        if before.is_empty() {
            return false;
        }
        for entry in &before {
            self.end(entry, Moment { counted: true, cause, now });
        }
        self.replace(key, &before, Vec::new())
    }

    /// Makes these all claims on an object.
    fn replace(&mut self, key: &ObjectKey, before: &[Arc<Entry>], after: Vec<Arc<Entry>>) -> bool {
        self.version += 1;
        let version = self.version;
        self.autoscalers.retarget(scaled_by(before), scaled_by(&after));
        let Some(state) = of_type_mut(&mut self.snapshot.kinds, &key.kind) else {
            return false;
        };
        for source in Source::ALL {
            let (old, new) = (verdict_of(before, *source), verdict_of(&after, *source));
            count_matches(&mut self.snapshot.rules, old, new);
        }
        let series_changed = state.blocks.replace(&key.namespace, &key.name, after, version);
        let is_empty =
            |entry: &&Arc<Entry>| state.blocks.is_empty_namespace(&key.namespace, entry.claim.source);
        for entry in before.iter().filter(is_empty) {
            Arc::make_mut(&mut self.snapshot.ledger).close(&counter_key_of(entry));
        }
        self.snapshot.sequence += u64::from(series_changed);
        true
    }
}

/// Whether an object is as it was when it was last compared, and only read otherwise: in another version of its kind.
fn is_read_again(known: &Entry, compared: &Details, object: &LiveObject) -> bool {
    let Entry { object: before, .. } = known;
    !object.resource_version.is_empty()
        && (&before.uid, &before.resource_version) == (&object.uid, &object.resource_version)
        && before.document.as_ref().map(|document| document.content) == compared.compared
}

/// Whether no source and no rule can find a difference between two versions of an object.
pub(super) fn is_alike(a: &LiveObject, b: &LiveObject) -> bool {
    a.key.kind == b.key.kind
        && a.stamp == b.stamp
        && a.document == b.document
        && a.report == b.report
        && a.applied == b.applied
        && rated_alike(a, b)
}

/// What the object scales that these claims are on.
fn scaled_by(entries: &[Arc<Entry>]) -> Option<&ObjectKey> {
    entries.first().and_then(|entry| entry.object.facts.scales.as_deref())
}

/// The verdict that a source's claim has among these.
fn verdict_of(entries: &[Arc<Entry>], source: Source) -> Option<&Verdict> {
    entries.iter().find(|entry| entry.claim.source == source).map(|entry| &entry.claim.verdict)
}
