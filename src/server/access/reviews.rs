//! Whether a token is good, and what its bearer may do: asked of the API server, which keeps nothing of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::Request;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{
        NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
    },
};
use kube::Client;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{
    kept::digest,
    questions::{Answer, Questions, Unanswered},
};
use crate::types::{Kind, RedactionKey};

const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const RIGHTS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// As long as controller-runtime remembers whose a token is, good or not.
const TOKEN_FOR: Duration = Duration::from_secs(60);
/// As long as controller-runtime remembers what is allowed and what is not.
const ALLOWED_FOR: Duration = Duration::from_secs(300);
const DENIED_FOR: Duration = Duration::from_secs(30);
/// Tokens that are asked about at a time. Anybody can send one, so there is not much room.
const TOKENS_UNDER_WAY: usize = 64;
/// Rights that are asked about at a time; only those have any whose token is good.
const RIGHTS_UNDER_WAY: usize = 1024;
const TOKENS_REMEMBERED: usize = 8192;
/// Several accounts may each have thousands: one for each kind and namespace.
const RIGHTS_REMEMBERED: usize = 32_768;
/// How often is told that reviews cannot be had.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// Asks the API server who somebody is and what he may do.
pub(super) struct Reviews {
    client: Client,
    tokens: Questions<Arc<Account>>,
    rights: Questions<()>,
    told: Arc<Mutex<Option<Instant>>>,
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reviews(..)")
    }
}

/// Whose a token is.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Account {
    username: String,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
}

/// What somebody wants to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish<'a> {
    /// Ask for a path.
    Path {
        /// The path.
        path: &'a str,
        /// The method in lower case.
        verb: &'a str,
    },
    /// List the objects of a kind; in one namespace, or in all of them.
    List {
        /// The kind.
        kind: &'a Kind,
        /// The namespace.
        namespace: Option<&'a str>,
    },
}

/// As much of an answer as is needed. What it repeats of the question is never looked at.
#[derive(Deserialize)]
struct Reviewed<S> {
    status: Option<S>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenStatus {
    authenticated: bool,
    user: Option<Account>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RightStatus {
    allowed: bool,
}

impl Reviews {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            tokens: Questions::new(TOKEN_FOR, TOKEN_FOR, TOKENS_UNDER_WAY, TOKENS_REMEMBERED),
            rights: Questions::new(ALLOWED_FOR, DENIED_FOR, RIGHTS_UNDER_WAY, RIGHTS_REMEMBERED),
            told: Arc::default(),
        }
    }

    /// Whose a token is; nobody's where it is not good.
    pub(super) async fn bearer(
        &self,
        key: &RedactionKey,
        token: &str,
        deadline: Instant,
    ) -> Answer<Arc<Account>> {
        let question = digest(key, &[b"token", token.as_bytes()]);
        let ask = || {
            let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
            let review = TokenReview { spec, ..TokenReview::default() };
            let asked = self.review::<TokenStatus>(TOKENS, written(&review));
            async move {
                let status = asked.await?;
                let named = status.user.filter(|user| !user.username.is_empty());
                Ok(named.filter(|_| status.authenticated).map(Arc::new))
            }
        };
        self.tokens.ask(question, deadline, ask).await
    }

    /// Whether an account may do something.
    pub(super) async fn may(
        &self,
        key: &RedactionKey,
        account: &Account,
        wish: Wish<'_>,
        deadline: Instant,
    ) -> Result<bool, Unanswered> {
        let spec = wish.asked_for(account);
        // All of the question is in it, and it is written in one way only.
        let text = written(&spec);
        let ask = || {
            let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
            let asked = self.review::<RightStatus>(RIGHTS, written(&review));
            async move { Ok(asked.await?.allowed.then_some(())) }
        };
        let answer = self.rights.ask(digest(key, &[b"right", &text]), deadline, ask).await;
        answer.map(|allowed| allowed.is_some())
    }

    /// Has something reviewed.
    fn review<S: DeserializeOwned + Default>(
        &self,
        path: &'static str,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<S, Unanswered>> + Send + use<S> {
        let request = Request::post(path).header("content-type", "application/json").body(body);
        let (client, told) = (self.client.clone(), self.told.clone());
        async move {
            // As text: what cannot be read must not be logged, since the answer has the token in it.
            let answer = match request {
                Ok(request) => client.request_text(request).await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            let read = answer.and_then(|text| {
                let read = serde_json::from_str::<Reviewed<S>>(&text);
                read.map_err(|_| "its answer cannot be read".to_owned())
            });
            read.map(|own| own.status.unwrap_or_default()).map_err(|error| {
                tell(&told, path, &error);
                Unanswered
            })
        }
    }
}

impl Wish<'_> {
    /// The question whether an account may do it.
    fn asked_for(self, account: &Account) -> SubjectAccessReviewSpec {
        let who = SubjectAccessReviewSpec {
            user: Some(account.username.clone()),
            uid: account.uid.clone(),
            groups: account.groups.clone(),
            extra: account.extra.clone(),
            ..SubjectAccessReviewSpec::default()
        };
        match self {
            Self::Path { path, verb } => {
                let (path, verb) = (Some(path.to_owned()), Some(verb.to_owned()));
                let attributes = NonResourceAttributes { path, verb };
                SubjectAccessReviewSpec { non_resource_attributes: Some(attributes), ..who }
            }
            Self::List { kind, namespace } => {
                let attributes = ResourceAttributes {
                    group: Some(kind.group.to_string()),
                    resource: Some(kind.plural.to_string()),
                    namespace: namespace.map(str::to_owned),
                    verb: Some("list".to_owned()),
                    ..ResourceAttributes::default()
                };
                SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..who }
            }
        }
    }
}

fn written(question: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(question).expect("a question has only string keys")
}

/// Tells that reviews cannot be had, now and then.
fn tell(told: &Mutex<Option<Instant>>, path: &str, error: &str) {
    // A time is whole, whoever panicked.
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    if told.is_some_and(|last| last.elapsed() < TOLD_EVERY) {
        debug!(path, error, "A review cannot be had.");
        return;
    }
    *told = Some(Instant::now());
    warn!(
        path,
        error,
        "Reviews cannot be had, so nobody who is not known is let in; the exporter's account needs `create` on tokenreviews and subjectaccessreviews."
    );
}
