//! The exporter's API as commands read it: claims, and the status of watches and sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, ObjectMeta},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize as _;
use serde_json::Value;

use super::{
    args::{ExporterArgs, ResourceArg},
    client::{NamespaceScope, Query, QueryTarget, RequestError},
};
use crate::{
    diff::manifest::TypeMeta,
    server::{HealthView, ListView, ResourceView, StatusView, StreamView, Word},
    types::{DownReason, HealthState, Kind, NamespacedName, Selector, Source, UnknownReason, VerdictKind},
    watch::{ApiError, ConnectError, client_from, served_kinds},
};

/// A claim of `/v1/resources`, with the JSON that it was read from, for `-o json`.
#[derive(Debug)]
pub(super) struct FetchedClaim {
    pub(super) claim: ClaimView,
    pub(super) json: Value,
}

pub(super) type ClaimView = ResourceView<'static>;

impl ClaimView {
    /// Why the verdict is `unknown`: a description, and the API's value.
    pub(super) fn unknown_reason(&self) -> Option<String> {
        let reason = self.reason.as_ref()?;
        // A newer exporter may have more reasons.
        let description =
            reason.known().map_or("for a reason that is not known here", UnknownReason::description);
        Some(format!("{description} ({reason})"))
    }

    /// Unlike `drift_detected`, which an `unknown` claim keeps from before.
    pub(super) fn is_drifted(&self) -> bool {
        self.verdict.known().is_some_and(VerdictKind::is_drifted)
    }

    pub(super) fn needs_attention(&self) -> bool {
        self.drift_detected || self.is_drifted() || self.verdict.known() == Some(VerdictKind::Unknown)
    }

    pub(super) fn is_declared(&self) -> bool {
        self.source.known() != Some(Source::Unclaimed)
            && self.verdict.known() != Some(VerdictKind::NoBaseline)
            && !self.is_untrusted()
    }

    /// Only baselines without authority over the object declare it.
    pub(super) fn is_untrusted(&self) -> bool {
        self.verdict.known() == Some(VerdictKind::Untrusted)
    }

    /// Empty for the core group.
    pub(super) fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// `deployment.apps/web`, the format of `kubectl get -o name`.
    pub(super) fn kubectl_name(&self) -> String {
        let dot = if self.group().is_empty() { "" } else { "." };
        format!("{}{dot}{}/{}", self.kind.to_lowercase(), self.group(), self.resource_name)
    }

    pub(super) fn object_name(&self) -> ObjectName<'_> {
        let Self { kind, namespace, resource_name: name, .. } = self;
        ObjectName { group: self.group(), kind, namespace, name }
    }
}

/// Identifies the object of a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectName<'a> {
    /// Empty for the core group.
    pub(super) group: &'a str,
    pub(super) kind: &'a str,
    /// Empty for cluster-scoped objects.
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// Percent-encodes a segment of a path or a value of a query.
pub(super) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Sets `onset` to null where it is not before `list_started`: it is then the time of the list and not of the change.
pub(super) fn clear_unknown_onsets(json: &mut Value, list_started: Option<Timestamp>) {
    let Some(started) = list_started else { return };
    let is_unknown = |text: &str| text.parse::<Timestamp>().is_ok_and(|time| time >= started);
    match json {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "onset" && value.as_str().is_some_and(is_unknown) {
                    *value = Value::Null;
                } else {
                    clear_unknown_onsets(value, list_started);
                }
            }
        }
        Value::Array(values) => {
            values.iter_mut().for_each(|value| clear_unknown_onsets(value, list_started));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Claims in the order of the query's targets, and kinds whose labels could not be read.
pub(super) async fn fetch_claims(
    query: &mut Query,
) -> Result<(Vec<FetchedClaim>, Vec<CoverageGap>), RequestError> {
    let mut rows = if query.targets.is_empty() {
        fetch_scope(query, &query.scope, None).await?
    } else {
        fetch_targets(query).await?
    };
    let gaps = match &mut query.labels {
        Some(labels) => labels.retain_matching(&mut rows).await?,
        None => Vec::new(),
    };
    Ok((rows, gaps))
}

async fn fetch_targets(query: &mut Query) -> Result<Vec<FetchedClaim>, RequestError> {
    let mut rows = Vec::new();
    for index in 0..query.targets.len() {
        let QueryTarget { resource, scope, .. } = &query.targets[index];
        let mut found = fetch_scope(query, scope, Some(resource)).await?;
        // A remote exporter does not report whether a kind is namespaced. kubectl ignores -n for cluster-scoped kinds.
        if found.is_empty() && !query.exporter.is_in_process() && scope.namespace().is_some() {
            found = fetch_scope(query, &NamespaceScope::ClusterScoped, Some(resource)).await?;
        }
        query.targets[index].is_found = !found.is_empty();
        rows.extend(found);
    }
    Ok(rows)
}

async fn fetch_scope(
    query: &Query,
    scope: &NamespaceScope,
    resource: Option<&ResourceArg>,
) -> Result<Vec<FetchedClaim>, RequestError> {
    let namespace = scope.namespace().unwrap_or("*");
    let mut path = format!("/v1/resources?namespace={}", percent_encode(namespace));
    if let Some(ResourceArg { kind, name }) = resource {
        path.extend(["&resourceType=", &percent_encode(kind)]);
        path.extend(name.iter().map(|name| format!("&resourceName={}", percent_encode(name))));
    }
    let ListView { mut resources, .. }: ListView<'static, Vec<Value>> =
        query.exporter.get_json(&path).await?;
    resources.iter_mut().for_each(|json| clear_unknown_onsets(json, query.list_started));
    let row = |json: Value| match ClaimView::deserialize(&json) {
        Ok(claim) => Ok(FetchedClaim { claim, json }),
        Err(error) => Err(query.exporter.unexpected_response(error)),
    };
    let mut rows = resources.into_iter().map(row).collect::<Result<Vec<FetchedClaim>, RequestError>>()?;
    rows.retain(|row| *scope != NamespaceScope::ClusterScoped || row.claim.namespace.is_empty());
    Ok(rows)
}

const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);
const CONCURRENT_LISTS: usize = 8;

