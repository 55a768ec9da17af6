//! The watches and redaction policies that declarations need, and how often untrusted baselines may change them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    sources::KindRequirements,
    types::{GroupKind, KindName, RedactionPolicy, Scope, WantedKind},
};

/// A new redaction policy or filter relists a kind. Untrusted baselines may cause [`RELIST_BURST`] relists of a kind at once, and
/// then one per interval: otherwise a tenant could make the exporter list a kind without end. Changes of trusted baselines apply
/// at once, together with pending ones.
const RELIST_INTERVAL: Duration = Duration::from_secs(30);
/// Two sources that are read at the start, or two installs, do not wait.
const RELIST_BURST: u32 = 2;

/// The requirements of the declarations, as far as they are in use.
#[derive(Debug, Default)]
pub(super) struct DeclaredKinds {
    in_use: BTreeMap<GroupKind, DeclaredKind>,
    /// What trusted baselines alone need.
    trusted: BTreeMap<GroupKind, DeclaredKind>,
    /// Until when the relists of a kind are used up.
    busy_until: HashMap<GroupKind, Instant>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DeclaredKind {
    watches: Vec<WantedKind>,
    policy: Option<Arc<RedactionPolicy>>,
}

impl DeclaredKinds {
    /// Applies new requirements. Returns when those that wait may be applied.
    pub(super) fn update(
        &mut self,
        needed: KindRequirements,
        trusted: KindRequirements,
        now: Instant,
    ) -> Option<Instant> {
        let (mut needed, trusted) = (by_kind(needed), by_kind(trusted));
        let mut retry_at = None;
        self.in_use.retain(|kind, _| needed.contains_key(kind));
        for kind in needed.keys().cloned().collect::<BTreeSet<_>>() {
            let Some(mut needed) = needed.remove(&kind) else { continue };
            match self.in_use.get(&kind) {
                // Caching less would also take a relist.
                Some(in_use) if in_use.suffices_for(&needed) => needed.policy.clone_from(&in_use.policy),
                _ if trusted.get(&kind) != self.trusted.get(&kind) => {}
                _ => {
                    if let Err(allowed_at) = self.count_relist(&kind, now) {
                        retry_at = Some(retry_at.map_or(allowed_at, |at: Instant| at.min(allowed_at)));
                        continue;
                    }
                }
            }
            self.in_use.insert(kind, needed);
        }
        self.trusted = trusted;
        retry_at
    }

    pub(super) fn in_use(&self) -> KindRequirements {
        let kinds = self.in_use.values().flat_map(|kind| kind.watches.iter().cloned()).collect();
        let policies =
            self.in_use.iter().filter_map(|(kind, of_kind)| Some((kind, of_kind.policy.as_ref()?)));
        let documents = policies.map(|(kind, policy)| (kind.clone(), policy.clone())).collect();
        KindRequirements { kinds, documents }
    }

