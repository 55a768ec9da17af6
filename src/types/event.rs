//! Everything that can change what we know.

use std::sync::Arc;

use super::{Baseline, LiveObject, Plan, ShortText, Source, WatchSpec, closed_sets::closed_set};

closed_set! {
    /// Why a stream does not work.
    DownReason {
        /// The API server forbids it.
        Forbidden = "forbidden",
        /// The API server does not know the kind.
        NotFound = "not_found",
        /// We do not ask for it: it cannot be watched, or must not be asked for like this.
        Refused = "refused",
        /// The server said nothing for too long.
        Stalled = "stalled",
        /// The server could not be reached, or answered with an error.
        Error = "error",
    }
}

/// How a stream fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchHealth {
    /// The first answer is awaited.
    Starting,
    /// Listed, and changes arrive.
    Up,
    /// Changes do not arrive.
    Down {
        /// The class of what went wrong.
        reason: DownReason,
        /// What the server or the network said.
        message: Box<str>,
    },
}

/// Everything that can change what we know about the cluster.
///
/// Closed on purpose: reading this enum is reading every input of the engine.
#[derive(Debug)]
pub enum Event {
    /// These streams are open from now on, and no others.
    Plan(Arc<Plan>),
    /// A complete list begins; what an unfinished one brought is void.
    ListStarted(Arc<WatchSpec>),
    /// One object of the list under way. It is kept where it is, and not moved about.
    Listed(Arc<WatchSpec>, Arc<LiveObject>),
    /// The list is complete: whatever was not in it is gone.
    ListEnded(Arc<WatchSpec>),
    /// The object exists with this content.
    Applied(Arc<WatchSpec>, Arc<LiveObject>),
    /// The object is gone, or no longer selected.
    Deleted {
        /// The stream that said so.
        stream: Arc<WatchSpec>,
        /// The object's namespace.
        namespace: ShortText,
        /// The object's name.
        name: ShortText,
    },
    /// The stream fares differently from now on.
    WatchHealth(Arc<WatchSpec>, WatchHealth),
    /// A place that declares objects, as it is from now on.
    Baseline(Arc<Baseline>),
    /// A place that declares objects is gone, and what it declared with it.
    BaselineRemoved(Source, Arc<str>),
    /// Whether the places of a source can be found. Up: all that are there have been told of.
    SourceHealth(Source, WatchHealth),
    /// A source is switched off.
    SourceRemoved(Source),
    /// Time has passed.
    Tick,
}
