//! What is known about the kinds of a cluster's own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use super::Schemas;

/// A kind by its API version and name: `example.com/v1`, `Widget`.
pub type CustomKind = (Box<str>, Box<str>);

/// What is known about the kinds of a cluster's own that are compared. Of other kinds, something is guessed.
#[derive(Clone, Debug, Default)]
pub struct ClusterSchemas(BTreeMap<CustomKind, Option<Arc<Schemas>>>);

impl ClusterSchemas {
    /// What is known about a kind, be it nothing; none while that is being found out.
    pub fn of(&self, api_version: &str, kind: &str) -> Option<&Schemas> {
        static NOTHING: LazyLock<Schemas> = LazyLock::new(Schemas::default);
        match self.0.get(&(api_version.into(), kind.into())) {
            Some(shapes) => shapes.as_deref(),
            None => Some(&NOTHING),
        }
    }

    /// Whether something about any kind is still being found out.
    pub fn awaits_any(&self) -> bool {
        self.0.values().any(Option::is_none)
    }

    /// Whether something about one of these kinds of an API version is still being found out.
    pub fn awaits(&self, api_version: &str, kinds: &BTreeSet<Box<str>>) -> bool {
        kinds.iter().any(|kind| self.of(api_version, kind).is_none())
    }

    /// Knows these kinds from now on and no others; those that are new are being found out about. Says whether any is new or gone.
    pub fn want(&mut self, kinds: &BTreeSet<CustomKind>) -> bool {
        let before = self.0.len();
        self.0.retain(|kind, _| kinds.contains(kind));
        let is_less = self.0.len() < before;
        let kept = self.0.len();
        for kind in kinds {
            self.0.entry(kind.clone()).or_default();
        }
        is_less || self.0.len() > kept
    }

    /// The kinds that are compared, by API version.
    pub fn wanted(&self) -> BTreeMap<Box<str>, BTreeSet<Box<str>>> {
        let mut versions: BTreeMap<Box<str>, BTreeSet<Box<str>>> = BTreeMap::new();
        for (version, kind) in self.0.keys() {
            versions.entry(version.clone()).or_default().insert(kind.clone());
        }
        versions
    }

    /// Whether a kind is among those that are compared.
    pub fn wants(&self, api_version: &str, kind: &str) -> bool {
        self.0.contains_key(&(api_version.into(), kind.into()))
    }

    /// Takes in what was read about a kind. Says whether that is news.
    pub fn learn(&mut self, api_version: &str, kind: &str, shapes: &Arc<Schemas>) -> bool {
        let Some(own) = self.0.get_mut(&(api_version.into(), kind.into())) else { return false };
        let news = own.as_ref() != Some(shapes);
        *own = Some(shapes.clone());
        news
    }

    /// Nothing can be found out about a kind: what was known stands. Says whether that is news.
    pub fn give_up(&mut self, api_version: &str, kind: &str) -> bool {
        let own = self.0.get_mut(&(api_version.into(), kind.into()));
        own.is_some_and(|own| own.is_none() && own.replace(Arc::default()).is_none())
    }

    /// The kinds about which something else is known than before.
    pub fn changes_since(&self, before: &Self) -> BTreeSet<CustomKind> {
        let is_other =
            |(kind, shapes): &(&CustomKind, &Option<Arc<Schemas>>)| before.0.get(*kind) != Some(*shapes);
        self.0.iter().filter(is_other).map(|(kind, _)| kind.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{ClusterSchemas, CustomKind, Schemas};

    fn kind(name: &str) -> CustomKind {
        ("example.com/v1".into(), name.into())
    }

    #[test]
    fn what_is_wanted_is_awaited_until_it_is_known_or_given_up() {
        let mut shapes = ClusterSchemas::default();
        assert_eq!(shapes.of("example.com/v1", "A"), Some(&Schemas::default()), "nobody asks about it");
        assert!(shapes.want(&[kind("A"), kind("B")].into()) && !shapes.want(&[kind("A"), kind("B")].into()));
        assert!(shapes.of("example.com/v1", "A").is_none() && shapes.awaits_any());
        let before = shapes.clone();
        let known = Arc::new(Schemas { knows_defaults: true, ..Schemas::default() });
        assert!(shapes.learn("example.com/v1", "A", &known) && !shapes.learn("example.com/v1", "A", &known));
        assert!(shapes.give_up("example.com/v1", "B") && !shapes.give_up("example.com/v1", "B"));
        assert!(!shapes.give_up("example.com/v1", "A") && !shapes.awaits_any(), "what is known stands");
        assert_eq!(shapes.of("example.com/v1", "A"), Some(&*known));
        assert_eq!(shapes.of("example.com/v1", "B"), Some(&Schemas::default()));
        assert_eq!(shapes.changes_since(&before), [kind("A"), kind("B")].into());
        assert!(shapes.changes_since(&shapes.clone()).is_empty());
        assert!(shapes.want(&[kind("B")].into()), "what is not wanted any more is let go of");
        assert!(!shapes.learn("example.com/v1", "A", &known) && !shapes.wants("example.com/v1", "A"));
    }
}
