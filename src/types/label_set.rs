//! Labels, kept as small as the question that is asked of them.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

/// A set of labels of which nothing is kept but a hash for each: enough to say whether one set has all of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSet(Box<[u64]>);

impl LabelSet {
    /// These names and values.
    pub fn new<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let builder = BuildHasherDefault::<DefaultHasher>::default();
        let mut hashes: Vec<u64> = labels.into_iter().map(|label| builder.hash_one(label)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes.into())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hash of each label, in order.
    pub fn hashes(&self) -> &[u64] {
        &self.0
    }

    /// Whether all labels of the other set are in this one.
    pub fn has_all(&self, others: &Self) -> bool {
        others.0.iter().all(|hash| self.0.binary_search(hash).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::LabelSet;

    #[test]
    fn a_set_has_all_of_another_or_not() {
        let web = LabelSet::new([("app", "web"), ("tier", "front")]);
        assert!(web.has_all(&LabelSet::new([("tier", "front")])));
        assert!(!web.has_all(&LabelSet::new([("app", "front")])), "names and values belong together");
        assert!(!web.has_all(&LabelSet::new([("app", "web"), ("a", "b")])));
        assert!(web.has_all(&LabelSet::default()) && LabelSet::default().is_empty());
    }
}
