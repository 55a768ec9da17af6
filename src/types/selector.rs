//! Which objects: label selectors, label sets, globs, sets of names, sets of namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
};

use super::{is_label_name, is_label_value};

/// A label selector. Requirements are sorted, so selectors that differ only in order are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Requirement {
    key: Box<str>,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Operator {
    Exists,
    DoesNotExist,
    In(Vec<Box<str>>),
    NotIn(Vec<Box<str>>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("invalid requirement `{0}`; want =, ==, !=, in (…) or notin (…)")]
    Requirement(Box<str>),
    #[error("empty requirement; want one before and after each comma")]
    EmptyRequirement,
    #[error("`{0}` has no values; want at least one, such as in (a, b)")]
    NoValues(Box<str>),
    #[error("invalid label name `{0}`; want for example app or example.com/team")]
    Name(Box<str>),
    #[error(
        "invalid label value `{0}`; want at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at either end"
    )]
    Value(Box<str>),
}

impl Selector {
    /// Parses `a=b`, `a!=b`, `a in (b, c)`, `a notin (b)`, `a` and `!a`, separated by commas.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        let parts = split_outside_brackets(text).into_iter().map(str::trim);
        let mut requirements = parts.map(Requirement::parse).collect::<Result<Vec<_>, _>>()?;
        requirements.sort();
        requirements.dedup();
        Ok(Self(requirements))
    }

    pub fn equals(key: &str, value: &str) -> Self {
        Self(vec![Requirement { key: key.into(), operator: Operator::In(vec![value.into()]) }])
    }

    /// `key`: the label exists with any value.
    pub fn exists(key: &str) -> Self {
        Self(vec![Requirement { key: key.into(), operator: Operator::Exists }])
    }

    /// Whether it matches every object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.operator.matches(value_of(&requirement.key)))
    }
}

/// The query parameter `labelSelector`, not percent-encoded.
impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Requirement { key, operator }) in self.0.iter().enumerate() {
            if at > 0 {
                formatter.write_str(",")?;
            }
            match operator {
                Operator::Exists => write!(formatter, "{key}")?,
                Operator::DoesNotExist => write!(formatter, "!{key}")?,
                Operator::In(values) if values.len() == 1 => write!(formatter, "{key}={}", values[0])?,
                Operator::NotIn(values) if values.len() == 1 => write!(formatter, "{key}!={}", values[0])?,
                Operator::In(values) => write!(formatter, "{key} in ({})", values.join(","))?,
                Operator::NotIn(values) => write!(formatter, "{key} notin ({})", values.join(","))?,
            }
        }
        Ok(())
    }
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.is_empty() {
            return Err(SelectorError::EmptyRequirement);
        }
        let (key, operator) = if let Some((key, value)) = text.split_once("!=") {
            (key, Operator::NotIn(values(value)?))
        } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            (key, Operator::In(values(value)?))
        } else if let Some(key) = text.strip_prefix('!') {
            (key, Operator::DoesNotExist)
        } else if let Some((key, rest)) = text.split_once(char::is_whitespace) {
            let (word, list) = rest.trim().split_once('(').unwrap_or((rest, ""));
            match (word.trim(), list.strip_suffix(')')) {
                ("in" | "notin", Some(list)) if list.trim().is_empty() => {
                    return Err(SelectorError::NoValues(text.into()));
                }
                ("in", Some(list)) => (key, Operator::In(values(list)?)),
                ("notin", Some(list)) => (key, Operator::NotIn(values(list)?)),
                _ => return Err(SelectorError::Requirement(text.into())),
            }
        } else {
            (text, Operator::Exists)
        };
        let key = key.trim();
        if !is_label_name(key) {
            return Err(SelectorError::Name(key.into()));
        }
        Ok(Self { key: key.into(), operator })
    }
}

impl Operator {
    fn matches(&self, value: Option<&str>) -> bool {
        let contains = |values: &[Box<str>], value: &str| values.iter().any(|member| **member == *value);
        match self {
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::In(values) => value.is_some_and(|value| contains(values, value)),
            // In Kubernetes, an object without the label matches `notin`.
            Self::NotIn(values) => value.is_none_or(|value| !contains(values, value)),
        }
    }
}

fn values(text: &str) -> Result<Vec<Box<str>>, SelectorError> {
    let mut values = Vec::new();
    for value in text.split(',').map(str::trim) {
        if !is_label_value(value) {
            return Err(SelectorError::Value(value.into()));
        }
        values.push(value.into());
    }
    values.sort();
    values.dedup();
    Ok(values)
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A set of labels, reduced to one hash per label: enough to test whether one set contains another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSet(Box<[u64]>);

impl LabelSet {
    pub fn new<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let builder = BuildHasherDefault::<DefaultHasher>::default();
        let mut hashes: Vec<u64> = labels.into_iter().map(|label| builder.hash_one(label)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes.into())
    }

    /// One hash per label, sorted.
    pub fn hashes(&self) -> &[u64] {
        &self.0
    }

    pub fn is_superset_of(&self, other: &Self) -> bool {
        other.0.iter().all(|hash| self.0.binary_search(hash).is_ok())
    }
}

