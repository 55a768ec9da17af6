//! Asks the API server which kinds it has.

use std::{sync::Arc, time::Duration};

use http::{
    HeaderValue, Request, StatusCode,
    header::{ACCEPT, ETAG, IF_NONE_MATCH},
};
use kube::{
    Client,
    client::Body,
    core::discovery::v2::{ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscovery, APIGroupDiscoveryList},
};

use super::request::{Fault, answer, refusal, whole};
use crate::types::{Kind, Served, ServedKind};

/// Asks again and again; while nothing changes, an answer has no body.
#[derive(Debug)]
pub(super) struct Discoverer {
    core: Document,
    groups: Document,
    /// Whether something new was read that nobody was told yet.
    news: bool,
}

/// One of the two documents that tell the kinds.
#[derive(Debug)]
struct Document {
    url: &'static str,
    etag: Option<HeaderValue>,
    groups: Vec<APIGroupDiscovery>,
}

/// The document of a cluster with thousands of custom kinds has a few megabytes.
const LARGEST: usize = 64 << 20;

impl Discoverer {
    pub(super) fn new() -> Self {
        let document = |url| Document { url, etag: None, groups: Vec::new() };
        Self { core: document("/api"), groups: document("/apis"), news: false }
    }

    /// What the API server has now; none if that is what it had the last time.
    pub(super) async fn ask(
        &mut self,
        client: &Client,
        silence: Duration,
    ) -> Result<Option<Arc<Served>>, Fault> {
        self.news |= self.core.ask(client, silence).await?;
        self.news |= self.groups.ask(client, silence).await?;
        let all = self.core.groups.iter().chain(&self.groups.groups);
        let news = std::mem::take(&mut self.news);
        Ok(news.then(|| Arc::new(Served { kinds: all.flat_map(kinds_of).collect() })))
    }
}

impl Document {
    /// Asks for it; whether it is another one than before.
    async fn ask(&mut self, client: &Client, silence: Duration) -> Result<bool, Fault> {
        let mut request = Request::get(self.url).header(ACCEPT, ACCEPT_AGGREGATED_DISCOVERY_V2);
        if let Some(etag) = &self.etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        let response = answer(client, request.body(Body::empty())?, silence).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(false);
        }
        if !response.status().is_success() {
            return Err(refusal(response, silence).await);
        }
        let etag = response.headers().get(ETAG).cloned();
        let body = whole(response, LARGEST, silence).await?;
        let list: APIGroupDiscoveryList = read(&body)?;
        let groups = list.items.into_iter().map(|group| self.with_what_is_stale(group)).collect();
        let changed = self.etag.is_none() || self.groups != groups;
        (self.etag, self.groups) = (etag, groups);
        Ok(changed)
    }

    /// An aggregated server that does not answer has not lost its kinds: what it last had stands.
    fn with_what_is_stale(&self, mut group: APIGroupDiscovery) -> APIGroupDiscovery {
        let before = self.groups.iter().find(|own| name_of(own) == name_of(&group));
        for version in &mut group.versions {
            let before =
                before.and_then(|own| own.versions.iter().find(|own| own.version == version.version));
            if let (Some("Stale"), Some(before)) = (version.freshness.as_deref(), before) {
                version.resources.clone_from(&before.resources);
            }
        }
        group
    }
}

/// A server that is too old for the document answers with another one, which has groups instead of items.
fn read(body: &[u8]) -> Result<APIGroupDiscoveryList, Fault> {
    #[derive(serde::Deserialize)]
    struct Named {
        kind: String,
    }
    let garbled = |error: serde_json::Error| Fault::Garbled(format!("the list of kinds: {error}"));
    let Named { kind } = serde_json::from_slice(body).map_err(garbled)?;
    if kind != "APIGroupDiscoveryList" {
        let wrong =
            format!("it has {kind} for a list of kinds; aggregated discovery came with Kubernetes 1.27");
        return Err(Fault::Garbled(wrong));
    }
    serde_json::from_slice(body).map_err(garbled)
}

/// Every version of every kind of a group, the preferred version first. Subresources stand below their kinds.
fn kinds_of(group: &APIGroupDiscovery) -> impl Iterator<Item = ServedKind> {
    group.versions.iter().flat_map(move |version| {
        version.resources.iter().filter_map(move |resource| {
            let kind = Kind {
                group: name_of(group).into(),
                version: version.version.as_deref()?.into(),
                kind: resource.response_kind.as_ref()?.kind.as_deref()?.into(),
                plural: resource.resource.as_deref()?.into(),
                namespaced: resource.scope.as_deref() == Some("Namespaced"),
            };
            let can = |verb: &str| resource.verbs.iter().any(|own| own == verb);
            Some(ServedKind { kind: Arc::new(kind), watchable: can("list") && can("watch") })
        })
    })
}

fn name_of(group: &APIGroupDiscovery) -> &str {
    group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or("")
}

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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Document, kinds_of, read};

    fn list(versions: &Value) -> Vec<u8> {
        let group = json!({"metadata": {"name": "example.com"}, "versions": versions});
        json!({"kind": "APIGroupDiscoveryList", "items": [group]}).to_string().into()
    }

    fn widgets(verbs: &[&str]) -> Value {
        json!([{"resource": "widgets", "responseKind": {"kind": "Widget"}, "scope": "Namespaced", "verbs": verbs,
        "subresources": [{"subresource": "scale", "responseKind": {"kind": "Scale"}, "verbs": ["list", "watch"]}]}])
    }

    #[test]
    fn versions_come_as_they_are_preferred_and_subresources_are_no_kinds() {
        let text = list(&json!([
            {"version": "v2", "resources": widgets(&["list", "watch"])},
            {"version": "v1", "resources": widgets(&["get", "list"])},
        ]));
        let kinds: Vec<_> = read(&text).unwrap().items.iter().flat_map(kinds_of).collect();
        let told: Vec<_> =
            kinds.iter().map(|own| (own.kind.api_version(), own.kind.to_string(), own.watchable)).collect();
        let plural = || "widgets.example.com".to_owned();
        assert_eq!(
            told,
            [("example.com/v2".into(), plural(), true), ("example.com/v1".into(), plural(), false)]
        );
    }

    #[test]
    fn a_server_behind_the_server_that_does_not_answer_keeps_its_kinds() {
        let before = list(
            &json!([{"version": "v1", "freshness": "Current", "resources": widgets(&["list", "watch"])}]),
        );
        let document = Document { url: "/apis", etag: None, groups: read(&before).unwrap().items };
        for (freshness, kept) in [("Stale", 1), ("Current", 0)] {
            let now = list(&json!([{"version": "v1", "freshness": freshness, "resources": []}]));
            let mut items =
                read(&now).unwrap().items.into_iter().map(|group| document.with_what_is_stale(group));
            assert_eq!(kinds_of(&items.next().unwrap()).count(), kept, "{freshness}");
        }
    }

    #[test]
    fn a_server_that_is_too_old_is_told_so() {
        let old = json!({"kind": "APIGroupList", "groups": []}).to_string();
        assert!(read(old.as_bytes()).unwrap_err().to_string().contains("Kubernetes 1.27"));
    }
}