/// Filters claims by label. The API of the exporter has no labels, so the filter lists the cluster.
pub(super) struct LabelFilter {
    selector: Selector,
    client: Client,
    /// The served kinds as of the last discovery.
    kinds: Vec<Kind>,
}

#[derive(Default)]
struct MatchingObjects {
    names: BTreeSet<NamespacedName<String>>,
    is_forbidden: bool,
}

impl LabelFilter {
    pub(super) async fn connect(selector: &Selector, arguments: &ExporterArgs) -> Result<Self, RequestError> {
        let (selector, client) = (selector.clone(), client_from(&arguments.cluster.connection()).await);
        match client {
            Ok(client) => Ok(Self { selector, client, kinds: Vec::new() }),
            Err(source) => Err(RequestError::Labels { selector, source: source.into() }),
        }
    }

    /// Drops claims whose live object does not match or does not exist. Also drops kinds that the user may not list, and
    /// returns these.
    async fn retain_matching(
        &mut self,
        rows: &mut Vec<FetchedClaim>,
    ) -> Result<Vec<CoverageGap>, RequestError> {
        let mut namespaces: BTreeMap<TypeMeta, BTreeSet<String>> = BTreeMap::new();
        for FetchedClaim { claim, .. } in &*rows {
            namespaces.entry(type_of(claim)).or_default().insert(claim.namespace.to_string());
        }
        if !namespaces.keys().all(|object_type| find_kind(&self.kinds, object_type).is_some()) {
            let discovered = served_kinds(&self.client, DISCOVERY_TIMEOUT).await;
            let discovered = discovered.map_err(|error| self.error(error))?;
            self.kinds = discovered.kinds.iter().map(|served| Kind::clone(&served.kind)).collect();
        }
        let lists = stream::iter(namespaces).map(async |(object_type, namespaces)| {
            let found = match find_kind(&self.kinds, &object_type) {
                Some(kind) => self.list_namespaces(kind, namespaces).await?,
                // The cluster does not serve the kind.
                None => MatchingObjects::default(),
            };
            Ok::<_, RequestError>((object_type, found))
        });
        let lists: Vec<(TypeMeta, MatchingObjects)> =
            lists.buffer_unordered(CONCURRENT_LISTS).try_collect().await?;
        let mut gaps: Vec<CoverageGap> = Vec::new();
        let mut matching: BTreeMap<TypeMeta, BTreeSet<NamespacedName<String>>> = BTreeMap::new();
        for (object_type, found) in lists {
            if found.is_forbidden {
                gaps.push(CoverageGap::new(format!("labels of {}", object_type.kind), "forbidden"));
            }
            matching.insert(object_type, found.names);
        }
        rows.retain(|FetchedClaim { claim, .. }| {
            let (namespace, name) = (claim.namespace.to_string(), claim.resource_name.to_string());
            let names = matching.get(&type_of(claim));
            names.is_some_and(|names| names.contains(&NamespacedName { namespace, name }))
        });
        gaps.sort();
        Ok(gaps)
    }

