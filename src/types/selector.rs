//! Which objects: label selectors, label sets, globs, sets of names, sets of namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash, Hasher},
};

/// A parsed label selector. Two that say the same in another order are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector(Vec<Requirement>);

/// What one label has to be like.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Requirement {
    key: Box<str>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Test {
    Exists,
    Missing,
    In(Vec<Box<str>>),
    NotIn(Vec<Box<str>>),
}

impl Selector {
    /// Reads `a=b`, `a!=b`, `a in (b, c)`, `a notin (b)`, `a` and `!a`, with commas between them. The error says what
    /// is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = split_outside_brackets(text).into_iter().map(str::trim).filter(|part| !part.is_empty());
        let mut requirements = parts.map(Requirement::parse).collect::<Result<Vec<_>, _>>()?;
        requirements.sort();
        requirements.dedup();
        Ok(Self(requirements))
    }

    /// Objects with this label.
    pub fn has(key: &str, value: &str) -> Self {
        Self(vec![Requirement { key: key.into(), test: Test::In(vec![value.into()]) }])
    }

    /// Objects that have this label, whatever its value.
    pub fn exists(key: &str) -> Self {
        Self(vec![Requirement { key: key.into(), test: Test::Exists }])
    }

    /// Whether it lets everything through.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object is selected whose labels `value_of` tells.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.test.passes(value_of(&requirement.key)))
    }
}

/// As it stands in a URL's `labelSelector`, before encoding.
impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Requirement { key, test }) in self.0.iter().enumerate() {
            if at > 0 {
                formatter.write_str(",")?;
            }
            match test {
                Test::Exists => write!(formatter, "{key}")?,
                Test::Missing => write!(formatter, "!{key}")?,
                Test::In(values) if values.len() == 1 => write!(formatter, "{key}={}", values[0])?,
                Test::NotIn(values) if values.len() == 1 => write!(formatter, "{key}!={}", values[0])?,
                Test::In(values) => write!(formatter, "{key} in ({})", values.join(","))?,
                Test::NotIn(values) => write!(formatter, "{key} notin ({})", values.join(","))?,
            }
        }
        Ok(())
    }
}

impl Requirement {
    fn parse(written: &str) -> Result<Self, String> {
        let (key, test) = if let Some((key, value)) = written.split_once("!=") {
            (key, Test::NotIn(values(value)?))
        } else if let Some((key, value)) = written.split_once("==").or_else(|| written.split_once('=')) {
            (key, Test::In(values(value)?))
        } else if let Some(key) = written.strip_prefix('!') {
            (key, Test::Missing)
        } else if let Some((key, rest)) = written.split_once(char::is_whitespace) {
            let (word, list) = rest.trim().split_once('(').unwrap_or((rest, ""));
            match (word.trim(), list.strip_suffix(')')) {
                ("in", Some(list)) => (key, Test::In(values(list)?)),
                ("notin", Some(list)) => (key, Test::NotIn(values(list)?)),
                _ => {
                    return Err(format!(
                        "`{written}` is no requirement; want =, ==, !=, in (…) or notin (…)"
                    ));
                }
            }
        } else {
            (written, Test::Exists)
        };
        let key = key.trim();
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        if key.is_empty() || !key.chars().all(allowed) {
            return Err(format!("`{key}` is no label"));
        }
        Ok(Self { key: key.into(), test })
    }
}

impl Test {
    fn passes(&self, value: Option<&str>) -> bool {
        let among = |values: &[Box<str>], value: &str| values.iter().any(|own| **own == *value);
        match self {
            Self::Exists => value.is_some(),
            Self::Missing => value.is_none(),
            Self::In(values) => value.is_some_and(|value| among(values, value)),
            // An object without the label passes too, as Kubernetes has it.
            Self::NotIn(values) => value.is_none_or(|value| !among(values, value)),
        }
    }
}

