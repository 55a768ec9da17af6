//! What the exporter was told to do.

use std::sync::Arc;

use crate::model::{Kind, Source, StreamSpec};

/// The settings of a running exporter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces to watch; empty for all of them.
    pub namespaces: Vec<Box<str>>,
    /// The sources that are switched on.
    pub sources: Vec<Source>,
    /// The prefix of the opt-in label and of the hash annotation.
    pub annotation_prefix: Box<str>,
    /// At most this many series of single claims are exposed.
    pub max_series: usize,
    /// Whether only objects that drift have series of their own.
    pub only_drifted: bool,
    /// Whether `drift_resource_health` is exposed.
    pub health_series: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            sources: vec![Source::Annotation],
            annotation_prefix: "tfdrift.jin.dev".into(),
            max_series: 200_000,
            only_drifted: false,
            health_series: false,
        }
    }
}

impl Settings {
    /// The streams that these settings want: each kind once per namespace scope.
    pub fn streams(&self) -> Vec<Arc<StreamSpec>> {
        let selector: Box<str> = format!("{}/enabled=true", self.annotation_prefix).into();
        let scopes: Vec<Option<Box<str>>> = if self.namespaces.is_empty() {
            vec![None]
        } else {
            self.namespaces.iter().cloned().map(Some).collect()
        };
        let mut streams = Vec::new();
        for kind in [Kind::deployment(), Kind::service()].map(Arc::new) {
            for namespace in scopes.iter().cloned() {
                let selector = Some(selector.clone());
                streams.push(Arc::new(StreamSpec { kind: kind.clone(), namespace, selector }));
            }
        }
        streams
    }

    /// Whether a caller may ask for this namespace.
    pub fn allows_namespace(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|own| &**own == namespace)
    }
}
