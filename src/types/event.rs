//! The inputs of the engine: watch events, baselines, the watch plan and its health.

use std::{fmt, sync::Arc};

use super::{
    Baseline, Kind, LiveObject, NameSet, Scope, Selector, Served, ShortText, Source, closed_sets::closed_set,
};

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

/// Which streams are to be open, and what is wanted and cannot be watched. The streams of one kind never overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The streams, in the order of their kinds' names.
    pub streams: Vec<Arc<WatchSpec>>,
    /// What is wanted and cannot be watched now.
    pub unwatched: Vec<Unwatched>,
    /// What the API server has, once it was asked.
    pub served: Option<Arc<Served>>,
}

/// Something that is wanted and cannot be watched now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwatched {
    /// The kind, as far as it is known; its stream has no objects.
    pub spec: Arc<WatchSpec>,
    /// Why it cannot be watched.
    pub health: WatchHealth,
}

impl Plan {
    /// Whether the API server is known not to have this kind.
    pub fn lacks(&self, kind: &Kind) -> bool {
        self.served.as_ref().is_some_and(|served| !served.has(kind))
    }

    /// Whether some stream of this kind is to be open, in whatever version.
    pub fn watches(&self, kind: &Kind) -> bool {
        self.streams.iter().any(|spec| spec.kind.is_same_type(kind))
    }
}

/// One open watch: what the API server is asked for, and what of it is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchSpec {
    /// What is watched.
    pub kind: Arc<Kind>,
    /// The one namespace that is watched, or all of them.
    pub namespace: Option<Box<str>>,
    /// Namespaces that the API server leaves out.
    pub excluded: Vec<Box<str>>,
    /// The label selector that the API server applies.
    pub selector: Option<Selector>,
    /// The one object that the API server is asked for.
    pub name: Option<Box<str>>,
    /// Objects that are left out, since they come through other streams.
    pub without: Arc<NameSet>,
    /// The objects that are not left out; empty: all of them.
    pub only: Arc<NameSet>,
    /// What is kept of the objects that come: those that any of these wants. Empty: all of them.
    pub kept: Vec<Clause>,
}

/// Some objects of a kind: in these namespaces, with these labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Clause {
    /// The namespaces.
    pub scope: Scope,
    /// The labels; none for any.
    pub selector: Option<Selector>,
}

impl WatchSpec {
    /// Every object of a kind.
    pub fn whole(kind: Arc<Kind>) -> Self {
        Self {
            kind,
            namespace: None,
            excluded: Vec::new(),
            selector: None,
            name: None,
            without: Arc::default(),
            only: Arc::default(),
            kept: Vec::new(),
        }
    }

    /// No object of a kind: what stands where something is wanted and cannot be watched.
    pub fn nothing(kind: Arc<Kind>) -> Self {
        let none = Clause { scope: Scope::nothing(), selector: None };
        Self { kept: vec![none], ..Self::whole(kind) }
    }

    /// Whether no object can ever come through it.
    pub fn is_nothing(&self) -> bool {
        !self.kept.is_empty() && self.kept.iter().all(|clause| clause.scope.is_empty())
    }

    /// The `scope` label: the namespace, or empty for all of them.
    pub fn scope(&self) -> &str {
        self.namespace.as_deref().unwrap_or("")
    }

    /// Whether objects of this namespace come through this stream.
    pub fn covers(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
            && !self.excluded.iter().any(|own| **own == *namespace)
            && (self.kept.is_empty() || self.kept.iter().any(|clause| clause.scope.has(namespace)))
    }

    /// Whether this object comes through this stream, if its labels are right.
    pub fn brings(&self, namespace: &str, name: &str) -> bool {
        self.picks(namespace, name) && self.covers(namespace)
    }

    /// Whether this object is not left to another stream of its kind.
    pub fn picks(&self, namespace: &str, name: &str) -> bool {
        self.name.as_deref().is_none_or(|own| own == name)
            && !self.without.has(namespace, name)
            && (self.only.is_empty() || self.only.has(namespace, name))
    }

    /// Whether it brings single objects, and not whatever there is.
    pub fn is_of_single_objects(&self) -> bool {
        self.name.is_some() || !self.only.is_empty()
    }

    /// Whether this object comes through this stream, whatever its labels: if it does not come, it is not there.
    pub fn misses_nothing(&self, namespace: &str, name: &str) -> bool {
        let anyhow = |clause: &Clause| clause.selector.is_none() && clause.scope.has(namespace);
        self.brings(namespace, name)
            && self.selector.is_none()
            && (self.kept.is_empty() || self.kept.iter().any(anyhow))
    }

    /// Whether an object that came is kept, whose labels `value_of` tells.
    pub fn keeps<'a>(&self, namespace: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.kept.is_empty() || self.kept.iter().any(|clause| clause.wants(namespace, &value_of))
    }

    /// Whether both ask for the same and keep the same, in whatever version of the kind, but for objects that one of them
    /// leaves to other streams.
    pub fn asks_like(&self, other: &Self) -> bool {
        let Self { kind, without, only, .. } = self.clone();
        self.kind.is_same_type(&other.kind) && *self == Self { kind, without, only, ..other.clone() }
    }
}

impl Clause {
    /// Whether an object is wanted.
    pub fn wants<'a>(&self, namespace: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.scope.has(namespace) && self.selector.as_ref().is_none_or(|selector| selector.matches(value_of))
    }
}

/// `services in shop`. Single objects come in a version of their own, which is told: `widgets.v1.example.com in shop`.
impl fmt::Display for WatchSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.only.is_empty() {
            write!(formatter, "{}", self.kind)?;
        } else {
            let Kind { plural, version, group, .. } = &*self.kind;
            write!(formatter, "{plural}.{version}.{group}")?;
        }
        if let Some(name) = &self.name {
            write!(formatter, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(formatter, " in {namespace}"),
            None => Ok(()),
        }
    }
}

/// Whether what is there is read once, or followed from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMode {
    /// Lists only; nothing is watched, so the right to list is enough.
    Once,
    /// Whatever changes is told, too.
    #[default]
    SourceContext,
}