fn values(text: &str) -> Result<Vec<Box<str>>, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut values = Vec::new();
    for value in text.split(',').map(str::trim) {
        if value.len() > 63 || !value.chars().all(allowed) {
            return Err(format!("`{value}` cannot be a label's value"));
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

/// A set of labels of which nothing is kept but a hash for each: enough to say whether one set has all of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSet(Box<[u64]>);

impl LabelSet {
    /// These names and values.
    pub fn new<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let builder = BuildHasherDefault::<DefaultHasher>::default();
        let mut hashes: Vec<u64> = labels.into_iter().map(|label| builder.hash_one(label)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes.into())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hash of each label, in order.
    pub fn hashes(&self) -> &[u64] {
        &self.0
    }

    /// Whether all labels of the other set are in this one.
    pub fn has_all(&self, others: &Self) -> bool {
        others.0.iter().all(|hash| self.0.binary_search(hash).is_ok())
    }
}

/// A name in which `*` stands for any characters, also for none. There is no other magic, and no escape: Kubernetes
/// allows no star in a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: Box<str>,
    has_star: bool,
}

impl Glob {
    /// A pattern of this text.
    pub fn new(text: &str) -> Self {
        Self { text: text.into(), has_star: text.contains('*') }
    }

    /// The one name that it matches, if it has no star.
    pub fn exact(&self) -> Option<&str> {
        (!self.has_star).then_some(&*self.text)
    }

    /// Whether it matches every name.
    pub fn is_anything(&self) -> bool {
        self.has_star && self.text.bytes().all(|byte| byte == b'*')
    }

    /// Whether the whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.text.split_once('*') else { return *self.text == *name };
        let Some(mut name) = name.strip_prefix(first) else { return false };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        // The leftmost place for each part leaves the most room for those that follow.
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

/// Some objects of one kind, by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameSet(BTreeMap<Box<str>, BTreeSet<Box<str>>>);

impl NameSet {
    /// Adds an object; its namespace is empty where it has none.
    pub fn insert(&mut self, namespace: &str, name: &str) {
        match self.0.get_mut(namespace) {
            Some(names) => {
                names.insert(name.into());
            }
            None => {
                self.0.insert(namespace.into(), [name.into()].into());
            }
        }
    }

    /// Whether this object is among them.
    pub fn has(&self, namespace: &str, name: &str) -> bool {
        self.0.get(namespace).is_some_and(|names| names.contains(name))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    /// Each of them, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(namespace, names)| names.iter().map(move |name| (&**namespace, &**name)))
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for NameSet {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(objects: I) -> Self {
        let mut set = Self::default();
        for (namespace, name) in objects {
            set.insert(namespace, name);
        }
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

/// Streams are looked up with every object that they bring, and two that differ in nothing but many names are rare.
impl Hash for NameSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.count().hash(state);
    }
}

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
    use super::{Glob, LabelSet, Scope, Selector};

    #[track_caller]
    fn check(text: &str, wanted: bool) {
        let labels = [("app", "web"), ("a/b", "1")];
        let value_of = |key: &str| labels.iter().find(|(own, _)| *own == key).map(|(_, value)| *value);
        let selector = Selector::parse(text).unwrap();
        assert_eq!(selector.matches(value_of), wanted, "{text}");
        assert_eq!(Selector::parse(&selector.to_string()), Ok(selector), "{text} does not survive writing");
    }

    #[test]
    fn every_form_is_understood() {
        for (text, wanted) in [
            ("app=web", true),
            ("app==web", true),
            ("app = web", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app in (x, web)", true),
            ("app notin (x,web)", false),
            ("other notin (x,web)", true),
            ("app in (web),a/b=1", true),
            ("app=web,a/b=2", false),
            ("app=", false),
            ("", true),
        ] {
            check(text, wanted);
        }
    }

    #[test]
    fn order_and_spelling_do_not_matter() {
        assert_eq!(Selector::parse("b=1, a in (y,x)"), Selector::parse("a in (x,y),b==1"));
        assert_ne!(Selector::parse("a=1"), Selector::parse("a!=1"));
        assert!(Selector::parse(" , ").unwrap().is_empty());
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["a b", "app in web", "app in (web", "=x", "!", "a=b c", "a=b&watch=1", "a b (c)"] {
            assert!(Selector::parse(text).is_err(), "{text}");
        }
        assert!(Selector::parse(&format!("a={}", "x".repeat(64))).is_err());
    }

    #[test]
    fn a_set_has_all_of_another_or_not() {
        let web = LabelSet::new([("app", "web"), ("tier", "front")]);
        assert!(web.has_all(&LabelSet::new([("tier", "front")])));
        assert!(!web.has_all(&LabelSet::new([("app", "front")])), "names and values belong together");
        assert!(!web.has_all(&LabelSet::new([("app", "web"), ("a", "b")])));
        assert!(web.has_all(&LabelSet::default()) && LabelSet::default().is_empty());
    }

    #[track_caller]
    fn check_glob(glob: &str, matching: &[&str], others: &[&str]) {
        for name in matching {
            assert!(Glob::new(glob).matches(name), "{glob} should match {name}");
        }
        for name in others {
            assert!(!Glob::new(glob).matches(name), "{glob} should not match {name}");
        }
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        check_glob("web", &["web"], &["", "we", "webs", "Web"]);
        check_glob("*", &["", "web"], &[]);
        check_glob("web-*", &["web-", "web-1"], &["web", "a-web-1"]);
        check_glob("*-web", &["-web", "a-web"], &["web", "a-web-1"]);
        check_glob("a*b*c", &["abc", "a1b2c", "abbc", "abcbc"], &["ab", "acb", "abcd"]);
        check_glob("a**c", &["ac", "abc"], &["a"]);
        check_glob("aa*aa", &["aaaa", "aabaa"], &["aa", "aaa"]);
    }

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
