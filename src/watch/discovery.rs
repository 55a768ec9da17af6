//! Discovery: which kinds the API server serves.

use std::{sync::Arc, time::Duration};

use http::{
    HeaderValue, Request, StatusCode,
    header::{ACCEPT, ETAG, IF_NONE_MATCH},
};
use kube::{
    Client,
    client::Body,
    core::discovery::v2::{
        ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery,
        APIVersionDiscovery,
    },
};

use super::request::{ApiError, MalformedResponse, check_status, read_body, send};
use crate::types::{Kind, ServedKind, ServedKinds};

/// The document of a cluster with thousands of custom resources has a few megabytes.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;
const FIND_TIMEOUT: Duration = Duration::from_secs(20);

pub async fn served_kinds(client: &Client, timeout: Duration) -> Result<Arc<ServedKinds>, ApiError> {
    let mut discovery = DiscoveryClient::new(client.clone(), timeout);
    discovery.refresh().await?;
    Ok(Arc::new(discovery.served()))
}

/// The kind of a name or alias, see [`DiscoveryClient::resolve_kind`].
pub async fn resolve_kind(client: &Client, name: &str) -> Result<Option<Kind>, ApiError> {
    let mut discovery = DiscoveryClient::new(client.clone(), FIND_TIMEOUT);
    discovery.refresh().await?;
    Ok(discovery.resolve_kind(name))
}

/// Reads the aggregated discovery documents. A document that has not changed since the last request has no body.
pub(crate) struct DiscoveryClient {
    client: Client,
    timeout: Duration,
    core: CachedDocument,
    groups: CachedDocument,
    /// Whether a document changed in a refresh that failed later.
    has_unreported_change: bool,
}

/// Whether objects of a kind are in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindScope {
    Namespaced,
    Cluster,
    NotServed,
    /// The API server cannot reach the aggregated API server of the group, and could not earlier.
    Unavailable,
}

impl DiscoveryClient {
    /// A client that has read nothing yet. The timeout is that of one request.
    pub(crate) fn new(client: Client, timeout: Duration) -> Self {
        Self {
            client,
            timeout,
            core: CachedDocument::new("/api"),
            groups: CachedDocument::new("/apis"),
            has_unreported_change: false,
        }
    }

    /// Reads the documents and returns whether the served kinds changed since the last successful refresh.
    pub(crate) async fn refresh(&mut self) -> Result<bool, ApiError> {
        self.has_unreported_change |= self.core.refresh(&self.client, self.timeout).await?;
        self.has_unreported_change |= self.groups.refresh(&self.client, self.timeout).await?;
        Ok(std::mem::take(&mut self.has_unreported_change))
    }

    /// Every version of every kind, the preferred version first.
    pub(crate) fn served(&self) -> ServedKinds {
        ServedKinds { kinds: self.api_groups().flat_map(kinds_of).collect() }
    }

    /// Finds a kind by its name: kind, plural, singular or short name, with or without `.group`. Groups have the
    /// preference order of the API server, so a name means what it means to kubectl.
    pub(crate) fn resolve_kind(&self, name: &str) -> Option<Kind> {
        let (name, group) = name.split_once('.').map_or((name, None), |(name, group)| (name, Some(group)));
        let is_named = |resource: &APIResourceDiscovery| {
            let kind = resource.response_kind.as_ref().and_then(|kind| kind.kind.as_deref());
            [resource.resource.as_deref(), resource.singular_resource.as_deref(), kind]
                .into_iter()
                .flatten()
                .chain(resource.short_names.iter().map(String::as_str))
                .any(|alias| alias.eq_ignore_ascii_case(name))
        };
        let mut groups =
            self.api_groups().filter(|api_group| group.is_none_or(|group| group_name(api_group) == group));
        groups.find_map(|api_group| {
            api_group.versions.iter().find_map(|version| {
                kind_of(api_group, version, version.resources.iter().find(|resource| is_named(resource))?)
            })
        })
    }