    /// Fails with the time from which a relist of the kind is allowed, if that is later.
    fn count_relist(&mut self, kind: &GroupKind, now: Instant) -> Result<(), Instant> {
        let busy_until = self.busy_until.get(kind).copied().unwrap_or(now).max(now);
        let excess = (busy_until - now).saturating_sub(RELIST_INTERVAL * (RELIST_BURST - 1));
        if !excess.is_zero() {
            return Err(now + excess);
        }
        self.busy_until.retain(|_, busy_until| *busy_until > now);
        self.busy_until.insert(kind.clone(), busy_until + RELIST_INTERVAL);
        Ok(())
    }
}

impl DeclaredKind {
    /// Whether `needed` takes no relist, or one that can only follow an earlier one: to watch fewer namespaces.
    fn suffices_for(&self, needed: &Self) -> bool {
        let policy_suffices = needed
            .policy
            .as_ref()
            .is_none_or(|needed| self.policy.as_ref().is_some_and(|policy| policy.covers(needed)));
        policy_suffices
            && needed.watches.iter().all(|needed| self.watches.iter().any(|watch| includes(watch, needed)))
    }
}

/// Whether a request selects at least the objects of the needed one, and reads them in the same version of the kind.
fn includes(watch: &WantedKind, needed: &WantedKind) -> bool {
    let others = |want: &WantedKind| {
        let version = want.version.clone();
        let pinned = want.versions.iter().filter(|(pinned, _)| Some(*pinned) != version.as_ref());
        pinned.map(|(version, objects)| (version.clone(), objects.clone())).collect::<Vec<_>>()
    };
    let request =
        |want: &WantedKind| WantedKind { versions: Arc::default(), scope: Scope::default(), ..want.clone() };
    request(watch) == request(needed)
        && (&needed.scope - &watch.scope).is_empty()
        && others(watch) == others(needed)
}

fn by_kind(requirements: KindRequirements) -> BTreeMap<GroupKind, DeclaredKind> {
    let mut kinds: BTreeMap<GroupKind, DeclaredKind> = BTreeMap::new();
    for watch in requirements.kinds {
        let KindName::Named(name) = &watch.kind else { continue };
        let kind = GroupKind::new(&watch.group, name).into_owned();
        kinds.entry(kind).or_default().watches.push(watch);
    }
    for (kind, policy) in requirements.documents {
        kinds.entry(kind).or_default().policy = Some(policy);
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::{DeclaredKinds, Duration, Instant, KindRequirements, RELIST_INTERVAL};
    use crate::types::{Kind, Scope, WantedKind};

    fn requirements(kind: &Kind, namespaces: &[&str]) -> KindRequirements {
        let scope = Scope::new(namespaces.iter().copied(), []);
        let kinds = vec![WantedKind { scope, ..WantedKind::exactly(kind) }];
        KindRequirements { kinds, ..KindRequirements::default() }
    }

    #[test]
    fn untrusted_changes_of_a_kind_wait_and_trusted_ones_bring_them_along() {
        let (deployment, service) = (Kind::deployment(), Kind::service());
        let mut declared = DeclaredKinds::default();
        let start = Instant::now();
        let none = KindRequirements::default;
        let tenant = |namespace| requirements(&deployment, &[namespace]);
        assert_eq!(declared.update(tenant("a"), none(), start), None, "the first change applies at once");
        assert_eq!(declared.update(tenant("b"), none(), start), None);
        let in_use = declared.in_use();
        assert_eq!(in_use, tenant("b"));
        let soon = start + Duration::from_secs(1);
        for namespace in ["c", "d", "e"] {
            assert_eq!(declared.update(tenant(namespace), none(), soon), Some(start + RELIST_INTERVAL));
            assert_eq!(declared.in_use(), in_use);
        }
        // Another kind is not affected.
        let mut both = tenant("e");
        both.kinds.extend(requirements(&service, &["shop"]).kinds);
        assert!(declared.update(both.clone(), none(), soon).is_some());
        assert_eq!(declared.in_use().kinds.len(), 2);
        // Pending changes apply after the interval, whichever baseline made them.
        assert_eq!(declared.update(both.clone(), none(), start + RELIST_INTERVAL), None);
        assert_eq!(declared.in_use().kinds[1], tenant("e").kinds[0]);
        let later = start + RELIST_INTERVAL + Duration::from_secs(1);
        assert!(declared.update(tenant("f"), none(), later).is_some());
        let trusted = requirements(&deployment, &["f", "shop"]);
        assert_eq!(declared.update(trusted.clone(), trusted.clone(), later), None);
        assert_eq!(declared.in_use(), trusted);
        // To watch less needs no permission.
        assert_eq!(declared.update(tenant("f"), none(), later), None);
        assert_eq!(declared.in_use(), tenant("f"));
        assert!(declared.update(tenant("shop"), none(), later).is_some());
        assert_eq!(declared.update(none(), none(), later), None);
        assert_eq!(declared.in_use(), none());
    }
}
