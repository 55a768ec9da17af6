//! Answers as JSON, and what spares sending them again.

use std::{
    fmt::Write as _,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderValue, StatusCode, Uri,
    header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS},
};
use serde::Serialize;

use crate::{
    config::Prices,
    engine::Snapshot,
    server::{Exposed, access::Caller},
};

/// A JSON answer that no browser takes for anything else.
pub(super) fn json(body: &impl Serialize) -> Response {
    plain(Json(body).into_response())
}

/// The same answer, which no browser takes for anything but what it says it is.
pub(super) fn plain(mut response: Response) -> Response {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Stands for all that an answer is made from. The time at which it was checked is not part of it, so it is a weak one.
#[derive(Debug)]
pub(super) struct Tag(HeaderValue);

impl Tag {
    /// The tag of an answer to this question. Two callers have different ones where they see different namespaces.
    pub(super) fn new(
        exposed: &Exposed,
        caller: &Caller,
        snapshot: &Snapshot,
        prices: Option<&Prices>,
        asked: &Uri,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        (snapshot.edition, caller.values().are_full(), asked).hash(&mut hasher);
        for state in &snapshot.kinds {
            state.kind.hash(&mut hasher);
            state.blocks.namespaces().for_each(|namespace| namespace.hash(&mut hasher));
        }
        if let Some(prices) = prices {
            let Prices { currency, cpu_core_hour, memory_gib_hour, storage_gib_month, load_balancer_hour } =
                prices;
            currency.hash(&mut hasher);
            for price in [cpu_core_hour, memory_gib_hour, storage_gib_month, load_balancer_hour] {
                price.to_bits().hash(&mut hasher);
            }
        }
        // Every process has a key of its own, so what an earlier one answered is never taken for what this one would.
        let mut text = format!("W/\"{}-", exposed.seal_key.id());
        write!(text, "{:016x}\"", hasher.finish()).expect("writing to a string cannot fail");
        Self(HeaderValue::from_str(&text).expect("hex digits can stand in a header"))
    }

    /// The answer, unless the caller has it already.
    pub(super) async fn unless_known(
        self,
        headers: &HeaderMap,
        answer: impl Future<Output = Response>,
    ) -> Response {
        let known = Known::of(headers);
        let mut response =
            if known.has(&self) { StatusCode::NOT_MODIFIED.into_response() } else { answer.await };
        if known.any && response.status().is_success() {
            response = StatusCode::NOT_MODIFIED.into_response();
        }
        if response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED {
            response.headers_mut().insert(ETAG, self.0);
            // To be kept by whom it was sent to, and asked about before it is used again.
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        }
        response
    }
}

/// What a caller says that he has.
struct Known<'a> {
    tags: Vec<&'a str>,
    /// Whether he has any answer, and wants another one only where there is none: that is known when it was made.
    any: bool,
}

impl<'a> Known<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let tags: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
        Self { any: tags.contains(&"*"), tags }
    }

    fn has(&self, tag: &Tag) -> bool {
        let own = tag.0.to_str().unwrap_or_default().trim_start_matches("W/");
        self.tags.iter().any(|tag| tag.trim_start_matches("W/") == own)
    }
}
