//! Resource types: as the API server names them, as settings request them, as discovery reports them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{NameSet, Scope, Selector};

/// A resource type as the API server names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// API version within the group.
    pub version: Box<str>,
    /// The name used in manifests, `Deployment`.
    pub kind: Box<str>,
    /// The name used in URLs, `deployments`.
    pub plural: Box<str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// What manifests call group and version of a kind: `apps/v1`, or `v1` for the core group.
#[derive(Clone, Copy, Debug)]
pub struct ApiVersion<'a>(pub &'a Kind);

impl fmt::Display for ApiVersion<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Kind { group, version, .. }) = self;
        if group.is_empty() { formatter.write_str(version) } else { write!(formatter, "{group}/{version}") }
    }
}

impl Kind {
    /// `apps/v1` Deployment.
    pub fn deployment() -> Self {
        Self::namespaced("apps", "v1", "Deployment", "deployments")
    }

    /// `v1` Service.
    pub fn service() -> Self {
        Self::namespaced("", "v1", "Service", "services")
    }

    /// `v1` Namespace.
    pub fn namespace() -> Self {
        Self { namespaced: false, ..Self::namespaced("", "v1", "Namespace", "namespaces") }
    }

    /// `autoscaling/v2` `HorizontalPodAutoscaler`.
    pub fn autoscaler() -> Self {
        Self::namespaced(AUTOSCALER.0, "v2", AUTOSCALER.1, "horizontalpodautoscalers")
    }

    /// A kind that nobody has seen in the cluster: its name stands for the plural, which is not known.
    pub fn unseen(group: &str, version: &str, kind: &str) -> Self {
        Self::namespaced(group, version, kind, kind)
    }

    /// Whether both are the same kind, in whatever version.
    pub fn is_same_type(&self, other: &Self) -> bool {
        self.group == other.group && self.kind == other.kind
    }

    /// Whether its objects hold what nobody should read by the way: they are asked for by a name or a selector only.
    pub fn is_guarded(&self) -> bool {
        is_guarded(&self.group, &self.kind)
    }

    /// Whether its objects set the replicas of others, in whatever version.
    pub fn is_autoscaler(&self) -> bool {
        (&*self.group, &*self.kind) == AUTOSCALER
    }

    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        ApiVersion(self).to_string()
    }

    fn namespaced(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            namespaced: true,
        }
    }
}

/// The group and name of the kind that sets the replicas of others.
const AUTOSCALER: (&str, &str) = ("autoscaling", "HorizontalPodAutoscaler");

/// Whether a kind by its group and name is guarded.
pub(super) fn is_guarded(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("", "Secret") | ("coordination.k8s.io", "Lease"))
}

/// `deployments.apps`, as kubectl writes a resource.
impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(formatter, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// A kind, or all kinds of a group, that is to be watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WantedKind {
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// The version to read it in, where people care. Another one is followed where this one is not served.
    pub version: Option<Box<str>>,
    /// Which kinds of the group.
    pub kind: KindName,
    /// In which namespaces. Kinds without namespaces are watched whole, unless namespaces are named.
    pub scope: Scope,
    /// Which objects; none for all of them.
    pub selector: Option<Selector>,
    /// The one object of this name; none for all of them. Only for kinds that hold what nobody should read by the way.
    pub name: Option<Box<str>>,
    /// Objects that have to be read in exactly one version, by this version. Where it is not served, they come with the others.
    pub versions: Arc<BTreeMap<Box<str>, NameSet>>,
    /// Whether nobody asked for it, and it is watched for what it tells about other objects. It is not missed where the cluster
    /// does not have it, and what somebody did ask for needs no more rights for it.
    pub by_the_way: bool,
}

/// Which kinds of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KindName {
    /// Every kind that can be listed and watched.
    Every,
    /// The kind of this name, `Deployment`.
    Named(Box<str>),
}