    /// Whether objects of a kind are in namespaces, in whatever version it is served.
    pub(crate) fn kind_scope(&self, group: &str, kind: &str) -> KindScope {
        let Some(api_group) = self.api_groups().find(|api_group| group_name(api_group) == group) else {
            return KindScope::NotServed;
        };
        match kinds_of(api_group).find(|served| &*served.kind.kind == kind) {
            Some(served) if served.kind.namespaced => KindScope::Namespaced,
            Some(_) => KindScope::Cluster,
            None if api_group.versions.iter().any(is_stale) => KindScope::Unavailable,
            None => KindScope::NotServed,
        }
    }

    fn api_groups(&self) -> impl Iterator<Item = &APIGroupDiscovery> {
        self.core.groups().chain(self.groups.groups())
    }
}

struct CachedDocument {
    url: &'static str,
    etag: Option<HeaderValue>,
    /// `None` before the first response.
    groups: Option<Vec<APIGroupDiscovery>>,
}

impl CachedDocument {
    fn new(url: &'static str) -> Self {
        Self { url, etag: None, groups: None }
    }

    fn groups(&self) -> impl Iterator<Item = &APIGroupDiscovery> {
        self.groups.iter().flatten()
    }

    /// Returns whether the document changed.
    async fn refresh(&mut self, client: &Client, timeout: Duration) -> Result<bool, ApiError> {
        let mut request = Request::get(self.url).header(ACCEPT, ACCEPT_AGGREGATED_DISCOVERY_V2);
        if let Some(etag) = &self.etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        let response = send(client, request.body(Body::empty())?, timeout).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(false);
        }
        let response = check_status(response, timeout).await?;
        let etag = response.headers().get(ETAG).cloned();
        let body = read_body(response, MAX_DOCUMENT_BYTES, timeout).await?;
        let items = parse(&body)?.items;
        let groups = Some(items.into_iter().map(|group| self.with_stale_resources(group)).collect());
        let changed = self.groups != groups;
        (self.etag, self.groups) = (etag, groups);
        Ok(changed)
    }

    /// A stale version lists no resources because its aggregated API server is unreachable: it keeps its last ones.
    fn with_stale_resources(&self, mut group: APIGroupDiscovery) -> APIGroupDiscovery {
        let previous = self.groups().find(|previous| group_name(previous) == group_name(&group));
        for version in group.versions.iter_mut().filter(|version| is_stale(version)) {
            let previous = previous
                .and_then(|group| group.versions.iter().find(|previous| previous.version == version.version));
            if let Some(previous) = previous {
                version.resources.clone_from(&previous.resources);
            }
        }
        group
    }
}

/// API servers before Kubernetes 1.27 answer with an `APIGroupList`, which has no resources.
fn parse(body: &[u8]) -> Result<APIGroupDiscoveryList, ApiError> {
    #[derive(serde::Deserialize)]
    struct TypeMeta {
        kind: String,
    }
    let malformed = |error| ApiError::Malformed(MalformedResponse::Discovery(error));
    let TypeMeta { kind } = serde_json::from_slice(body).map_err(malformed)?;
    if kind != "APIGroupDiscoveryList" {
        return Err(ApiError::Malformed(MalformedResponse::NotAggregated { kind }));
    }
    serde_json::from_slice(body).map_err(malformed)
}

/// Every version of every kind of a group, the preferred version first. Subresources are not kinds.
fn kinds_of(group: &APIGroupDiscovery) -> impl Iterator<Item = ServedKind> {
    group.versions.iter().flat_map(move |version| {
        version.resources.iter().filter_map(move |resource| {
            let kind = Arc::new(kind_of(group, version, resource)?);
            let has_verb = |name: &str| resource.verbs.iter().any(|verb| verb == name);
            Some(ServedKind { kind, watchable: has_verb("list") && has_verb("watch") })
        })
    })
}

fn kind_of(
    group: &APIGroupDiscovery,
    version: &APIVersionDiscovery,
    resource: &APIResourceDiscovery,
) -> Option<Kind> {
    Some(Kind {
        group: group_name(group).into(),
        version: version.version.as_deref()?.into(),
        kind: resource.response_kind.as_ref()?.kind.as_deref()?.into(),
        plural: resource.resource.as_deref()?.into(),
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
    })
}