/// A name in which `*` matches any number of characters. There is no escape, because Kubernetes names have no stars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: Box<str>,
    has_star: bool,
}

impl Glob {
    pub fn new(text: &str) -> Self {
        Self { text: text.into(), has_star: text.contains('*') }
    }

    /// The only name that it matches, if it has no star.
    pub fn exact(&self) -> Option<&str> {
        (!self.has_star).then_some(&*self.text)
    }

    pub fn matches_everything(&self) -> bool {
        self.has_star && self.text.bytes().all(|byte| byte == b'*')
    }

    pub fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.text.split_once('*') else { return *self.text == *name };
        let Some(mut name) = name.strip_prefix(first) else { return false };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        // The leftmost match of each part leaves the most characters for the parts that follow.
        for part in middle.split('*') {
            let Some(at) = name.find(part) else { return false };
            name = &name[at + part.len()..];
        }
        name.ends_with(last)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Objects of one kind, by namespace and name. The namespace of cluster-scoped objects is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameSet(BTreeMap<Box<str>, BTreeSet<Box<str>>>);

impl NameSet {
    pub fn insert(&mut self, namespace: &str, name: &str) {
        self.0.entry(namespace.into()).or_default().insert(name.into());
    }

    pub fn has(&self, namespace: &str, name: &str) -> bool {
        self.0.get(namespace).is_some_and(|names| names.contains(name))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn count(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(namespace, names)| names.iter().map(move |name| (&**namespace, &**name)))
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for NameSet {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(objects: I) -> Self {
        let mut set = Self::default();
        set.extend(objects);
        set
    }
}

impl<'a> Extend<(&'a str, &'a str)> for NameSet {
    fn extend<I: IntoIterator<Item = (&'a str, &'a str)>>(&mut self, objects: I) {
        for (namespace, name) in objects {
            self.insert(namespace, name);
        }
    }
}

/// A set of namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    AllExcept(BTreeSet<Box<str>>),
    In(BTreeSet<Box<str>>),
}

impl Default for Scope {
    fn default() -> Self {
        Self::AllExcept(BTreeSet::new())
    }
}

impl Scope {
    /// These namespaces, or all if none is named, without the excluded ones.
    pub fn new<N: AsRef<str>>(
        namespaces: impl IntoIterator<Item = N>,
        excluded: impl IntoIterator<Item = N>,
    ) -> Self {
        let set = |names: &mut dyn Iterator<Item = N>| names.map(|name| name.as_ref().into()).collect();
        let named: BTreeSet<Box<str>> = set(&mut namespaces.into_iter());
        let excluded: BTreeSet<Box<str>> = set(&mut excluded.into_iter());
        if named.is_empty() { Self::AllExcept(excluded) } else { Self::In(&named - &excluded) }
    }

    pub fn nothing() -> Self {
        Self::In(BTreeSet::new())
    }

    pub fn has(&self, namespace: &str) -> bool {
        match self {
            Self::AllExcept(excluded) => !excluded.contains(namespace),
            Self::In(named) => named.contains(namespace),
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Self::In(named) if named.is_empty())
    }

    /// The intersection.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::AllExcept(a), Self::AllExcept(b)) => Self::AllExcept(a | b),
            (Self::In(named), Self::AllExcept(excluded)) | (Self::AllExcept(excluded), Self::In(named)) => {
                Self::In(named - excluded)
            }
            (Self::In(a), Self::In(b)) => Self::In(a & b),
        }
    }
}

/// The union.
impl std::ops::BitOr for &Scope {
    type Output = Scope;
    fn bitor(self, other: Self) -> Scope {
        match (self, other) {
            (Scope::AllExcept(a), Scope::AllExcept(b)) => Scope::AllExcept(a & b),
            (Scope::In(named), Scope::AllExcept(excluded))
            | (Scope::AllExcept(excluded), Scope::In(named)) => Scope::AllExcept(excluded - named),
            (Scope::In(a), Scope::In(b)) => Scope::In(a | b),
        }
    }
}

/// The difference.
impl std::ops::Sub for &Scope {
    type Output = Scope;
    fn sub(self, other: Self) -> Scope {
        let complement = match other {
            Scope::AllExcept(excluded) => Scope::In(excluded.clone()),
            Scope::In(named) => Scope::AllExcept(named.clone()),
        };
        self.within(&complement)
    }
}
