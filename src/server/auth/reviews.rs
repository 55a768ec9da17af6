//! TokenReviews and SubjectAccessReviews: who a bearer token belongs to, and what that account may do.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::Request;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo},
    authorization::v1::{
        NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
        SubjectAccessReviewStatus,
    },
};
use kube::Client;
use moka::future::Cache;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};
use tracing::{debug, warn};

use crate::types::{Kind, RedactionKey};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SUBJECT_ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// The TTLs of controller-runtime's delegating authenticator and authorizer.
const TOKEN_TTL: Duration = Duration::from_secs(60);
const ALLOWED_TTL: Duration = Duration::from_secs(300);
const DENIED_TTL: Duration = Duration::from_secs(30);
/// Any client can send a token, so few reviews of unknown tokens are queued.
const QUEUED_TOKENS: usize = 64;
const QUEUED_PERMISSIONS: usize = 1024;
const CACHED_TOKENS: u64 = 8192;
/// Several accounts may each have thousands: one per kind and namespace.
const CACHED_PERMISSIONS: u64 = 32_768;
const CONCURRENT_REVIEWS: usize = 16;
/// A client gives up earlier; the result then serves the next request.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// The API server did not answer the review; access is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReviewUnavailable;

pub(super) type ReviewResult<V> = Result<Option<V>, ReviewUnavailable>;

pub(super) struct Reviews {
    client: Client,
    tokens: ReviewCache<Arc<Account>>,
    permissions: ReviewCache<()>,
    last_warning: Arc<Mutex<Option<Instant>>>,
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reviews(..)")
    }
}

/// The user that a token authenticates.
pub(super) type Account = UserInfo;

#[derive(Clone, Copy, Debug)]
pub(super) enum Permission<'a> {
    /// Request a path with a method in lower case.
    Path { path: &'a str, verb: &'a str },
    /// List the objects of a kind in one namespace, or in all of them.
    List { kind: &'a Kind, namespace: Option<&'a str> },
}

#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error("{}", message(source))]
    Client {
        #[from]
        source: kube::Error,
    },
    /// Without the error of the parser, which may quote the token.
    #[error("the response is not a review")]
    Malformed,
}

/// The message of the API server without the rest of its status, or else that of the client.
fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

/// Only the status of a review is read; the rest of it repeats the request.
#[derive(Deserialize)]
struct Review<S> {
    status: Option<S>,
}

impl Reviews {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            tokens: ReviewCache::new(TOKEN_TTL, TOKEN_TTL, QUEUED_TOKENS, CACHED_TOKENS),
            permissions: ReviewCache::new(ALLOWED_TTL, DENIED_TTL, QUEUED_PERMISSIONS, CACHED_PERMISSIONS),
            last_warning: Arc::default(),
        }
    }

    /// The account of a token; none if the API server rejects the token.
    pub(super) async fn authenticate(
        &self,
        key: &RedactionKey,
        token: &str,
        deadline: Instant,
    ) -> ReviewResult<Arc<Account>> {
        let review = || {
            let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
            let review = TokenReview { spec, ..TokenReview::default() };
            let reviewed = self.create::<TokenReviewStatus>(TOKEN_REVIEWS, to_json(&review));
            async move {
                let status = reviewed.await?;
                let is_named = |user: &Account| user.username.as_ref().is_some_and(|name| !name.is_empty());
                let user = status.user.filter(is_named);
                Ok(user.filter(|_| status.authenticated == Some(true)).map(Arc::new))
            }
        };
        self.tokens.get(digest(key, &[b"token", token.as_bytes()]), deadline, review).await
    }

    pub(super) async fn is_allowed(
        &self,
        key: &RedactionKey,
        account: &Account,
        permission: Permission<'_>,
        deadline: Instant,
    ) -> Result<bool, ReviewUnavailable> {
        let spec = permission.review_spec(account);
        // The serialized spec identifies the review: it holds the account and the permission.
        let cache_key = digest(key, &[b"right", &to_json(&spec)]);
        let review = || {
            let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
            let reviewed = self.create::<SubjectAccessReviewStatus>(SUBJECT_ACCESS_REVIEWS, to_json(&review));
            async move { Ok(reviewed.await?.allowed.then_some(())) }
        };
        let allowed = self.permissions.get(cache_key, deadline, review).await?;
        Ok(allowed.is_some())
    }

    fn create<S: DeserializeOwned + Default>(
        &self,
        path: &'static str,
        body: Vec<u8>,
    ) -> impl Future<Output = Result<S, ReviewUnavailable>> + Send + use<S> {
        let request = Request::post(path).header("content-type", "application/json").body(body);
        let (client, last_warning) = (self.client.clone(), self.last_warning.clone());
        async move {
            let review = async {
                // As text: kube logs a body that it cannot parse, and this one repeats the token.
                let text = client.request_text(request?).await?;
                serde_json::from_str::<Review<S>>(&text).map_err(|_| ReviewError::Malformed)
            };
            review.await.map(|review| review.status.unwrap_or_default()).map_err(|error| {
                warn_at_intervals(&last_warning, path, &error);
                ReviewUnavailable
            })
        }
    }
}

