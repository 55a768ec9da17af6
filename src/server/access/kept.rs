//! Answers that are remembered for a while.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

/// Answers to questions, by a digest of the question. There are never more than so many: the oldest goes first.
#[derive(Debug)]
pub(super) struct Kept<V> {
    most: usize,
    /// Each with the time until which it holds; none for ever.
    answers: HashMap<String, (V, Option<Instant>)>,
    order: VecDeque<String>,
}

impl<V: Clone> Kept<V> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, answers: HashMap::new(), order: VecDeque::new() }
    }

    /// The answer, if it is known and not too old.
    pub(super) fn get(&self, question: &str) -> Option<V> {
        let (answer, until) = self.answers.get(question)?;
        until.is_none_or(|until| Instant::now() < until).then(|| answer.clone())
    }

    /// Whether there was an answer, be it too old by now.
    pub(super) fn had(&self, question: &str) -> bool {
        self.answers.contains_key(question)
    }

    /// Remembers an answer for so long; for ever where that is longer than anybody can count.
    pub(super) fn put(&mut self, question: String, answer: V, age: Duration) {
        let until = Instant::now().checked_add(age);
        if self.answers.insert(question.clone(), (answer, until)).is_none() {
            self.order.push_back(question);
        }
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.answers.remove(&oldest);
        }
    }
}

/// What an answer is remembered by: a keyed digest, in which no two lists of parts are the same text.
pub(super) fn digest(key: &crate::types::RedactionKey, parts: &[&[u8]]) -> String {
    let mut text = Vec::new();
    for part in parts {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part);
    }
    key.digest(&text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Kept, digest};
    use crate::types::RedactionKey;

    #[tokio::test(start_paused = true)]
    async fn answers_go_when_they_are_old_or_too_many() {
        let mut kept = Kept::new(2);
        for (question, age) in [("a", 9), ("b", 1), ("c", 9)] {
            kept.put(question.to_owned(), question, Duration::from_secs(age));
        }
        assert_eq!(["a", "b", "c"].map(|own| kept.get(own)), [None, Some("b"), Some("c")]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(["b", "c"].map(|own| kept.get(own)), [None, Some("c")]);
        kept.put("b".to_owned(), "new", Duration::from_secs(9));
        assert_eq!(["b", "c"].map(|own| kept.get(own)), [Some("new"), Some("c")]);
    }

    #[test]
    fn no_two_questions_have_the_same_digest() {
        let key = RedactionKey::new([1; 32]);
        let of = |parts: &[&[u8]]| digest(&key, parts);
        let digests = [of(&[b"ab", b"c"]), of(&[b"a", b"bc"]), of(&[b"abc"]), of(&[b"abc", b""])];
        for (at, own) in digests.iter().enumerate() {
            assert!(!digests[..at].contains(own), "{at}");
        }
    }
}
