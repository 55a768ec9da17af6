//! Renders the page, one snapshot at a time. Only blocks that changed since the last page are rendered again.

use std::{collections::HashMap, sync::Arc};

use prometheus_client::registry::Registry;
use tokio::sync::Mutex;

use super::{
    aggregates,
    catalog::{BLIND, DRIFTED, EPISODES, FIELDS, HEALTH, ONSET},
    fragment::{Deflater, Encoding, Fragment, Page},
    lines::BlockLines,
    process::render_registry,
    text::Format,
};
use crate::{
    config::{Settings, ShownLabel},
    engine::{ClaimBlock, KindState, Snapshot},
    server::{Exposed, Metric},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetricsOptions {
    /// The limit on series of single objects; series of drifted objects come first.
    pub(super) max_series: usize,
    /// No series for objects that do not drift.
    pub(super) only_drifted: bool,
    pub(super) health: bool,
    /// Object labels that become series labels.
    pub(super) labels: Arc<[ShownLabel]>,
}

/// The pages of the newest snapshot that was scraped, and the metrics of the exporter itself.
#[derive(Debug)]
pub struct MetricsPage {
    registry: Registry,
    /// The scrape that renders owns the cache; all others wait for it without a thread.
    cache: Arc<Mutex<PageCache>>,
}

#[derive(Debug, Default)]
struct PageCache {
    options: Option<MetricsOptions>,
    /// By index of kind and block, with the version of the block.
    blocks: HashMap<(usize, usize), (u64, Arc<BlockLines>)>,
    /// The pages that were requested, with the sequence numbers of their snapshots.
    pages: HashMap<Variant, (u64, Arc<Page>)>,
}

type Variant = (Format, Encoding);

impl MetricsOptions {
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
    /// `registry` holds the metrics of the exporter itself.
    pub fn new(registry: Registry) -> Self {
        Self { registry, cache: Arc::default() }
    }

    /// A page that is at least as new as the newest snapshot now. Scrapes that arrive while one is rendered share the next.
    pub(super) async fn page(&self, exposed: &Exposed, variant: Variant) -> Arc<Page> {
        let arrived = exposed.state.snapshot().sequence;
        let mut cache = self.cache.clone().lock_owned().await;
        let options = MetricsOptions::of(&exposed.settings());
        if let Some(page) = cache.page(arrived, &options, variant) {
            return page;
        }
        let snapshot = exposed.state.snapshot();
        // The cache moves into the work, so a client that disconnects neither stops nor repeats it.
        exposed.blocking.run_now(move || cache.render(arrived, &snapshot, &options, variant)).await
    }

    /// The end of a page: metrics that change without a snapshot.
    pub(super) fn exporter_metrics(&self, format: Format) -> String {
        render_registry(&self.registry, format) + format.end()
    }
}

impl PageCache {
    /// A cached page of a snapshot that is at least as new as `sequence`.
    fn page(&self, sequence: u64, options: &MetricsOptions, variant: Variant) -> Option<Arc<Page>> {
        let (rendered, page) = self.pages.get(&variant)?;
        (*rendered >= sequence && self.options.as_ref() == Some(options)).then(|| page.clone())
    }

    /// Renders for a scrape that arrived at `sequence`. Drops older pages: scrapes that arrived earlier have theirs.
    fn render(
        &mut self,
        sequence: u64,
        snapshot: &Snapshot,
        options: &MetricsOptions,
        variant: Variant,
    ) -> Arc<Page> {
        if self.options.as_ref() != Some(options) {
            *self = Self { options: Some(options.clone()), ..Self::default() };
        }
        self.pages.retain(|_, (rendered, _)| *rendered >= sequence);
        let mut blocks = self.refresh(snapshot, options);
        let dropped = within_limit(&mut blocks, options);
        let page = Arc::new(assemble(snapshot, &blocks, dropped, variant));
        self.pages.insert(variant, (snapshot.sequence, page.clone()));
        page
    }

    /// The lines of all blocks. Renders new and changed blocks, and drops those that no longer exist.
    fn refresh<'a>(&mut self, snapshot: &'a Snapshot, options: &MetricsOptions) -> Vec<PageBlock<'a>> {
        let mut cached = std::mem::take(&mut self.blocks);
        let mut all = Vec::new();
        for (kind, state) in snapshot.kinds.iter().enumerate() {
            for (index, block) in state.blocks.blocks().iter().enumerate() {
                let version = block.version();
                let lines = match cached.remove(&(kind, index)) {
                    Some((cached, lines)) if cached == version => lines,
                    Some(_) | None => Arc::new(BlockLines::render(block.entries(), options)),
                };
                self.blocks.insert((kind, index), (version, lines.clone()));
                let drifting = lines.clone();
                all.push(PageBlock { state, block, lines, drifting, clean: false, health: false });
            }
        }
        all
    }
}

