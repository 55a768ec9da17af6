//! Which namespaces are meant.

use std::collections::BTreeSet;

/// A set of namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All namespaces but these.
    AllBut(BTreeSet<Box<str>>),
    /// These namespaces.
    In(BTreeSet<Box<str>>),
}

impl Default for Scope {
    fn default() -> Self {
        Self::AllBut(BTreeSet::new())
    }
}

impl Scope {
    /// These namespaces, or all where none is named, without those that are excluded.
    pub fn new<N: AsRef<str>>(
        namespaces: impl IntoIterator<Item = N>,
        excluded: impl IntoIterator<Item = N>,
    ) -> Self {
        let set = |names: &mut dyn Iterator<Item = N>| names.map(|name| name.as_ref().into()).collect();
        let named: BTreeSet<Box<str>> = set(&mut namespaces.into_iter());
        let excluded: BTreeSet<Box<str>> = set(&mut excluded.into_iter());
        if named.is_empty() { Self::AllBut(excluded) } else { Self::In(&named - &excluded) }
    }

    /// No namespace at all.
    pub fn nothing() -> Self {
        Self::In(BTreeSet::new())
    }

    /// Whether it has this namespace.
    pub fn has(&self, namespace: &str) -> bool {
        match self {
            Self::AllBut(excluded) => !excluded.contains(namespace),
            Self::In(named) => named.contains(namespace),
        }
    }

    /// Whether it has no namespace at all.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::In(named) if named.is_empty())
    }

    /// What both have.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::AllBut(a), Self::AllBut(b)) => Self::AllBut(a | b),
            (Self::In(named), Self::AllBut(excluded)) | (Self::AllBut(excluded), Self::In(named)) => {
                Self::In(named - excluded)
            }
            (Self::In(a), Self::In(b)) => Self::In(a & b),
        }
    }
}

/// What one of them has, or both.
impl std::ops::BitOr for &Scope {
    type Output = Scope;
    fn bitor(self, other: Self) -> Scope {
        match (self, other) {
            (Scope::AllBut(a), Scope::AllBut(b)) => Scope::AllBut(a & b),
            (Scope::In(named), Scope::AllBut(excluded)) | (Scope::AllBut(excluded), Scope::In(named)) => {
                Scope::AllBut(excluded - named)
            }
            (Scope::In(a), Scope::In(b)) => Scope::In(a | b),
        }
    }
}

/// What the first has and the second has not.
impl std::ops::Sub for &Scope {
    type Output = Scope;
    fn sub(self, other: Self) -> Scope {
        let rest = match other {
            Scope::AllBut(excluded) => Scope::In(excluded.clone()),
            Scope::In(named) => Scope::AllBut(named.clone()),
        };
        self.within(&rest)
    }
}

#[cfg(test)]
mod tests {
    use super::Scope;

    #[test]
    fn scopes_are_sets() {
        let scopes = [
            Scope::default(),
            Scope::new(["a", "b"], []),
            Scope::new(["b", "c"], ["c"]),
            Scope::new([], ["b"]),
            Scope::new(["a"], ["a"]),
        ];
        for one in &scopes {
            for other in &scopes {
                for namespace in ["a", "b", "c", "d"] {
                    let (a, b) = (one.has(namespace), other.has(namespace));
                    let got = [one.within(other), one | other, one - other].map(|scope| scope.has(namespace));
                    assert_eq!(got, [a && b, a || b, a && !b], "{one:?} {other:?} {namespace}");
                }
            }
        }
    }
}
