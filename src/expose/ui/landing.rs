//! The landing page: what this is, how it fares, where to go.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::State,
    response::{Html, IntoResponse, Response},
};
use http::{
    HeaderValue,
    header::{CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS},
};
use maud::{DOCTYPE, Markup, html};

use crate::{expose::Exposed, model::StreamHealth, state::Snapshot};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;\
    color-scheme:light dark}table{border-collapse:collapse}td,th{padding:.2rem 1rem .2rem 0;text-align:left}\
    .n{text-align:right;font-variant-numeric:tabular-nums}";

/// `GET /`.
pub(crate) async fn landing(State(exposed): State<Arc<Exposed>>) -> Response {
    let page = page(&exposed.state.snapshot()).into_string();
    let mut response = Html(page).into_response();
    // The one style sheet stands in the page; nothing else may be loaded or run.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn page(snapshot: &Snapshot) -> Markup {
    let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
    for state in &snapshot.kinds {
        for entry in state.blocks.entries() {
            *verdicts.entry(state.shown_verdict(entry).0.as_str()).or_default() += 1;
        }
    }
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "drift-exporter" }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                h1 { "drift-exporter " (env!("CARGO_PKG_VERSION")) }
                p { "Tells Prometheus which Kubernetes objects differ from what was declared." }
                h2 { "Objects by verdict" }
                table {
                    @for (verdict, count) in &verdicts {
                        tr { th scope="row" { (verdict) } td.n { (count) } }
                    }
                    @if verdicts.is_empty() { tr { td { "No object is known yet." } } }
                }
                h2 { "Streams" }
                table {
                    @for stream in snapshot.streams() {
                        tr {
                            th scope="row" { (stream.spec) }
                            td {
                                @match &stream.health {
                                    StreamHealth::Starting => "starting",
                                    StreamHealth::Up => "up",
                                    StreamHealth::Down { reason, message } => { "down (" (reason) "): " (message) }
                                }
                            }
                        }
                    }
                }
                h2 { "Paths" }
                ul {
                    li { a href="/metrics" { "/metrics" } " – for Prometheus" }
                    li { a href="/v1/resources?namespace=*" { "/v1/resources?namespace=*" } " – every object as JSON" }
                    li { a href="/v1/history" { "/v1/history" } " – the last changes of verdict" }
                    li { a href="/readyz" { "/readyz" } ", " a href="/livez" { "/livez" } " – probes" }
                }
            }
        }
    }
}
