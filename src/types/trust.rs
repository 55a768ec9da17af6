//! Trust: the objects that a baseline has authority over. `docs/design/017-trust.md` describes the model.

use serde::{Deserialize, Serialize};

/// A Helm release, as the annotations `meta.helm.sh/release-name` and `meta.helm.sh/release-namespace` name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HelmRelease {
    pub namespace: Box<str>,
    pub name: Box<str>,
}

/// The objects that a baseline may declare. The author of the baseline cannot extend them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// All objects: the settings trust the baseline.
    Cluster,
    /// The objects of the namespace that stores the baseline.
    Namespace(Box<str>),
    /// The objects of the release's namespace, and those whose annotations name the release.
    Release(HelmRelease),
}

impl Authority {
    /// Whether it covers all objects of a namespace. The namespace of cluster-scoped objects is empty, and only [`Self::Cluster`]
    /// covers them.
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespace(own) | Self::Release(HelmRelease { namespace: own, .. }) => {
                !namespace.is_empty() && **own == *namespace
            }
        }
    }

    /// The namespace that stores the baseline; `None` if the settings trust it.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Cluster => None,
            Self::Namespace(own) | Self::Release(HelmRelease { namespace: own, .. }) => Some(own),
        }
    }

    pub fn release(&self) -> Option<&HelmRelease> {
        match self {
            Self::Release(release) => Some(release),
            Self::Cluster | Self::Namespace(_) => None,
        }
    }

    /// The authority of a baseline with these settings.
    #[must_use]
    pub fn extended_by(self, trusted: &TrustedNamespaces) -> Self {
        match &self {
            Self::Namespace(own) | Self::Release(HelmRelease { namespace: own, .. }) if trusted.has(own) => {
                Self::Cluster
            }
            Self::Cluster | Self::Namespace(_) | Self::Release(_) => self,
        }
    }
}

/// The namespaces whose baselines the settings trust for all objects of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedNamespaces(Vec<Box<str>>);

impl TrustedNamespaces {
    /// Trusts every namespace: for clusters without tenants.
    pub const ALL: &str = "*";

    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }

    fn has(&self, namespace: &str) -> bool {
        self.0.iter().any(|name| **name == *namespace || **name == *Self::ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::{Authority, HelmRelease, TrustedNamespaces};

    #[test]
    fn baseline_covers_its_own_namespace_and_more_only_by_the_settings() {
        let release = HelmRelease { namespace: "tenant".into(), name: "web".into() };
        for own in [Authority::Namespace("tenant".into()), Authority::Release(release)] {
            assert!(own.covers("tenant") && !own.covers("victim") && !own.covers(""));
            for names in [&[][..], &["terraform"], &["tenan"]] {
                let trusted = TrustedNamespaces::new(names.iter().copied());
                assert_eq!(own.clone().extended_by(&trusted), own, "{names:?}");
            }
            for names in [&["terraform", "tenant"][..], &["*"]] {
                let trusted = TrustedNamespaces::new(names.iter().copied());
                assert_eq!(own.clone().extended_by(&trusted), Authority::Cluster, "{names:?}");
            }
        }
        // The empty name is not a namespace.
        assert!(!Authority::Namespace("".into()).covers(""));
        assert!(Authority::Cluster.covers("") && Authority::Cluster.covers("victim"));
    }
}
