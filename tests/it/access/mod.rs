//! Who may ask for what, and how much of it they are shown.

/// Encryption and certificates.
mod encryption;
/// Every route.
mod routes;
/// What those see who may not see everything, and what is asked for that.
mod sight;
/// Tokens: whose they are, what their bearers may ask for and see.
mod tokens;
/// Users and passwords, headers, limits.
mod users;
/// What is wrong with a web configuration file.
mod web_file;

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
    objects::{deployment, edited, service},
    world::{Answer, World},
};

/// A web configuration file in a folder of its own.
struct WebFile {
    folder: TempDir,
}

impl WebFile {
    fn new(text: &str) -> Self {
        let file = Self { folder: tempfile::tempdir().unwrap() };
        file.write("web.yml", text);
        file
    }

    /// Puts a file in its folder; what was there before is another file.
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

/// What is wrong with a file, as it is told.
fn told(path: &Path) -> Vec<String> {
    WebConfig::open(path, false).unwrap_err().iter().map(ToString::to_string).collect()
}

/// Ann's password is `secret`, at the lowest cost there is.
fn ann() -> String {
    format!("basic_auth_users:\n  ann: {}\n", bcrypt::hash("secret", 4).unwrap())
}

/// A shop in which the web server has drifted, shown to those who may see it. All values may be told.
async fn shop(auth: Auth) -> World {
    let api = ApiServer::default();
    api.put("deployments", edited(deployment("web"), 1));
    api.put("services", service("web"));
    let settings = Settings { shown_values: ShownValues::Full, ..Settings::default() };
    let world = World::with_access(&api, api.client(), settings, auth);
    let seen = |world: &World| {
        let snapshot = world.snapshot();
        snapshot.ready && snapshot.watches().all(|stream| stream.synced)
    };
    world.eventually("it is ready", seen).await;
    world.settle().await;
    world
}

/// Asks for a path from elsewhere, with or without credentials.
async fn ask(world: &World, method: &str, path: &str, credentials: Option<&str>) -> Answer {
    let elsewhere = Peer { address: ([10, 0, 0, 7], 9).into(), certified: false };
    let mut request = Request::builder().method(method).uri(path).extension(elsewhere);
    if let Some(credentials) = credentials {
        request = request.header("authorization", credentials);
    }
    world.ask(request.body(Body::empty()).unwrap()).await
}

/// Whether an answer is a problem with this status, in the form that all have.
#[track_caller]
fn check_problem(answer: &Answer, status: StatusCode, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}", String::from_utf8_lossy(&answer.body));
    assert_eq!(answer.headers["content-type"], "application/problem+json", "{what}");
    assert_eq!(answer.json()["status"], status.as_u16(), "{what}");
    let asks = answer.headers.contains_key("www-authenticate");
    assert_eq!(asks, status == StatusCode::UNAUTHORIZED, "{what}");
}

/// `Basic …` of a user and a password.
fn basic(user: &str, password: &str) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Basic {text}")
}

/// Access by passwords.
fn by_password(file: &WebFile) -> Auth {
    Auth::new(Some(file.open()), None)
}
