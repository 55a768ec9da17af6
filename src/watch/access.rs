//! What the API server lets us see.

use std::time::Duration;

use http::Request;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Client;

use super::{
    discovery::Discoverer,
    plan::plan,
    resolve::{Discovery, needs_discovery},
};
use crate::model::{Kind, StreamHealth, StreamSpec, WantedKind};

/// Whether one stream can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// `deployments.apps`.
    pub what: String,
    /// `all namespaces`, or a single one.
    pub place: String,
    /// What the API server says.
    pub allowed: Allowed,
}

/// Whether a stream can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// It can.
    Yes,
    /// Something is forbidden.
    No {
        /// The API group.
        group: Box<str>,
        /// The resource within it.
        resource: Box<str>,
        /// The verbs that are missing.
        missing: Vec<&'static str>,
    },
    /// There is nothing to watch, and why.
    NotServed(String),
}

const VERBS: [&str; 2] = ["list", "watch"];
const PATIENCE: Duration = Duration::from_secs(20);
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Asks for each stream that these kinds need whether it can be opened. A review is asked for, and nothing is kept of it.
pub async fn access(client: &Client, wanted: &[WantedKind]) -> Result<Vec<Access>, String> {
    let mut discovery = Discovery::default();
    if wanted.iter().any(needs_discovery) {
        let served = Discoverer::new().ask(client, PATIENCE).await;
        let served = served.map_err(|fault| format!("cannot ask the cluster for its kinds: {fault}"))?;
        discovery = served.map_or(discovery, Discovery::Answered);
    }
    let plan = plan(wanted, &discovery);
    let mut answers = Vec::new();
    for spec in &plan.streams {
        let mut missing = Vec::new();
        for verb in VERBS {
            if !may(client, spec, verb).await? {
                missing.push(verb);
            }
        }
        let Kind { group, plural, .. } = &*spec.kind;
        let allowed = if missing.is_empty() {
            Allowed::Yes
        } else {
            Allowed::No { group: group.clone(), resource: plural.clone(), missing }
        };
        answers.push(Access { what: spec.kind.to_string(), place: place(spec), allowed });
    }
    for unwatched in &plan.unwatched {
        let why = match &unwatched.health {
            StreamHealth::Down { message, .. } => message.to_string(),
            StreamHealth::Starting | StreamHealth::Up => "the cluster did not say".to_owned(),
        };
        let what = unwatched.spec.kind.kind.to_string();
        answers.push(Access { what, place: place(&unwatched.spec), allowed: Allowed::NotServed(why) });
    }
    Ok(answers)
}

fn place(spec: &StreamSpec) -> String {
    spec.namespace.as_ref().map_or_else(|| "all namespaces".to_owned(), |name| format!("namespace {name}"))
}

async fn may(client: &Client, spec: &StreamSpec, verb: &str) -> Result<bool, String> {
    let attributes = ResourceAttributes {
        group: Some(spec.kind.group.to_string()),
        resource: Some(spec.kind.plural.to_string()),
        namespace: spec.namespace.as_deref().map(str::to_owned),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let asked = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let cannot = |error: &dyn std::fmt::Display| format!("cannot ask the cluster what is allowed: {error}");
    let body = serde_json::to_vec(&asked).map_err(|error| cannot(&error))?;
    let request = Request::post(REVIEWS).header("content-type", "application/json").body(body);
    let request = request.map_err(|error| cannot(&error))?;
    let answer = tokio::time::timeout(PATIENCE, client.request::<SelfSubjectAccessReview>(request)).await;
    let answer = answer.map_err(|_| cannot(&"it does not answer"))?.map_err(|error| cannot(&error))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

impl Access {
    /// The RBAC rule that is missing, as YAML.
    pub fn rule_to_add(&self) -> Option<String> {
        match &self.allowed {
            Allowed::Yes | Allowed::NotServed(_) => None,
            Allowed::No { group, resource, .. } => {
                let verbs = VERBS.join(", ");
                Some(format!("- apiGroups: [\"{group}\"]\n  resources: [{resource}]\n  verbs: [{verbs}]\n"))
            }
        }
    }
}
