//! What the API server lets us see.

use std::time::Duration;

use http::Request;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Client;

use super::{
    discovery::Discoverer,
    planner::{Discovery, needs_discovery, plan},
};
use crate::types::{DownReason, Kind, KindName, Scope, WantedKind, WatchHealth};

/// Something that is done with a resource, in some namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The API group.
    pub group: Box<str>,
    /// The resource within it: `configmaps`.
    pub resource: Box<str>,
    /// The verbs that it takes.
    pub verbs: &'static [&'static str],
    /// Where.
    pub scope: Scope,
    /// Whether all else can be done without it.
    pub optional: bool,
}

/// Whether something that the exporter is told to do can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// `deployments.apps`; the kind and its group where the resource is not known.
    pub what: String,
    /// Where.
    pub scope: Scope,
    /// What the API server says.
    pub allowed: Allowed,
}

/// Whether something can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// It can.
    Yes,
    /// Something is forbidden.
    No {
        /// What is needed, in one namespace or in all of them.
        need: Need,
        /// The verbs that are missing.
        missing: Vec<&'static str>,
    },
    /// The cluster has nothing of the kind, and what was looked for.
    NotThere(String),
    /// The exporter itself does not ask for it, and why.
    Refused(String),
    /// Nobody can tell, and why.
    Unknown(String),
}

const STREAM: &[&str] = &["list", "watch"];
const PATIENCE: Duration = Duration::from_secs(20);
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Asks for each stream that these kinds need, and for all else that is needed, whether it is allowed. Reviews are asked for, and
/// nothing is kept of them.
pub async fn access(client: &Client, wanted: &[WantedKind], others: &[Need]) -> Result<Vec<Access>, String> {
    let mut discovery = Discovery::default();
    if wanted.iter().any(needs_discovery) {
        let served = Discoverer::new().ask(client, PATIENCE).await;
        let served = served.map_err(|fault| format!("cannot ask the cluster for its kinds: {fault}"))?;
        discovery = served.map_or(discovery, Discovery::Answered);
    }
    let plan = plan(wanted, &discovery);
    let streams = plan.streams.iter().map(|spec| Need {
        group: spec.kind.group.clone(),
        resource: spec.kind.plural.clone(),
        verbs: STREAM,
        scope: match &spec.namespace {
            Some(name) => Scope::In([name.clone()].into()),
            None => Scope::AllBut(spec.excluded.iter().cloned().collect()),
        },
        optional: false,
    });
    let mut answers = Vec::new();
    for need in streams.chain(others.iter().flat_map(Need::by_question)) {
        answers.push(ask(client, need).await?);
    }
    for unwatched in &plan.unwatched {
        let kind = &unwatched.spec.kind;
        let allowed = match &unwatched.health {
            WatchHealth::Down { reason: DownReason::NotFound, message } => {
                Allowed::NotThere(message.to_string())
            }
            WatchHealth::Down { reason: DownReason::Refused, message } => {
                Allowed::Refused(message.to_string())
            }
            WatchHealth::Down { message, .. } => Allowed::Unknown(message.to_string()),
            WatchHealth::Starting | WatchHealth::Up => Allowed::Unknown("the cluster did not say".to_owned()),
        };
        answers.push(Access {
            what: qualified(&kind.kind, &kind.group),
            scope: wanted_in(kind, wanted),
            allowed,
        });
    }
    Ok(answers)
}

impl Need {
    /// What the API server can be asked: about one namespace, or about all of them.
    fn by_question(&self) -> Vec<Self> {
        let scopes = match &self.scope {
            Scope::AllBut(_) => vec![Scope::default()],
            Scope::In(names) => names.iter().map(|name| Scope::In([name.clone()].into())).collect(),
        };
        scopes.into_iter().map(|scope| Self { scope, ..self.clone() }).collect()
    }

    /// The one namespace that a question is about; none for all of them.
    fn namespace(&self) -> Option<&str> {
        match &self.scope {
            Scope::AllBut(_) => None,
            Scope::In(names) => names.first().map(|name| &**name),
        }
    }
}

/// Where a kind that is not watched was wanted.
fn wanted_in(kind: &Kind, wanted: &[WantedKind]) -> Scope {
    let meant = wanted.iter().filter(|want| match (&want.kind, &*kind.kind) {
        (KindName::Every, "*") => want.group == kind.group,
        (KindName::Every | KindName::Named(_), _) => want.kind != KindName::Every && want.means(kind),
    });
    meant.map(|want| want.scope.clone()).reduce(|one, other| &one | &other).unwrap_or_default()
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

async fn ask(client: &Client, need: Need) -> Result<Access, String> {
    let mut missing = Vec::new();
    for verb in need.verbs {
        if !may(client, &need, verb).await? {
            missing.push(*verb);
        }
    }
    let (what, scope) = (qualified(&need.resource, &need.group), need.scope.clone());
    let allowed = if missing.is_empty() { Allowed::Yes } else { Allowed::No { need, missing } };
    Ok(Access { what, scope, allowed })
}

async fn may(client: &Client, need: &Need, verb: &str) -> Result<bool, String> {
    let attributes = ResourceAttributes {
        group: Some(need.group.to_string()),
        resource: Some(need.resource.to_string()),
        namespace: need.namespace().map(str::to_owned),
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
    let answer = match answer.map_err(|_| cannot(&"it does not answer"))? {
        Ok(answer) => answer,
        // The demo's cluster has no rights to ask about.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Err(cannot(&"it knows no access reviews"));
        }
        Err(error) => return Err(cannot(&error)),
    };
    Ok(answer.status.is_some_and(|status| status.allowed))
}