impl WantedKind {
    /// Reads `apps/v1` or `v1` with `Deployment`; either may be `*` (`apps/*`: whichever version is preferred). The
    /// error says what is wrong.
    pub fn parse(api_version: &str, kind: &str) -> Result<Self, String> {
        let (group, version) = match api_version.split_once('/') {
            Some((group, version)) => (group, version),
            None if looks_like_version(api_version) => ("", api_version),
            None => {
                return Err(format!("`{api_version}` is no apiVersion; want GROUP/VERSION, GROUP/* or v1"));
            }
        };
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        if !group.chars().all(allowed) || (group.is_empty() && api_version.contains('/')) {
            return Err(format!("`{group}` is no API group"));
        }
        if version != "*" && !looks_like_version(version) {
            return Err(format!("`{version}` is no version; want v1, v1beta1 and the like, or *"));
        }
        if kind != "*" && (kind.is_empty() || !kind.chars().all(|c| c.is_ascii_alphanumeric())) {
            return Err(format!("`{kind}` is no kind; want a name such as Deployment, or *"));
        }
        Ok(Self {
            group: group.into(),
            version: (version != "*").then(|| version.into()),
            kind: if kind == "*" { KindName::Every } else { KindName::Named(kind.into()) },
            scope: Scope::default(),
            selector: None,
            name: None,
            versions: Arc::default(),
            by_the_way: false,
        })
    }

    /// Exactly this kind, everywhere.
    pub fn exactly(kind: &Kind) -> Self {
        Self {
            group: kind.group.clone(),
            version: Some(kind.version.clone()),
            kind: KindName::Named(kind.kind.clone()),
            scope: Scope::default(),
            selector: None,
            name: None,
            versions: Arc::default(),
            by_the_way: false,
        }
    }

    /// Whether this object is meant, by its kind, namespace and labels: streams are shared, so objects come that others want.
    pub fn wants<'a>(
        &self,
        kind: &Kind,
        namespace: &str,
        value_of: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        self.means(kind)
            && self.scope.has(namespace)
            && self.selector.as_ref().is_none_or(|selector| selector.matches(value_of))
    }

    /// Whether this kind is meant, in whatever version.
    pub fn means(&self, kind: &Kind) -> bool {
        let named = match &self.kind {
            KindName::Every => true,
            KindName::Named(name) => *name == kind.kind,
        };
        named && self.group == kind.group
    }
}

/// `v1`, `v2beta3`: what API versions look like.
fn looks_like_version(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let rest = text.strip_prefix('v').unwrap_or("");
    rest.starts_with(|c: char| c.is_ascii_digit()) && rest.chars().all(allowed)
}

/// `apps/v1 Deployment`, as people wrote it.
impl fmt::Display for WantedKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(formatter, "{}/", self.group)?;
        }
        let kind = match &self.kind {
            KindName::Every => "*",
            KindName::Named(name) => name,
        };
        write!(formatter, "{} {kind}", self.version.as_deref().unwrap_or("*"))
    }
}

/// The kinds that the API server has. Of several versions of a kind, the preferred one comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Every version of every kind.
    pub kinds: Vec<ServedKind>,
}

/// One version of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// The kind.
    pub kind: Arc<Kind>,
    /// Whether it can be listed and watched.
    pub watchable: bool,
}

impl Served {
    /// Whether some version of this kind is there.
    pub fn has(&self, kind: &Kind) -> bool {
        self.kinds.iter().any(|own| own.kind.is_same_type(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::{KindName, WantedKind};

    #[test]
    fn what_people_write_is_understood() {
        for (api_version, kind, group, version) in [
            ("apps/v1", "Deployment", "apps", Some("v1")),
            ("v1", "ConfigMap", "", Some("v1")),
            ("example.com/*", "Widget", "example.com", None),
            ("example.com/v1alpha1", "*", "example.com", Some("v1alpha1")),
        ] {
            let wanted = WantedKind::parse(api_version, kind).unwrap();
            assert_eq!((&*wanted.group, wanted.version.as_deref()), (group, version));
            assert_eq!(wanted.kind == KindName::Every, kind == "*");
            assert_eq!(wanted.to_string(), format!("{api_version} {kind}"));
        }
    }

    #[test]
    fn what_cannot_be_a_kind_is_refused() {
        for (api_version, kind) in [
            ("apps", "Deployment"),
            ("", "Deployment"),
            ("/v1", "Pod"),
            ("*", "Pod"),
            ("*/*", "*"),
            ("apps/one", "Deployment"),
            ("apps/v1/x", "Deployment"),
            ("Apps/v1", "Deployment"),
            ("apps/v1", ""),
            ("apps/v1", "deployments/scale"),
        ] {
            assert!(WantedKind::parse(api_version, kind).is_err(), "{api_version} {kind}");
        }
    }
}
