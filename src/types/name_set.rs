//! Some objects of one kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
};

/// Some objects of one kind, by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameSet(BTreeMap<Box<str>, BTreeSet<Box<str>>>);

impl NameSet {
    /// Adds an object; its namespace is empty where it has none.
    pub fn insert(&mut self, namespace: &str, name: &str) {
        match self.0.get_mut(namespace) {
            Some(names) => {
                names.insert(name.into());
            }
            None => {
                self.0.insert(namespace.into(), [name.into()].into());
            }
        }
    }

    /// Whether this object is among them.
    pub fn has(&self, namespace: &str, name: &str) -> bool {
        self.0.get(namespace).is_some_and(|names| names.contains(name))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    /// Each of them, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(namespace, names)| names.iter().map(move |name| (&**namespace, &**name)))
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for NameSet {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(objects: I) -> Self {
        let mut set = Self::default();
        for (namespace, name) in objects {
            set.insert(namespace, name);
        }
        set
    }
}

impl<'a> Extend<(&'a str, &'a str)> for NameSet {
    fn extend<I: IntoIterator<Item = (&'a str, &'a str)>>(&mut self, objects: I) {
        for (namespace, name) in objects {
            self.insert(namespace, name);
        }
    }
}

/// Streams are looked up with every object that they bring, and two that differ in nothing but many names are rare.
impl Hash for NameSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.count().hash(state);
    }
}
