//! Whether a password is right. That is made to take long, so it is looked at elsewhere, by few at a time, and remembered.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bcrypt::HashParts;
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::kept::{Kept, digest};
use crate::types::RedactionKey;

/// How many are looked at at a time: what is left of the processor is for those who are in already.
const AT_ONCE: usize = 1;
/// How many wait for that; more are sent away.
const WAITING: usize = 32;
/// What is right stays right, as the hash is part of the question: nobody who is in has to stand in line with those who guess.
const RIGHT_FOR: Duration = Duration::MAX;
const WRONG_FOR: Duration = Duration::from_secs(60);
const REMEMBERED: usize = 256;

/// What was found out about passwords.
#[derive(Debug)]
pub(super) struct Passwords {
    /// Apart, so that no number of wrong ones makes a right one be forgotten.
    right: Mutex<Kept<()>>,
    wrong: Mutex<Kept<()>>,
    places: Arc<Semaphore>,
    waiting: Semaphore,
}

/// Too many passwords wait to be looked at.
#[derive(Debug)]
pub(super) struct Busy;

impl Default for Passwords {
    fn default() -> Self {
        Self {
            right: Mutex::new(Kept::new(REMEMBERED)),
            wrong: Mutex::new(Kept::new(REMEMBERED)),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Semaphore::new(WAITING),
        }
    }
}

impl Passwords {
    /// Whether this is the password of a user who is there.
    pub(super) async fn is_right(
        &self,
        users: &BTreeMap<Box<str>, Box<str>>,
        key: &RedactionKey,
        user: &str,
        password: &str,
    ) -> Result<bool, Busy> {
        let own = users.get(user);
        // Somebody who is not there takes as long as whoever takes longest.
        let Some(hash) = own.or_else(|| users.values().max_by_key(|hash| cost(hash))).cloned() else {
            return Ok(false);
        };
        // The hash is part of it: another password at the same name is another question.
        let question = digest(key, &[user.as_bytes(), hash.as_bytes(), password.as_bytes()]);
        if lock(&self.right).get(&question).is_some() {
            return Ok(own.is_some());
        }
        if lock(&self.wrong).get(&question).is_some() {
            return Ok(false);
        }
        let _waiting = self.waiting.try_acquire().map_err(|_| Busy)?;
        // The place goes along: whoever hangs up does not make room for another computation.
        let place = self.places.clone().acquire_owned().await.map_err(|_| Busy)?;
        let password = password.to_owned();
        let computed = spawn_blocking(move || {
            let is_right = bcrypt::verify(password, &hash).unwrap_or(false);
            drop(place);
            is_right
        });
        let is_right = computed.await.unwrap_or(false) && own.is_some();
        if is_right {
            lock(&self.right).put(question, (), RIGHT_FOR);
        } else {
            lock(&self.wrong).put(question, (), WRONG_FOR);
        }
        Ok(is_right)
    }
}

fn cost(hash: &str) -> u32 {
    hash.parse::<HashParts>().map_or(0, |parts| parts.get_cost())
}

fn lock(kept: &Mutex<Kept<()>>) -> std::sync::MutexGuard<'_, Kept<()>> {
    // What is in it is whole at any time.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::{Passwords, WAITING};
    use crate::types::RedactionKey;

    fn users(entries: &[(&str, &str)]) -> BTreeMap<Box<str>, Box<str>> {
        let hash = |password: &str| bcrypt::hash(password, 4).unwrap().into();
        entries.iter().map(|(name, password)| ((*name).into(), hash(password))).collect()
    }

    #[tokio::test]
    async fn only_the_own_password_of_somebody_who_is_there_is_right() {
        let (passwords, key) = (Passwords::default(), RedactionKey::new([1; 32]));
        let known = users(&[("ann", "one"), ("bob", "two")]);
        let ask = async |known: &BTreeMap<_, _>, user, password| {
            passwords.is_right(known, &key, user, password).await.unwrap()
        };
        for _ in 0..2 {
            assert!(ask(&known, "ann", "one").await);
            assert!(!ask(&known, "ann", "two").await);
            assert!(!ask(&known, "bob", "one").await);
            // Whoever is not there is compared with somebody's password, and may know it.
            assert!(!ask(&known, "eve", "one").await && !ask(&known, "eve", "two").await);
        }
        let moved = users(&[("ann", "new")]);
        assert!(!ask(&moved, "ann", "one").await, "what is remembered is of the hash");
        assert!(ask(&moved, "ann", "new").await);
        assert!(!ask(&BTreeMap::new(), "ann", "new").await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_guesses_is_sent_away_and_those_who_are_known_are_not() {
        let (passwords, key) = (Arc::new(Passwords::default()), RedactionKey::new([1; 32]));
        let known = Arc::new(users(&[("ann", "one")]));
        assert!(passwords.is_right(&known, &key, "ann", "one").await.unwrap());
        // However long ago that was.
        tokio::time::advance(std::time::Duration::from_secs(86_400)).await;
        let guesses: Vec<_> = (0..WAITING * 3)
            .map(|guess| {
                let (passwords, known, key) = (passwords.clone(), known.clone(), key.clone());
                tokio::spawn(async move { passwords.is_right(&known, &key, "ann", &guess.to_string()).await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(passwords.is_right(&known, &key, "ann", "one").await.unwrap());
        let mut sent_away = 0;
        for guess in guesses {
            match guess.await.unwrap() {
                Ok(is_right) => assert!(!is_right),
                Err(_) => sent_away += 1,
            }
        }
        assert!(sent_away > 0);
    }
}
