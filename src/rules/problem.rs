//! Problems in rules: where, why, and the probable intention.

use std::{error::Error, fmt};

use super::RuleOrigin;
use crate::types::{ClosedSet, shorten};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    pub origin: RuleOrigin,
    /// The name of the rule, if the problem is in a rule.
    pub rule: Option<Box<str>>,
    /// `rules[2].match.paths[0]`. The rules of each team are counted from 0.
    pub key: Box<str>,
    pub message: Box<str>,
    /// The most similar valid word.
    pub suggestion: Option<Box<str>>,
}

impl Error for RuleProblem {}

impl fmt::Display for RuleProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let RuleOrigin::Team { namespace } = &self.origin {
            write!(formatter, "namespace {namespace}: ")?;
        }
        formatter.write_str(&self.key)?;
        if let Some(rule) = &self.rule {
            write!(formatter, " (rule {rule})")?;
        }
        write!(formatter, ": {}", self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(formatter, "; did you mean `{suggestion}`?"),
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(super) struct Reporter<'a> {
    problems: &'a mut Vec<RuleProblem>,
    origin: RuleOrigin,
    rule: Option<Box<str>>,
    /// The key of the spec, a prefix of all keys.
    prefix: String,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(problems: &'a mut Vec<RuleProblem>, origin: RuleOrigin, prefix: String) -> Self {
        Self { problems, origin, rule: None, prefix }
    }

    pub(super) fn for_rule(self, rule: &str) -> Self {
        Self { rule: Some(shorten(rule).into()), ..self }
    }

    pub(super) fn problem(&mut self, key: &str, message: impl fmt::Display) {
        self.push(key, shorten(&message.to_string()).into_owned(), None);
    }

    /// Reports a problem with the most similar of `words` as suggestion.
    pub(super) fn unknown<'w>(
        &mut self,
        key: &str,
        message: String,
        word: &str,
        words: impl IntoIterator<Item = &'w str>,
    ) {
        self.push(key, message, nearest(word, words).map(Into::into));
    }

    pub(super) fn not_one_of(&mut self, key: &str, word: &str, words: &[&str]) {
        let message = format!("`{}` is not one of {}", shorten(word), words.join(", "));
        self.unknown(key, message, word, words.iter().copied());
    }

    pub(super) fn member<T: ClosedSet>(&mut self, key: &str, word: &str) -> Option<T> {
        let found = T::members().iter().copied().find(|member| member.as_str() == word);
        if found.is_none() {
            self.not_one_of(key, word, &T::spellings());
        }
        found
    }

    pub(super) fn members<T: ClosedSet>(&mut self, key: &str, words: &[String]) -> Vec<T> {
        let mut members = Vec::new();
        for (at, word) in words.iter().enumerate() {
            members.extend(self.member::<T>(&format!("{key}[{at}]"), word));
        }
        members
    }

    fn push(&mut self, key: &str, message: String, suggestion: Option<Box<str>>) {
        let key = if key.is_empty() { self.prefix.clone() } else { format!("{}.{key}", self.prefix) };
        let (origin, rule) = (self.origin.clone(), self.rule.clone());
        self.problems.push(RuleProblem {
            origin,
            rule,
            key: key.into(),
            message: message.into(),
            suggestion,
        });
    }
}

/// The most similar word, if it is similar enough to be the intended one.
pub(crate) fn nearest<'w>(word: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let length = word.chars().count();
    let limit = |candidate: &str| candidate.chars().count().max(3) / 3;
    // The distance is at least the difference of the lengths, and takes long to compute for a long word.
    let is_comparable = |candidate: &&str| length.abs_diff(candidate.chars().count()) <= limit(candidate);
    let distance =
        |candidate: &str| strsim::damerau_levenshtein(&word.to_lowercase(), &candidate.to_lowercase());
    words
        .into_iter()
        .filter(is_comparable)
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(distance, candidate)| *distance <= limit(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_similar_words_are_suggested() {
        let words = ["replicas", "image", "env"];
        assert_eq!(nearest("replica", words), Some("replicas"));
        assert_eq!(nearest("Image", words), Some("image"));
        assert_eq!(nearest("something", words), None);
        assert_eq!(nearest(&"x".repeat(10_000_000), words), None, "and a long word takes no time");
        assert_eq!(nearest("drift", ["tracked", "drifted"]), Some("drifted"));
        assert_eq!(nearest("apiversion", ["apiVersion", "kind"]), Some("apiVersion"));
    }
}
