//! Who somebody is, as far as he can prove it.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, StatusCode, header::AUTHORIZATION, request::Parts};
use tokio::time::Instant;

use super::{
    Access, Peer,
    passwords::Busy,
    questions::Unanswered,
    reviews::{Account, Reviews, Wish},
    web_config::Web,
};
use crate::{server::api::Problem, types::RedactionKey};

/// Who asks.
#[derive(Clone, Debug)]
pub(super) enum Identity {
    /// Nobody is asked who he is.
    Anybody,
    /// Somebody who did not prove who he is.
    Stranger,
    /// A user with a password, or with a certificate.
    User,
    /// An account of the cluster, and until when it waits for what is asked about it.
    Account(Arc<Account>, Instant),
}

impl Access {
    /// Finds out who asks, and whether he may ask for that.
    pub(super) async fn identify(
        &self,
        web: &Web,
        key: &RedactionKey,
        request: &Parts,
        deadline: Instant,
    ) -> Result<Identity, Problem> {
        if let Some(reviews) = &self.0.reviews {
            return reviewed(reviews, key, request, deadline).await;
        }
        let users = &web.settings.users;
        if !users.is_empty() {
            let challenge = "Basic realm=\"drift-exporter\", charset=\"UTF-8\"";
            let denied = |detail| Problem::unauthorized(detail, challenge);
            let Some((user, password)) = basic(&request.headers) else {
                return Err(denied("a user and a password are needed"));
            };
            return match self.0.passwords.is_right(users, key, &user, &password).await {
                Ok(true) => Ok(Identity::User),
                Ok(false) => Err(denied("user and password do not fit")),
                Err(Busy) => Err(Problem::busy("too many passwords are looked at right now", 1)),
            };
        }
        let certified = request.extensions.get::<Peer>().is_some_and(|peer| peer.certified);
        Ok(if certified { Identity::User } else { Identity::Anybody })
    }
}

/// Whose the token is, and whether he may ask for this path with this method.
async fn reviewed(
    reviews: &Reviews,
    key: &RedactionKey,
    request: &Parts,
    deadline: Instant,
) -> Result<Identity, Problem> {
    let Some(token) = bearer(&request.headers) else {
        return Err(Problem::unauthorized("a bearer token is needed", "Bearer realm=\"drift-exporter\""));
    };
    let account = reviews.bearer(key, token, deadline).await.map_err(cannot_tell)?;
    let Some(account) = account else {
        let challenge = "Bearer realm=\"drift-exporter\", error=\"invalid_token\"";
        return Err(Problem::unauthorized("the API server does not take this token", challenge));
    };
    let (path, verb) = (request.uri.path(), request.method.as_str().to_ascii_lowercase());
    let wish = Wish::Path { path, verb: &verb };
    if !reviews.may(key, &account, wish, deadline).await.map_err(cannot_tell)? {
        let detail = format!("this account may not {verb} {path}; it needs a rule for nonResourceURLs");
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    Ok(Identity::Account(account, deadline))
}

/// Credentials may be good: nobody could tell. So it is no 401, which would have clients throw them away.
pub(super) fn cannot_tell(_: Unanswered) -> Problem {
    Problem::busy("the API server does not say who may ask for what", 1)
}

/// The credentials of a scheme; none where there are several.
fn credentials<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (one, none) = (all.next()?, all.next());
    let (own, rest) = one.to_str().ok()?.split_once(' ')?;
    (none.is_none() && own.eq_ignore_ascii_case(scheme)).then(|| rest.trim())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    credentials(headers, "bearer").filter(|token| !token.is_empty() && !token.contains(' '))
}

fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let decoded = STANDARD.decode(credentials(headers, "basic")?).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}
