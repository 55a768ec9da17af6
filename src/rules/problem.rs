//! What is wrong with a written rule, where, and what may have been meant.

use std::fmt;

use super::Origin;
use crate::types::ClosedSet;

/// Something that is wrong, or looks wrong, in what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    /// Where the rule comes from.
    pub origin: Origin,
    /// The rule's name, where it is about a rule.
    pub rule: Option<Box<str>>,
    /// Where it stands: `rules[2].match.paths[0]`. Within the rules of a team, counted from their own beginning.
    pub key: Box<str>,
    /// What is wrong.
    pub message: Box<str>,
    /// The nearest right word, where one is near.
    pub suggestion: Option<Box<str>>,
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Origin::Team { namespace } = &self.origin {
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

/// Collects what is wrong with one thing that was written.
#[derive(Debug)]
pub(super) struct Reporter<'a> {
    found: &'a mut Vec<RuleProblem>,
    origin: Origin,
    rule: Option<Box<str>>,
    place: String,
}

impl<'a> Reporter<'a> {
    /// A reporter about what stands at this place.
    pub(super) fn new(found: &'a mut Vec<RuleProblem>, origin: Origin, place: String) -> Self {
        Self { found, origin, rule: None, place }
    }

    /// The same for a rule that has a name.
    pub(super) fn about(self, rule: &str) -> Self {
        Self { rule: Some(rule.into()), ..self }
    }

    /// Something is wrong under this key.
    pub(super) fn problem(&mut self, key: &str, message: impl Into<Box<str>>) {
        self.push(key, message.into(), None);
    }

    /// Something is wrong under this key, and something else may have been meant.
    pub(super) fn unknown<'w>(
        &mut self,
        key: &str,
        message: String,
        word: &str,
        words: impl IntoIterator<Item = &'w str>,
    ) {
        self.push(key, message.into(), nearest(word, words).map(Into::into));
    }

    /// This word is none of those that may stand here.
    pub(super) fn no_such_word(&mut self, key: &str, word: &str, words: &[&str]) {
        let message = format!("`{word}` is not one of {}", words.join(", "));
        self.unknown(key, message, word, words.iter().copied());
    }

    /// The member of a closed set that this word is.
    pub(super) fn word<T: ClosedSet>(&mut self, key: &str, word: &str) -> Option<T> {
        let found = T::members().iter().copied().find(|member| member.word() == word);
        if found.is_none() {
            let words: Vec<&str> = T::members().iter().map(|member| member.word()).collect();
            self.no_such_word(key, word, &words);
        }
        found
    }

    /// The members of a closed set that these words are.
    pub(super) fn words<T: ClosedSet>(&mut self, key: &str, words: &[String]) -> Vec<T> {
        let mut members = Vec::new();
        for (at, word) in words.iter().enumerate() {
            members.extend(self.word::<T>(&format!("{key}[{at}]"), word));
        }
        members
    }

    fn push(&mut self, key: &str, message: Box<str>, suggestion: Option<Box<str>>) {
        let key = if key.is_empty() { self.place.clone() } else { format!("{}.{key}", self.place) };
        let (origin, rule) = (self.origin.clone(), self.rule.clone());
        self.found.push(RuleProblem { origin, rule, key: key.into(), message, suggestion });
    }
}

/// The word that was most likely meant, if any is near enough to have been.
pub(crate) fn nearest<'w>(word: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let word = word.to_lowercase();
    words
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_word_is_suggested_only_when_it_is_near() {
        let words = ["replicas", "image", "env"];
        assert_eq!(nearest("replica", words), Some("replicas"));
        assert_eq!(nearest("Image", words), Some("image"));
        assert_eq!(nearest("something", words), None);
        assert_eq!(nearest("drift", ["tracked", "drifted"]), Some("drifted"));
        assert_eq!(nearest("apiversion", ["apiVersion", "kind"]), Some("apiVersion"));
    }
}
