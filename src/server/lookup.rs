//! Finding objects by what people call them: API and page ask the same way.

use std::sync::Arc;

use crate::{
    engine::{Entry, KindState, Snapshot, Transition},
    types::{Kind, ObjectKey},
};

/// A claim with the kind that it stands under.
pub(super) type Found<'a> = (&'a KindState, &'a Entry);

/// An object's name as it stands in a URL: kind with or without group, namespace or `-`, name.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Named {
    pub(super) fn new((kind, namespace, name): (String, String, String)) -> Self {
        let namespace = if namespace == "-" { String::new() } else { namespace };
        Self { kind, namespace, name }
    }

    /// The claims on the object, if it is known: at least one.
    pub(super) fn find<'a>(&self, snapshot: &'a Snapshot) -> Option<(&'a KindState, &'a [Arc<Entry>])> {
        let kinds = snapshot.kinds.iter().filter(|state| is_of_type(&state.kind, &self.kind));
        let mut claims = kinds.map(|state| (&**state, state.blocks.get(&self.namespace, &self.name)));
        claims.find(|(_, claims)| !claims.is_empty())
    }

    /// The object of this name that was last heard of, whether it still exists or not.
    pub(super) fn find_in_history<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a ObjectKey> {
        let mut keys = snapshot.history.newest_first().map(|transition| &transition.key);
        keys.find(|key| {
            *key.name == self.name && *key.namespace == self.namespace && is_of_type(&key.kind, &self.kind)
        })
    }
}

/// `deployment`, `deployments`, `deployment.apps` and `deployments.apps` all mean the same, in any case.
pub(super) fn is_of_type(kind: &Kind, wanted: &str) -> bool {
    let (name, group) = wanted.split_once('.').map_or((wanted, None), |(name, group)| (name, Some(group)));
    (name.eq_ignore_ascii_case(&kind.kind) || name.eq_ignore_ascii_case(&kind.plural))
        && group.is_none_or(|group| group.eq_ignore_ascii_case(&kind.group))
}

/// The transitions of one object, newest first.
pub(super) fn history_of<'a>(
    snapshot: &'a Snapshot,
    key: &'a ObjectKey,
) -> impl Iterator<Item = &'a Transition> {
    snapshot.history.newest_first().filter(move |transition| transition.key == *key).map(|own| &**own)
}
