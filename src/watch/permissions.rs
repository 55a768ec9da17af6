//! Checks with `SelfSubjectAccessReview`s whether the exporter has the permissions that its settings need.

use std::time::Duration;

use http::Request;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Client;

use super::{
    discovery::served_kinds,
    planner::{Discovery, needs_discovery, plan},
    request::ApiError,
};
use crate::types::{DownReason, Kind, KindName, Scope, SyncHealth, WantedKind, Watch, WatchIds};

/// Verbs on a resource that a feature needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredPermission {
    pub group: Box<str>,
    /// The plural name of the resource: `configmaps`.
    pub resource: Box<str>,
    pub verbs: &'static [&'static str],
    pub scope: Scope,
    /// Whether everything else works without it.
    pub optional: bool,
}

/// The result of checking one [`RequiredPermission`] or one kind that cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionCheck {
    /// `deployments.apps`; the kind and its group if the plural name is unknown.
    pub resource: String,
    pub scope: Scope,
    pub status: PermissionStatus,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionStatus {
    Granted,
    Denied {
        /// The permission, in one namespace or in all of them.
        required: RequiredPermission,
        missing: Vec<&'static str>,
    },
    NotServed(String),
    /// The settings request the kind in a way that the exporter refuses.
    Refused(String),
    Unknown(String),
}

#[derive(Debug, thiserror::Error)]
pub enum PermissionError {
    #[error("discovery failed: {0}")]
    Discovery(#[from] ApiError),
    #[error("cannot check the permissions: the API server has no access reviews; skip this check with --pre")]
    NoReviews,
    #[error("cannot check the permissions: the API server does not answer")]
    Timeout,
    #[error("cannot check the permissions: {0}")]
    Review(#[from] kube::Error),
}

const WATCH_VERBS: &[&str] = &["list", "watch"];
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
const REVIEWS_URL: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Checks the permissions for watching these kinds, and the other ones. The API server does not store the reviews.
pub async fn check_permissions(
    client: &Client,
    wanted: &[WantedKind],
    others: &[RequiredPermission],
) -> Result<Vec<PermissionCheck>, PermissionError> {
    let mut discovery = Discovery::default();
    if wanted.iter().any(needs_discovery) {
        discovery = Discovery::Complete(served_kinds(client, REQUEST_TIMEOUT).await?);
    }
    let plan = plan(wanted, &discovery, &mut WatchIds::default());
    let watches = plan.watches.iter().map(|Watch { spec, .. }| RequiredPermission {
        group: spec.kind.group.clone(),
        resource: spec.kind.plural.clone(),
        verbs: WATCH_VERBS,
        scope: match &spec.namespace {
            Some(name) => Scope::In([name.clone()].into()),
            None => Scope::AllExcept(spec.excluded.iter().cloned().collect()),
        },
        optional: false,
    });
    let mut checks = Vec::new();
    for required in watches.chain(others.iter().flat_map(RequiredPermission::by_namespace)) {
        checks.push(check(client, required).await?);
    }
    for unwatched in &plan.unwatched {
        let kind = &unwatched.spec.kind;
        let status = match &unwatched.health {
            SyncHealth::Down { reason: DownReason::NotFound, message } => {
                PermissionStatus::NotServed(message.to_string())
            }
            SyncHealth::Down { reason: DownReason::Refused, message } => {
                PermissionStatus::Refused(message.to_string())
            }
            SyncHealth::Down { message, .. } => PermissionStatus::Unknown(message.to_string()),
            SyncHealth::Starting | SyncHealth::Up => {
                PermissionStatus::Unknown("discovery has not answered".to_owned())
            }
        };
        checks.push(PermissionCheck {
            resource: qualified(&kind.kind, &kind.group),
            scope: requested_scope(kind, wanted),
            status,
        });
    }
    Ok(checks)
}

impl RequiredPermission {
    pub fn new(group: &str, resource: &str, verbs: &'static [&'static str], scope: Scope) -> Self {
        Self { group: group.into(), resource: resource.into(), verbs, scope, optional: false }
    }

    /// A review is about one namespace or about all of them.
    fn by_namespace(&self) -> Vec<Self> {
        let scopes = match &self.scope {
            Scope::AllExcept(_) => vec![Scope::default()],
            Scope::In(names) => names.iter().map(|name| Scope::In([name.clone()].into())).collect(),
        };
        scopes.into_iter().map(|scope| Self { scope, ..self.clone() }).collect()
    }

    /// The namespace of a review; `None` for all namespaces.
    fn namespace(&self) -> Option<&str> {
        match &self.scope {
            Scope::AllExcept(_) => None,
            Scope::In(names) => names.first().map(|name| &**name),
        }
    }
}

/// The namespaces in which a kind that is not watched was requested.
fn requested_scope(kind: &Kind, wanted: &[WantedKind]) -> Scope {
    let requests = wanted.iter().filter(|want| match (&want.kind, &*kind.kind) {
        (KindName::Any, "*") => want.group == kind.group,
        (KindName::Any | KindName::Named(_), _) => want.kind != KindName::Any && want.matches(kind),
    });
    requests.map(|want| want.scope.clone()).reduce(|one, other| &one | &other).unwrap_or_default()
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

async fn check(client: &Client, required: RequiredPermission) -> Result<PermissionCheck, PermissionError> {
    let mut missing = Vec::new();
    for verb in required.verbs {
        if !is_allowed(client, &required, verb).await? {
            missing.push(*verb);
        }
    }
    let (resource, scope) = (qualified(&required.resource, &required.group), required.scope.clone());
    let status = if missing.is_empty() {
        PermissionStatus::Granted
    } else {
        PermissionStatus::Denied { required, missing }
    };
    Ok(PermissionCheck { resource, scope, status })
}

async fn is_allowed(
    client: &Client,
    required: &RequiredPermission,
    verb: &str,
) -> Result<bool, PermissionError> {
    let attributes = ResourceAttributes {
        group: Some(required.group.to_string()),
        resource: Some(required.resource.to_string()),
        namespace: required.namespace().map(str::to_owned),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let body = serde_json::to_vec(&review).map_err(kube::Error::SerdeError)?;
    let request = Request::post(REVIEWS_URL).header("content-type", "application/json").body(body);
    let request = request.map_err(kube::Error::HttpError)?;
    let response = client.request::<SelfSubjectAccessReview>(request);
    match tokio::time::timeout(REQUEST_TIMEOUT, response).await {
        Ok(Ok(review)) => Ok(review.status.is_some_and(|status| status.allowed)),
        // The API server of the demo has no authorization.
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(PermissionError::NoReviews),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(PermissionError::Timeout),
    }
}
