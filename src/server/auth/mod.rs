//! Authentication and authorization of clients.

mod caller;
mod guard;
mod passwords;
mod reviews;
mod tls;
mod visible_scopes;
mod web_config;

use std::{path::Path, sync::Arc};

use kube::Client;
use tokio_rustls::rustls::ServerConfig;

use self::{passwords::Passwords, reviews::Reviews, visible_scopes::ScopedSnapshots, web_config::Web};
use crate::config::{ClientCertificates, ConfigProblem};

pub(super) use self::{
    caller::{BodyNamespace, Caller},
    guard::guard,
};
pub use self::{guard::Peer, web_config::WebConfig};

/// How clients authenticate. The default authenticates no client and allows every request.
#[derive(Clone, Debug, Default)]
pub struct Auth(Arc<AuthState>);

#[derive(Debug, Default)]
struct AuthState {
    web: Option<WebConfig>,
    reviews: Option<Reviews>,
    passwords: Passwords,
    scoped_snapshots: ScopedSnapshots,
}

/// The ways in which clients authenticate; none of them if access is open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AuthMethods {
    pub(super) password: bool,
    pub(super) token: bool,
    pub(super) certificate: bool,
}

impl Auth {
    /// `reviewer` creates TokenReviews and SubjectAccessReviews; with it, clients authenticate by bearer token.
    pub fn new(web: Option<WebConfig>, reviewer: Option<Client>) -> Self {
        let reviews = reviewer.map(Reviews::new);
        Self(Arc::new(AuthState { web, reviews, ..AuthState::default() }))
    }

    /// The TLS configuration of a new connection, and whether a client certificate authenticates; none for plain text.
    pub(super) fn tls(&self) -> Option<(Arc<ServerConfig>, bool)> {
        let Web { settings, tls, .. } = self.web();
        let verified = settings.tls.as_ref().is_some_and(|tls| tls.client_certificates.is_verified());
        tls.map(|tls| (tls, verified))
    }

    pub(super) fn methods(&self) -> AuthMethods {
        let settings = self.web().settings;
        let certificates = settings.tls.as_ref().map(|tls| tls.client_certificates);
        AuthMethods {
            password: !settings.users.is_empty(),
            token: self.0.reviews.is_some(),
            certificate: certificates.is_some_and(ClientCertificates::is_required),
        }
    }

    /// The web configuration file, if there is one, and its current problems.
    pub(super) fn web_file(&self) -> Option<(&Path, Arc<[ConfigProblem]>)> {
        self.0.web.as_ref().map(|web| (web.path(), web.current().problems))
    }

    fn web(&self) -> Web {
        self.0.web.as_ref().map(WebConfig::current).unwrap_or_default()
    }
}
