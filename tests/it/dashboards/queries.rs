//! A simple parser for the selectors of a query. `make test-real` validates queries with Prometheus.

use std::sync::LazyLock;

use regex::Regex;

// Our metrics match by name, others by their braces.
static SELECTOR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?:([a-z_]+)\(\s*)?\b(?:([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}|((?:drift|process)_[a-z_]+))(?:\[([^\]]*)\])?",
    )
    .unwrap()
});
static MATCHER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)""#).unwrap());
static GROUPING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bby \(([^)]*)\)").unwrap());

/// A vector selector with the function that is applied to it.
#[derive(Debug)]
pub(super) struct Selector {
    pub(super) metric: String,
    /// Label, operator, value.
    pub(super) matchers: Vec<[String; 3]>,
    pub(super) range: Option<String>,
    /// The function whose only argument is this selector.
    pub(super) function: Option<String>,
}

pub(super) fn selectors(query: &str) -> Vec<Selector> {
    let found = SELECTOR.captures_iter(query).map(|found| {
        let part = |index: usize| found.get(index).map(|part| part.as_str().to_owned());
        let matchers = part(3).unwrap_or_default();
        let matchers = MATCHER
            .captures_iter(&matchers)
            .map(|matcher| [1, 2, 3].map(|index| matcher[index].to_owned()))
            .collect();
        let metric = part(2).or_else(|| part(4)).unwrap();
        Selector { metric, matchers, range: part(5), function: part(1) }
    });
    found.collect()
}

/// The labels of the first `by` clause.
pub(super) fn outer_grouping(query: &str) -> Option<Vec<&str>> {
    let found = GROUPING.captures(query)?;
    Some(found.get(1)?.as_str().split(',').map(str::trim).collect())
}

/// The labels of all `by` clauses.
pub(super) fn grouped_labels(query: &str) -> Vec<&str> {
    let lists = GROUPING.captures_iter(query).filter_map(|found| found.get(1));
    lists.flat_map(|list| list.as_str().split(',').map(str::trim)).collect()
}

/// Whether brackets outside quotes are balanced.
pub(super) fn is_balanced(query: &str) -> bool {
    let (mut open, mut quoted) = (Vec::new(), false);
    for character in query.chars() {
        match character {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => open.push(character),
            ')' if open.pop() != Some('(') => return false,
            ']' if open.pop() != Some('[') => return false,
            '}' if open.pop() != Some('{') => return false,
            _ => {}
        }
    }
    open.is_empty() && !quoted
}
