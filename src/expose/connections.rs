//! The connections that are open, and which of them has to go when there are too many.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// All open connections, of which there are never many more than a number.
///
/// Whoever connects gets in: if that is one too many, the connection goes on which nobody has asked for anything for the longest time.
/// So silent clients cannot keep others out, however many they are. Only where every single one is being answered, the new one goes.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    most: usize,
    open: Arc<Mutex<Open>>,
}

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
}

/// Something is being answered, until it is let go of.
#[derive(Debug)]
pub(super) struct Answering(Arc<Place>);

impl Connections {
    pub(super) fn new(most: usize) -> Self {
        Self { most, open: Arc::default() }
    }

    /// A place for a new connection; none if every other one is being answered.
    pub(super) fn enter(&self) -> Option<Arc<Place>> {
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
        Some(Arc::new(Place { connections: self.clone(), number, closed }))
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
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.set(Some(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::Connections;

    #[tokio::test(start_paused = true)]
    async fn who_was_silent_for_longest_goes_and_nobody_who_is_answered() {
        let connections = Connections::new(3);
        let mut places = Vec::new();
        for _ in 0..3 {
            places.push(connections.enter().unwrap());
            advance(Duration::from_secs(1)).await;
        }
        let first = places[0].answer();
        let _newest = connections.enter().unwrap();
        let gone = |at: usize| places[at].closed.is_cancelled();
        assert_eq!([gone(0), gone(1), gone(2)], [false, true, false]);
        advance(Duration::from_secs(1)).await;
        drop(first);
        let _newest_of_all = connections.enter().unwrap();
        assert_eq!([gone(0), gone(2)], [false, true], "its answer was a moment ago");
    }

    #[tokio::test]
    async fn where_everybody_is_answered_the_new_one_goes() {
        let connections = Connections::new(1);
        let place = connections.enter().unwrap();
        let answering = place.answer();
        assert!(connections.enter().is_none());
        drop(answering);
        assert!(connections.enter().is_some());
    }
}
