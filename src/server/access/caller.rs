//! Who asks.

use std::{sync::Arc, time::Duration};

use axum::{
    RequestPartsExt as _,
    extract::{FromRequestParts, Query, RawPathParams},
};
use http::{StatusCode, request::Parts};

use super::{
    Peer,
    identity::{Identity, cannot_tell},
    questions::Unanswered,
    sight::{Asking, Blind, Sight},
};
use crate::{
    engine::{KindState, Snapshot},
    server::{Exposed, Protection, api::Problem, values::Values},
    types::{Kind, WatchSpec},
};

/// After this long somebody who listens has to come back, and is asked again who he is.
const LISTENS: Duration = Duration::from_secs(300);

/// Who asks, as far as it matters to what is shown. All that handlers show comes through it.
#[derive(Clone, Debug)]
pub(in crate::server) struct Caller {
    exposed: Arc<Exposed>,
    identity: Identity,
    /// What he may see; none for everything.
    sight: Option<Arc<Sight>>,
    /// Whether he may see values of fields that may hold secrets.
    trusted: bool,
}

impl Caller {
    /// What is known, as far as the caller may see it.
    pub(in crate::server) fn snapshot(&self) -> Arc<Snapshot> {
        let snapshot = self.exposed.state.snapshot();
        match &self.sight {
            None => snapshot,
            Some(sight) => self.exposed.access.0.views.seen(&snapshot, sight),
        }
    }

    /// How the values of fields are shown to the caller.
    pub(in crate::server) fn values(&self) -> Values {
        Values::of(&self.exposed, self.trusted)
    }

    /// Refuses a namespace in which the caller may see nothing, whether it exists or not.
    pub(in crate::server) fn check_namespace(&self, namespace: &str) -> Result<(), Problem> {
        let sees = |sight: &Arc<Sight>| namespace == "*" || sight.sees_namespace(namespace);
        if self.sight.as_ref().is_none_or(sees) { Ok(()) } else { Err(nothing_there(namespace)) }
    }

    /// The kinds of which not all may be seen that is watched, or watched in one namespace.
    pub(in crate::server) fn kinds_not_seen(&self, namespace: Option<&str>) -> Vec<Arc<Kind>> {
        let Some(sight) = &self.sight else { return Vec::new() };
        let is_hidden = |state: &&Arc<KindState>| {
            let own = |stream: &WatchSpec| match (namespace, stream.namespace.as_deref()) {
                (Some(wanted), Some(own)) => wanted == own,
                (Some(_), None) => stream.kind.namespaced,
                (None, _) => true,
            };
            let mut streams = state.streams.iter().map(|stream| &*stream.spec).filter(|spec| own(spec));
            streams.any(|spec| !sight.sees_stream(spec, namespace))
        };
        let snapshot = self.exposed.state.snapshot();
        snapshot.kinds.iter().filter(is_hidden).map(|state| state.kind.clone()).collect()
    }

    /// Whether the caller may see everything, what is not of any namespace included.
    pub(in crate::server) fn sees_everything(&self) -> bool {
        self.sight.is_none()
    }

    /// Whether the caller is one whom guarded routes would answer.
    pub(in crate::server) fn is_known(&self) -> bool {
        !matches!(self.identity, Identity::Stranger)
    }

    /// How long the caller may listen until he has to come back; none for as long as he likes.
    pub(in crate::server) fn listens(&self) -> Option<Duration> {
        match self.identity {
            Identity::Anybody => None,
            Identity::Stranger | Identity::User | Identity::Account(..) => Some(LISTENS),
        }
    }
}

impl FromRequestParts<Arc<Exposed>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, exposed: &Arc<Exposed>) -> Result<Self, Problem> {
        // Whoever came past the guard in whatever way is a stranger.
        let identity = parts.extensions.get::<Identity>().cloned().unwrap_or(Identity::Stranger);
        let is_whole = Protection::of(&parts.extensions) == Protection::Whole;
        let sight = match &identity {
            Identity::Anybody | Identity::User => None,
            Identity::Stranger => Some(Sight::default()),
            Identity::Account(..) if is_whole => None,
            Identity::Account(account, deadline) => {
                let Some(reviews) = &exposed.access.0.reviews else { return Err(nothing_there("*")) };
                let snapshot = exposed.state.snapshot();
                let (key, deadline) = (&exposed.seal_key, *deadline);
                let named = named_namespace(parts).await;
                let asking = Asking { reviews, key, account, deadline };
                let sight = Sight::ask(&asking, &snapshot, named.as_deref()).await.map_err(cannot_see)?;
                // The same whether it exists or not. Where nothing is watched yet, nothing would be shown anyway.
                if let Some(name) =
                    named.filter(|name| !sight.sees_namespace(name) && !snapshot.kinds.is_empty())
                {
                    return Err(nothing_there(&name));
                }
                Some(sight)
            }
        };
        let here = parts.extensions.get::<Peer>().is_some_and(|peer| peer.is_here(&parts.headers));
        let trusted = match identity {
            Identity::User | Identity::Account(..) => true,
            Identity::Anybody => here,
            Identity::Stranger => false,
        };
        Ok(Self { exposed: exposed.clone(), identity, sight: sight.map(Arc::new), trusted })
    }
}

/// The namespace that the body of a request names.
#[derive(Clone, Debug)]
pub(in crate::server) struct InBody(pub(in crate::server) String);

/// The namespace that a request names, in its path, in its query or in its body.
async fn named_namespace(parts: &mut Parts) -> Option<String> {
    let in_body = parts.extensions.get::<InBody>().map(|own| own.0.clone());
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

fn nothing_there(namespace: &str) -> Problem {
    let detail = format!("this account may list nothing that is watched in namespace `{namespace}`");
    Problem::new(StatusCode::FORBIDDEN, detail)
}

fn cannot_see(blind: Blind) -> Problem {
    match blind {
        Blind::Unanswered => cannot_tell(Unanswered),
        Blind::TooMany => {
            let detail = "this account may list single namespaces only, and there are too many to ask about all of them; name one with `namespace`";
            Problem::new(StatusCode::FORBIDDEN, detail)
        }
    }
}
