//! How the web configuration file is written, key by key as other exporters read it.

use std::collections::BTreeMap;

use serde::Deserialize;

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
