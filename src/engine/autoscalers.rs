//! Which objects are scaled by an autoscaler: it explains who changed their replicas.

use std::{collections::HashMap, mem, sync::Arc};

use super::ClaimEntry;
use crate::types::ObjectKey;

/// How many autoscalers each object has, and for which objects that changed between none and one.
#[derive(Debug, Default)]
pub(super) struct AutoscalerIndex {
    counts: HashMap<ObjectKey, usize>,
    changed: Vec<ObjectKey>,
}

impl AutoscalerIndex {
    pub(super) fn is_autoscaled(&self, object: &ObjectKey) -> bool {
        self.counts.contains_key(object)
    }

    /// Moves an autoscaler from one target to another; without a target before or after, it is created or
    /// deleted.
    pub(super) fn retarget(&mut self, before: Option<&ObjectKey>, after: Option<&ObjectKey>) {
        if before == after {
            return;
        }
        if let Some(before) = before
            && let Some(count) = self.counts.get_mut(before)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(before);
                self.changed.push(before.clone());
            }
        }
        if let Some(after) = after {
            let count = self.counts.entry(after.clone()).or_default();
            *count += 1;
            if *count == 1 {
                self.changed.push(after.clone());
            }
        }
    }

    /// The objects that gained their first or lost their last autoscaler since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<ObjectKey> {
        mem::take(&mut self.changed)
    }
}

/// The object that an autoscaler scales; none if the claims are not on an autoscaler.
pub(super) fn scale_target(entries: &[Arc<ClaimEntry>]) -> Option<&ObjectKey> {
    entries.first()?.object.live()?.facts.scales.as_deref()
}

#[cfg(test)]
mod tests {
    use super::{AutoscalerIndex, ObjectKey};
    use crate::types::Kind;

    #[test]
    fn object_is_autoscaled_until_its_last_autoscaler_is_deleted() {
        let [web, api] = ["web", "api"].map(|name| ObjectKey::new(Kind::deployment(), "shop", name));
        let mut autoscalers = AutoscalerIndex::default();
        let mut check = |before: Option<&ObjectKey>, after: Option<&ObjectKey>, changed: &[&ObjectKey]| {
            autoscalers.retarget(before, after);
            assert_eq!(autoscalers.take_changed().iter().collect::<Vec<_>>(), changed);
            (autoscalers.is_autoscaled(&web), autoscalers.is_autoscaled(&api))
        };
        assert_eq!(check(None, Some(&web), &[&web]), (true, false));
        assert_eq!(check(None, Some(&web), &[]), (true, false));
        assert_eq!(check(Some(&web), Some(&web), &[]), (true, false));
        assert_eq!(check(Some(&web), Some(&api), &[&api]), (true, true));
        assert_eq!(check(Some(&web), None, &[&web]), (false, true));
        assert_eq!(check(Some(&api), Some(&web), &[&api, &web]), (true, false));
    }
}
