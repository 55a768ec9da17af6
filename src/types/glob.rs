//! Names with stars in them.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::Glob;

    #[track_caller]
    fn check(glob: &str, matching: &[&str], others: &[&str]) {
        for name in matching {
            assert!(Glob::new(glob).matches(name), "{glob} should match {name}");
        }
        for name in others {
            assert!(!Glob::new(glob).matches(name), "{glob} should not match {name}");
        }
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        check("web", &["web"], &["", "we", "webs", "Web"]);
        check("*", &["", "web"], &[]);
        check("web-*", &["web-", "web-1"], &["web", "a-web-1"]);
        check("*-web", &["-web", "a-web"], &["web", "a-web-1"]);
        check("a*b*c", &["abc", "a1b2c", "abbc", "abcbc"], &["ab", "acb", "abcd"]);
        check("a**c", &["ac", "abc"], &["a"]);
        check("aa*aa", &["aaaa", "aabaa"], &["aa", "aaa"]);
    }
}
