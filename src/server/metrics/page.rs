//! Renders the page. Only blocks that changed since the last scrape are rendered and compressed again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use prometheus_client::registry::Registry;

use super::{
    aggregates,
    catalog::{BLIND, DRIFTED, EPISODES, FIELDS, HEALTH, ONSET},
    fragment::{Deflater, Fragment, Pages},
    lines::BlockLines,
    process::render_registry,
    text::Format,
};
use crate::{
    config::{Settings, ShownLabel},
    engine::{ClaimBlock, KindState, Snapshot},
    server::Metric,
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

/// Renders pages and caches the lines of each block.
#[derive(Debug)]
pub struct MetricsPage {
    registry: Registry,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    options: Option<MetricsOptions>,
    /// By index of kind and block, with the version of the block.
    blocks: HashMap<(usize, usize), (u64, Arc<BlockLines>)>,
    /// The part of the page that comes from the snapshot with this sequence number, in both formats.
    assembled: Option<(u64, [Pages; 2])>,
}

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
        Self { registry, cache: Mutex::default() }
    }

    pub(super) fn render(
        &self,
        snapshot: &Snapshot,
        options: &MetricsOptions,
        format: Format,
        gzip: bool,
    ) -> Vec<Bytes> {
        let mut deflater = Deflater::default();
        let mut pages = self.assembled(snapshot, options, format, &mut deflater);
        let mut exporter = render_registry(&self.registry, format);
        exporter.push_str(format.end());
        if gzip {
            pages.push(&deflater.fragment(exporter));
            pages.gzip()
        } else {
            let mut plain = pages.plain();
            plain.push(exporter.into());
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
        // Only scrapes take this lock, and a scrape that panics leaves at worst an older block.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.options.as_ref() != Some(options) {
            cache.options = Some(options.clone());
            cache.blocks.clear();
            cache.assembled = None;
        }
        let current = cache.assembled.as_ref().is_some_and(|(sequence, _)| *sequence == snapshot.sequence);
        if !current {
            let rendered = cache.refresh(snapshot, options, deflater);
            let content = within_limit(rendered, options, deflater);
            let pages = [Format::Text, Format::OpenMetrics]
                .map(|format| assemble(snapshot, &content, format, &mut *deflater));
            cache.assembled = Some((snapshot.sequence, pages));
        }
        let (_, pages) = cache.assembled.as_ref().expect("assembled above");
        pages[usize::from(format == Format::OpenMetrics)].clone()
    }
}

impl Cache {
    /// The lines of all blocks. Renders new and changed blocks, and drops those that no longer exist.
    fn refresh<'a>(
        &mut self,
        snapshot: &'a Snapshot,
        options: &MetricsOptions,
        deflater: &mut Deflater,
    ) -> Vec<RenderedBlock<'a>> {
        let mut cached = std::mem::take(&mut self.blocks);
        let mut all = Vec::new();
        for (kind, state) in snapshot.kinds.iter().enumerate() {
            for (index, block) in state.blocks.blocks().iter().enumerate() {
                let version = block.version();
                let lines = match cached.remove(&(kind, index)) {
                    Some((cached, lines)) if cached == version => lines,
                    Some(_) | None => Arc::new(BlockLines::render(block.entries(), options, deflater)),
                };
                self.blocks.insert((kind, index), (version, lines.clone()));
                all.push((&**state, &**block, lines));
            }
        }
        all
    }
}

/// Concatenates the metric families; the format requires the lines of a family to be contiguous.
fn assemble(
    snapshot: &Snapshot,
    content: &PageContent<'_>,
    format: Format,
    deflater: &mut Deflater,
) -> Pages {
    let mut pages = Pages::default();
    let mut header =
        |pages: &mut Pages, metric: &Metric| pages.push(&deflater.fragment(format.header(metric)));
    header(&mut pages, &DRIFTED);
    for block in &content.blocks {
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
        for block in &content.blocks {
            pages.push(lines(&block.drifting));
        }
    }
    if content.blocks.iter().any(|block| block.lines.health.count > 0) {
        header(&mut pages, &HEALTH);
        for block in content.blocks.iter().filter(|block| block.health) {
            pages.push(&block.lines.health.fragment);
        }
    }
    let blocks = content.blocks.iter().map(|block| (block.state, block.block, &*block.lines));
    let rest = aggregates::families(snapshot, blocks, content.dropped);
    let rest: String = rest.into_iter().map(|(metric, lines)| format.header(metric) + &lines).collect();
    pages.push(&deflater.fragment(rest));
    pages
}

type RenderedBlock<'a> = (&'a KindState, &'a ClaimBlock, Arc<BlockLines>);

/// The blocks that fit within the limit.
struct PageContent<'a> {
    blocks: Vec<PageBlock<'a>>,
    /// Series that the limit leaves out.
    dropped: usize,
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

/// Drifted objects come first; the remaining room goes, block by block, to clean objects and to health.
fn within_limit<'a>(
    rendered: Vec<RenderedBlock<'a>>,
    options: &MetricsOptions,
    deflater: &mut Deflater,
) -> PageContent<'a> {
    let mut room = options.max_series;
    let mut content = PageContent { blocks: Vec::with_capacity(rendered.len()), dropped: 0 };
    for (state, block, lines) in rendered {
        let series = lines.drifting();
        let drifting = if series <= room {
            lines.clone()
        } else {
            Arc::new(BlockLines::first_drifting(block, options, room, deflater))
        };
        room -= drifting.drifting();
        content.dropped += series - drifting.drifting();
        content.blocks.push(PageBlock { state, block, lines, drifting, clean: false, health: false });
    }
    let mut fits = |series: usize| {
        let fits = series <= room;
        room -= if fits { series } else { 0 };
        content.dropped += if fits { 0 } else { series };
        fits
    };
    for block in &mut content.blocks {
        block.clean = !options.only_drifted && fits(block.lines.clean.count);
        block.health = fits(block.lines.health.count);
    }
    content
}
