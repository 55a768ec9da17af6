//! Open connections, and which of them is evicted when there are too many.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// A new connection above the limit evicts the connection that is idle for longest, or else the one that has been reading a response
/// for longest. So neither idle nor slow clients can lock others out. The new connection waits only while every other one runs a
/// handler or is an event stream.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    limit: usize,
    open: Arc<Mutex<OpenConnections>>,
    /// Notified when a connection becomes evictable or closes.
    changed: Arc<Notify>,
    /// Counts evicted connections that are not closed yet, too: each of them is an open file.
    permits: Arc<Semaphore>,
}

/// Evicted connections that are not closed yet, and the one that waits.
const CLOSING: usize = 8;

#[derive(Debug, Default)]
struct OpenConnections {
    by_id: HashMap<u64, OpenConnection>,
    last_id: u64,
}

#[derive(Debug)]
struct OpenConnection {
    activity: Activity,
    evicted: CancellationToken,
}

#[derive(Clone, Copy, Debug)]
enum Activity {
    /// No complete request has arrived since then.
    Idle(Instant),
    /// A handler runs.
    Handling,
    /// The client has been reading a response since then.
    Responding(Instant),
    /// The response is an event stream.
    Streaming,
}

/// One registered connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    connections: Connections,
    id: u64,
    evicted: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

/// A request and its response, until both are dropped.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<Connection>);

/// Response extension: the response has no end, so its reader is not slow.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct UnendingResponse;

impl Connections {
    pub(super) fn new(limit: usize) -> Self {
        let permits = Arc::new(Semaphore::new(limit.saturating_add(CLOSING)));
        Self { limit, open: Arc::default(), changed: Arc::default(), permits }
    }

    /// Waits until another connection may be accepted.
    pub(super) async fn acquire(&self) -> OwnedSemaphorePermit {
        self.permits.clone().acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Registers a new connection, once another one can be evicted if there are too many.
    pub(super) async fn register(&self, permit: OwnedSemaphorePermit) -> Arc<Connection> {
        loop {
            if let Some((id, evicted)) = self.try_register() {
                return Arc::new(Connection { connections: self.clone(), id, evicted, _permit: permit });
            }
            self.changed.notified().await;
        }
    }

    fn try_register(&self) -> Option<(u64, CancellationToken)> {
        let mut open = self.lock();
        if open.by_id.len() >= self.limit {
            // Idle connections come before slow readers, however long they are idle.
            let order = |(id, open): (&u64, &OpenConnection)| match open.activity {
                Activity::Idle(since) => Some((0, since, *id)),
                Activity::Responding(since) => Some((1, since, *id)),
                Activity::Handling | Activity::Streaming => None,
            };
            let (_, _, id) = open.by_id.iter().filter_map(order).min()?;
            if let Some(connection) = open.by_id.remove(&id) {
                connection.evicted.cancel();
            }
        }
        open.last_id += 1;
        let (id, evicted) = (open.last_id, CancellationToken::new());
        let connection =
            OpenConnection { activity: Activity::Idle(Instant::now()), evicted: evicted.clone() };
        open.by_id.insert(id, connection);
        Some((id, evicted))
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// The head of a request arrived. Until its body has arrived too, the connection counts as idle.
    pub(super) fn start_request(self: &Arc<Self>) -> ActiveRequest {
        self.set(Activity::Idle(Instant::now()));
        ActiveRequest(self.clone())
    }

    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    fn set(&self, activity: Activity) {
        if let Some(open) = self.connections.lock().by_id.get_mut(&self.id) {
            open.activity = activity;
        }
        if !matches!(activity, Activity::Handling | Activity::Streaming) {
            self.connections.changed.notify_one();
        }
    }
}

impl ActiveRequest {
    pub(super) fn start_handler(&self) {
        self.0.set(Activity::Handling);
    }

    pub(super) fn start_response(&self, stream: Option<&UnendingResponse>) {
        let responding = || Activity::Responding(Instant::now());
        self.0.set(stream.map_or_else(responding, |_| Activity::Streaming));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.lock().by_id.remove(&self.id);
        self.connections.changed.notify_one();
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.set(Activity::Idle(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::time::{advance, timeout};

    use super::{ActiveRequest, CLOSING, Connection, Connections, UnendingResponse};

    async fn register(connections: &Connections) -> Arc<Connection> {
        let permit = connections.acquire().await;
        timeout(Duration::from_secs(9), connections.register(permit)).await.expect("a free connection")
    }

    fn handle_request(connection: &Arc<Connection>) -> ActiveRequest {
        let request = connection.start_request();
        request.start_handler();
        request
    }

    #[tokio::test(start_paused = true)]
    async fn longest_idle_connection_is_evicted_and_running_requests_are_not() {
        let connections = Connections::new(3);
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(register(&connections).await);
            advance(Duration::from_secs(1)).await;
        }
        let first = handle_request(&open[0]);
        let _newest = register(&connections).await;
        let evicted = |at: usize| open[at].evicted.is_cancelled();
        assert_eq!([evicted(0), evicted(1), evicted(2)], [false, true, false]);
        advance(Duration::from_secs(1)).await;
        drop(first);
        let _another = register(&connections).await;
        assert_eq!([evicted(0), evicted(2)], [false, true], "the first one became idle last");
    }

    #[tokio::test(start_paused = true)]
    async fn new_connection_waits_while_every_other_one_runs_a_handler() {
        let connections = Connections::new(1);
        let busy = register(&connections).await;
        let request = handle_request(&busy);
        let permit = connections.acquire().await;
        let new = connections.register(permit);
        tokio::pin!(new);
        assert!(timeout(Duration::from_secs(9), &mut new).await.is_err());
        drop(request);
        new.await;
        assert!(busy.evicted.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_request_counts_as_idle() {
        let connections = Connections::new(1);
        let incomplete = register(&connections).await;
        let _request = incomplete.start_request();
        register(&connections).await;
        assert!(incomplete.evicted.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn slowest_reader_is_evicted_after_idle_connections_and_event_streams_never() {
        let connections = Connections::new(4);
        let mut open = Vec::new();
        let mut requests = Vec::new();
        for stream in [Some(UnendingResponse), None, None] {
            let connection = register(&connections).await;
            let request = handle_request(&connection);
            request.start_response(stream.as_ref());
            open.push(connection);
            requests.push(request);
            advance(Duration::from_secs(1)).await;
        }
        let idle = register(&connections).await;
        let _newest = handle_request(&register(&connections).await);
        let evicted = || open.iter().map(|connection| connection.evicted.is_cancelled()).collect::<Vec<_>>();
        assert!(idle.evicted.is_cancelled() && evicted() == [false; 3], "idle connections come first");
        register(&connections).await;
        assert_eq!(evicted(), [false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn evicted_connections_hold_a_permit_until_they_close() {
        let connections = Connections::new(1);
        let mut open = Vec::new();
        for _ in 0..=CLOSING {
            open.push(register(&connections).await);
        }
        assert!(timeout(Duration::from_secs(9), connections.acquire()).await.is_err());
        open.remove(0);
        register(&connections).await;
    }
}
