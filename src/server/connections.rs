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
/// Whoever connects gets in: if that is one too many, the connection goes on which nobody has asked for anything for the longest time;
/// where there is none, the one whose client has been reading an answer for longest.
/// So neither silent nor slow clients can keep others out, however many they are. Only where an answer is being made for every single one, or they
/// listen, the new one waits.
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
    doing: Doing,
    closed: CancellationToken,
}

/// What goes on on a connection.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// Nothing was asked since then, or not all of the question has come.
    Silent(Instant),
    /// An answer is being made.
    Answered,
    /// An answer is being read since then.
    Read(Instant),
    /// It is read for as long as somebody listens.
    Listened,
}

/// The place of one connection, until it is let go of.
#[derive(Debug)]
pub(super) struct Place {
    connections: Connections,
    number: u64,
    closed: CancellationToken,
    _room: OwnedSemaphorePermit,
}

/// Something is asked and answered, until it is let go of.
#[derive(Debug)]
pub(super) struct Answering(Arc<Place>);

/// Marks an answer that has no end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endless;

impl Connections {
    pub(super) fn new(most: usize) -> Self {
        let room = Arc::new(Semaphore::new(most.saturating_add(LEAVING)));
        Self { most, open: Arc::default(), changed: Arc::default(), room }
    }

    /// Waits until another connection may be accepted.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        self.room.clone().acquire_owned().await.expect("nobody closes it")
    }

    /// A place for a new connection, as soon as another one can go.
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
            // Silent ones come first in the order, whenever they fell silent.
            let order = |(number, own): (&u64, &Connection)| match own.doing {
                Doing::Silent(since) => Some((0, since, *number)),
                Doing::Read(since) => Some((1, since, *number)),
                Doing::Answered | Doing::Listened => None,
            };
            let (_, _, longest) = open.all.iter().filter_map(order).min()?;
            if let Some(own) = open.all.remove(&longest) {
                own.closed.cancel();
            }
        }
        open.next += 1;
        let (number, closed) = (open.next, CancellationToken::new());
        let connection = Connection { doing: Doing::Silent(Instant::now()), closed: closed.clone() };
        open.all.insert(number, connection);
        Some((number, closed))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // What is in it is whole at any time.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Something is asked on it, of which the body may still have to come.
    pub(super) fn ask(self: &Arc<Self>) -> Answering {
        self.set(Doing::Silent(Instant::now()));
        Answering(self.clone())
    }

    /// Waits until it has to go.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    fn set(&self, doing: Doing) {
        if let Some(own) = self.connections.lock().all.get_mut(&self.number) {
            own.doing = doing;
        }
        if !matches!(doing, Doing::Answered | Doing::Listened) {
            self.connections.changed.notify_one();
        }
    }
}

impl Answering {
    /// All of the question has come.
    pub(super) fn begin(&self) {
        self.0.set(Doing::Answered);
    }

    /// The answer is there, and is read from now on.
    pub(super) fn send(&self, endless: Option<&Endless>) {
        self.0.set(if endless.is_some() { Doing::Listened } else { Doing::Read(Instant::now()) });
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
        self.0.set(Doing::Silent(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::time::{advance, timeout};

    use super::{Answering, Connections, Endless, LEAVING, Place};

    async fn enter(connections: &Connections) -> Arc<Place> {
        let room = connections.room().await;
        timeout(Duration::from_secs(9), connections.enter(room)).await.expect("there is a place")
    }

    fn answer(place: &Arc<Place>) -> Answering {
        let answering = place.ask();
        answering.begin();
        answering
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_silent_for_longest_goes_and_nobody_who_is_answered() {
        let connections = Connections::new(3);
        let mut places = Vec::new();
        for _ in 0..3 {
            places.push(enter(&connections).await);
            advance(Duration::from_secs(1)).await;
        }
        let first = answer(&places[0]);
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
        let answering = answer(&place);
        let room = connections.room().await;
        let new = connections.enter(room);
        tokio::pin!(new);
        assert!(timeout(Duration::from_secs(9), &mut new).await.is_err());
        drop(answering);
        new.await;
        assert!(place.closed.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_send_all_of_a_question_is_silent() {
        let connections = Connections::new(1);
        let place = enter(&connections).await;
        let _asked = place.ask();
        enter(&connections).await;
        assert!(place.closed.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_for_longest_goes_where_nobody_is_silent_and_listeners_stay() {
        let connections = Connections::new(4);
        let mut places = Vec::new();
        let mut answers = Vec::new();
        for endless in [Some(Endless), None, None] {
            let place = enter(&connections).await;
            let answering = answer(&place);
            answering.send(endless.as_ref());
            places.push(place);
            answers.push(answering);
            advance(Duration::from_secs(1)).await;
        }
        let silent = enter(&connections).await;
        let _newest = answer(&enter(&connections).await);
        let gone = || places.iter().map(|own| own.closed.is_cancelled()).collect::<Vec<_>>();
        assert!(silent.closed.is_cancelled() && gone() == [false; 3], "silent ones go first");
        enter(&connections).await;
        assert_eq!(gone(), [false, true, false]);
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
