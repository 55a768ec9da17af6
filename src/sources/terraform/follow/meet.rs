//! Which states there are, and whose locks are held: what was seen meets what is known.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use tokio::time::Instant;

use super::{
    Follower, StateSources,
    files::{FileSeen, scan},
    lock::read_lock,
    place::Place,
    seen::Seen,
    state::{State, Version},
    trouble::not_opened,
};
use crate::{
    sources::{known::Known, teller::Closed},
    types::Lock,
};

impl Follower {
    /// Forgets what does not belong to other settings.
    pub(super) async fn change_sources(&mut self, sources: Arc<StateSources>) -> Result<(), Closed> {
        let before = std::mem::replace(&mut self.sources, sources);
        self.states.here = self.sources.here;
        self.states.keep(|place| place.belongs(&before, &self.sources)).await?;
        for place in self.states.known.keys().cloned().collect::<Vec<_>>() {
            self.states.tell(&place).await?;
        }
        Ok(())
    }

    /// Takes in which Secrets there are, and who holds which lock.
    pub(super) async fn meet(&mut self, seen: &Seen) -> Result<(), Closed> {
        let groups = seen.groups(&self.sources);
        self.states.keep(|place| !seen.is_known(place) || groups.contains_key(place)).await?;
        for (place, group) in groups {
            self.state(place, &group.labels).see(Version::Secrets(group));
        }
        let mut locks: Vec<(Place, Option<Lock>)> = Vec::new();
        for place in self.states.known.keys() {
            if let Place::State(secret) = place
                && seen.knows_locks(&secret.namespace)
            {
                let lock = seen.lock_of(secret).map(|entry| {
                    let info = entry.held.as_deref().unwrap_or_default();
                    read_lock(info, entry.written, self.sources.lock_max_age)
                });
                locks.push((place.clone(), lock));
            }
        }
        for (place, lock) in locks {
            self.take_lock(&place, lock).await?;
        }
        Ok(())
    }

    /// Takes in which files there are.
    pub(super) async fn look_at_files(&mut self) -> Result<(), Closed> {
        let given = self.sources.files.clone();
        let Ok(found) = tokio::task::spawn_blocking(move || scan(&given)).await else { return Ok(()) };
        // What is in a directory that cannot be read now is not gone.
        let closed: Vec<&PathBuf> =
            found.iter().filter(|(_, seen)| seen.stamp.is_err()).map(|(path, _)| path).collect();
        let stays = |place: &Place| match place {
            Place::File(path) => found.contains_key(path) || closed.iter().any(|own| path.starts_with(own)),
            Place::State(_) | Place::Published(_) => true,
        };
        self.states.keep(stays).await?;
        for (path, FileSeen { stamp, held }) in found {
            let place = Place::File(path);
            let known = self.state(place.clone(), &BTreeMap::new());
            match stamp {
                Ok(stamp) => known.see(Version::File(stamp)),
                Err(why) => {
                    (known.own.version, known.read_at) = (None, None);
                    known.take_fault(not_opened(&place, &why));
                    self.states.tell(&place).await?;
                }
            }
            let lock = held.map(|(info, since)| read_lock(&info, since, self.sources.lock_max_age));
            self.take_lock(&place, lock).await?;
        }
        Ok(())
    }

    async fn take_lock(&mut self, place: &Place, lock: Option<Lock>) -> Result<(), Closed> {
        let Some(known) = self.states.known.get_mut(place) else { return Ok(()) };
        if known.take_lock(lock, Instant::now()) { self.states.tell(place).await } else { Ok(()) }
    }

    /// What is known about a state, be it new.
    fn state(&mut self, place: Place, labels: &BTreeMap<String, String>) -> &mut Known<State> {
        let name = self.name_of(&place, labels);
        let origin = place.origin();
        self.states.known.entry(place).or_insert_with(|| Known::new(name, origin, State::default()))
    }

    /// What a state is called. Where the name is taken, its place is told as well.
    fn name_of(&self, place: &Place, labels: &BTreeMap<String, String>) -> Arc<str> {
        if let Some(known) = self.states.known.get(place) {
            return known.name.clone();
        }
        let label = |name: &str| labels.get(name).map(String::as_str).filter(|value| !value.is_empty());
        let (name, longer) = match place {
            Place::State(secret) => {
                let rest = secret.name.strip_prefix("tfstate-").unwrap_or(&secret.name);
                let (workspace, suffix) = rest.split_once('-').unwrap_or(("default", rest));
                let workspace = label("tfstateWorkspace").unwrap_or(workspace);
                let suffix = label("tfstateSecretSuffix").unwrap_or(suffix);
                (format!("{}/{workspace}/{suffix}", secret.namespace), secret.to_string())
            }
            Place::Published(secret) => {
                let own = label(&format!("{}/baseline-name", self.sources.prefix));
                let own = own.unwrap_or_else(|| secret.name.trim_start_matches("drift-baseline-"));
                (own.to_owned(), format!("{}/{own}", secret.namespace))
            }
            Place::File(path) => (path.display().to_string(), path.display().to_string()),
        };
        if self.states.is_taken(&name) { longer.into() } else { name.into() }
    }
}
