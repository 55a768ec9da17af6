//! Everything that can change what we know.

use std::sync::Arc;

use super::{Baseline, LiveObject, Plan, ShortText, Source, StreamSpec, closed_sets::closed_set};

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
pub enum StreamHealth {
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
pub enum Change {
    /// These streams are open from now on, and no others.
    Streams(Arc<Plan>),
    /// A complete list begins; what an unfinished one brought is void.
    ListStarted(Arc<StreamSpec>),
    /// One object of the list under way. It is kept where it is, and not moved about.
    Listed(Arc<StreamSpec>, Arc<LiveObject>),
    /// The list is complete: whatever was not in it is gone.
    ListEnded(Arc<StreamSpec>),
    /// The object exists with this content.
    Seen(Arc<StreamSpec>, Arc<LiveObject>),
    /// The object is gone, or no longer selected.
    Gone {
        /// The stream that said so.
        stream: Arc<StreamSpec>,
        /// The object's namespace.
        namespace: ShortText,
        /// The object's name.
        name: ShortText,
    },
    /// The stream fares differently from now on.
    Stream(Arc<StreamSpec>, StreamHealth),
    /// A place that declares objects, as it is from now on.
    Baseline(Arc<Baseline>),
    /// A place that declares objects is gone, and what it declared with it.
    BaselineGone(Source, Arc<str>),
    /// Whether the places of a source can be found. Up: all that are there have been told of.
    Source(Source, StreamHealth),
    /// A source is switched off.
    SourceGone(Source),
    /// Time has passed.
    Tick,
}