impl Permission<'_> {
    fn review_spec(self, account: &Account) -> SubjectAccessReviewSpec {
        let spec = SubjectAccessReviewSpec {
            user: account.username.clone(),
            uid: account.uid.clone(),
            groups: account.groups.clone(),
            extra: account.extra.clone(),
            ..SubjectAccessReviewSpec::default()
        };
        match self {
            Self::Path { path, verb } => {
                let (path, verb) = (Some(path.to_owned()), Some(verb.to_owned()));
                let attributes = NonResourceAttributes { path, verb };
                SubjectAccessReviewSpec { non_resource_attributes: Some(attributes), ..spec }
            }
            Self::List { kind, namespace } => {
                let attributes = ResourceAttributes {
                    group: Some(kind.group.to_string()),
                    resource: Some(kind.plural.to_string()),
                    namespace: namespace.map(str::to_owned),
                    verb: Some("list".to_owned()),
                    ..ResourceAttributes::default()
                };
                SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..spec }
            }
        }
    }
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a review has only string keys")
}

fn warn_at_intervals(last_warning: &Mutex<Option<Instant>>, path: &str, error: &ReviewError) {
    let mut last_warning = last_warning.lock().unwrap_or_else(PoisonError::into_inner);
    if last_warning.is_some_and(|last| last.elapsed() < WARNING_INTERVAL) {
        debug!(path, %error, "cannot create review");
        return;
    }
    *last_warning = Some(Instant::now());
    warn!(
        path,
        %error,
        "cannot create reviews: clients without a cached review are denied; allow the exporter's service account `create` on tokenreviews and subjectaccessreviews"
    );
}

/// A cache key: a keyed digest in which two lists of parts never collide.
pub(super) fn digest(key: &RedactionKey, parts: &[&[u8]]) -> String {
    let mut text = Vec::new();
    for part in parts {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part);
    }
    key.digest(&text).to_string()
}

/// Results of reviews by digest. Concurrent requests for one digest share one review.
struct ReviewCache<V> {
    /// Separate caches, so that a flood of bad credentials never evicts good ones.
    allowed: Cache<String, (V, Instant)>,
    denied: Cache<String, Instant>,
    /// Digests that were allowed before. They have a queue of their own, so that a flood of unknown ones never delays them.
    known: Cache<String, ()>,
    known_queue: ReviewQueue,
    unknown_queue: ReviewQueue,
    allowed_ttl: Duration,
    denied_ttl: Duration,
}

#[derive(Clone)]
struct ReviewQueue {
    running: Arc<Semaphore>,
    queued: Arc<Semaphore>,
}

/// Why a review does not allow.
#[derive(Clone, Copy)]
enum NotAllowed {
    Denied,
    Unavailable,
}

impl ReviewQueue {
    fn new(capacity: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(CONCURRENT_REVIEWS)),
            queued: Arc::new(Semaphore::new(capacity)),
        }
    }

    /// Fails at once if the queue is full.
    async fn run<V>(&self, review: impl Future<Output = ReviewResult<V>>) -> Result<V, NotAllowed> {
        let _queued = self.queued.try_acquire().map_err(|_| NotAllowed::Unavailable)?;
        let reviewed = timeout(REVIEW_TIMEOUT, async {
            let _running = self.running.acquire().await.map_err(|_| ReviewUnavailable)?;
            review.await
        });
        match reviewed.await {
            Ok(Ok(Some(allowed))) => Ok(allowed),
            Ok(Ok(None)) => Err(NotAllowed::Denied),
            Ok(Err(ReviewUnavailable)) | Err(_) => Err(NotAllowed::Unavailable),
        }
    }
}

