//! Rules that change, or expire, while claims stand.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Claim, Engine, Entry, RuleBook, autoscalers::Autoscalers, rating::Rater};
use crate::{
    rules::{ObjectView, RuleSet},
    types::{LiveObject, Source, Verdict},
};

impl Engine {
    /// Makes new rules hold, for everything that is known already too.
    pub fn take_rules(&mut self, set: Arc<RuleSet>) {
        let now = self.clock.now();
        self.snapshot.rules = Arc::new(RuleBook::new(set));
        self.rate_again(now);
        self.looked = now;
    }

    /// Looks at everything again when a rule has expired since the last time.
    pub(super) fn let_rules_expire(&mut self, now: Timestamp) -> bool {
        let expired = self.snapshot.rules.set().expire_between(self.looked, now);
        self.looked = now;
        if expired {
            self.rate_again(now);
        }
        expired
    }

    /// Rates all differences again. They are kept, so this needs nothing else.
    fn rate_again(&mut self, now: Timestamp) {
        let set = self.snapshot.rules.set().clone();
        let differs = |entry: &&Arc<Entry>| entry.claim.verdict.differences().next().is_some();
        let entries = self.snapshot.kinds.iter().flat_map(|state| state.blocks.entries().filter(differs));
        let entries: Vec<Arc<Entry>> = entries.cloned().collect();
        let label_names = set.label_names();
        let mut book = RuleBook::new(set.clone());
        for before in entries {
            book.add(&self.rate_claim_again(&before, &set, &label_names, now).verdict);
        }
        self.snapshot.rules = Arc::new(book);
        self.snapshot.sequence += 1;
    }

    /// Rates the claims on objects again that have an autoscaler now, or none any more: who scaled them is told otherwise.
    pub(super) fn rate_scaled_again(&mut self, now: Timestamp) -> bool {
        let changed = self.autoscalers.take_changed();
        if changed.is_empty() {
            return false;
        }
        let set = self.snapshot.rules.set().clone();
        let label_names = set.label_names();
        let mut news = false;
        for before in changed.iter().flat_map(|key| self.entries(key).to_vec()).collect::<Vec<_>>() {
            news |= self.rate_claim_again(&before, &set, &label_names, now) != before.claim;
        }
        news
    }

    /// Rates one claim again. If it comes out as it was it is left alone. So is one on an object of which less was read than the
    /// rules ask for: it is rated when the object has been read again, which is under way, and until then the opinion stands
    /// that was formed with all that had to be known.
    fn rate_claim_again(
        &mut self,
        before: &Arc<Entry>,
        set: &RuleSet,
        label_names: &[Box<str>],
        now: Timestamp,
    ) -> Claim {
        if before.object.exists && !before.object.extras.cover(label_names) {
            return before.claim.clone();
        }
        let object = view(&before.object, before.claim.source, &self.autoscalers);
        let (claim, step) = before.claim.clone().rated_again(&Rater { rules: set, object, now });
        if claim != before.claim {
            let entry = Entry { object: before.object.clone(), claim: claim.clone() };
            self.record(Some(before), Some(&entry), step, now);
            self.put(entry);
        }
        claim
    }
}

/// Whether rules find the same in two versions of an object, but for its differences.
pub(super) fn rated_alike(a: &LiveObject, b: &LiveObject) -> bool {
    Arc::ptr_eq(&a.extras, &b.extras) || a.extras == b.extras
}

/// What rules may ask about an object.
pub(super) fn view<'a>(object: &'a LiveObject, source: Source, autoscalers: &Autoscalers) -> ObjectView<'a> {
    let LiveObject { key, extras, .. } = object;
    let autoscaled = autoscalers.scale(key);
    ObjectView { key, labels: &extras.labels, mutes: &extras.mutes, source, autoscaled }
}

/// Keeps the number of matches of each rule right when a claim comes, changes or goes.
pub(super) fn count_matches(book: &mut Arc<RuleBook>, before: Option<&Verdict>, after: Option<&Verdict>) {
    let matched = |verdict: Option<&Verdict>| {
        verdict.is_some_and(|own| own.differences().any(|difference| !difference.matched.is_empty()))
    };
    // Most claims match nothing, and a published book is not copied for them.
    if before == after || !(matched(before) || matched(after)) {
        return;
    }
    let book = Arc::make_mut(book);
    before.into_iter().for_each(|verdict| book.take(verdict));
    after.into_iter().for_each(|verdict| book.add(verdict));
}
