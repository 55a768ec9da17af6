//! The page of sources: where baselines come from, how old they are, who holds them, and what is wrong with them.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use http::StatusCode;
use maud::{Markup, html};

use super::{
    bar::bar,
    glance::coverage,
    layout::{Place, page},
    rows::{Counts, Overview},
    settings::settings_banner,
    states::{state_banner, states},
    streams::{banner, state_of},
};
use crate::{
    engine::{KindState, Snapshot},
    server::{Exposed, access::Caller},
    types::{Source, WatchHealth},
};

/// `GET /sources`.
pub(crate) async fn sources(State(exposed): State<Arc<Exposed>>, caller: Caller) -> Response {
    let now = exposed.clock.now();
    let snapshot = caller.snapshot();
    let main = html! {
        main.sources {
            @if caller.sees_everything() {
                (settings_banner(&exposed.reload_status.borrow(), &exposed.team_problems.borrow(), now))
            }
            (banner(&snapshot))
            (state_banner(&snapshot))
            h1 { "Sources" }
            (switched_on(&exposed.settings().sources, &snapshot))
            (states(&snapshot, now))
            (streams(&snapshot))
        }
    };
    page(StatusCode::OK, "Sources", Some(Place::Sources), now, &main)
}

/// Every source that is switched on, and any that still claims something.
fn switched_on(wanted: &[Source], snapshot: &Snapshot) -> Markup {
    let counts = Overview::by_source(snapshot);
    let shown = Source::ALL.iter().filter(|own| wanted.contains(own) || counts.contains_key(own));
    let places = snapshot.baselines.iter().fold(BTreeMap::<Source, usize>::new(), |mut places, own| {
        *places.entry(own.baseline.source).or_default() += 1;
        places
    });
    html! {
        section #switched-on data-live {
            div.scroll {
                table.cards {
                    caption { "Where baselines come from" }
                    thead { tr { @for head in ["Source", "Reads", "State", "Baselines", "Objects"] { th scope="col" { (head) } } } }
                    tbody {
                        @for source in shown {
                            tr {
                                th scope="row" data-label="Source" { a href={ "/?source=" (source) } { (source) } }
                                td data-label="Reads" { (reads(*source)) }
                                td data-label="State" { (health_of(*source, snapshot)) }
                                td data-label="Baselines" {
                                    @match places.get(source) {
                                        Some(number) => (number),
                                        None => "–",
                                    }
                                }
                                td data-label="Objects" { (objects(counts.get(source))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn objects(counts: Option<&Counts>) -> Markup {
    html! {
        @match counts {
            Some(counts) => { (bar(counts)) span.detail { (coverage(counts)) } }
            None => { "none" }
        }
    }
}

fn health_of(source: Source, snapshot: &Snapshot) -> Markup {
    html! {
        @match snapshot.sources.get(&source) {
            Some(WatchHealth::Up) => "found",
            Some(WatchHealth::Starting) => "being looked for",
            Some(WatchHealth::Down { reason, message }) => { strong.off { (reason) } span.detail { (message) } }
            None => "with the objects",
        }
    }
}

fn reads(source: Source) -> &'static str {
    match source {
        Source::Annotation => "a hash in an annotation of the object",
        Source::Terraform => "Terraform and OpenTofu states",
        Source::Helm => "deployed Helm releases",
        Source::LastApplied => "what kubectl applied last",
        Source::Manifest => "directories of YAML",
        Source::StatusHash => "what controllers record in the status",
        Source::Nothing => "nothing: watched, and declared by no source",
    }
}

/// Every open watch.
fn streams(snapshot: &Snapshot) -> Markup {
    html! {
        section #streams data-live {
            div.scroll {
                table.cards {
                    caption { "Streams: the open watches" }
                    thead { tr { @for head in ["Stream", "Selector", "Objects", "State"] { th scope="col" { (head) } } } }
                    tbody {
                        @for kind in &snapshot.kinds {
                            @for (stream, objects) in kind.streams.iter().zip(brought(kind)) {
                                tr {
                                    th scope="row" data-label="Stream" { (stream.spec) }
                                    td data-label="Selector" {
                                        @match &stream.spec.selector {
                                            Some(selector) => code { (selector) },
                                            None => "none",
                                        }
                                    }
                                    td data-label="Objects" { (objects) }
                                    td data-label="State" { (state_of(stream)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How many objects each stream of a kind brings. Neighbours mostly come through the same one.
fn brought(kind: &KindState) -> Vec<usize> {
    let mut counts = vec![0; kind.streams.len()];
    let mut last = 0;
    for object in kind.blocks.objects() {
        let brings = |at: &usize| kind.streams[*at].spec.brings(&object.key.namespace, &object.key.name);
        let candidates = (last..kind.streams.len()).chain(0..last);
        if let Some(at) = candidates.into_iter().find(brings) {
            (counts[at], last) = (counts[at] + 1, at);
        }
    }
    counts
}
