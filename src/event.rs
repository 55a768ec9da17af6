//! The inputs of the engine. They arrive in one queue and take effect in the order in which they are sent: the config before the
//! objects that are listed again because of them, a schema that is being read before the watch of its kind.

use std::sync::Arc;

use crate::{
    diff::manifest::ClusterSchemas,
    rules::RuleSet,
    types::{Baseline, LiveObject, ShortText, Source, SyncHealth, WatchId, WatchPlan},
};

/// The config of the engine: what the settings and the rules of teams decide in it.
#[derive(Clone, Debug, Default)]
pub struct EngineConfig {
    pub rules: Arc<RuleSet>,
    /// The enabled sources.
    pub sources: Vec<Source>,
    /// The findings that the claims of one source may store for the baselines of one namespace that the settings do not trust.
    pub max_findings: Option<usize>,
}

impl EngineConfig {
    /// Whether the engine does the same with both. Rules are compared by reference.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules)
            && self.sources == other.sources
            && self.max_findings == other.max_findings
    }
}

/// Every input of the engine.
#[derive(Debug)]
pub enum Event {
    /// Replaces the set of open watches.
    WatchPlan(Arc<WatchPlan>),
    /// A list begins. Objects of an earlier, unfinished list of this watch are discarded.
    ListStarted(WatchId),
    /// One object of the list in progress.
    Listed(WatchId, Arc<LiveObject>),
    /// The list is complete: objects that it does not contain no longer exist.
    ListEnded(WatchId),
    /// The object was created or changed.
    Applied(WatchId, Arc<LiveObject>),
    /// The object was deleted, or the selector no longer matches it.
    Deleted {
        watch: WatchId,
        namespace: ShortText,
        name: ShortText,
    },
    WatchHealth(WatchId, SyncHealth),
    /// A baseline was read, or could not be read.
    Baseline(Arc<Baseline>),
    /// A baseline was deleted; it no longer declares any object.
    BaselineRemoved(Source, Arc<str>),
    /// All baselines of a source that exist at the start were read.
    BaselinesRead(Source),
    /// The health of a source. `Up` follows the baselines of its first list, but for those of a namespace that used more than its
    /// share of work.
    SourceHealth(Source, SyncHealth),
    /// The settings no longer enable this source: it has no health.
    SourceRemoved(Source),
    /// Replaces the config.
    Config(Arc<EngineConfig>),
    /// Replaces the schemas of custom resources. Objects are not compared while the schema of their kind is being read.
    Schemas(Arc<ClusterSchemas>),
    /// Time has passed: grace periods, rules and locks may have expired.
    Tick,
}
