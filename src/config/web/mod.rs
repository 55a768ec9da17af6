//! The web configuration file of `--web.config.file`: encryption, users and headers, in the format that Prometheus' exporters share.

mod file;
mod load;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

pub use load::{load_web, placed};

/// What a web configuration file says.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WebSettings {
    /// How connections are encrypted; none where they are not.
    pub tls: Option<TlsSettings>,
    /// What every answer has as headers, unless it has its own.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// Those who may ask, each with the bcrypt hash of the password; empty for everybody.
    pub users: BTreeMap<Box<str>, Box<str>>,
    /// How many requests are answered; none for all of them.
    pub rate_limit: Option<RateLimit>,
}

/// Says nothing of users and keys.
impl fmt::Debug for WebSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WebSettings").field("tls", &self.tls).finish_non_exhaustive()
    }
}

/// How connections are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// Who we are.
    pub certificate: Pem,
    /// The key of the certificate.
    pub key: Pem,
    /// Whether clients are asked who they are.
    pub client_certificates: ClientCertificates,
    /// Who vouches for clients.
    pub client_authorities: Option<Pem>,
    /// The names of which a client's certificate has to have one; empty for whichever it has.
    pub client_names: Vec<Box<str>>,
    /// Whether TLS 1.2 is spoken.
    pub tls12: bool,
    /// Whether TLS 1.3 is spoken.
    pub tls13: bool,
    /// The suites of TLS 1.2 in order, by the names that Go has for them; empty for all that are good.
    pub cipher_suites: Vec<Box<str>>,
    /// The curves in order, by the names that Go has for them; empty for all that are good.
    pub curves: Vec<Box<str>>,
    /// Whether our order of suites counts, and not the client's.
    pub own_order: bool,
}

/// Something in PEM.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// In a file of its own.
    File(PathBuf),
    /// In the web configuration file itself.
    Text(Box<str>),
}

impl Pem {
    /// The file that it is in, where it has one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Text(_) => None,
        }
    }
}

/// A key may stand in the text, so that is not told.
impl fmt::Debug for Pem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "File({})", path.display()),
            Self::Text(_) => formatter.write_str("Text(..)"),
        }
    }
}

/// Whether clients are asked for a certificate, and what becomes of those who have none or a wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// None is asked for.
    NotAsked,
    /// Asked for; any will do, and none as well.
    Requested,
    /// Any will do.
    Required,
    /// A wrong one is refused; none will do.
    VerifiedIfGiven,
    /// Only a right one will do.
    RequiredAndVerified,
}

impl ClientCertificates {
    /// Whether a certificate that was given proves who the client is.
    pub fn is_verified(self) -> bool {
        matches!(self, Self::VerifiedIfGiven | Self::RequiredAndVerified)
    }

    /// Whether nobody gets in without a certificate.
    pub fn is_required(self) -> bool {
        matches!(self, Self::Required | Self::RequiredAndVerified)
    }
}

/// A bucket of requests that fills up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// After which time one more request is answered.
    pub interval: Duration,
    /// How many are answered at once.
    pub burst: u32,
}
