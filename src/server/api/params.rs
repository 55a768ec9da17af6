//! What callers may ask for, in the query of a URL or as JSON.
//! Words of closed sets, as callers write them.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{FromRequestParts, Query, rejection::QueryRejection},
};
use http::{HeaderMap, StatusCode, header::CONTENT_TYPE, request::Parts};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};

use super::{response::Problem, view::deployment_id};
use crate::{
    engine::{Entry, KindState},
    server::Exposed,
    types::{ClosedSet, Kind, Severity, Source, UnknownReason, VerdictKind},
};

/// A claim, and the kind that it stands under.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a> {
    /// Where the kind stands in the snapshot.
    pub(super) place: usize,
    pub(super) state: &'a KindState,
    /// To be kept for as long as its list is written.
    pub(super) entry: &'a Arc<Entry>,
}

/// What to look for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ResourceQuery {
    /// The namespace; `*` for every one that is watched.
    pub(super) namespace: Option<String>,
    /// Kind, plural, or either with `.group`: `deployment`, `deployments.apps`.
    pub(super) resource_type: Option<String>,
    /// Exact name.
    resource_name: Option<String>,
    /// The Terraform address, the Helm release, else the label `app.kubernetes.io/instance`, else the uid.
    deployment_id: Option<String>,
    /// At most so many; without it all.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
    /// Leaves out so many at the beginning.
    offset: Option<usize>,
    /// `name` (the usual), `type`, `verdict`, `onset` or `severity`; with `-` in front downwards.
    #[schemars(regex(pattern = "^-?(name|type|verdict|onset|severity)$"))]
    pub(super) sort: Option<String>,
    /// Only these fields of each, with commas between them.
    pub(super) fields: Option<String>,
}

impl ResourceQuery {
    /// Reads the body of a request. The guard has seen to it that it is short and has come whole.
    pub(super) async fn of_body(headers: &HeaderMap, body: Body) -> Result<Self, Problem> {
        if !is_json(headers) {
            let detail = "the body has to be JSON, with `Content-Type: application/json`";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        let unreadable = |why: String| Problem::bad_request(format!("the body cannot be read: {why}"));
        let body = body.collect().await.map_err(|error| unreadable(error.to_string()))?.to_bytes();
        // Lists are taken for objects where nobody looks.
        if body.trim_ascii_start().first() == Some(&b'[') {
            return Err(unreadable("want an object: {\"namespace\": …}".to_owned()));
        }
        serde_json::from_slice(&body).map_err(|error| unreadable(in_words(&error.to_string())))
    }

    /// The namespace, which has to be there and may be asked for.
    pub(super) fn namespace(&self, exposed: &Exposed) -> Result<&str, Problem> {
        let namespace = self.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let missing = || Problem::bad_request("`namespace` is required; `*` asks for every namespace");
        let namespace = namespace.ok_or_else(missing)?;
        check_namespace(namespace, exposed)?;
        Ok(namespace)
    }

    pub(super) fn wants(&self, entry: &Entry) -> bool {
        let object = &entry.object;
        // An empty one asks for nothing: those who fill in a form send it.
        let is =
            |wanted: Option<&str>, own: &str| wanted.is_none_or(|wanted| wanted.is_empty() || wanted == own);
        is(self.namespace.as_deref().filter(|namespace| *namespace != "*"), &object.key.namespace)
            && is(self.resource_name.as_deref(), &object.key.name)
            && (self.deployment_id.is_none() || is(self.deployment_id.as_deref(), deployment_id(entry)))
    }

    /// Refuses a page on which there is room for nothing.
    pub(super) fn check_page(&self) -> Result<(), Problem> {
        if self.limit == Some(0) { Err(Problem::bad_request("`limit` is at least 1")) } else { Ok(()) }
    }

    /// The page of everything that was found.
    pub(super) fn page<T>(&self, found: Vec<T>) -> impl Iterator<Item = T> {
        found.into_iter().skip(self.offset.unwrap_or(0)).take(self.limit.unwrap_or(usize::MAX))
    }
}

/// Refuses a namespace that nobody may ask for.
pub(super) fn check_namespace(namespace: &str, exposed: &Exposed) -> Result<(), Problem> {
    if namespace == "*" || exposed.settings().allows_namespace(namespace) {
        return Ok(());
    }
    let detail = format!("namespace `{namespace}` is not among those this exporter watches");
    Err(Problem::new(StatusCode::FORBIDDEN, detail))
}

/// Reads the query of a URL.
pub(super) async fn of_url<T: DeserializeOwned>(parts: &mut Parts) -> Result<T, Problem> {
    let query = Query::<T>::from_request_parts(parts, &()).await;
    query
        .map(|Query(query)| query)
        .map_err(|rejection: QueryRejection| Problem::bad_request(in_words(&rejection.body_text())))
}

/// For questions that take no query: any is refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::server) struct NoQuery {}

impl<S: Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        of_url(parts).await
    }
}

