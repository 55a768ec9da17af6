//! One request to the API server and what it answers.

use std::time::Duration;

use http::{Request, Response, header::RETRY_AFTER};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::{Client, client::Body};
use tokio::time::timeout;

use super::fault::{ApiStatus, Fault};

/// A server that asks us to stay away for longer than this many seconds is asked again all the same.
const LONGEST_RETRY_AFTER: u64 = 120;

/// Sends a request and waits for the head of the answer, whatever it says.
pub(super) async fn answer(
    client: &Client,
    request: Request<Body>,
    silence: Duration,
) -> Result<Response<Body>, Fault> {
    timeout(silence, client.send(request))
        .await
        .map_err(|_| Fault::Stalled(silence))?
        .map_err(|error| Fault::from_client(&error, silence))
}

/// Reads an answer to its end.
pub(super) async fn whole(
    response: Response<Body>,
    limit: usize,
    silence: Duration,
) -> Result<bytes::Bytes, Fault> {
    let body = timeout(silence, Limited::new(response.into_body(), limit).collect());
    let body = body.await.map_err(|_| Fault::Stalled(silence))?;
    let broken = |error: Box<dyn std::error::Error + Send + Sync>| {
        if error.is::<LengthLimitError>() {
            Fault::Garbled(format!("it has more than {limit} bytes"))
        } else {
            Fault::Connection(error.to_string())
        }
    };
    Ok(body.map_err(broken)?.to_bytes())
}

/// What an answer means that is no success.
pub(super) async fn refusal(response: Response<Body>, silence: Duration) -> Fault {
    let status = response.status();
    let retry_after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(|seconds: u64| Duration::from_secs(seconds.min(LONGEST_RETRY_AFTER)));
    let said = whole(response, 64 << 10, silence).await.ok();
    let said: ApiStatus = said.and_then(|said| serde_json::from_slice(&said).ok()).unwrap_or_default();
    said.into_fault(status, retry_after)
}
