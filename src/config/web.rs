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

use crate::{
    config::{
        load::wrong,
        yaml::{Places, Problem, read_yaml},
    },
    rules::nearest,
};

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

/// The whole file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WebFile {
    pub(super) tls_server_config: Option<TlsEntry>,
    pub(super) http_server_config: Option<HttpEntry>,
    pub(super) basic_auth_users: Option<BTreeMap<String, Option<String>>>,
    pub(super) rate_limit: Option<RateEntry>,
}

/// How connections are encrypted.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TlsEntry {
    pub(super) cert: Option<String>,
    pub(super) key: Option<String>,
    pub(super) client_ca: Option<String>,
    pub(super) cert_file: Option<String>,
    pub(super) key_file: Option<String>,
    pub(super) client_auth_type: Option<String>,
    pub(super) client_ca_file: Option<String>,
    pub(super) client_allowed_sans: Option<Vec<String>>,
    pub(super) min_version: Option<String>,
    pub(super) max_version: Option<String>,
    pub(super) cipher_suites: Option<Vec<String>>,
    pub(super) curve_preferences: Option<Vec<String>>,
    pub(super) prefer_server_cipher_suites: Option<bool>,
}

/// What answers have beside their content.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HttpEntry {
    /// Understood, and without effect: HTTP/1.1 is all that is spoken.
    #[serde(rename = "http2")]
    pub(super) _http2: Option<bool>,
    pub(super) headers: Option<BTreeMap<String, Option<String>>>,
}

/// How many requests are answered.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RateEntry {
    pub(super) interval: Option<String>,
    pub(super) burst: Option<u32>,
}

/// Names of client authentication, as Go has them; the one without `Any` is an older spelling.
const CLIENT_CERTIFICATES: &[(&str, ClientCertificates)] = &[
    ("NoClientCert", ClientCertificates::NotAsked),
    ("RequestClientCert", ClientCertificates::Requested),
    ("RequireAnyClientCert", ClientCertificates::Required),
    ("RequireClientCert", ClientCertificates::Required),
    ("VerifyClientCertIfGiven", ClientCertificates::VerifiedIfGiven),
    ("RequireAndVerifyClientCert", ClientCertificates::RequiredAndVerified),
];
const VERSIONS: &[&str] = &["TLS10", "TLS11", "TLS12", "TLS13"];
/// All that Go takes. Some of them are too old for us, which only matters where nothing else is named.
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
/// Longer ones cannot be counted on a clock for every burst.
const LONGEST_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Headers that may be set, each with the values that it may have; none for any.
const HEADERS: &[(&str, &[&str])] = &[
    ("Strict-Transport-Security", &[]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", &[]),
    ("Content-Security-Policy", &[]),
];

/// Understands a web configuration file. Files that it names are looked for beside it, in `folder`.
pub fn load_web(text: &str, folder: &Path) -> Result<WebSettings, Vec<Problem>> {
    let file: Option<WebFile> = read_yaml(text).map_err(|problem| vec![problem])?;
    let file = file.unwrap_or_default();
    let mut found = Found { folder, problems: Vec::new() };
    let settings = WebSettings {
        tls: file.tls_server_config.and_then(|entry| found.tls(entry)),
        headers: file.http_server_config.map(|entry| found.headers(entry)).unwrap_or_default(),
        users: found.users(file.basic_auth_users.unwrap_or_default()),
        rate_limit: file.rate_limit.and_then(|entry| found.rate_limit(&entry)),
    };
    if found.problems.is_empty() { Ok(settings) } else { Err(placed(text, found.problems)) }
}

/// The same problems with the places where they stand in a file.
pub fn placed(text: &str, mut problems: Vec<Problem>) -> Vec<Problem> {
    let places = Places::of(text);
    problems.iter_mut().for_each(|problem| problem.place = places.find(&problem.key));
    problems.sort_by_key(|problem| problem.place);
    problems
}

/// What was found to be wrong.
struct Found<'a> {
    folder: &'a Path,
    problems: Vec<Problem>,
}