/// What is wrong with a question, without the words of those who read it.
fn in_words(wrong: &str) -> String {
    let wrong = wrong.strip_prefix("Failed to deserialize query string: ").unwrap_or(wrong);
    let words = [
        ("invalid digit found in string", "want a whole number"),
        ("cannot parse integer from empty string", "want a whole number"),
        ("number too large to fit in target type", "the number is too large"),
        ("provided string was not `true` or `false`", "want true or false"),
        (", there are no fields", ", this question takes none"),
        ("expected usize", "want a whole number"),
        ("expected a string", "want a text"),
        ("expected struct ResourceQuery", "want an object: {\"namespace\": …}"),
    ];
    words.iter().fold(wrong.to_owned(), |wrong, (theirs, ours)| wrong.replace(theirs, ours))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// In which order to show what was found.
#[derive(Clone, Copy)]
pub(super) struct Order {
    by: SortKey,
    descending: bool,
}

#[derive(Clone, Copy)]
enum SortKey {
    Name,
    Type,
    Verdict,
    Onset,
    Severity,
}

impl Order {
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let (descending, key) = text.strip_prefix('-').map_or((false, text), |key| (true, key));
        let by = match key {
            "name" => SortKey::Name,
            "type" => SortKey::Type,
            "verdict" => SortKey::Verdict,
            "onset" => SortKey::Onset,
            "severity" => SortKey::Severity,
            _ => {
                let detail =
                    format!("cannot sort by `{key}`; there are name, type, verdict, onset and severity");
                return Err(Problem::bad_request(detail));
            }
        };
        Ok(Self { by, descending })
    }

    /// All that was found, in this order. Equal ones follow by namespace, name, type and source, so that pages never overlap.
    pub(super) fn sort<'a>(self, found: impl Iterator<Item = Listed<'a>>) -> Vec<Listed<'a>> {
        // What is compared is taken out once: looking it up anew for every two of them takes longer than all of the rest.
        let mut ranked: Vec<(Rank<'a>, Listed<'a>)> = found.map(|own| (self.rank(&own), own)).collect();
        // Blocks have the usual order already, which a stable sort makes use of.
        if self.descending {
            ranked.sort_by(|(a, _), (b, _)| b.cmp(a));
        } else {
            ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        ranked.into_iter().map(|(_, found)| found).collect()
    }

    fn rank<'a>(self, found: &Listed<'a>) -> Rank<'a> {
        let Listed { state, entry, .. } = *found;
        let first = match self.by {
            SortKey::Name => First::Name,
            SortKey::Type => First::Type(&state.kind),
            SortKey::Verdict => First::Verdict(state.shown_verdict(entry)),
            SortKey::Onset => First::Onset(onset(found)),
            SortKey::Severity => First::Severity(severity(found)),
        };
        let key = &entry.object.key;
        Rank {
            first,
            namespace: &key.namespace,
            name: &key.name,
            kind: &key.kind,
            source: entry.claim.source,
        }
    }
}

/// Where something stands among others; what comes first counts most.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    first: First<'a>,
    namespace: &'a str,
    name: &'a str,
    kind: &'a Kind,
    source: Source,
}

/// What was asked to be sorted by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum First<'a> {
    Name,
    Type(&'a Kind),
    Verdict((VerdictKind, Option<UnknownReason>)),
    Onset(Option<Timestamp>),
    Severity(Option<Severity>),
}

fn onset(found: &Listed<'_>) -> Option<Timestamp> {
    found.entry.claim.verdict.episode().map(|episode| episode.onset)
}

fn severity(found: &Listed<'_>) -> Option<Severity> {
    found.entry.claim.verdict.episode()?.differences.first().map(|worst| worst.severity)
}

/// The member that a parameter names; a problem with all there are where it names none.
pub(super) fn parse_word<T: ClosedSet>(parameter: &str, text: Option<&str>) -> Result<Option<T>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let member = T::members().iter().copied().find(|member| member.word() == text);
    let problem = || {
        let known: Vec<&str> = T::members().iter().map(|member| member.word()).collect();
        Problem::bad_request(format!("`{parameter}` cannot be `{text}`; there are {}", known.join(", ")))
    };
    member.map(Some).ok_or_else(problem)
}
