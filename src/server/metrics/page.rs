//! The page: only blocks that changed since the last scrape are rendered and compressed again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use prometheus_client::registry::Registry;

use super::{
    aggregates,
    catalog::{
        ACTORS, AGES, BLIND, CACHE, DETECTIONS, DRIFTED, DROPPED, EPISODES, FIELDS, HEALTH, JOB_DURATION,
        JOB_RESULT, JOB_START, ONSET, RESOLUTIONS, RESOURCES, RULE_EXPIRY, RULE_MATCHES, SOURCE_UP,
        STATE_LOCK, STATE_READABLE, STATE_RESOURCES, STATE_SERIAL, STATE_WRITTEN, STREAM_UP,
    },
    fragment::{Deflater, Fragment, Pages},
    jobs,
    limit::{Rendered, Shown, within_limit},
    lines::BlockLines,
    registry, states,
    text::{Format, line},
};
use crate::{
    config::{Settings, ShownLabel},
    engine::Snapshot,
    server::{Metric, query::Runs},
};

/// What the page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetricsOptions {
    /// At most this many series of single objects; those of drifted objects come first.
    pub(super) max_series: usize,
    /// Whether objects that do not drift have a series at all.
    pub(super) only_drifted: bool,
    /// Whether `drift_resource_health` is there.
    pub(super) health: bool,
    /// Labels of objects that their series have too.
    pub(super) labels: Arc<[ShownLabel]>,
}

/// Makes pages and remembers what can be used again.
#[derive(Debug)]
pub struct MetricsPage {
    registry: Registry,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    /// What the rest was made for.
    options: Option<MetricsOptions>,
    /// By kind and place of the block; the version says whether it is still the same.
    blocks: HashMap<(usize, usize), (u64, Arc<BlockLines>)>,
    /// The part of the page that comes from the snapshot of this sequence number, in both formats.
    assembled: Option<(u64, [Pages; 2])>,
}

impl MetricsOptions {
    /// What the settings say about the page.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            max_series: settings.max_series,
            only_drifted: settings.only_drifted,
            health: settings.health_series,
            labels: settings.shown_labels.clone(),
        }
    }
}

impl MetricsPage {
    /// A page whose own metrics come from this registry.
    pub fn new(registry: Registry) -> Self {
        Self { registry, cache: Mutex::default() }
    }

    /// The bytes of the page.
    pub(super) fn render(
        &self,
        snapshot: &Snapshot,
        options: &MetricsOptions,
        format: Format,
        gzip: bool,
    ) -> Vec<Bytes> {
        let mut deflater = Deflater::default();
        let mut pages = self.assembled(snapshot, options, format, &mut deflater);
        let mut own = registry::render(&self.registry, format);
        own.push_str(format.end());
        if gzip {
            pages.push(&deflater.fragment(own));
            pages.gzip()
        } else {
            let mut plain = pages.plain();
            plain.push(own.into());
            plain
        }
    }

    fn assembled(
        &self,
        snapshot: &Snapshot,
        options: &MetricsOptions,
        format: Format,
        deflater: &mut Deflater,
    ) -> Pages {
        // Nobody but scrapes takes this lock, and a scrape that panicked leaves at worst an older block behind.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.options.as_ref() != Some(options) {
            cache.options = Some(options.clone());
            cache.blocks.clear();
            cache.assembled = None;
        }
        let current = cache.assembled.as_ref().is_some_and(|(sequence, _)| *sequence == snapshot.sequence);
        if !current {
            let rendered = cache.refresh(snapshot, options, deflater);
            let shown = within_limit(rendered, options, deflater);
            let pages = [Format::Text, Format::OpenMetrics]
                .map(|format| assemble(snapshot, &shown, format, &mut *deflater));
            cache.assembled = Some((snapshot.sequence, pages));
        }
        let (_, pages) = cache.assembled.as_ref().expect("it was just put there");
        pages[usize::from(format == Format::OpenMetrics)].clone()
    }
}

