//! Who may ask for what, and how much of it they are shown.

mod caller;
mod client_certificates;
mod guard;
mod identity;
mod kept;
mod passwords;
mod peer;
mod questions;
mod rate;
mod reviews;
mod sight;
mod tls;
mod web_config;

use std::{path::Path, sync::Arc};

use kube::Client;
use tokio_rustls::rustls::ServerConfig;

use self::{passwords::Passwords, rate::Bucket, reviews::Reviews, sight::Views, web_config::Web};

use crate::config::{ClientCertificates, Problem};

pub(super) use self::{
    caller::{Caller, InBody},
    guard::guard,
};
pub use self::{peer::Peer, web_config::WebConfig};

/// Who may ask for what. Without anything: everybody for everything.
#[derive(Clone, Debug, Default)]
pub struct Access(Arc<Keepers>);

/// What decides, and what it remembers.
#[derive(Debug, Default)]
struct Keepers {
    web: Option<WebConfig>,
    reviews: Option<Reviews>,
    passwords: Passwords,
    bucket: Bucket,
    views: Views,
}

/// How those who ask prove who they are; not at all where none of these holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proofs {
    /// By a user's password.
    pub(super) password: bool,
    /// By a token of the cluster.
    pub(super) token: bool,
    /// By a certificate, before anything is asked.
    pub(super) certificate: bool,
}

impl Access {
    /// Access as a web configuration file says. `reviewer`: whoever is asked whose tokens are good, where tokens are wanted.
    pub fn new(web: Option<WebConfig>, reviewer: Option<Client>) -> Self {
        Self(Arc::new(Keepers { web, reviews: reviewer.map(Reviews::new), ..Keepers::default() }))
    }

    /// What a new connection is encrypted with, and whether a client's certificate proves who he is; none in plain text.
    pub(super) fn encryption(&self) -> Option<(Arc<ServerConfig>, bool)> {
        let Web { settings, tls, .. } = self.look();
        let proves = settings.tls.as_ref().is_some_and(|own| own.client_certificates.is_verified());
        tls.map(|tls| (tls, proves))
    }

    /// How those who ask prove who they are, as of now.
    pub(super) fn proofs(&self) -> Proofs {
        let settings = self.look().settings;
        let certificates = settings.tls.as_ref().map(|own| own.client_certificates);
        Proofs {
            password: !settings.users.is_empty(),
            token: self.0.reviews.is_some(),
            certificate: certificates.is_some_and(ClientCertificates::is_required),
        }
    }

    /// The web configuration file, and what is wrong with it now; none where there is none.
    pub(super) fn web_file(&self) -> Option<(&Path, Arc<[Problem]>)> {
        self.0.web.as_ref().map(|web| (web.path(), web.look().problems))
    }

    /// What the web configuration file says now.
    fn look(&self) -> Web {
        self.0.web.as_ref().map(WebConfig::look).unwrap_or_default()
    }
}
