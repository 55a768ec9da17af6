//! `GET /metrics`: content negotiation and the response body.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http::{
    HeaderMap,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, VARY},
};

use super::{fragment::Encoding, text::Format};
use crate::server::Exposed;

/// A scrape never waits for the API server, and never blocks the engine or a thread that serves requests.
pub(crate) async fn metrics(State(exposed): State<Arc<Exposed>>, headers: HeaderMap) -> Response {
    let (format, encoding) = (accepted_format(&headers), accepted_encoding(&headers));
    let page = exposed.metrics.page(&exposed, (format, encoding)).await;
    let end = {
        let (exposed, page) = (exposed.clone(), page.clone());
        let pool = exposed.blocking.clone();
        pool.run_now(move || page.end(exposed.metrics.exporter_metrics(format))).await
    };
    let length = page.fragments().iter().map(Bytes::len).sum::<usize>() + end.len();
    let fragments = (0..page.fragments().len()).map(move |at| page.fragments()[at].clone()).chain([end]);
    let body = Body::from_stream(stream::iter(fragments.map(Ok::<_, Infallible>)));
    let headers = [(CONTENT_TYPE, format.content_type()), (VARY, "accept, accept-encoding")];
    let gzip = (encoding == Encoding::Gzip).then_some([(CONTENT_ENCODING, "gzip")]);
    ([(CONTENT_LENGTH, length.to_string())], headers, gzip, body).into_response()
}

/// The accepted format of the highest quality; text 0.0.4 without an `Accept` header.
fn accepted_format(headers: &HeaderMap) -> Format {
    let mut best = (Format::Text, 0.0);
    for (range, parameters, quality) in ranges(headers, ACCEPT) {
        let version = parameters.iter().find_map(|parameter| parameter.strip_prefix("version="));
        let format = match (range.as_str(), version) {
            ("application/openmetrics-text", None | Some("1.0.0" | "0.0.1")) => Format::OpenMetrics,
            ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => Format::Text,
            _ => continue,
        };
        if quality > best.1 {
            best = (format, quality);
        }
    }
    best.0
}

/// `gzip` itself takes precedence over `*`.
fn accepted_encoding(headers: &HeaderMap) -> Encoding {
    let quality = |name| ranges(headers, ACCEPT_ENCODING).find(|(encoding, ..)| encoding == name);
    match quality("gzip").or_else(|| quality("*")) {
        Some((_, _, quality)) if quality > 0.0 => Encoding::Gzip,
        Some(_) | None => Encoding::Identity,
    }
}

/// The members of a header: range, parameters, quality.
fn ranges(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = (String, Vec<String>, f32)> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|member| {
        let mut parts = member.split(';').map(|part| part.trim().to_ascii_lowercase());
        let range = parts.next().unwrap_or_default();
        let (quality, parameters): (Vec<_>, Vec<_>) = parts.partition(|part| part.starts_with("q="));
        let quality = quality.first().map_or(Some(1.0), |quality| quality[2..].parse().ok()).unwrap_or(0.0);
        (range, parameters, quality)
    })
}