fn group_name(group: &APIGroupDiscovery) -> &str {
    group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or("")
}

fn is_stale(version: &APIVersionDiscovery) -> bool {
    version.freshness.as_deref() == Some("Stale")
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use http::{Request, Response};
    use kube::{Client, client::Body};
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::{CachedDocument, DiscoveryClient, KindScope, kinds_of, parse};

    fn list(versions: &Value) -> Vec<u8> {
        let group = json!({"metadata": {"name": "example.com"}, "versions": versions});
        json!({"kind": "APIGroupDiscoveryList", "items": [group]}).to_string().into()
    }

    fn widgets(verbs: &[&str]) -> Value {
        json!([{"resource": "widgets", "singularResource": "widget", "shortNames": ["wd"], "responseKind": {"kind": "Widget"},
            "scope": "Namespaced", "verbs": verbs,
            "subresources": [{"subresource": "scale", "responseKind": {"kind": "Scale"}, "verbs": ["list", "watch"]}]}])
    }

    #[test]
    fn versions_are_in_preference_order_and_subresources_are_not_kinds() {
        let text = list(&json!([
            {"version": "v2", "resources": widgets(&["list", "watch"])},
            {"version": "v1", "resources": widgets(&["get", "list"])},
        ]));
        let kinds: Vec<_> = parse(&text).unwrap().items.iter().flat_map(kinds_of).collect();
        let found: Vec<_> = kinds
            .iter()
            .map(|served| (served.kind.api_version(), served.kind.to_string(), served.watchable))
            .collect();
        let plural = || "widgets.example.com".to_owned();
        assert_eq!(
            found,
            [("example.com/v2".into(), plural(), true), ("example.com/v1".into(), plural(), false)]
        );
    }

    #[test]
    fn stale_version_keeps_its_last_resources() {
        let before = list(
            &json!([{"version": "v1", "freshness": "Current", "resources": widgets(&["list", "watch"])}]),
        );
        let document =
            CachedDocument { groups: Some(parse(&before).unwrap().items), ..CachedDocument::new("/apis") };
        for (freshness, kept) in [("Stale", 1), ("Current", 0)] {
            let now = list(&json!([{"version": "v1", "freshness": freshness, "resources": []}]));
            let mut items =
                parse(&now).unwrap().items.into_iter().map(|group| document.with_stale_resources(group));
            assert_eq!(kinds_of(&items.next().unwrap()).count(), kept, "{freshness}");
        }
    }

    #[test]
    fn server_without_aggregated_discovery_is_an_error() {
        let old = json!({"kind": "APIGroupList", "groups": []}).to_string();
        assert!(parse(old.as_bytes()).unwrap_err().to_string().contains("Kubernetes 1.27"));
    }

    #[tokio::test]
    async fn kinds_are_found_by_every_alias_and_have_a_scope() {
        let service = service_fn(|request: Request<Body>| async move {
            let body = if request.uri().path() == "/api" {
                json!({"kind": "APIGroupDiscoveryList", "items": []}).to_string().into()
            } else {
                list(
                    &json!([{"version": "v1", "resources": widgets(&["list", "watch"])}, {"version": "v0", "freshness": "Stale"}]),
                )
            };
            Ok::<_, Infallible>(Response::new(Body::from(body)))
        });
        let mut discovery = DiscoveryClient::new(Client::new(service, "default"), Duration::from_secs(9));
        assert!(discovery.refresh().await.unwrap());
        assert!(!discovery.refresh().await.unwrap(), "nothing has changed");
        for name in ["Widget", "widgets", "widget", "WD", "widgets.example.com"] {
            assert_eq!(discovery.resolve_kind(name).unwrap().api_version(), "example.com/v1", "{name}");
        }
        assert_eq!(discovery.resolve_kind("widgets.other.com"), None);
        for (group, kind, scope) in [
            ("example.com", "Widget", KindScope::Namespaced),
            ("example.com", "Gadget", KindScope::Unavailable),
            ("other.com", "Widget", KindScope::NotServed),
        ] {
            assert_eq!(discovery.kind_scope(group, kind), scope, "{group} {kind}");
        }
    }
}
