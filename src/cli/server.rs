//! A running exporter, asked over HTTP.

use std::{fs, path::Path, time::Duration};

use axum::body::Body;
use http::{Request, Response, Uri};
use kube::{Client, config::Kubeconfig};
use serde_json::json;
use tokio::time::timeout;

use super::{args::AskArgs, unanswered::Unanswered};
use crate::{sources::root_cause, watch::client_from_kubeconfig};

/// How long an exporter may take until it begins to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running exporter.
pub(super) struct Server {
    client: Client,
    /// Its address, without a slash at the end.
    address: String,
}

impl Server {
    /// The exporter at this address, `http://127.0.0.1:10374`, and who we are there.
    pub(super) async fn new(address: &str, ask: &AskArgs) -> Result<Self, String> {
        let address = address.trim_end_matches('/').to_owned();
        check(&address)?;
        let wrong = |error| format!("cannot set up the connection to {address}: {error}");
        let client = client_from_kubeconfig(kubeconfig(&address, ask)?).await.map_err(wrong)?;
        Ok(Self { client, address })
    }

    /// What it is called in messages.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request and waits for the head of the answer, whatever it says.
    pub(super) async fn ask(&self, path: &str) -> Result<Response<Body>, Unanswered> {
        let Self { client, address } = self;
        let request = Request::get(path).body(kube::client::Body::empty());
        let request = request.map_err(|_| format!("`{address}{path}` is no address of a server"))?;
        let unheard = |why: String| Unanswered::for_now(unheard(address, &why));
        let answer = timeout(PATIENCE, client.send(request)).await;
        let answer = answer.map_err(|_| unheard("it says nothing".to_owned()))?;
        Ok(answer.map_err(|error| unheard(root_cause(&error)))?.map(Body::new))
    }
}

/// Refuses what is no address, or says more than one does.
fn check(address: &str) -> Result<(), String> {
    let uri: Option<Uri> = address.parse().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    if authority.is_some_and(|own| own.as_str().contains('@')) {
        return Err(
            "an address says who is asked, not who asks: use --basic-auth-file or --token-file".to_owned()
        );
    }
    // A port that there cannot be would be passed over, and another one asked.
    let is_whole = |uri: &Uri| {
        authority.is_some_and(|own| own.port().is_some() || own.as_str() == own.host())
            && uri.query().is_none()
    };
    match uri.as_ref().filter(|uri| is_whole(uri)).and_then(Uri::scheme_str) {
        Some("http" | "https") => Ok(()),
        _ => {
            Err(format!("`{address}` is no address of a server; want something like http://127.0.0.1:10374"))
        }
    }
}

/// Why nobody could be heard, and what to do about it.
fn unheard(address: &str, why: &str) -> String {
    // As TLS names them; its words for them are for those who wrote it.
    let in_our_words = [
        ("UnknownIssuer", "nobody who is known has signed its certificate; --ca-file names who did"),
        (
            "CaUsedAsEndEntity",
            "its certificate is that of an authority and not of a server; make one with basicConstraints=CA:FALSE",
        ),
        ("NotValidForName", "its certificate is for another name; use one of those that it is for"),
        ("Expired", "its certificate has expired"),
        ("CertificateRequired", "it wants a certificate of us; --cert-file and --key-file name one"),
        ("AccessDenied", "it does not let our certificate in; its client_allowed_sans say whose it does"),
        ("invalid HTTP version", "it may want TLS: ask with https://"),
    ];
    match in_our_words.iter().find(|(theirs, _)| why.contains(theirs)) {
        Some((theirs, ours)) => format!("cannot talk to {address}: {ours} ({theirs})"),
        None if why.contains("certificate") => format!("cannot talk to {address}: {why}"),
        None => format!("no exporter answers at {address}: {why}; name a running one with --server"),
    }
}

/// Who we are there, as a kubeconfig says it: the client that reaches API servers reaches exporters as well.
fn kubeconfig(address: &str, ask: &AskArgs) -> Result<Kubeconfig, String> {
    let mut cluster = json!({"server": address});
    if let Some(file) = &ask.ca_file {
        // A file that is not there would be found out only when it is needed.
        read(file)?;
        cluster["certificate-authority"] = json!(file);
    }
    let mut user = json!({});
    for (name, file) in [("client-certificate", &ask.cert_file), ("client-key", &ask.key_file)] {
        if let Some(file) = file {
            read(file)?;
            user[name] = json!(file);
        }
    }
    if let Some(token) = ask.token.as_ref().filter(|token| !token.trim().is_empty()) {
        user["token"] = json!(token.trim());
    } else if let Some(file) = &ask.token_file {
        let text = read(file)?;
        let token = Some(text.trim()).filter(|token| !token.is_empty());
        user["token"] = json!(token.ok_or_else(|| format!("{} holds no token", file.display()))?);
    } else if let Some(file) = &ask.basic_auth_file {
        let text = read(file)?;
        let wrong = || format!("{} does not hold USER:PASSWORD", file.display());
        let (name, password) = text.trim_end_matches(['\r', '\n']).split_once(':').ok_or_else(wrong)?;
        (user["username"], user["password"]) = (json!(name), json!(password));
    }
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "exporter",
        "clusters": [{"name": "exporter", "cluster": cluster}],
        "contexts": [{"name": "exporter", "context": {"cluster": "exporter", "user": "exporter"}}],
        "users": [{"name": "exporter", "user": user}],
    });
    // What it stumbled over may be a secret.
    serde_json::from_value(config).map_err(|_| "cannot use these credentials".to_owned())
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}
