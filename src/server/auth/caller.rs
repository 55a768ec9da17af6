//! The authenticated caller of a handler, and the part of the snapshot that it may see.

use std::{sync::Arc, time::Duration};

use axum::{
    RequestPartsExt as _,
    extract::{FromRequestParts, Query, RawPathParams},
};
use http::{StatusCode, request::Parts};

use super::{
    guard::{Identity, Peer},
    visible_scopes::{Authorizer, VisibleScopes},
};
use crate::{
    engine::{KindState, Snapshot},
    server::{Exposed, Protection, api::Problem, http::QueueTime, redaction::ValueRedactor},
    types::{Kind, WatchSpec},
};

/// An event stream of an authenticated caller ends after this time, so that the caller authenticates again.
const STREAM_LIFETIME: Duration = Duration::from_secs(300);

/// Handlers read everything through the caller, so that it never sees more than it may.
#[derive(Clone, Debug)]
pub(in crate::server) struct Caller {
    exposed: Arc<Exposed>,
    identity: Identity,
    /// None if everything is visible.
    visible: Option<Arc<VisibleScopes>>,
    /// May see values of fields that can hold secrets.
    trusted: bool,
}

impl Caller {
    /// The visible part of the newest snapshot.
    pub(in crate::server) async fn snapshot(&self) -> Arc<Snapshot> {
        match self.visible {
            None => self.exposed.state.snapshot(),
            Some(_) => self.clone().read(|_, snapshot| snapshot.clone()).await,
        }
    }

    /// Calls `read` with the visible part of the newest snapshot, off the threads that serve requests.
    pub(in crate::server) async fn read<T: Send + 'static>(
        self,
        read: impl FnOnce(&Self, &Arc<Snapshot>) -> T + Send + 'static,
    ) -> T {
        let pool = self.exposed.blocking.clone();
        pool.run(move || {
            let mut snapshot = self.exposed.state.snapshot();
            if let Some(visible) = &self.visible {
                snapshot = self.exposed.auth.0.scoped_snapshots.get(&snapshot, visible);
            }
            read(&self, &snapshot)
        })
        .await
    }

    /// How field values are shown to the caller.
    pub(in crate::server) fn values(&self) -> ValueRedactor {
        ValueRedactor::new(&self.exposed, self.trusted)
    }

    /// Fails for a namespace in which nothing is visible, whether or not it exists.
    pub(in crate::server) fn check_namespace(&self, namespace: &str) -> Result<(), Problem> {
        let includes =
            |visible: &Arc<VisibleScopes>| namespace == "*" || visible.includes_namespace(namespace);
        if self.visible.as_ref().is_none_or(includes) { Ok(()) } else { Err(namespace_forbidden(namespace)) }
    }

    /// The watched kinds of which some objects are not visible, in one namespace or in all of them.
    pub(in crate::server) fn hidden_kinds(&self, namespace: Option<&str>) -> Vec<Arc<Kind>> {
        let Some(visible) = &self.visible else { return Vec::new() };
        let is_hidden = |state: &&Arc<KindState>| {
            let is_in_scope = |watch: &WatchSpec| match (namespace, watch.namespace.as_deref()) {
                (Some(requested), Some(watched)) => requested == watched,
                (Some(_), None) => watch.kind.namespaced,
                (None, _) => true,
            };
            let mut watches = state.watches.iter().map(|watch| &*watch.spec).filter(|spec| is_in_scope(spec));
            watches.any(|spec| !visible.covers_watch(spec, namespace))
        };
        let snapshot = self.exposed.state.snapshot();
        snapshot.kinds.iter().filter(is_hidden).map(|state| state.kind.clone()).collect()
    }

    /// Differs between callers who see different namespaces; none if everything is visible.
    pub(in crate::server) fn visible_digest(&self) -> Option<u64> {
        self.visible.as_ref().map(|visible| visible.digest())
    }

    /// Whether everything is visible, cluster-scoped objects included.
    pub(in crate::server) fn sees_everything(&self) -> bool {
        self.visible.is_none()
    }

    /// Whether guarded routes would answer this caller.
    pub(in crate::server) fn is_authenticated(&self) -> bool {
        !matches!(self.identity, Identity::Unauthenticated)
    }

    /// When an event stream of this caller ends; none for no limit.
    pub(in crate::server) fn stream_lifetime(&self) -> Option<Duration> {
        (!matches!(self.identity, Identity::Anonymous)).then_some(STREAM_LIFETIME)
    }
}

impl FromRequestParts<Arc<Exposed>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, exposed: &Arc<Exposed>) -> Result<Self, Problem> {
        // Denied by default if the guard did not run.
        let identity = parts.extensions.get::<Identity>().cloned().unwrap_or(Identity::Unauthenticated);
        let is_whole = Protection::of(&parts.extensions) == Protection::Whole;
        let visible = match &identity {
            Identity::Anonymous | Identity::User => None,
            Identity::Unauthenticated => Some(VisibleScopes::default()),
            Identity::Account(..) if is_whole => None,
            Identity::Account(account, deadline) => {
                let Some(reviews) = &exposed.auth.0.reviews else { return Err(namespace_forbidden("*")) };
                let snapshot = exposed.state.snapshot();
                // The wait for other large responses does not count.
                let queued = parts.extensions.get::<QueueTime>().map_or(Duration::ZERO, |queued| queued.0);
                let (key, deadline) = (&exposed.redaction_key, *deadline + queued);
                let requested = requested_namespace(parts).await;
                let pool = &exposed.blocking;
                let authorizer = Authorizer { reviews, key, account, deadline, pool };
                let visible = VisibleScopes::review(&authorizer, &snapshot, requested.as_deref()).await?;
                // The same answer whether or not the namespace exists. Before the first list there is nothing to hide.
                if let Some(name) =
                    requested.filter(|name| !visible.includes_namespace(name) && !snapshot.kinds.is_empty())
                {
                    return Err(namespace_forbidden(&name));
                }
                Some(visible)
            }
        };
        let is_local = parts.extensions.get::<Peer>().is_some_and(|peer| peer.is_local(&parts.headers));
        let trusted = match identity {
            Identity::User | Identity::Account(..) => true,
            Identity::Anonymous => is_local,
            Identity::Unauthenticated => false,
        };
        Ok(Self { exposed: exposed.clone(), identity, visible: visible.map(Arc::new), trusted })
    }
}

/// The namespace in the body of a POST request.
#[derive(Clone, Debug)]
pub(in crate::server) struct BodyNamespace(pub(in crate::server) String);

/// The namespace in the path, body or query of a request.
async fn requested_namespace(parts: &mut Parts) -> Option<String> {
    let in_body = parts.extensions.get::<BodyNamespace>().map(|namespace| namespace.0.clone());
    let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let in_query = query.ok().and_then(|Query(pairs)| {
        pairs.into_iter().find(|(name, _)| name == "namespace").map(|(_, value)| value)
    });
    let path = parts.extract::<RawPathParams>().await.ok();
    let in_path = path.and_then(|path| {
        let mut parameters = path.iter();
        parameters.find(|(name, _)| *name == "namespace").map(|(_, value)| value.to_owned())
    });
    in_path.or(in_body).or(in_query).filter(|name| !["", "*", "-"].contains(&name.as_str()))
}

fn namespace_forbidden(namespace: &str) -> Problem {
    let detail = format!("this account may not list any watched kind in namespace `{namespace}`");
    Problem::new(StatusCode::FORBIDDEN, detail)
}
