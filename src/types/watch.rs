//! Watches: what each of them requests, the plan of all of them, and their health.

use std::{collections::BTreeMap, fmt, mem, sync::Arc};

use super::{Kind, NameSet, ObjectKey, Scope, Selector, ServedKinds, closed_sets::closed_set};

/// Whether a watch or a source has synced, and receives changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncHealth {
    /// The first list is not complete.
    Starting,
    /// Synced, and changes arrive.
    Up,
    /// Changes do not arrive.
    Down { reason: DownReason, message: Box<str> },
}

closed_set! {
    /// [`SyncHealth`] in a word.
    HealthState {
        Starting = "starting",
        Up = "up",
        Down = "down",
    }
}

closed_set! {
    DownReason {
        Forbidden = "forbidden",
        /// The API server does not serve the kind.
        NotFound = "not_found",
        /// The exporter does not send the request: the kind cannot be watched, or only with a narrower selector.
        Refused = "refused",
        /// Neither events nor bookmarks arrived for too long.
        Stalled = "stalled",
        /// The API server could not be reached, or returned an error.
        Error = "error",
    }
}

/// Whether objects are listed once, or listed and then watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMode {
    /// Needs the verb `list` only.
    Once,
    #[default]
    Continuous,
}

/// The watches to keep open. No two watches of a kind deliver the same object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchPlan {
    /// Sorted by kind.
    pub watches: Vec<Watch>,
    pub unwatched: Vec<Unwatched>,
    /// The result of discovery; none before the first one succeeds.
    pub served: Option<Arc<ServedKinds>>,
}

/// Identifies a watch from the plan that opens it to the plan that closes it. An id is never reused, so a late event of a
/// closed watch cannot be taken for one of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(u64);

/// A watch of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    pub id: WatchId,
    pub spec: Arc<WatchSpec>,
}

/// Gives the watches of successive plans their ids.
#[derive(Debug, Default)]
pub struct WatchIds {
    /// The watches of the last plan.
    open: BTreeMap<Arc<WatchSpec>, WatchId>,
    last: u64,
}

impl WatchIds {
    /// The watches of the next plan. Those that the last plan has, too, keep their ids.
    pub fn assign(&mut self, specs: impl IntoIterator<Item = Arc<WatchSpec>>) -> Vec<Watch> {
        let previous = mem::take(&mut self.open);
        let assign = |spec: Arc<WatchSpec>| {
            let id = previous.get(&spec).copied().unwrap_or_else(|| {
                self.last += 1;
                WatchId(self.last)
            });
            self.open.insert(spec.clone(), id);
            Watch { id, spec }
        };
        specs.into_iter().map(assign).collect()
    }
}

/// A requested kind that cannot be watched now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwatched {
    /// Matches no object: see [`WatchSpec::none`].
    pub spec: Arc<WatchSpec>,
    pub health: SyncHealth,
}

impl WatchPlan {
    /// Whether discovery succeeded and did not find this kind in any version.
    pub fn is_not_served(&self, kind: &Kind) -> bool {
        self.served.as_ref().is_some_and(|served| !served.has(kind))
    }

    pub fn is_watched(&self, kind: &Kind) -> bool {
        self.watches.iter().any(|watch| watch.spec.kind.is_same_type(kind))
    }
}

/// One watch: the request to the API server, and the client-side filter of its objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchSpec {
    pub kind: Arc<Kind>,
    /// None for all namespaces.
    pub namespace: Option<Box<str>>,
    /// Namespaces that the API server excludes.
    pub excluded: Vec<Box<str>>,
    /// The label selector that the API server applies.
    pub selector: Option<Selector>,
    /// The one object that the API server is asked for; none for all.
    pub name: Option<Box<str>>,
    /// Objects to drop, because another watch of the kind delivers them.
    pub excluded_names: Arc<NameSet>,
    /// The only objects to keep; empty for all.
    pub included_names: Arc<NameSet>,
    /// An object is kept if any of these filters matches it; empty for all objects.
    pub filters: Vec<ObjectFilter>,
}

/// A client-side filter by namespace and labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectFilter {
    pub scope: Scope,
    pub selector: Option<Selector>,
}

impl WatchSpec {
    pub fn all(kind: Arc<Kind>) -> Self {
        Self {
            kind,
            namespace: None,
            excluded: Vec::new(),
            selector: None,
            name: None,
            excluded_names: Arc::default(),
            included_names: Arc::default(),
            filters: Vec::new(),
        }
    }

    /// No object of a kind: the placeholder for a kind that is requested and cannot be watched.
    pub fn none(kind: Arc<Kind>) -> Self {
        let nothing = ObjectFilter { scope: Scope::nothing(), selector: None };
        Self { filters: vec![nothing], ..Self::all(kind) }
    }

    pub fn matches_nothing(&self) -> bool {
        !self.filters.is_empty() && self.filters.iter().all(|filter| filter.scope.is_empty())
    }

    /// The label `scope`: the namespace, or empty for all namespaces.
    pub fn scope(&self) -> &str {
        self.namespace.as_deref().unwrap_or("")
    }

    /// Whether this watch delivers objects of this namespace.
    pub fn covers(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|watched| watched == namespace)
            && !self.excluded.iter().any(|excluded| **excluded == *namespace)
            && (self.filters.is_empty() || self.filters.iter().any(|filter| filter.scope.has(namespace)))
    }

    /// Whether this watch delivers this object if its labels match.
    pub fn delivers(&self, namespace: &str, name: &str) -> bool {
        self.includes(namespace, name) && self.covers(namespace)
    }

    /// Whether this object is not left to another watch of its kind.
    pub fn includes(&self, namespace: &str, name: &str) -> bool {
        self.name.as_deref().is_none_or(|watched| watched == name)
            && !self.excluded_names.has(namespace, name)
            && (self.included_names.is_empty() || self.included_names.has(namespace, name))
    }

    /// Whether it delivers single objects by name, not all objects of a kind.
    pub fn selects_by_name(&self) -> bool {
        self.name.is_some() || !self.included_names.is_empty()
    }

    /// Whether this watch delivers this object whatever its labels are: if a list does not contain it, it does not exist.
    pub fn is_authoritative_for(&self, namespace: &str, name: &str) -> bool {
        let ignores_labels = |filter: &ObjectFilter| filter.selector.is_none() && filter.scope.has(namespace);
        self.delivers(namespace, name)
            && self.selector.is_none()
            && (self.filters.is_empty() || self.filters.iter().any(ignores_labels))
    }

    /// Whether the list of this watch, or its refusal, shows if this object exists.
    pub fn decides_presence_of(&self, key: &ObjectKey) -> bool {
        self.matches_nothing() || self.is_authoritative_for(&key.namespace, &key.name)
    }

    /// Whether a filter matches an object with these labels.
    pub fn accepts<'a>(&self, namespace: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.matches(namespace, &value_of))
    }

    /// Whether both request and filter are the same, apart from the version of the kind and from objects that either leaves to
    /// another watch.
    pub fn is_same_request(&self, other: &Self) -> bool {
        let Self { kind, excluded_names, included_names, .. } = self.clone();
        self.kind.is_same_type(&other.kind)
            && *self == Self { kind, excluded_names, included_names, ..other.clone() }
    }
}

impl ObjectFilter {
    pub fn matches<'a>(&self, namespace: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.scope.has(namespace) && self.selector.as_ref().is_none_or(|selector| selector.matches(value_of))
    }
}

/// `services in shop`. A watch of single objects has a version of its own, which is shown too: `widgets.v1.example.com in shop`.
impl fmt::Display for WatchSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.included_names.is_empty() {
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