impl<V: Clone + Send + Sync + 'static> ReviewCache<V> {
    fn new(allowed_ttl: Duration, denied_ttl: Duration, queued: usize, capacity: u64) -> Self {
        Self {
            allowed: Cache::new(capacity),
            denied: Cache::new(capacity),
            known: Cache::new(capacity),
            known_queue: ReviewQueue::new(queued),
            unknown_queue: ReviewQueue::new(queued),
            allowed_ttl,
            denied_ttl,
        }
    }

    /// The cached result for a digest, or that of a new review. `deadline` is how long this caller waits; the review goes on.
    async fn get<F>(&self, digest: String, deadline: Instant, review: impl FnOnce() -> F) -> ReviewResult<V>
    where
        F: Future<Output = ReviewResult<V>> + Send + 'static,
    {
        let now = Instant::now();
        match self.allowed.get(&digest).await {
            Some((allowed, expires)) if now < expires => return Ok(Some(allowed)),
            Some(_) => self.allowed.invalidate(&digest).await,
            None => {}
        }
        if self.denied.get(&digest).await.is_some_and(|expires| now < expires) {
            return Ok(None);
        }
        let queue = if self.known.contains_key(&digest) { &self.known_queue } else { &self.unknown_queue };
        let (queue, review) = (queue.clone(), review());
        let (allowed, denied, known) = (self.allowed.clone(), self.denied.clone(), self.known.clone());
        let (allowed_ttl, denied_ttl) = (self.allowed_ttl, self.denied_ttl);
        // On a task of its own: a client that disconnects cancels no review that others wait for.
        let result = tokio::spawn(async move {
            let reviewed = allowed.try_get_with_by_ref(&digest, async {
                let allowed = queue.run(review).await?;
                Ok((allowed, Instant::now() + allowed_ttl))
            });
            match reviewed.await.map_err(|error: Arc<NotAllowed>| *error) {
                Ok((allowed, _)) => {
                    known.insert(digest, ()).await;
                    Ok(Some(allowed))
                }
                Err(NotAllowed::Denied) => {
                    denied.insert(digest, Instant::now() + denied_ttl).await;
                    Ok(None)
                }
                Err(NotAllowed::Unavailable) => Err(ReviewUnavailable),
            }
        });
        match timeout_at(deadline, result).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(ReviewUnavailable),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use tokio::time::{Instant, advance, sleep};

    use super::{ReviewCache, ReviewResult, ReviewUnavailable, digest};
    use crate::types::RedactionKey;

    const SECOND: Duration = Duration::from_secs(1);

    /// Requests a review that takes some time, and counts how many reviews run.
    async fn get(
        cache: &ReviewCache<u8>,
        reviews: &Arc<AtomicUsize>,
        takes: Duration,
        result: ReviewResult<u8>,
    ) -> ReviewResult<u8> {
        let reviews = reviews.clone();
        let review = || async move {
            reviews.fetch_add(1, Ordering::Relaxed);
            sleep(takes).await;
            result
        };
        cache.get("digest".to_owned(), Instant::now() + 2 * SECOND, review).await
    }

    #[tokio::test(start_paused = true)]
    async fn results_are_cached_and_failures_are_not() {
        let reviews = Arc::new(AtomicUsize::new(0));
        let count = || reviews.load(Ordering::Relaxed);
        let cache = ReviewCache::new(5 * SECOND, 3 * SECOND, 9, 9);
        assert_eq!(get(&cache, &reviews, SECOND, Err(ReviewUnavailable)).await, Err(ReviewUnavailable));
        assert_eq!(get(&cache, &reviews, SECOND, Ok(None)).await, Ok(None));
        assert_eq!(get(&cache, &reviews, SECOND, Ok(Some(1))).await, Ok(None), "denied is cached");
        assert_eq!(count(), 2);
        advance(3 * SECOND).await;
        assert_eq!(get(&cache, &reviews, SECOND, Ok(Some(1))).await, Ok(Some(1)));
        advance(4 * SECOND).await;
        assert_eq!(get(&cache, &reviews, SECOND, Ok(None)).await, Ok(Some(1)), "allowed is cached longer");
        advance(2 * SECOND).await;
        assert_eq!(get(&cache, &reviews, SECOND, Ok(None)).await, Ok(None));
        assert_eq!(count(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_review_that_outlives_their_deadline() {
        let reviews = Arc::new(AtomicUsize::new(0));
        let cache = ReviewCache::new(60 * SECOND, SECOND, 9, 9);
        let started = Instant::now();
        let slow = || get(&cache, &reviews, 4 * SECOND, Ok(Some(1)));
        assert_eq!(tokio::join!(slow(), slow()), (Err(ReviewUnavailable), Err(ReviewUnavailable)));
        assert_eq!(started.elapsed(), 2 * SECOND);
        sleep(3 * SECOND).await;
        assert_eq!(slow().await, Ok(Some(1)));
        assert_eq!(reviews.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_rejects_unknown_digests_and_not_known_ones() {
        let cache = ReviewCache::<u8>::new(SECOND, SECOND, 4, 99);
        let started = Instant::now();
        let get = |digest: String, result| {
            let review = async move {
                sleep(SECOND).await;
                Ok(result)
            };
            cache.get(digest, Instant::now() + 2 * SECOND, move || review)
        };
        assert_eq!(get("known".to_owned(), Some(1)).await, Ok(Some(1)));
        advance(SECOND).await;
        let unknown = (0..9).map(|number| get(number.to_string(), None));
        let (unknown, known) =
            tokio::join!(futures_util::future::join_all(unknown), get("known".to_owned(), Some(2)));
        assert_eq!(known, Ok(Some(2)), "an expired result is reviewed again in a queue of its own");
        let rejected = unknown.iter().filter(|result| **result == Err(ReviewUnavailable)).count();
        assert_eq!((unknown.len(), rejected), (9, 5));
        assert_eq!(started.elapsed(), 3 * SECOND);
        assert_eq!(get("9".to_owned(), None).await, Ok(None), "the queue has room again");
    }

    #[test]
    fn lists_of_parts_never_collide() {
        let key = RedactionKey::new([1; 32]);
        let of = |parts: &[&[u8]]| digest(&key, parts);
        let digests = [of(&[b"ab", b"c"]), of(&[b"a", b"bc"]), of(&[b"abc"]), of(&[b"abc", b""])];
        for (index, own) in digests.iter().enumerate() {
            assert!(!digests[..index].contains(own), "{index}");
        }
    }
}
