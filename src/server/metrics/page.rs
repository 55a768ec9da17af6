//! Renders the page, one snapshot at a time. Only blocks that changed since the last page are rendered again.

use std::{collections::HashMap, sync::Arc};

use prometheus_client::registry::Registry;
use tokio::sync::Mutex;

use super::{
    aggregates,
    catalog::{BLIND, DRIFTED, EPISODES, FIELDS, HEALTH, ONSET},
    fragment::{Deflater, Encoding, Fragment, Page},
    limit::{exceeds_namespace_limit, select},
    lines::BlockLines,
    process::render_registry,
    text::Format,
};
use crate::{
    config::{Settings, ShownLabel},
    engine::{ClaimBlock, ClaimEntry, KindState, Snapshot},
    server::{Exposed, Metric},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetricsOptions {
    /// The limit on series of single objects; series of drifted objects come first.
    pub(super) max_series: usize,
    /// The limit on series about the claims of one namespace.
    pub(super) max_namespace_series: usize,
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
            max_namespace_series: settings.limits.namespace.series,
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
        let page = Arc::new(assemble(snapshot, &blocks, dropped, options, variant));
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
                let shown = lines.clone();
                all.push(PageBlock { state, block, lines, shown });
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
    options: &MetricsOptions,
    (format, encoding): Variant,
) -> Page {
    let (mut page, mut deflater) = (Page::new(encoding), Deflater::default());
    let header = |metric: &Metric| Fragment::new(format.header(metric));
    page.push(&header(&DRIFTED), &mut deflater);
    for block in blocks {
        page.push(&block.shown.drifted.fragment, &mut deflater);
        if !options.only_drifted {
            page.push(&block.shown.clean.fragment, &mut deflater);
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
            page.push(lines(&block.shown), &mut deflater);
        }
    }
    if blocks.iter().any(|block| block.lines.health.count > 0) {
        page.push(&header(&HEALTH), &mut deflater);
        for block in blocks {
            page.push(&block.shown.health.fragment, &mut deflater);
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
    /// The lines within the limit.
    shown: Arc<BlockLines>,
}

/// Selects the series within the limit. Returns the number of series that it leaves out.
fn within_limit(blocks: &mut [PageBlock<'_>], options: &MetricsOptions) -> usize {
    let series =
        |blocks: &[PageBlock<'_>]| -> usize { blocks.iter().map(|block| block.shown.series(options)).sum() };
    let all = series(blocks);
    if all <= options.max_series.min(options.max_namespace_series) {
        return 0;
    }
    let entries = || blocks.iter().flat_map(|block| block.block.entries()).map(|entry| &**entry);
    if all <= options.max_series && !exceeds_namespace_limit(entries(), options) {
        return 0;
    }
    let entries: Vec<&ClaimEntry> = entries().collect();
    let selections = select(&entries, options);
    let mut selections = selections.as_slice();
    for block in &mut *blocks {
        let entries = block.block.entries();
        let (own, others) = selections.split_at(entries.len());
        selections = others;
        block.shown = Arc::new(BlockLines::render_selected(entries.iter().zip(own), options));
    }
    all - series(blocks)
}
