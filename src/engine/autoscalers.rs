//! Which objects autoscalers set the replicas of.

use std::{collections::HashMap, mem};

use crate::types::ObjectKey;

/// How many autoscalers each object has, and of which that has changed.
#[derive(Debug, Default)]
pub(super) struct Autoscalers {
    of: HashMap<ObjectKey, usize>,
    changed: Vec<ObjectKey>,
}

impl Autoscalers {
    /// Whether an autoscaler sets the replicas of this object.
    pub(super) fn scale(&self, object: &ObjectKey) -> bool {
        self.of.contains_key(object)
    }

    /// An autoscaler that scaled one object scales another one from now on; none where it comes or goes.
    pub(super) fn retarget(&mut self, before: Option<&ObjectKey>, after: Option<&ObjectKey>) {
        if before == after {
            return;
        }
        if let Some(before) = before
            && let Some(count) = self.of.get_mut(before)
        {
            *count -= 1;
            if *count == 0 {
                self.of.remove(before);
                self.changed.push(before.clone());
            }
        }
        if let Some(after) = after {
            let count = self.of.entry(after.clone()).or_default();
            *count += 1;
            if *count == 1 {
                self.changed.push(after.clone());
            }
        }
    }

    /// The objects that have an autoscaler since this was last asked, or have none any more.
    pub(super) fn take_changed(&mut self) -> Vec<ObjectKey> {
        mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Autoscalers, ObjectKey};
    use crate::types::Kind;

    fn object(name: &str) -> ObjectKey {
        ObjectKey { kind: Arc::new(Kind::deployment()), namespace: "shop".into(), name: name.into() }
    }

    #[test]
    fn an_object_has_an_autoscaler_until_the_last_one_goes() {
        let (web, api) = (object("web"), object("api"));
        let mut autoscalers = Autoscalers::default();
        let mut check = |before: Option<&ObjectKey>, after: Option<&ObjectKey>, changed: &[&ObjectKey]| {
            autoscalers.retarget(before, after);
            assert_eq!(autoscalers.take_changed().iter().collect::<Vec<_>>(), changed);
            (autoscalers.scale(&web), autoscalers.scale(&api))
        };
        assert_eq!(check(None, Some(&web), &[&web]), (true, false));
        assert_eq!(check(None, Some(&web), &[]), (true, false));
        assert_eq!(check(Some(&web), Some(&web), &[]), (true, false));
        assert_eq!(check(Some(&web), Some(&api), &[&api]), (true, true));
        assert_eq!(check(Some(&web), None, &[&web]), (false, true));
        assert_eq!(check(Some(&api), Some(&web), &[&api, &web]), (true, false));
    }
}
