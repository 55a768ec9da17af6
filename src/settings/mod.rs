//! What the exporter was told to do.

use crate::model::{Kind, Scope, Selector, Source, WantedKind};

/// The settings of a running exporter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces to watch; empty for all of them.
    pub namespaces: Vec<Box<str>>,
    /// Namespaces not to watch, whatever else is said.
    pub excluded_namespaces: Vec<Box<str>>,
    /// What to watch; empty for Deployments and Services with the opt-in label.
    pub kinds: Vec<WantedKind>,
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
            excluded_namespaces: Vec::new(),
            kinds: Vec::new(),
            sources: vec![Source::Annotation],
            annotation_prefix: "tfdrift.jin.dev".into(),
            max_series: 200_000,
            only_drifted: false,
            health_series: false,
        }
    }
}

impl Settings {
    /// What to watch, within the namespaces that may be watched at all.
    pub fn wanted_kinds(&self) -> Vec<WantedKind> {
        let allowed = self.scope();
        let mut wanted = if self.kinds.is_empty() { self.usual_kinds() } else { self.kinds.clone() };
        for kind in &mut wanted {
            kind.scope = kind.scope.within(&allowed);
        }
        wanted
    }

    /// Whether a caller may ask for this namespace.
    pub fn allows_namespace(&self, namespace: &str) -> bool {
        self.scope().has(namespace)
    }

    fn scope(&self) -> Scope {
        Scope::new(&self.namespaces, &self.excluded_namespaces)
    }

    fn usual_kinds(&self) -> Vec<WantedKind> {
        let opted_in = Selector::has(&format!("{}/enabled", self.annotation_prefix), "true");
        let usual = [Kind::deployment(), Kind::service()];
        usual
            .iter()
            .map(|kind| WantedKind { selector: Some(opted_in.clone()), ..WantedKind::exactly(kind) })
            .collect()
    }
}
