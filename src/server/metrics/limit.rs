//! Which lines a page shows when there are more than it may.

use std::sync::Arc;

use super::{MetricsOptions, fragment::Deflater, lines::BlockLines};
use crate::engine::{Block, KindState};

/// A block with its lines.
pub(super) struct Rendered<'a> {
    pub(super) state: &'a KindState,
    pub(super) block: &'a Block,
    pub(super) lines: Arc<BlockLines>,
}

/// What is shown of all blocks.
pub(super) struct Shown<'a> {
    pub(super) blocks: Vec<ShownBlock<'a>>,
    /// How many series are left out because of the limit.
    pub(super) dropped: usize,
}

/// What is shown of one block.
pub(super) struct ShownBlock<'a> {
    pub(super) state: &'a KindState,
    pub(super) block: &'a Block,
    /// All its lines; counts by verdict always come from here.
    pub(super) lines: Arc<BlockLines>,
    /// Its lines about objects that drift: all of them, or as many as there was room for.
    pub(super) drifting: Arc<BlockLines>,
    /// Whether objects that do not drift are shown.
    pub(super) clean: bool,
    /// Whether health is shown.
    pub(super) health: bool,
}

/// Gives the room there is to objects that drift first, then, in whole blocks, to the others and to health.
pub(super) fn within_limit<'a>(
    rendered: Vec<Rendered<'a>>,
    options: &MetricsOptions,
    deflater: &mut Deflater,
) -> Shown<'a> {
    let mut room = options.max_series;
    let mut shown = Shown { blocks: Vec::with_capacity(rendered.len()), dropped: 0 };
    for Rendered { state, block, lines } in rendered {
        let wanted = lines.drifting();
        let drifting = if wanted <= room {
            lines.clone()
        } else {
            Arc::new(BlockLines::first_drifting(block, options, room, deflater))
        };
        room -= drifting.drifting();
        shown.dropped += wanted - drifting.drifting();
        shown.blocks.push(ShownBlock { state, block, lines, drifting, clean: false, health: false });
    }
    let mut fits = |series: usize| {
        let fits = series <= room;
        room -= if fits { series } else { 0 };
        shown.dropped += if fits { 0 } else { series };
        fits
    };
    for block in &mut shown.blocks {
        block.clean = !options.only_drifted && fits(block.lines.clean.count);
        block.health = fits(block.lines.health.count);
    }
    shown
}