/// Concatenates the metric families; the format requires the lines of a family to be contiguous.
fn assemble(
    snapshot: &Snapshot,
    blocks: &[PageBlock<'_>],
    dropped: usize,
    (format, encoding): Variant,
) -> Page {
    let (mut page, mut deflater) = (Page::new(encoding), Deflater::default());
    let header = |metric: &Metric| Fragment::new(format.header(metric));
    page.push(&header(&DRIFTED), &mut deflater);
    for block in blocks {
        page.push(&block.drifting.drifted.fragment, &mut deflater);
        if block.clean {
            page.push(&block.lines.clean.fragment, &mut deflater);
        }
    }
    for (metric, lines) in [
        (&ONSET, (|lines| &lines.onset.fragment) as fn(&BlockLines) -> &Fragment),
        (&FIELDS, |lines| &lines.fields.fragment),
        (&BLIND, |lines| &lines.blind.fragment),
        (&EPISODES, |lines| &lines.episodes.fragment),
    ] {
        page.push(&header(metric), &mut deflater);
        for block in blocks {
            page.push(lines(&block.drifting), &mut deflater);
        }
    }
    if blocks.iter().any(|block| block.lines.health.count > 0) {
        page.push(&header(&HEALTH), &mut deflater);
        for block in blocks.iter().filter(|block| block.health) {
            page.push(&block.lines.health.fragment, &mut deflater);
        }
    }
    let blocks = blocks.iter().map(|block| (block.state, block.block, &*block.lines));
    let rest = aggregates::families(snapshot, blocks, dropped);
    let rest: String = rest.into_iter().map(|(metric, lines)| format.header(metric) + &lines).collect();
    page.push(&Fragment::new(rest), &mut deflater);
    page
}

struct PageBlock<'a> {
    state: &'a KindState,
    block: &'a ClaimBlock,
    /// All lines; counts by verdict always come from here.
    lines: Arc<BlockLines>,
    /// The lines of drifted objects, as many as fit.
    drifting: Arc<BlockLines>,
    clean: bool,
    health: bool,
}

/// Drifted objects come first; the remaining room goes, block by block, to clean objects and to health. Returns the number
/// of series that the limit leaves out.
fn within_limit(blocks: &mut [PageBlock<'_>], options: &MetricsOptions) -> usize {
    let (mut room, mut dropped) = (options.max_series, 0);
    for block in &mut *blocks {
        let series = block.lines.drifting();
        if series > room {
            block.drifting = Arc::new(BlockLines::first_drifting(block.block, options, room));
        }
        room -= block.drifting.drifting();
        dropped += series - block.drifting.drifting();
    }
    let mut fits = |series: usize| {
        let fits = series <= room;
        room -= if fits { series } else { 0 };
        dropped += if fits { 0 } else { series };
        fits
    };
    for block in blocks {
        block.clean = !options.only_drifted && fits(block.lines.clean.count);
        block.health = fits(block.lines.health.count);
    }
    dropped
}