    /// Lists all namespaces at once, or each one if that is forbidden.
    async fn list_namespaces(
        &self,
        kind: &Kind,
        namespaces: BTreeSet<String>,
    ) -> Result<MatchingObjects, RequestError> {
        let single = namespaces.first().filter(|_| namespaces.len() == 1 && kind.namespaced);
        let found = self.list(kind, single.map(String::as_str)).await?;
        if !found.is_forbidden || single.is_some() || !kind.namespaced {
            return Ok(found);
        }
        let lists = stream::iter(namespaces).map(async |name| self.list(kind, Some(&name)).await);
        lists
            .buffer_unordered(CONCURRENT_LISTS)
            .try_fold(MatchingObjects::default(), async |mut all, found| {
                all.names.extend(found.names);
                all.is_forbidden |= found.is_forbidden;
                Ok(all)
            })
            .await
    }

    async fn list(&self, kind: &Kind, namespace: Option<&str>) -> Result<MatchingObjects, RequestError> {
        let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &kind.plural);
        let objects: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let name = |metadata: ObjectMeta| NamespacedName {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
        };
        match objects.list_metadata(&ListParams::default().labels(&self.selector.to_string())).await {
            Ok(list) => {
                let names = list.items.into_iter().map(|object| name(object.metadata)).collect();
                Ok(MatchingObjects { names, is_forbidden: false })
            }
            Err(kube::Error::Api(status)) if status.code == 403 => {
                Ok(MatchingObjects { is_forbidden: true, ..MatchingObjects::default() })
            }
            // The kind is no longer served.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(MatchingObjects::default()),
            Err(source) => {
                Err(self.error(ListError::Api { kind: kind.to_string(), source: Box::new(source) }))
            }
        }
    }

    fn error(&self, source: impl Into<ListError>) -> RequestError {
        RequestError::Labels { selector: self.selector.clone(), source: source.into() }
    }
}

/// Why objects cannot be listed by their labels.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Discovery(#[from] ApiError),
    #[error("{kind}: {source}")]
    Api { kind: String, source: Box<kube::Error> },
}

fn type_of(claim: &ClaimView) -> TypeMeta {
    TypeMeta::new(&claim.api_version, &claim.kind).into_owned()
}

fn find_kind<'a>(kinds: &'a [Kind], wanted: &TypeMeta) -> Option<&'a Kind> {
    kinds.iter().find(|kind| *kind.kind == *wanted.kind && *kind.api_version() == *wanted.api_version)
}

/// Short names of built-in kinds (`kubectl api-resources`). The API of the exporter does not resolve them.
const SHORT_NAMES: &[(&str, &str)] = &[
    ("cj", "cronjob"),
    ("cm", "configmap"),
    ("crd", "customresourcedefinition"),
    ("deploy", "deployment"),
    ("ds", "daemonset"),
    ("hpa", "horizontalpodautoscaler"),
    ("ing", "ingress"),
    ("limits", "limitrange"),
    ("netpol", "networkpolicy"),
    ("ns", "namespace"),
    ("pc", "priorityclass"),
    ("pdb", "poddisruptionbudget"),
    ("po", "pod"),
    ("pv", "persistentvolume"),
    ("pvc", "persistentvolumeclaim"),
    ("quota", "resourcequota"),
    ("rc", "replicationcontroller"),
    ("rs", "replicaset"),
    ("sa", "serviceaccount"),
    ("sc", "storageclass"),
    ("sts", "statefulset"),
    ("svc", "service"),
];

const SUGGESTION_THRESHOLD: f64 = 0.75;

pub(super) fn expand_short_name(kind: &str) -> String {
    let found = SHORT_NAMES.iter().find(|(short, _)| short.eq_ignore_ascii_case(kind));
    found.map_or(kind, |(_, full)| full).to_owned()
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject} no kind `{kind}`; {hint}")]
pub(super) struct UnknownKind {
    /// The start of the sentence: `the cluster has`.
    subject: &'static str,
    kind: String,
    pub(super) hint: String,
}

