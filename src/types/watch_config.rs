//! What to watch, and what to decode of it.

use std::{collections::BTreeMap, sync::Arc};

use super::{GroupKind, Kind, RedactionPolicy, StatusHashSpec, TerraformJobSpec, WantedKind};

/// The kinds to watch, and how to decode their objects. They travel together, so that a watch that opens decodes what its kind was
/// requested for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchConfig {
    pub kinds: Vec<WantedKind>,
    pub decode: Arc<DecodeConfig>,
}

/// Which parts of objects are decoded and cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodeConfig {
    /// The prefix of the exporter's annotations: `<prefix>/spec-hash`, `<prefix>/ignore`.
    pub annotation_prefix: Box<str>,
    pub ignore_hash_annotations: bool,
    /// The labels that rules match or that series carry, sorted.
    pub label_names: Arc<[Box<str>]>,
    /// Whether an annotation of the object may ignore differences.
    pub honor_ignore_annotation: bool,
    /// Kinds with objects that are cached whole because their fields are compared.
    pub documents: BTreeMap<GroupKind, Arc<RedactionPolicy>>,
    /// Redaction of objects that kubectl applied; `None` if last-applied annotations are not a baseline.
    pub last_applied: Option<Arc<RedactionPolicy>>,
    /// Objects whose controllers record what they applied. The first spec that matches an object counts.
    pub records: Arc<[StatusHashSpec]>,
    pub jobs: Option<TerraformJobSpec>,
}

impl DecodeConfig {
    /// The part that affects objects of this kind.
    #[must_use]
    pub fn for_kind(&self, kind: &Kind) -> Self {
        let key = kind.group_kind().into_owned();
        let policy = self.documents.get(&key).cloned();
        let documents = policy.map(|policy| (key, policy)).into_iter().collect();
        let records = self.records.iter().filter(|spec| spec.objects.matches(kind)).cloned().collect();
        let jobs = self.jobs.clone().filter(|spec| spec.objects.matches(kind));
        Self { documents, records, jobs, ..self.clone() }
    }

    pub fn compares_fields_of(&self, kind: &Kind) -> bool {
        self.last_applied.is_some() || self.redaction_of(kind).is_some()
    }

    /// How objects of this kind are redacted; `None` if none of them is cached whole.
    pub fn redaction_of(&self, kind: &Kind) -> Option<&Arc<RedactionPolicy>> {
        self.documents.get(&kind.group_kind().into_owned())
    }
}
