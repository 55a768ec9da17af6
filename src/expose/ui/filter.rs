//! Which objects the overview shows. All of it lives in the URL.

use serde::Deserialize;

use super::links::encode;
use crate::model::{ObjectKey, VerdictKind};

/// The query as it came.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct FilterQuery {
    #[serde(default)]
    q: String,
    #[serde(default)]
    verdict: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    page: String,
}

/// What to show.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) text: String,
    pub(super) verdict: Option<VerdictKind>,
    /// Empty for all of them, `-` for objects that have none.
    pub(super) namespace: String,
    /// Counts from 1.
    pub(super) page: usize,
}

impl Filter {
    /// Takes the query, or says what is wrong with it.
    pub(super) fn parse(query: FilterQuery) -> Result<Self, String> {
        let verdict = match &*query.verdict {
            "" => None,
            word => Some(VerdictKind::parse(word).ok_or_else(|| unknown_verdict(word))?),
        };
        let page = match &*query.page {
            "" => 1,
            number => match number.parse() {
                Ok(page) if page > 0 => page,
                _ => return Err(format!("“{number}” is not the number of a page.")),
            },
        };
        Ok(Self { text: query.q.trim().to_owned(), verdict, namespace: query.namespace, page })
    }

    /// The overview with this filter.
    pub(super) fn url(&self) -> String {
        let page = if self.page > 1 { self.page.to_string() } else { String::new() };
        let verdict = self.verdict.map_or("", VerdictKind::as_str);
        let parts =
            [("q", &*self.text), ("verdict", verdict), ("namespace", &*self.namespace), ("page", &*page)];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .collect();
        if parts.is_empty() { "/".to_owned() } else { format!("/?{}", parts.join("&")) }
    }

    /// The same with another verdict, from the first page on.
    pub(super) fn with_verdict(&self, verdict: Option<VerdictKind>) -> Self {
        Self { verdict, page: 1, ..self.clone() }
    }

    /// The same on another page.
    pub(super) fn with_page(&self, page: usize) -> Self {
        Self { page, ..self.clone() }
    }

    /// Whether it leaves anything out.
    pub(super) fn is_narrow(&self) -> bool {
        self.verdict.is_some() || !self.namespace.is_empty() || !self.text.is_empty()
    }

    /// Whether the object's namespace is asked for.
    pub(super) fn takes_namespace(&self, key: &ObjectKey) -> bool {
        match &*self.namespace {
            "" => true,
            "-" => key.namespace.is_empty(),
            wanted => wanted == &*key.namespace,
        }
    }

    /// The words of the text, in lower case; every one of them has to be found.
    pub(super) fn words(&self) -> Vec<String> {
        self.text.split_whitespace().map(str::to_lowercase).collect()
    }
}

fn unknown_verdict(word: &str) -> String {
    let known: Vec<&str> = VerdictKind::ALL.iter().map(|verdict| verdict.as_str()).collect();
    format!("There is no verdict “{word}”. There are {}.", known.join(", "))
}
