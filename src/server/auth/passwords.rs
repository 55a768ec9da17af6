//! Basic authentication. bcrypt is slow on purpose, so it runs on a blocking thread, one hash at a time, and results are cached.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bcrypt::HashParts;
use moka::sync::Cache;
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::reviews::digest;
use crate::types::RedactionKey;

/// One core at most: the rest of the machine serves clients that are authenticated already.
const CONCURRENT_HASHES: usize = 1;
const QUEUED_HASHES: usize = 32;
const REJECTED_TTL: Duration = Duration::from_secs(60);
const CACHED_PASSWORDS: u64 = 256;

#[derive(Debug)]
pub(super) struct Passwords {
    /// Separate caches, so that a flood of guesses never evicts an accepted password. Accepted ones never expire: the key holds the
    /// hash, so a changed password has another key.
    accepted: Cache<String, ()>,
    rejected: Cache<String, ()>,
    running: Arc<Semaphore>,
    queued: Semaphore,
}

/// The queue of passwords to check is full.
#[derive(Debug)]
pub(super) struct QueueFull;

impl Default for Passwords {
    fn default() -> Self {
        Self {
            accepted: Cache::new(CACHED_PASSWORDS),
            rejected: Cache::builder().max_capacity(CACHED_PASSWORDS).time_to_live(REJECTED_TTL).build(),
            running: Arc::new(Semaphore::new(CONCURRENT_HASHES)),
            queued: Semaphore::new(QUEUED_HASHES),
        }
    }
}

impl Passwords {
    pub(super) async fn verify(
        &self,
        users: &BTreeMap<Box<str>, Box<str>>,
        key: &RedactionKey,
        user: &str,
        password: &str,
    ) -> Result<bool, QueueFull> {
        let known = users.get(user);
        // An unknown user takes as long as the slowest known one, so that response times reveal no names.
        let Some(hash) = known.or_else(|| users.values().max_by_key(|hash| cost(hash))).cloned() else {
            return Ok(false);
        };
        let cache_key = digest(key, &[user.as_bytes(), hash.as_bytes(), password.as_bytes()]);
        if self.accepted.contains_key(&cache_key) {
            return Ok(known.is_some());
        }
        if self.rejected.contains_key(&cache_key) {
            return Ok(false);
        }
        let _queued = self.queued.try_acquire().map_err(|_| QueueFull)?;
        // The permit moves into the blocking task: a client that disconnects does not start another hash.
        let permit = self.running.clone().acquire_owned().await.map_err(|_| QueueFull)?;
        let password = password.to_owned();
        let verified = spawn_blocking(move || {
            let matches = bcrypt::verify(password, &hash).unwrap_or(false);
            drop(permit);
            matches
        });
        let accepted = verified.await.unwrap_or(false) && known.is_some();
        let cache = if accepted { &self.accepted } else { &self.rejected };
        cache.insert(cache_key, ());
        Ok(accepted)
    }
}

fn cost(hash: &str) -> u32 {
    hash.parse::<HashParts>().map_or(0, |parts| parts.get_cost())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::{Passwords, QUEUED_HASHES};
    use crate::types::RedactionKey;

    fn users(entries: &[(&str, &str)]) -> BTreeMap<Box<str>, Box<str>> {
        let hash = |password: &str| bcrypt::hash(password, 4).unwrap().into();
        entries.iter().map(|(name, password)| ((*name).into(), hash(password))).collect()
    }

    #[tokio::test]
    async fn only_the_password_of_a_known_user_is_accepted() {
        let (passwords, key) = (Passwords::default(), RedactionKey::new([1; 32]));
        let known = users(&[("ann", "one"), ("bob", "two")]);
        let verify = async |known: &BTreeMap<_, _>, user, password| {
            passwords.verify(known, &key, user, password).await.unwrap()
        };
        for _ in 0..2 {
            assert!(verify(&known, "ann", "one").await);
            assert!(!verify(&known, "ann", "two").await);
            assert!(!verify(&known, "bob", "one").await);
            // An unknown user is compared with the hash of a known one, whose password it may know.
            assert!(!verify(&known, "eve", "one").await && !verify(&known, "eve", "two").await);
        }
        let changed = users(&[("ann", "new")]);
        assert!(!verify(&changed, "ann", "one").await, "cached results belong to a hash");
        assert!(verify(&changed, "ann", "new").await);
        assert!(!verify(&BTreeMap::new(), "ann", "new").await);
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_guesses_is_rejected_and_accepted_passwords_are_not() {
        let (passwords, key) = (Arc::new(Passwords::default()), RedactionKey::new([1; 32]));
        let known = Arc::new(users(&[("ann", "one")]));
        assert!(passwords.verify(&known, &key, "ann", "one").await.unwrap());
        tokio::time::advance(std::time::Duration::from_secs(86_400)).await;
        let guesses: Vec<_> = (0..QUEUED_HASHES * 3)
            .map(|guess| {
                let (passwords, known, key) = (passwords.clone(), known.clone(), key.clone());
                tokio::spawn(async move { passwords.verify(&known, &key, "ann", &guess.to_string()).await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(passwords.verify(&known, &key, "ann", "one").await.unwrap());
        let mut queue_full = 0;
        for guess in guesses {
            match guess.await.unwrap() {
                Ok(accepted) => assert!(!accepted),
                Err(_) => queue_full += 1,
            }
        }
        assert!(queue_full > 0);
    }
}
