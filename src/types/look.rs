//! For how long something is looked at.

/// Whether what is there is read once, or followed from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMode {
    /// Lists only; nothing is watched, so the right to list is enough.
    Once,
    /// Whatever changes is told, too.
    #[default]
    SourceContext,
}
