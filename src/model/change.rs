//! Everything that can change what we know.

use std::{fmt, sync::Arc};

use super::{Kind, LiveObject, closed_sets::closed_set};
use crate::rules::RuleSet;

/// One open watch: a distinct kind, namespace scope and selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamSpec {
    /// What is watched.
    pub kind: Arc<Kind>,
    /// The one namespace that is watched, or all of them.
    pub namespace: Option<Box<str>>,
    /// The label selector that the API server applies.
    pub selector: Option<Box<str>>,
}

closed_set! {
    /// Why a stream does not work.
    DownReason {
        /// The API server forbids it.
        Forbidden = "forbidden",
        /// The API server does not know the kind.
        NotFound = "not_found",
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
    /// A complete list begins; what an unfinished one brought is void.
    ListStarted(Arc<StreamSpec>),
    /// One object of the list under way.
    Listed(Arc<StreamSpec>, Box<LiveObject>),
    /// The list is complete: whatever was not in it is gone.
    ListEnded(Arc<StreamSpec>),
    /// The object exists with this content.
    Seen(Arc<StreamSpec>, Box<LiveObject>),
    /// The object is gone, or no longer selected.
    Gone {
        /// The stream that said so.
        stream: Arc<StreamSpec>,
        /// The object's namespace.
        namespace: Box<str>,
        /// The object's name.
        name: Box<str>,
    },
    /// The stream fares differently from now on.
    Stream(Arc<StreamSpec>, StreamHealth),
    /// These rules hold from now on, for everything that is known already too.
    Rules(Arc<RuleSet>),
    /// Time has passed.
    Tick,
}

impl StreamSpec {
    /// The `scope` label: the namespace, or empty for all of them.
    pub fn scope(&self) -> &str {
        self.namespace.as_deref().unwrap_or("")
    }

    /// Whether objects of this namespace come through this stream.
    pub fn covers(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }
}

impl fmt::Display for StreamSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.kind)?;
        match &self.namespace {
            Some(namespace) => write!(formatter, " in {namespace}"),
            None => Ok(()),
        }
    }
}
