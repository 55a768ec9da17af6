//! The web configuration file of `--web.config.file`: TLS, users and headers, in the format of the Prometheus exporter toolkit.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    str::FromStr as _,
    time::Duration,
};

use bcrypt::HashParts;
use jiff::SignedDuration;
use serde::Deserialize;

use super::yaml::{ConfigProblem, read_yaml, with_positions};

#[derive(Clone, Default, PartialEq, Eq)]
pub struct WebSettings {
    /// None for plain HTTP.
    pub tls: Option<TlsSettings>,
    /// Added to every response that does not set them itself.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// Users and the bcrypt hashes of their passwords; empty for no basic authentication.
    pub users: BTreeMap<Box<str>, Box<str>>,
    pub rate_limit: Option<RateLimit>,
}

/// Omits users and keys.
impl fmt::Debug for WebSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WebSettings").field("tls", &self.tls).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    pub certificate: Pem,
    /// The private key of the certificate.
    pub key: Pem,
    pub client_certificates: ClientCertificates,
    /// The CA of client certificates.
    pub client_authorities: Option<Pem>,
    /// A client certificate must have one of these SANs; empty for any.
    pub client_names: Vec<Box<str>>,
    pub tls12: bool,
    pub tls13: bool,
    /// Cipher suites of TLS 1.2 by their Go names, in order of preference; empty for the secure defaults.
    pub cipher_suites: Vec<Box<str>>,
    /// Curves by their Go names, in order of preference; empty for the secure defaults.
    pub curves: Vec<Box<str>>,
    /// Whether the server's order of cipher suites takes precedence over the client's.
    pub own_order: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    File(PathBuf),
    Text(Box<str>),
}

impl Pem {
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Text(_) => None,
        }
    }
}

/// Omits inline data, which may be a private key.
impl fmt::Debug for Pem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "File({})", path.display()),
            Self::Text(_) => formatter.write_str("Text(..)"),
        }
    }
}

/// How client certificates are requested and verified; Go's `tls.ClientAuthType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// `NoClientCert`.
    NotRequested,
    /// `RequestClientCert`: optional and not verified.
    Requested,
    /// `RequireAnyClientCert`: required and not verified.
    Required,
    /// `VerifyClientCertIfGiven`.
    VerifiedIfGiven,
    /// `RequireAndVerifyClientCert`.
    RequiredAndVerified,
}

impl ClientCertificates {
    /// Whether a client certificate authenticates the client.
    pub fn is_verified(self) -> bool {
        matches!(self, Self::VerifiedIfGiven | Self::RequiredAndVerified)
    }

    pub fn is_required(self) -> bool {
        matches!(self, Self::Required | Self::RequiredAndVerified)
    }
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The time in which one token is added.
    pub interval: Duration,
    /// The size of the bucket.
    pub burst: u32,
}

