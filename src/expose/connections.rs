//! The connections that are open, and which of them has to go when there are too many.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// All open connections, of which there are never many more than a number.
///
/// Whoever connects gets in: if that is one too many, the connection goes on which nobody has asked for anything for the longest time.
/// So silent clients cannot keep others out, however many they are. Only where every single one is being answered, the new one waits.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    most: usize,
    open: Arc<Mutex<Open>>,
    /// Told whenever one has been answered, or is gone.
    changed: Arc<Notify>,
    /// Room for those that have to go and are not gone yet, too: each of them still is an open file.
    room: Arc<Semaphore>,
}

/// Connections that have to go and are not gone yet, and the one that waits.
const LEAVING: usize = 8;

#[derive(Debug, Default)]
struct Open {
    all: HashMap<u64, Connection>,
    next: u64,
}

#[derive(Debug)]
struct Connection {
    /// Since when nothing is asked on it; none while something is answered.
    silent_since: Option<Instant>,
    closed: CancellationToken,
}

/// The place of one connection, until it is let go of.
#[derive(Debug)]
pub(super) struct Place {
    connections: Connections,
    number: u64,
    closed: CancellationToken,
    _room: OwnedSemaphorePermit,
}

/// Something is being answered, until it is let go of.
#[derive(Debug)]
pub(super) struct Answering(Arc<Place>);

impl Connections {
    pub(super) fn new(most: usize) -> Self {
        let room = Arc::new(Semaphore::new(most.saturating_add(LEAVING)));
        Self { most, open: Arc::default(), changed: Arc::default(), room }
    }

    /// Waits until another connection may be accepted.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        self.room.clone().acquire_owned().await.expect("nobody closes it")
    }

    /// A place for a new connection, as soon as not every other one is being answered.
    pub(super) async fn enter(&self, room: OwnedSemaphorePermit) -> Arc<Place> {
        loop {
            if let Some((number, closed)) = self.try_enter() {
                return Arc::new(Place { connections: self.clone(), number, closed, _room: room });
            }
            self.changed.notified().await;
        }
    }

    fn try_enter(&self) -> Option<(u64, CancellationToken)> {
        let mut open = self.lock();
        if open.all.len() >= self.most {
            let silent = open.all.iter().filter_map(|(number, own)| Some((own.silent_since?, *number)));
            let (_, longest) = silent.min()?;
            if let Some(own) = open.all.remove(&longest) {
                own.closed.cancel();
            }
        }
        open.next += 1;
        let (number, closed) = (open.next, CancellationToken::new());
        let connection = Connection { silent_since: Some(Instant::now()), closed: closed.clone() };
        open.all.insert(number, connection);
        Some((number, closed))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // What is in it is whole at any time.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Something is asked on it.
    pub(super) fn answer(self: &Arc<Self>) -> Answering {
        self.set(None);
        Answering(self.clone())
    }

    /// Waits until it has to go.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    fn set(&self, silent_since: Option<Instant>) {
        if let Some(own) = self.connections.lock().all.get_mut(&self.number) {
            own.silent_since = silent_since;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().all.remove(&self.number);
        self.connections.changed.notify_one();
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.set(Some(Instant::now()));
        self.0.connections.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::time::{advance, timeout};

    use super::{Connections, LEAVING, Place};

    async fn enter(connections: &Connections) -> Arc<Place> {
        let room = connections.room().await;
        timeout(Duration::from_secs(9), connections.enter(room)).await.expect("there is a place")
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_silent_for_longest_goes_and_nobody_who_is_answered() {
        let connections = Connections::new(3);
        let mut places = Vec::new();
        for _ in 0..3 {
            places.push(enter(&connections).await);
            advance(Duration::from_secs(1)).await;
        }
        let first = places[0].answer();
        let _newest = enter(&connections).await;
        let gone = |at: usize| places[at].closed.is_cancelled();
        assert_eq!([gone(0), gone(1), gone(2)], [false, true, false]);
        advance(Duration::from_secs(1)).await;
        drop(first);
        let _newest_of_all = enter(&connections).await;
        assert_eq!([gone(0), gone(2)], [false, true], "its answer was a moment ago");
    }

    #[tokio::test(start_paused = true)]
    async fn where_everybody_is_answered_the_new_one_waits() {
        let connections = Connections::new(1);
        let place = enter(&connections).await;
        let answering = place.answer();
        let room = connections.room().await;
        let new = connections.enter(room);
        tokio::pin!(new);
        assert!(timeout(Duration::from_secs(9), &mut new).await.is_err());
        drop(answering);
        new.await;
        assert!(place.closed.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_are_not_gone_yet_take_room() {
        let connections = Connections::new(1);
        let mut places = Vec::new();
        for _ in 0..=LEAVING {
            places.push(enter(&connections).await);
        }
        assert!(timeout(Duration::from_secs(9), connections.room()).await.is_err());
        places.remove(0);
        enter(&connections).await;
    }
}