impl UnknownKind {
    pub(super) fn new<'a>(subject: &'static str, kind: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let typed = kind.split('.').next().unwrap_or(kind).to_lowercase();
        let scored = known.map(str::to_lowercase).map(|name| {
            let singular = strsim::jaro_winkler(&typed, &name);
            let plural = strsim::jaro_winkler(typed.trim_end_matches('s'), &name);
            (singular.max(plural), name)
        });
        let hint = match scored.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((score, name)) if score >= SUGGESTION_THRESHOLD => format!("did you mean `{name}`?"),
            _ => "`kubectl api-resources` lists the kinds".to_owned(),
        };
        Self { subject, kind: kind.to_owned(), hint }
    }
}

/// Names in the summary of gaps; further ones are counted.
const LISTED_GAPS: usize = 6;

/// Something that the exporter could not read or does not compare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CoverageGap {
    what: String,
    reason: &'static str,
}

impl CoverageGap {
    pub(super) fn new(what: impl Into<String>, reason: &'static str) -> Self {
        Self { what: what.into(), reason }
    }
}

/// `/v1/status`, and gaps that the exporter does not know of.
pub(super) struct ExporterStatus {
    view: StatusView<'static>,
    gaps: Vec<CoverageGap>,
}

const NO_MESSAGE: &str = "the exporter reports no reason";

impl ExporterStatus {
    pub(super) async fn fetch(query: &Query, label_gaps: Vec<CoverageGap>) -> Result<Self, RequestError> {
        let view = query.exporter.get_json("/v1/status").await?;
        Ok(Self { view, gaps: [&query.gaps[..], &label_gaps].concat() })
    }

    fn streams(&self) -> &[StreamView<'static>] {
        &self.view.streams
    }

    /// The first message of a watch if all watches and sources are down.
    pub(super) fn all_down(&self) -> Option<&str> {
        let sources = self.view.sources.iter().map(|source| &source.health);
        let mut health = self.streams().iter().map(|watch| &watch.health).chain(sources);
        (!self.streams().is_empty() && health.all(is_down)).then(|| first_message(self.streams()))
    }

    pub(super) fn all_forbidden(&self) -> bool {
        self.streams().iter().all(|watch| has_reason(&watch.health, DownReason::Forbidden))
    }

    /// An error if no watch matches the kind.
    pub(super) fn unknown_kind(&self, subject: &'static str, resource: &ResourceArg) -> Option<UnknownKind> {
        let is_watched = self.streams().iter().any(|watch| matches(watch, resource));
        let kinds = || self.streams().iter().map(|watch| &*watch.kind);
        let name = resource.kind.trim_end_matches('.');
        (!is_watched).then(|| UnknownKind::new(subject, name, kinds()))
    }

    /// The message of a kind's watches if all of them are down. A watch that the settings refuse does not count.
    pub(super) fn kind_down(&self, resource: &ResourceArg) -> Option<&str> {
        let watches = || self.streams().iter().filter(|watch| matches(watch, resource));
        let has_failed = |watch: &StreamView<'_>| {
            is_down(&watch.health) && !has_reason(&watch.health, DownReason::Refused)
        };
        let all_down = watches().next().is_some() && watches().all(has_failed);
        all_down.then(|| first_message(watches()))
    }

    /// `not seen: releases of Helm, Role and 3 more kinds (forbidden)`, or `None` if there are no gaps.
    pub(super) fn gap_summary(&self) -> Option<String> {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let sources = self.view.sources.iter().map(|source| {
            let name = match source.source.known() {
                Some(Source::Helm) => "releases of Helm",
                Some(Source::Terraform) => "states of Terraform",
                _ => source.source.as_str(),
            };
            (&source.health, name)
        });
        let down = sources.chain(self.streams().iter().map(|watch| (&watch.health, &*watch.kind)));
        let down = down.filter(|(health, _)| is_down(health));
        let down = down.map(|(health, name)| (health.reason.as_ref().map_or("down", Word::as_str), name));
        let gaps = self.gaps.iter().map(|gap| (gap.reason, &*gap.what));
        for (reason, name) in gaps.chain(down) {
            let names = by_reason.entry(reason).or_default();
            // The settings exclude refused kinds on purpose, such as cluster-scoped kinds with -n.
            if reason != DownReason::Refused.as_str() && !names.contains(&name) {
                names.push(name);
            }
        }
        let parts = by_reason.into_iter().filter(|(_, names)| !names.is_empty()).map(|(reason, names)| {
            let unlisted = names.len().saturating_sub(LISTED_GAPS);
            let more = if unlisted == 0 { String::new() } else { format!(" and {unlisted} more kinds") };
            format!("{}{more} ({reason})", names[..names.len() - unlisted].join(", "))
        });
        let parts: Vec<String> = parts.collect();
        if !parts.is_empty() {
            return Some(format!("not seen: {}", parts.join("; ")));
        }
        (!self.view.ready).then(|| "the exporter has not synced yet".to_owned())
    }
}

