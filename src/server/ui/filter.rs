//! Which objects the overview shows, and in which order. All of it lives in the URL.

use serde::Deserialize;

use super::{links::encode, rows::Row, sort::Sort};
use crate::types::{ClosedSet, ObjectKey, Severity, Source, VerdictKind};

/// How many rows a page may have; the first is the usual.
pub(super) const ROWS: [usize; 3] = [100, 500, 2_000];

/// The query as it came.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FilterQuery {
    q: String,
    verdict: String,
    severity: String,
    source: String,
    namespace: String,
    sort: String,
    rows: String,
    page: String,
}

/// What to show.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) text: String,
    pub(super) verdict: Option<VerdictKind>,
    pub(super) severity: Option<Severity>,
    pub(super) source: Option<Source>,
    /// Empty for all of them, `-` for objects that have none.
    pub(super) namespace: String,
    pub(super) sort: Sort,
    /// How many rows a page has: one of [`ROWS`].
    pub(super) rows: usize,
    /// Counts from 1.
    pub(super) page: usize,
}

impl Filter {
    /// Takes the query, or says what is wrong with it.
    pub(super) fn parse(query: FilterQuery) -> Result<Self, String> {
        let rows = match &*query.rows {
            "" => ROWS[0],
            number => {
                let known = number.parse().ok().filter(|rows| ROWS.contains(rows));
                known.ok_or_else(|| format!("A page has {ROWS:?} rows, not “{number}”."))?
            }
        };
        let page = match &*query.page {
            "" => 1,
            number => match number.parse() {
                Ok(page) if page > 0 => page,
                _ => return Err(format!("“{number}” is not the number of a page.")),
            },
        };
        let no_column = || format!("The table has no column “{}” to sort by.", query.sort);
        Ok(Self {
            text: query.q.trim().to_owned(),
            verdict: member("verdict", &query.verdict)?,
            severity: member("severity", &query.severity)?,
            source: member("source", &query.source)?,
            sort: Sort::parse(&query.sort).ok_or_else(no_column)?,
            namespace: query.namespace,
            rows,
            page,
        })
    }

    /// The overview with this filter.
    pub(super) fn url(&self) -> String {
        let number =
            |number: usize, usual: usize| if number == usual { String::new() } else { number.to_string() };
        let parts = [
            ("q", &*self.text),
            ("verdict", self.verdict.map_or("", VerdictKind::as_str)),
            ("severity", self.severity.map_or("", Severity::as_str)),
            ("source", self.source.map_or("", Source::as_str)),
            ("namespace", &*self.namespace),
            ("sort", &*self.sort.to_string()),
            ("rows", &*number(self.rows, ROWS[0])),
            ("page", &*number(self.page, 1)),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect::<Vec<String>>();
        if parts.is_empty() { "/".to_owned() } else { format!("/?{}", parts.join("&")) }
    }

    /// The same with another verdict, from the first page on.
    pub(super) fn with_verdict(&self, verdict: Option<VerdictKind>) -> Self {
        Self { verdict, page: 1, ..self.clone() }
    }

    /// The same with another severity, from the first page on.
    pub(super) fn with_severity(&self, severity: Option<Severity>) -> Self {
        Self { severity, page: 1, ..self.clone() }
    }

    /// The same with another source, from the first page on.
    pub(super) fn with_source(&self, source: Option<Source>) -> Self {
        Self { source, page: 1, ..self.clone() }
    }

    /// The same in another order, from the first page on.
    pub(super) fn with_sort(&self, sort: Sort) -> Self {
        Self { sort, page: 1, ..self.clone() }
    }

    /// The same with more or fewer rows, from the first page on.
    pub(super) fn with_rows(&self, rows: usize) -> Self {
        Self { rows, page: 1, ..self.clone() }
    }

    /// The same on another page.
    pub(super) fn with_page(&self, page: usize) -> Self {
        Self { page, ..self.clone() }
    }

    /// The order alone, without what leaves anything out.
    pub(super) fn without_filter(&self) -> Self {
        let text = String::new();
        Self { text, verdict: None, severity: None, source: None, namespace: String::new(), page: 1, ..*self }
    }

    /// Whether it leaves anything out.
    pub(super) fn is_narrow(&self) -> bool {
        self.verdict.is_some()
            || self.severity.is_some()
            || self.source.is_some()
            || !self.namespace.is_empty()
            || !self.text.is_empty()
    }

    /// Whether a row is asked for, whatever its verdict and its severity, which are counted beside the rows.
    pub(super) fn takes(&self, row: &Row<'_>, words: &[String]) -> bool {
        let entry = row.found.1;
        self.takes_namespace(&entry.object.key)
            && self.source.is_none_or(|source| source == entry.claim.source)
            && (words.is_empty() || row.has_all(words))
    }

    /// Whether the row's severity is asked for: that of what is off now.
    pub(super) fn takes_severity(&self, row: &Row<'_>) -> bool {
        let has = |severity| row.is_off() && row.worst().is_some_and(|worst| worst.severity == severity);
        self.severity.is_none_or(has)
    }

    /// The words of the text, in lower case; every one of them has to be found.
    pub(super) fn words(&self) -> Vec<String> {
        self.text.split_whitespace().map(str::to_lowercase).collect()
    }

    /// Whether the object's namespace is asked for.
    fn takes_namespace(&self, key: &ObjectKey) -> bool {
        match &*self.namespace {
            "" => true,
            "-" => key.namespace.is_empty(),
            wanted => wanted == &*key.namespace,
        }
    }
}

/// The member of a closed set that a word of the query names; none for no word.
fn member<T: ClosedSet>(name: &str, word: &str) -> Result<Option<T>, String> {
    if word.is_empty() {
        return Ok(None);
    }
    let known = T::members().iter().copied();
    let found = known.clone().find(|own| own.word() == word);
    let words = || known.map(T::word).collect::<Vec<&str>>().join(", ");
    let unknown = || format!("There is no {name} “{word}”. There are {}.", words());
    found.map(Some).ok_or_else(unknown)
}
