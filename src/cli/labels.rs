//! Which objects have some labels. Exporters do not keep labels that nobody has a rule for, so the cluster is asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, ObjectMeta},
};

use super::{args::AskArgs, resources::Row, unanswered::Unanswered, unseen::Unseen};
use crate::{
    types::{Kind, Selector},
    watch::{client_from, served_kinds},
};

const PATIENCE: Duration = Duration::from_secs(10);
/// Lists that are asked for at a time.
const AT_ONCE: usize = 8;

/// Labels that are wanted, and whom to ask about them.
pub(super) struct Labels {
    selector: Selector,
    client: Client,
    /// The kinds that the cluster has, as far as anybody looked.
    kinds: Vec<Kind>,
}

/// A kind, by its API version and name.
type KindKey = (String, String);
/// Namespace and name of an object.
type Place = (String, String);

impl Labels {
    /// Connects; nothing is asked yet.
    pub(super) async fn open(selector: &Selector, ask: &AskArgs) -> Result<Self, String> {
        let client = client_from(&ask.cluster.connection()).await;
        let client = client.map_err(|error| unknowable(selector, &error.to_string()))?;
        Ok(Self { selector: selector.clone(), client, kinds: Vec::new() })
    }

    /// Keeps what has these labels in the cluster now. What is not there has none. Says of which kinds nobody lets us know it;
    /// these are not kept.
    pub(super) async fn keep(&mut self, rows: &mut Vec<Row>) -> Result<Vec<Unseen>, Unanswered> {
        let mut wanted: BTreeMap<KindKey, BTreeSet<String>> = BTreeMap::new();
        for row in &*rows {
            wanted.entry(kind_of(row)).or_default().insert(row.resource.namespace.clone());
        }
        let wanted = self.known(wanted).await?;
        let asked = stream::iter(wanted).map(async |(key, kind, namespaces)| {
            let found = self.labelled(&kind, namespaces).await?;
            Ok::<_, Unanswered>((key, kind, found))
        });
        let asked: Vec<(KindKey, Kind, Found)> = asked.buffer_unordered(AT_ONCE).try_collect().await?;
        let mut unseen: Vec<Unseen> = Vec::new();
        let mut labelled: BTreeMap<KindKey, BTreeSet<Place>> = BTreeMap::new();
        for (key, kind, found) in asked {
            if found.is_forbidden {
                unseen.push(Unseen::forbidden(format!("labels of {}", kind.kind)));
            }
            labelled.insert(key, found.places);
        }
        rows.retain(|row| {
            let place = (row.resource.namespace.clone(), row.resource.name.clone());
            labelled.get(&kind_of(row)).is_some_and(|own| own.contains(&place))
        });
        unseen.sort();
        Ok(unseen)
    }

    /// Those that the cluster has.
    async fn known(
        &mut self,
        wanted: BTreeMap<KindKey, BTreeSet<String>>,
    ) -> Result<Vec<(KindKey, Kind, BTreeSet<String>)>, Unanswered> {
        if !wanted.keys().all(|key| find(&self.kinds, key).is_some()) {
            let served = served_kinds(&self.client, PATIENCE).await;
            let served = served.map_err(|error| self.unanswered(&error.to_string()))?;
            self.kinds = served.kinds.iter().map(|own| Kind::clone(&own.kind)).collect();
        }
        let known = wanted.into_iter().filter_map(|(key, namespaces)| {
            let kind = find(&self.kinds, &key)?.clone();
            Some((key, kind, namespaces))
        });
        Ok(known.collect())
    }

    /// Objects of a kind that have the labels, in these namespaces at least: with one list where that is allowed.
    async fn labelled(&self, kind: &Kind, namespaces: BTreeSet<String>) -> Result<Found, Unanswered> {
        let one = namespaces.first().filter(|_| namespaces.len() == 1 && kind.namespaced);
        let at_once = self.list(kind, one.map(String::as_str)).await?;
        if !at_once.is_forbidden || one.is_some() || !kind.namespaced {
            return Ok(at_once);
        }
        let each = stream::iter(namespaces).map(async |name| self.list(kind, Some(&name)).await);
        each.buffer_unordered(AT_ONCE)
            .try_fold(Found::default(), async |mut all, found| {
                all.places.extend(found.places);
                all.is_forbidden |= found.is_forbidden;
                Ok(all)
            })
            .await
    }

    async fn list(&self, kind: &Kind, namespace: Option<&str>) -> Result<Found, Unanswered> {
        let resource = ApiResource {
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            api_version: kind.api_version(),
            kind: kind.kind.to_string(),
            plural: kind.plural.to_string(),
        };
        let objects: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let place = |metadata: ObjectMeta| {
            (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default())
        };
        match objects.list_metadata(&ListParams::default().labels(&self.selector.to_string())).await {
            Ok(list) => {
                let places = list.items.into_iter().map(|object| place(object.metadata)).collect();
                Ok(Found { places, is_forbidden: false })
            }
            Err(kube::Error::Api(status)) if status.code == 403 => {
                Ok(Found { is_forbidden: true, ..Found::default() })
            }
            // It is not there any more, and neither are its objects.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Found::default()),
            Err(error) => Err(self.unanswered(&format!("{kind}: {error}"))),
        }
    }

    fn unanswered(&self, error: &str) -> Unanswered {
        Unanswered::for_now(unknowable(&self.selector, error))
    }
}

/// What was found of a kind.
#[derive(Default)]
struct Found {
    places: BTreeSet<Place>,
    /// Whether some of it may not be seen.
    is_forbidden: bool,
}

fn unknowable(selector: &Selector, error: &str) -> String {
    format!("cannot ask the cluster which objects have the labels `{selector}`: {error}")
}

fn kind_of(row: &Row) -> KindKey {
    (row.resource.api_version.clone(), row.resource.kind.clone())
}

fn find<'a>(kinds: &'a [Kind], (api_version, name): &KindKey) -> Option<&'a Kind> {
    kinds.iter().find(|kind| kind.api_version() == *api_version && *kind.kind == **name)
}
