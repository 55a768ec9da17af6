//! Lists, page by page, all pages as of one version.

use std::sync::Arc;

use super::{
    Cluster,
    query::Parameters,
    refusal::Refusal,
    resource::Resource,
    selector::Selector,
    store::{Key, Stored},
};

/// One page of a list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) version: u64,
    pub(super) items: Vec<Arc<Stored>>,
    /// What to ask for to get the next page; empty on the last one.
    pub(super) next: String,
    /// How many come after this page, where that is known without reading them.
    pub(super) remaining: Option<usize>,
}

impl Cluster {
    pub(super) fn page(
        &self,
        resource: &Resource,
        selector: &Selector,
        parameters: &Parameters,
    ) -> Result<Page, Refusal> {
        let (at, after) = match &*parameters.r#continue {
            "" => (parameters.version()?, None),
            token => {
                let (version, place) = read_token(resource, token)?;
                ((version != NEWEST).then_some(version), Some(place))
            }
        };
        let store = self.lock();
        let current = store.version();
        let exact = (at.is_some() && after.is_some()) || parameters.resource_version_match == "Exact";
        let (version, objects) = match at {
            Some(wanted) if wanted > current => return Err(Refusal::from_the_future(wanted, current)),
            Some(wanted) if exact => {
                let objects = store.objects_at(&resource.qualified(), wanted);
                (wanted, objects.map_err(|_| too_old(after.as_ref()))?)
            }
            Some(_) | None => (current, store.objects(&resource.qualified())),
        };
        drop(store);
        // Whoever takes any version gets all of it, as from the real server's cache.
        let limit = if at == Some(0) { None } else { parameters.limit()? };
        let mut rest = objects
            .into_iter()
            .filter(|(key, _)| after.as_ref().is_none_or(|after| key > after))
            .filter(|(_, stored)| selector.matches(&stored.selectable()));
        let page: Vec<_> = rest.by_ref().take(limit.unwrap_or(usize::MAX)).collect();
        let remaining = rest.count();
        let next = match page.last() {
            Some((last, _)) if remaining > 0 => token(version, last),
            _ => String::new(),
        };
        Ok(Page {
            version,
            items: page.into_iter().map(|(_, stored)| stored).collect(),
            next,
            remaining: (remaining > 0 && !selector.narrows()).then_some(remaining),
        })
    }
}

/// The version in a token that goes on with whatever there is now.
const NEWEST: u64 = 0;

fn token(version: u64, last: &Key) -> String {
    format!("{version}/{}/{}", last.namespace, last.name)
}

/// Whoever was in the middle of a list may go on with what there is now, and is told how.
fn too_old(after: Option<&Key>) -> Refusal {
    let refusal = Refusal::expired(TOO_OLD);
    match after {
        Some(last) => refusal.go_on_with(&token(NEWEST, last)),
        None => refusal,
    }
}

const TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.";

fn read_token(resource: &Resource, token: &str) -> Result<(u64, Key), Refusal> {
    let mut parts = token.splitn(3, '/');
    let version = parts.next().and_then(|version| version.parse().ok());
    match (version, parts.next(), parts.next()) {
        (Some(version), Some(namespace), Some(name)) => Ok((version, Key::new(resource, namespace, name))),
        _ => Err(Refusal::bad_request("invalid continue token: continue key is not valid")),
    }
}