impl Found<'_> {
    fn wrong(&mut self, key: &str, message: impl Into<String>) {
        self.problems.push(wrong(key, message.into()));
    }

    fn tls(&mut self, entry: TlsEntry) -> Option<TlsSettings> {
        let key = |name: &str| format!("tls_server_config.{name}");
        let auth = written(entry.client_auth_type);
        let certificate = self.pem(written(entry.cert_file), written(entry.cert));
        let private = self.pem(written(entry.key_file), written(entry.key));
        let authorities = self.pem(written(entry.client_ca_file), written(entry.client_ca));
        let names = entry.client_allowed_sans.unwrap_or_default();
        if certificate.is_none() && private.is_none() && authorities.is_none() && auth.is_none() {
            return None;
        }
        let client_certificates = auth.map_or(Some(ClientCertificates::NotAsked), |word| {
            let known = CLIENT_CERTIFICATES.iter().find(|(name, _)| *name == word);
            let names = CLIENT_CERTIFICATES.iter().map(|(name, _)| *name);
            known.map(|(_, own)| *own).or_else(|| {
                self.unknown(&key("client_auth_type"), &word, names.collect());
                None
            })
        });
        let (tls12, tls13) = self.versions(written(entry.min_version), written(entry.max_version));
        let cipher_suites = self.words(&key("cipher_suites"), entry.cipher_suites, CIPHER_SUITES);
        let curves = self.words(&key("curve_preferences"), entry.curve_preferences, CURVES);
        if let Some(asked) = client_certificates {
            self.check_clients(asked, authorities.as_ref(), &names);
        }
        if certificate.is_none() {
            self.wrong("tls_server_config", "a certificate is missing; want `cert_file` or `cert`");
        }
        if private.is_none() {
            self.wrong(
                "tls_server_config",
                "the key of the certificate is missing; want `key_file` or `key`",
            );
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

    /// Settings about clients that would check less than they seem to.
    fn check_clients(&mut self, asked: ClientCertificates, authorities: Option<&Pem>, names: &[String]) {
        let not_asked = asked == ClientCertificates::NotAsked;
        if authorities.is_some() && not_asked {
            let message =
                "a client CA without `client_auth_type` would check nobody; want RequireAndVerifyClientCert";
            self.wrong("tls_server_config", message);
        }
        if !names.is_empty() && not_asked {
            let message =
                "without `client_auth_type` nobody would be checked; want RequireAndVerifyClientCert";
            self.wrong("tls_server_config.client_allowed_sans", message);
        }
        if authorities.is_none() && asked.is_verified() {
            let message = "nobody could vouch for clients; want `client_ca_file` or `client_ca` too";
            self.wrong("tls_server_config.client_auth_type", message);
        }
    }

    /// Which versions are spoken. Those before TLS 1.2 never are, whatever is asked for.
    fn versions(&mut self, least: Option<String>, most: Option<String>) -> (bool, bool) {
        let mut place = |name: &str, word: Option<String>, usual: &str| {
            let word = word.unwrap_or_else(|| usual.to_owned());
            let place = VERSIONS.iter().position(|own| *own == word);
            if place.is_none() {
                self.unknown(&format!("tls_server_config.{name}"), &word, VERSIONS.to_vec());
            }
            place
        };
        let (Some(least), Some(most)) =
            (place("min_version", least, "TLS12"), place("max_version", most, "TLS13"))
        else {
            return (true, true);
        };
        if most < 2 {
            self.wrong("tls_server_config.max_version", "versions before TLS12 are not spoken");
        } else if least > most {
            self.wrong("tls_server_config.min_version", "it is above `max_version`");
        }
        (least <= 2, most >= 3)
    }

    fn words(&mut self, key: &str, words: Option<Vec<String>>, known: &[&'static str]) -> Vec<Box<str>> {
        let words = words.unwrap_or_default();
        for (at, word) in words.iter().enumerate().filter(|(_, word)| !known.contains(&word.as_str())) {
            self.unknown(&format!("{key}[{at}]"), word, known.to_vec());
        }
        words.into_iter().map(Into::into).collect()
    }

    fn unknown(&mut self, key: &str, word: &str, known: Vec<&'static str>) {
        let message = format!("`{word}` is not allowed here; want one of {}", known.join(", "));
        let suggestion = nearest(word, known).map(Into::into);
        self.problems.push(Problem { suggestion, ..wrong(key, message) });
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
            let Some((_, allowed)) = HEADERS.iter().find(|(own, _)| *own == name) else {
                self.unknown(&key, &name, HEADERS.iter().map(|(own, _)| *own).collect());
                continue;
            };
            if !allowed.is_empty() && !allowed.contains(&value.as_str()) {
                self.unknown(&key, &value, allowed.to_vec());
            } else if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
                self.wrong(&key, "a header is one line of plain text");
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
            let good = HashParts::from_str(&hash).is_ok_and(|parts| (4..=31).contains(&parts.get_cost()));
            if !good {
                // The hash itself is not told: it may be a password by mistake.
                let message = "this is no bcrypt hash; `htpasswd -nBC 10 NAME` prints one";
                self.wrong(&format!("basic_auth_users.{name}"), message);
            } else if name.contains(':') {
                self.wrong(&format!("basic_auth_users.{name}"), "no browser can send a name with a colon");
            }
            users.insert(name.into(), hash.into());
        }
        users
    }

    fn rate_limit(&mut self, entry: &RateEntry) -> Option<RateLimit> {
        let text =
            entry.interval.as_deref().map(str::trim).filter(|text| !text.is_empty() && *text != "0")?;
        let parsed = text.parse::<SignedDuration>().ok().and_then(|own| Duration::try_from(own).ok());
        if parsed.is_some_and(|interval| interval > LONGEST_INTERVAL) {
            self.wrong("rate_limit.interval", format!("`{text}` is too long; want at most 24h"));
            return None;
        }
        let Some(interval) = parsed else {
            let message = format!("`{text}` is no length of time; want something like 100ms or 1s");
            self.wrong("rate_limit.interval", message);
            return None;
        };
        let burst = entry.burst.unwrap_or_default();
        if burst == 0 {
            self.wrong("rate_limit", "without a `burst` of at least 1 nothing would ever be answered");
        }
        Some(RateLimit { interval, burst }).filter(|limit| !limit.interval.is_zero())
    }
}

/// A text that says something.
fn written(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
