//! Authentication, authorization, and which values each caller sees.

/// Basic authentication, headers, limits.
mod basic_auth;
/// Every route with every kind of credentials.
mod routes;
/// TLS and client certificates.
mod tls;
/// Bearer tokens, and the token and access reviews for them.
mod tokens;
/// Callers with restricted RBAC permissions, and the access reviews for them.
mod visible_scopes;
/// Errors in web configuration files.
mod web_config;

use std::path::Path;

use axum::body::Body;
use drift_exporter::{
    config::{Settings, ShownValues},
    server::{Auth, Peer, WebConfig},
};
use http::{Request, StatusCode};
use tempfile::TempDir;

use crate::support::{
    api_server::ApiServer,
    exporter_fixture::{ExporterFixture, HttpResponse},
    live_objects::{deployment, edited, service},
};

/// A web configuration file in a temporary directory.
struct WebFile {
    folder: TempDir,
}

impl WebFile {
    fn new(text: &str) -> Self {
        let file = Self { folder: tempfile::tempdir().unwrap() };
        file.write("web.yml", text);
        file
    }

    /// Replaces a file by an atomic rename.
    fn write(&self, name: &str, text: &str) {
        let (new, path) = (self.folder.path().join(".new"), self.folder.path().join(name));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("web.yml")
    }

    fn open(&self) -> WebConfig {
        WebConfig::open(&self.path(), false).unwrap_or_else(|problems| panic!("{problems:?}"))
    }
}

fn web_config_errors(path: &Path) -> Vec<String> {
    WebConfig::open(path, false).unwrap_err().iter().map(ToString::to_string).collect()
}

/// A user `ann` with the password `secret`, hashed at the lowest bcrypt cost.
fn ann() -> String {
    format!("basic_auth_users:\n  ann: {}\n", bcrypt::hash("secret", 4).unwrap())
}

/// An exporter whose Deployment `shop/web` has drifted. It shows all values.
async fn drifted_shop(auth: Auth) -> ExporterFixture {
    let api = ApiServer::default();
    api.put("deployments", edited(deployment("web"), 1));
    api.put("services", service("web"));
    let settings = Settings { shown_values: ShownValues::Full, ..Settings::default() };
    let exporter = ExporterFixture::start_with_auth(&api, api.client(), settings, auth);
    let synced = |exporter: &ExporterFixture| {
        let snapshot = exporter.snapshot();
        snapshot.ready && snapshot.watches().all(|stream| stream.synced)
    };
    exporter.eventually("the exporter is ready", synced).await;
    exporter.wait_idle().await;
    exporter
}

/// Sends a request from a remote address, with or without credentials.
async fn send(
    exporter: &ExporterFixture,
    method: &str,
    path: &str,
    credentials: Option<&str>,
) -> HttpResponse {
    let remote = Peer { address: ([10, 0, 0, 7], 9).into(), certified: false };
    let mut request = Request::builder().method(method).uri(path).extension(remote);
    if let Some(credentials) = credentials {
        request = request.header("authorization", credentials);
    }
    exporter.send(request.body(Body::empty()).unwrap()).await
}

/// Checks status and form of an `application/problem+json` response.
#[track_caller]
fn check_problem(answer: &HttpResponse, status: StatusCode, case: &str) {
    assert_eq!(answer.status, status, "{case}: {}", String::from_utf8_lossy(&answer.body));
    assert_eq!(answer.headers["content-type"], "application/problem+json", "{case}");
    assert_eq!(answer.json()["status"], status.as_u16(), "{case}");
    let has_challenge = answer.headers.contains_key("www-authenticate");
    assert_eq!(has_challenge, status == StatusCode::UNAUTHORIZED, "{case}");
}

/// The value of an `Authorization: Basic` header.
fn basic(user: &str, password: &str) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Basic {text}")
}

fn basic_auth(file: &WebFile) -> Auth {
    Auth::new(Some(file.open()), None)
}
