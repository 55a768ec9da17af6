//! Which objects have some labels. Exporters do not keep labels that nobody has a rule for, so the cluster is asked.

use std::{collections::BTreeSet, time::Duration};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
};

use super::{args::AskArgs, asked::Place, resources::Row};
use crate::{
    model::{Kind, Selector},
    watch::{client_from, served_kinds},
};

const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps what has these labels in the cluster now. What is not there has none.
pub(super) async fn keep_labelled(
    rows: &mut Vec<Row>,
    selector: &Selector,
    place: &Place,
    ask: &AskArgs,
) -> Result<(), String> {
    let why =
        |error: String| format!("cannot ask the cluster which objects have the labels `{selector}`: {error}");
    let client = client_from(&ask.cluster.connection()).await.map_err(|error| why(error.to_string()))?;
    let served = served_kinds(&client, PATIENCE).await.map_err(why)?;
    let mut labelled: BTreeSet<(String, String, String, String)> = BTreeSet::new();
    let kinds: BTreeSet<(String, String)> =
        rows.iter().map(|row| (row.resource.api_version.clone(), row.resource.kind.clone())).collect();
    for (api_version, name) in kinds {
        let is_it = |kind: &&Kind| kind.api_version() == api_version && *kind.kind == *name;
        let Some(kind) = served.kinds.iter().map(|own| &*own.kind).find(is_it) else { continue };
        for (namespace, object) in names(&client, kind, selector, place).await.map_err(why)? {
            labelled.insert((api_version.clone(), name.clone(), namespace, object));
        }
    }
    rows.retain(|row| {
        let own = &row.resource;
        let key = (own.api_version.clone(), own.kind.clone(), own.namespace.clone(), own.name.clone());
        labelled.contains(&key)
    });
    Ok(())
}

/// Namespace and name of each object of a kind that has the labels.
async fn names(
    client: &Client,
    kind: &Kind,
    selector: &Selector,
    place: &Place,
) -> Result<Vec<(String, String)>, String> {
    let resource = ApiResource {
        group: kind.group.to_string(),
        version: kind.version.to_string(),
        api_version: kind.api_version(),
        kind: kind.kind.to_string(),
        plural: kind.plural.to_string(),
    };
    let objects: Api<DynamicObject> = match place.namespace().filter(|_| kind.namespaced) {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let labelled = ListParams::default().labels(&selector.to_string());
    let list = objects.list_metadata(&labelled).await.map_err(|error| format!("{kind}: {error}"))?;
    let name = |metadata: kube::api::ObjectMeta| {
        (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default())
    };
    Ok(list.items.into_iter().map(|object| name(object.metadata)).collect())
}