/// The web configuration file, as the exporter toolkit defines it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WebFile {
    tls_server_config: Option<TlsEntry>,
    http_server_config: Option<HttpEntry>,
    basic_auth_users: Option<BTreeMap<String, Option<String>>>,
    rate_limit: Option<RateEntry>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TlsEntry {
    cert: Option<String>,
    key: Option<String>,
    client_ca: Option<String>,
    cert_file: Option<String>,
    key_file: Option<String>,
    client_auth_type: Option<String>,
    client_ca_file: Option<String>,
    client_allowed_sans: Option<Vec<String>>,
    min_version: Option<String>,
    max_version: Option<String>,
    cipher_suites: Option<Vec<String>>,
    curve_preferences: Option<Vec<String>>,
    prefer_server_cipher_suites: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HttpEntry {
    /// Accepted without effect: the server supports HTTP/1.1 only.
    #[serde(rename = "http2")]
    _http2: Option<bool>,
    headers: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RateEntry {
    interval: Option<String>,
    burst: Option<u32>,
}

/// Go's names. `RequireClientCert` is an older spelling of `RequireAnyClientCert`.
const CLIENT_CERTIFICATES: &[(&str, ClientCertificates)] = &[
    ("NoClientCert", ClientCertificates::NotRequested),
    ("RequestClientCert", ClientCertificates::Requested),
    ("RequireAnyClientCert", ClientCertificates::Required),
    ("RequireClientCert", ClientCertificates::Required),
    ("VerifyClientCertIfGiven", ClientCertificates::VerifiedIfGiven),
    ("RequireAndVerifyClientCert", ClientCertificates::RequiredAndVerified),
];
const VERSIONS: &[&str] = &["TLS10", "TLS11", "TLS12", "TLS13"];
/// All suites that Go accepts. Unsupported old ones are an error only if no supported one is named.
const CIPHER_SUITES: &[&str] = &[
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
];
const CURVES: &[&str] = &["CurveP256", "CurveP384", "CurveP521", "X25519"];
/// A longer interval times the burst could overflow a time.
const MAX_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Supported headers and their allowed values; empty for any value.
const HEADERS: &[(&str, &[&str])] = &[
    ("Strict-Transport-Security", &[]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", &[]),
    ("Content-Security-Policy", &[]),
];

/// Validates the text of a web configuration file. Relative paths in it are relative to `folder`.
pub fn load_web(text: &str, folder: &Path) -> Result<WebSettings, Vec<ConfigProblem>> {
    let file: Option<WebFile> = read_yaml(text).map_err(|problem| vec![problem])?;
    let file = file.unwrap_or_default();
    let mut validator = Validator { folder, problems: Vec::new() };
    let settings = WebSettings {
        tls: file.tls_server_config.and_then(|entry| validator.tls(entry)),
        headers: file.http_server_config.map(|entry| validator.headers(entry)).unwrap_or_default(),
        users: validator.users(file.basic_auth_users.unwrap_or_default()),
        rate_limit: file.rate_limit.and_then(|entry| validator.rate_limit(&entry)),
    };
    if validator.problems.is_empty() { Ok(settings) } else { Err(with_positions(text, validator.problems)) }
}

struct Validator<'a> {
    folder: &'a Path,
    problems: Vec<ConfigProblem>,
}

impl Validator<'_> {
    fn problem(&mut self, key: &str, message: impl fmt::Display) {
        self.problems.push(ConfigProblem::at(key, message));
    }

    fn tls(&mut self, entry: TlsEntry) -> Option<TlsSettings> {
        let key = |name: &str| format!("tls_server_config.{name}");
        let auth = absent_if_empty(entry.client_auth_type);
        let certificate = self.pem(absent_if_empty(entry.cert_file), absent_if_empty(entry.cert));
        let private = self.pem(absent_if_empty(entry.key_file), absent_if_empty(entry.key));
        let authorities = self.pem(absent_if_empty(entry.client_ca_file), absent_if_empty(entry.client_ca));
        let names = entry.client_allowed_sans.unwrap_or_default();
        if certificate.is_none() && private.is_none() && authorities.is_none() && auth.is_none() {
            return None;
        }
        let client_certificates = auth.map_or(Some(ClientCertificates::NotRequested), |word| {
            let known = CLIENT_CERTIFICATES.iter().find(|(name, _)| *name == word);
            let names = CLIENT_CERTIFICATES.iter().map(|(name, _)| *name);
            known.map(|(_, mode)| *mode).or_else(|| {
                self.unknown(&key("client_auth_type"), &word, names);
                None
            })
        });
        let (tls12, tls13) =
            self.versions(absent_if_empty(entry.min_version), absent_if_empty(entry.max_version));
        let cipher_suites = self.words(&key("cipher_suites"), entry.cipher_suites, CIPHER_SUITES);
        let curves = self.words(&key("curve_preferences"), entry.curve_preferences, CURVES);
        if let Some(mode) = client_certificates {
            self.check_client_settings(mode, authorities.as_ref(), &names);
        }
        if certificate.is_none() {
            self.problem("tls_server_config", "the certificate is missing; want `cert_file` or `cert`");
        }
        if private.is_none() {
            self.problem("tls_server_config", "the private key is missing; want `key_file` or `key`");
        }
        Some(TlsSettings {
            certificate: certificate?,
            key: private?,
            client_certificates: client_certificates?,
            client_authorities: authorities,
            client_names: names.into_iter().map(Into::into).collect(),
            tls12,
            tls13,
            cipher_suites,
            curves,
            own_order: entry.prefer_server_cipher_suites.unwrap_or(true),
        })
    }

    /// Rejects client settings that would verify less than they suggest.
    fn check_client_settings(
        &mut self,
        mode: ClientCertificates,
        authorities: Option<&Pem>,
        names: &[String],
    ) {
        let not_requested = mode == ClientCertificates::NotRequested;
        if authorities.is_some() && not_requested {
            let message =
                "without `client_auth_type` the client CA has no effect; want RequireAndVerifyClientCert";
            self.problem("tls_server_config", message);
        }
        if !names.is_empty() && not_requested {
            let message =
                "without `client_auth_type` the SANs have no effect; want RequireAndVerifyClientCert";
            self.problem("tls_server_config.client_allowed_sans", message);
        }
        if authorities.is_none() && mode.is_verified() {
            let message = "the client CA is missing; want `client_ca_file` or `client_ca`";
            self.problem("tls_server_config.client_auth_type", message);
        }
    }

    /// Whether TLS 1.2 and TLS 1.3 are enabled. Earlier versions are never enabled.
    fn versions(&mut self, min: Option<String>, max: Option<String>) -> (bool, bool) {
        let mut index = |name: &str, version: Option<String>, default: &str| {
            let version = version.unwrap_or_else(|| default.to_owned());
            let index = VERSIONS.iter().position(|known| *known == version);
            if index.is_none() {
                self.unknown(&format!("tls_server_config.{name}"), &version, VERSIONS.iter().copied());
            }
            index
        };
        let (Some(min), Some(max)) = (index("min_version", min, "TLS12"), index("max_version", max, "TLS13"))
        else {
            return (true, true);
        };
        if max < 2 {
            self.problem("tls_server_config.max_version", "versions before TLS12 are not supported");
        } else if min > max {
            self.problem("tls_server_config.min_version", "`min_version` is higher than `max_version`");
        }
        (min <= 2, max >= 3)
    }

    fn words(&mut self, key: &str, words: Option<Vec<String>>, known: &[&'static str]) -> Vec<Box<str>> {
        let words = words.unwrap_or_default();
        for (at, word) in words.iter().enumerate().filter(|(_, word)| !known.contains(&word.as_str())) {
            self.unknown(&format!("{key}[{at}]"), word, known.iter().copied());
        }
        words.into_iter().map(Into::into).collect()
    }

    fn unknown(&mut self, key: &str, word: &str, known: impl IntoIterator<Item = &'static str>) {
        self.problems.push(ConfigProblem::unknown(key, "value", word, known));
    }

    fn pem(&self, file: Option<String>, text: Option<String>) -> Option<Pem> {
        let file = file.map(|name| Pem::File(self.folder.join(name)));
        file.or_else(|| text.map(|text| Pem::Text(text.into())))
    }

    fn headers(&mut self, entry: HttpEntry) -> Vec<(Box<str>, Box<str>)> {
        let mut headers = Vec::new();
        for (name, value) in entry.headers.unwrap_or_default() {
            let key = format!("http_server_config.headers.{name}");
            let value = value.unwrap_or_default();
            let Some((_, allowed)) = HEADERS.iter().find(|(header, _)| *header == name) else {
                self.unknown(&key, &name, HEADERS.iter().map(|(header, _)| *header));
                continue;
            };
            if !allowed.is_empty() && !allowed.contains(&value.as_str()) {
                self.unknown(&key, &value, allowed.iter().copied());
            } else if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
                self.problem(&key, "invalid header value; want one line of printable ASCII");
            } else if !value.is_empty() {
                headers.push((name.into(), value.into()));
            }
        }
        headers
    }

    fn users(&mut self, entries: BTreeMap<String, Option<String>>) -> BTreeMap<Box<str>, Box<str>> {
        let mut users = BTreeMap::new();
        for (name, hash) in entries {
            let hash = hash.unwrap_or_default();
            let is_hash = HashParts::from_str(&hash).is_ok_and(|parts| (4..=31).contains(&parts.get_cost()));
            if !is_hash {
                // The message omits the value, which may be a password by mistake.
                let message = "invalid bcrypt hash; create one with `htpasswd -nBC 10 NAME`";
                self.problem(&format!("basic_auth_users.{name}"), message);
            } else if name.contains(':') {
                self.problem(
                    &format!("basic_auth_users.{name}"),
                    "invalid user name; basic authentication does not allow a colon",
                );
            }
            users.insert(name.into(), hash.into());
        }
        users
    }

    fn rate_limit(&mut self, entry: &RateEntry) -> Option<RateLimit> {
        let text =
            entry.interval.as_deref().map(str::trim).filter(|text| !text.is_empty() && *text != "0")?;
        let parsed =
            text.parse::<SignedDuration>().ok().and_then(|interval| Duration::try_from(interval).ok());
        if parsed.is_some_and(|interval| interval > MAX_INTERVAL) {
            self.problem("rate_limit.interval", format!("`{text}` is too long; want at most 24h"));
            return None;
        }
        let Some(interval) = parsed else {
            let message = format!("invalid duration `{text}`; want for example 100ms or 1s");
            self.problem("rate_limit.interval", message);
            return None;
        };
        let burst = entry.burst.unwrap_or_default();
        if burst == 0 {
            self.problem(
                "rate_limit",
                "with a `burst` of 0 every request would be rejected; want at least 1",
            );
        }
        Some(RateLimit { interval, burst }).filter(|limit| !limit.interval.is_zero())
    }
}

fn absent_if_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
