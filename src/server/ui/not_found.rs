//! Paths that there are not.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::{HeaderMap, StatusCode, Uri, header::ACCEPT};
use maud::html;

use super::layout::complaint;
use crate::server::{Exposed, api};

/// Any path that there is not: a page for browsers, a problem for everybody else.
pub(crate) async fn not_found(State(exposed): State<Arc<Exposed>>, headers: HeaderMap, uri: Uri) -> Response {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
    if !accept.contains("text/html") {
        return api::not_found(uri).await;
    }
    let words = html! { "There is no page " code { (uri.path()) } "." };
    complaint(StatusCode::NOT_FOUND, "Nothing is here", exposed.clock.now(), &words)
}
