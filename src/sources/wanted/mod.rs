//! What has to be watched and kept for what is declared.

mod documents;
mod kinds;

use std::{collections::BTreeMap, sync::Arc};

use self::{documents::documents, kinds::wanted_kinds};
use crate::types::{DeclaredObject, RedactionKey, RedactionPolicy, WantedKind};

/// All that a source declares: the objects of each baseline, with the key that it brings, where it does.
#[derive(Clone, Debug, Default)]
pub struct Declares(Vec<(Option<RedactionKey>, Vec<Arc<DeclaredObject>>)>);

impl Declares {
    /// These baselines.
    pub(super) fn new<'a>(
        baselines: impl Iterator<Item = (Option<&'a RedactionKey>, &'a [Arc<DeclaredObject>])>,
    ) -> Self {
        Self(baselines.map(|(key, objects)| (key.cloned(), objects.to_vec())).collect())
    }
}

/// What has to be watched for what sources declare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The kinds that they name, and single objects of kinds that nobody should read by the way.
    pub kinds: Vec<WantedKind>,
    /// These kinds by group and name: whole objects of them are kept, and this is sealed in them.
    pub documents: BTreeMap<(Box<str>, Box<str>), Arc<RedactionPolicy>>,
}

impl Wanted {
    /// What is wanted for all that these sources declare together. `key`: that of this process.
    pub fn of<'a>(key: &RedactionKey, sources: impl Iterator<Item = &'a Declares>) -> Self {
        let baselines: Vec<_> = sources.flat_map(|source| &source.0).collect();
        let kinds = wanted_kinds(baselines.iter().flat_map(|(_, objects)| objects).map(|object| &**object));
        let declared = baselines.iter().map(|(key, objects)| (key.as_ref(), &**objects));
        Self { kinds, documents: documents(key, declared) }
    }
}