fn is_down(health: &HealthView<'_>) -> bool {
    health.state.known() == Some(HealthState::Down)
}

fn has_reason(health: &HealthView<'_>, reason: DownReason) -> bool {
    health.reason.as_ref().and_then(Word::known) == Some(reason)
}

fn first_message<'a>(watches: impl IntoIterator<Item = &'a StreamView<'static>>) -> &'a str {
    watches.into_iter().find_map(|watch| watch.health.message.as_deref()).unwrap_or(NO_MESSAGE)
}

/// Compares singular and plural names, and a prefix of the group.
fn matches(watch: &StreamView<'_>, resource: &ResourceArg) -> bool {
    let typed = resource.kind.to_lowercase();
    let (typed, group) = typed.split_once('.').unwrap_or((&typed, ""));
    let kind = watch.kind.to_lowercase();
    let is_plural = typed.starts_with(&kind[..kind.len().saturating_sub(1)]) && typed.ends_with('s');
    (typed == kind || is_plural) && (group.is_empty() || watch.group.starts_with(group))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{CoverageGap, ExporterStatus, UnknownKind, clear_unknown_onsets, expand_short_name};

    #[test]
    fn onsets_after_the_list_started_are_cleared() {
        let claim = json!({"onset": "2026-01-01T00:00:00Z", "differences": [
            {"path": "a", "onset": "2026-01-01T00:00:00Z"}, {"path": "b", "onset": "2026-01-02T00:00:00.5Z"}]});
        let started: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let mut cleared = claim.clone();
        clear_unknown_onsets(&mut cleared, Some(started));
        let mut expected = claim.clone();
        expected["differences"][1]["onset"] = Value::Null;
        assert_eq!(cleared, expected);
        let mut watched = claim.clone();
        clear_unknown_onsets(&mut watched, None);
        assert_eq!(watched, claim, "an exporter that watches knows all onsets");
    }

    #[test]
    fn unknown_kind_suggests_the_most_similar_one() {
        let known = ["Deployment", "Service", "DaemonSet", "Ingress"];
        for (typed, suggested) in
            [("deploymnt", "`deployment`"), ("Servics", "`service`"), ("daemonset.appz", "`daemonset`")]
        {
            let message = UnknownKind::new("the cluster has", typed, known.into_iter()).to_string();
            assert!(message.ends_with(&format!("did you mean {suggested}?")), "{message}");
        }
        let unlike = UnknownKind::new("the cluster has", "zzz", known.into_iter()).to_string();
        assert!(unlike.contains("api-resources"), "{unlike}");
    }

    #[test]
    fn short_names_are_expanded() {
        assert_eq!(expand_short_name("Deploy"), "deployment");
        assert_eq!(expand_short_name("widgets.example.com"), "widgets.example.com");
    }

    fn status(streams: &Value) -> ExporterStatus {
        let view = json!({"ready": true, "streams": streams, "sources": []});
        ExporterStatus { view: serde_json::from_value(view).unwrap(), gaps: Vec::new() }
    }

    #[test]
    fn kinds_whose_watches_are_all_down_have_a_message() {
        let down = json!({"group": "", "kind": "Service", "state": "down", "reason": "forbidden",
            "message": "User \"a\" cannot list"});
        let up = json!({"group": "", "kind": "Service", "state": "up", "reason": null, "message": null});
        let all = status(&json!([down]));
        assert_eq!(all.all_down(), Some("User \"a\" cannot list"));
        assert!(all.all_forbidden());
        assert!(status(&json!([])).all_down().is_none());
        let mut some = status(&json!([up, down]));
        assert!(some.all_down().is_none());
        some.gaps = vec![CoverageGap::new("releases and states in 37 namespaces", "forbidden")];
        assert_eq!(
            some.gap_summary().unwrap(),
            "not seen: releases and states in 37 namespaces, Service (forbidden)"
        );
    }
}
