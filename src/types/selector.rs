//! Label selectors, as Kubernetes writes and understands them.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::Selector;

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
}