impl Cache {
    /// All blocks of all kinds, rendering those that are new or changed and forgetting those that are gone.
    fn refresh<'a>(
        &mut self,
        snapshot: &'a Snapshot,
        options: &MetricsOptions,
        deflater: &mut Deflater,
    ) -> Vec<Rendered<'a>> {
        let mut old = std::mem::take(&mut self.blocks);
        let mut all = Vec::new();
        for (kind, state) in snapshot.kinds.iter().enumerate() {
            for (place, block) in state.blocks.blocks().iter().enumerate() {
                let version = block.version();
                let lines = match old.remove(&(kind, place)) {
                    Some((known, lines)) if known == version => lines,
                    Some(_) | None => Arc::new(BlockLines::render(block.entries(), options, deflater)),
                };
                self.blocks.insert((kind, place), (version, lines.clone()));
                all.push(Rendered { state, block, lines });
            }
        }
        all
    }
}

/// Puts the families one after the other; the lines of a family stand together.
fn assemble(snapshot: &Snapshot, shown: &Shown<'_>, format: Format, deflater: &mut Deflater) -> Pages {
    let mut pages = Pages::default();
    let mut header =
        |pages: &mut Pages, metric: &Metric| pages.push(&deflater.fragment(format.header(metric)));
    header(&mut pages, &DRIFTED);
    for block in &shown.blocks {
        pages.push(&block.drifting.drifted.fragment);
        if block.clean {
            pages.push(&block.lines.clean.fragment);
        }
    }
    for (metric, lines) in [
        (&ONSET, (|lines| &lines.onset.fragment) as fn(&BlockLines) -> &Fragment),
        (&FIELDS, |lines| &lines.fields.fragment),
        (&BLIND, |lines| &lines.blind.fragment),
        (&EPISODES, |lines| &lines.episodes.fragment),
    ] {
        header(&mut pages, metric);
        for block in &shown.blocks {
            pages.push(lines(&block.drifting));
        }
    }
    if shown.blocks.iter().any(|block| block.lines.health.count > 0) {
        header(&mut pages, &HEALTH);
        for block in shown.blocks.iter().filter(|block| block.health) {
            pages.push(&block.lines.health.fragment);
        }
    }
    let (ledger, runs) = (&snapshot.ledger, Runs::of(snapshot));
    let mut dropped = String::new();
    line(&mut dropped, DROPPED.name, &[], shown.dropped);
    let rest = [
        (
            &RESOURCES,
            aggregates::resources(shown.blocks.iter().map(|shown| (shown.state, shown.block, &*shown.lines))),
        ),
        (&DETECTIONS, aggregates::detections(ledger)),
        (&ACTORS, aggregates::actors(ledger)),
        (&RESOLUTIONS, aggregates::resolutions(ledger)),
        (&AGES, aggregates::ages(ledger)),
        (&STATE_SERIAL, states::serials(snapshot)),
        (&STATE_RESOURCES, states::resources(snapshot)),
        (&STATE_WRITTEN, states::last_writes(snapshot)),
        (&STATE_READABLE, states::readable(snapshot)),
        (&STATE_LOCK, states::locks(snapshot)),
        (&JOB_RESULT, jobs::results(&runs)),
        (&JOB_START, jobs::starts(&runs)),
        (&JOB_DURATION, jobs::durations(&runs)),
        (&SOURCE_UP, states::sources(snapshot)),
        (&STREAM_UP, aggregates::streams(snapshot)),
        (&CACHE, aggregates::cache(snapshot)),
        (&RULE_MATCHES, aggregates::rule_matches(snapshot)),
        (&RULE_EXPIRY, aggregates::rule_expiries(snapshot)),
        (&DROPPED, dropped),
    ];
    let rest: String = rest.into_iter().map(|(metric, lines)| format.header(metric) + &lines).collect();
    pages.push(&deflater.fragment(rest));
    pages
}
