//! A running exporter, asked over HTTP.

use std::time::Duration;

use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::Deserialize;
use tokio::time::timeout;

/// How long an exporter may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// No answer is larger than this.
const LARGEST: usize = 64 << 20;

/// A running exporter.
pub(super) struct Server {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    /// Its address, without a slash at the end.
    address: String,
}

/// What an exporter said.
pub(super) enum Answer {
    /// What was asked for.
    Found(Bytes),
    /// It knows of nothing like that; its own words.
    Nothing(String),
}

/// An error, as the API words it.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

impl Server {
    /// The exporter at this address, `http://127.0.0.1:10374`.
    pub(super) fn new(address: &str) -> Result<Self, String> {
        let https = HttpsConnectorBuilder::new()
            .with_native_roots()
            .map_err(|error| format!("cannot read the system's certificates: {error}"))?;
        let connector = https.https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, address: address.trim_end_matches('/').to_owned() })
    }

    /// Asks for a path.
    pub(super) async fn get(&self, path: &str) -> Result<Answer, String> {
        let Self { client, address } = self;
        let uri: Uri = format!("{address}{path}")
            .parse()
            .map_err(|_| format!("`{address}` is no address of a server"))?;
        let request = Request::get(uri).body(Empty::new()).map_err(|error| error.to_string())?;
        let exchange = async {
            let answer = client.request(request).await.map_err(|error| innermost(&error))?;
            let (head, body) = answer.into_parts();
            let body =
                Limited::new(body, LARGEST).collect().await.map_err(|error| innermost(error.as_ref()))?;
            Ok((head.status, body.to_bytes()))
        };
        let unheard = |why: String| {
            format!("no exporter answers at {address}: {why}; name a running one with --server")
        };
        let answer = timeout(PATIENCE, exchange).await.map_err(|_| unheard("it says nothing".to_owned()))?;
        let (status, body) = answer.map_err(unheard)?;
        let said = || serde_json::from_slice(&body).map(|Problem { detail }| detail).ok();
        match status {
            StatusCode::OK => Ok(Answer::Found(body)),
            StatusCode::NOT_FOUND if said().is_some() => Ok(Answer::Nothing(said().unwrap_or_default())),
            status => Err(format!(
                "{address} answers {status}: {}",
                said().unwrap_or_else(|| "it does not seem to be a drift-exporter".to_owned())
            )),
        }
    }
}

/// The last cause names the fault; those before it name the layers it went through.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}
