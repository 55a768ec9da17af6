//! Which kind people mean, as the API server sees it.

use std::{sync::Arc, time::Duration};

use kube::{Client, core::discovery::v2::APIGroupDiscovery};

use super::discovery::Discoverer;
use crate::types::{Kind, Served};

/// Asks for every kind that the API server has. The error says why it does not tell.
pub async fn served_kinds(client: &Client, patience: Duration) -> Result<Arc<Served>, String> {
    let asked = Discoverer::new().ask(client, patience).await.map_err(|fault| fault.to_string())?;
    Ok(asked.unwrap_or_default())
}

/// Finds the kind that a name stands for: kind, plural, singular or short name, with or without `.group`.
///
/// Groups come in the server's own order of preference, so a plain name means what it means to kubectl.
pub async fn find_kind(client: &Client, name: &str) -> Result<Option<Kind>, kube::Error> {
    let (name, group) = name.split_once('.').map_or((name, None), |(name, group)| (name, Some(group)));
    let core = client.list_core_api_versions_aggregated().await?;
    let groups = client.list_api_groups_aggregated().await?;
    let all = core.items.iter().chain(&groups.items);
    let mut wanted = all.filter(|own| group.is_none_or(|group| group_name(own) == group));
    Ok(wanted.find_map(|group| in_group(group, name)))
}

fn in_group(group: &APIGroupDiscovery, name: &str) -> Option<Kind> {
    group.versions.iter().find_map(|version| {
        let resource = version.resources.iter().find(|resource| {
            let kind = resource.response_kind.as_ref().and_then(|kind| kind.kind.as_deref());
            [resource.resource.as_deref(), resource.singular_resource.as_deref(), kind]
                .into_iter()
                .flatten()
                .chain(resource.short_names.iter().map(String::as_str))
                .any(|own| own.eq_ignore_ascii_case(name))
        })?;
        Some(Kind {
            group: group_name(group).into(),
            version: version.version.as_deref()?.into(),
            kind: resource.response_kind.as_ref()?.kind.as_deref()?.into(),
            plural: resource.resource.as_deref()?.into(),
            namespaced: resource.scope.as_deref() == Some("Namespaced"),
        })
    })
}

fn group_name(group: &APIGroupDiscovery) -> &str {
    group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or("")
}
