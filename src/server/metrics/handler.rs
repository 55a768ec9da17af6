//! `GET /metrics`.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{body::Body, extract::State, response::Response};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue,
    header::{CONTENT_ENCODING, CONTENT_TYPE, VARY},
};
use http_body::{Frame, SizeHint};

use super::{MetricsOptions, negotiate};
use crate::server::Exposed;

/// Answers a scrape. It never waits for Kubernetes and never holds up the engine.
pub(crate) async fn metrics(State(exposed): State<Arc<Exposed>>, headers: HeaderMap) -> Response {
    let format = negotiate::format(&headers);
    let gzip = negotiate::takes_gzip(&headers);
    let snapshot = exposed.state.snapshot();
    let options = MetricsOptions::of(&exposed.settings());
    let pieces = exposed.metrics.render(&snapshot, &options, format, gzip);
    let mut response = Response::new(Body::new(Pieces::new(pieces)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// A body of finished pieces: nothing is copied, and its length is known.
struct Pieces {
    rest: std::vec::IntoIter<Bytes>,
    left: u64,
}

impl Pieces {
    fn new(pieces: Vec<Bytes>) -> Self {
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { rest: pieces.into_iter(), left }
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.rest.next().map(|piece| {
            self.left -= piece.len() as u64;
            Ok(Frame::data(piece))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
