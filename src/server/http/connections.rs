//! Open connections and large responses, and which connection is evicted when there are too many.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// A new connection above the limit evicts the connection that is idle for longest, or else the one that has been reading a response
/// for longest. So neither idle nor slow clients can lock others out. The new connection waits only while every other one runs a
/// handler or is an event stream.
///
/// Large responses have a limit of their own, because each holds its data until the client has read it.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    limit: usize,
    large_limit: usize,
    open: Arc<Mutex<OpenConnections>>,
    /// Notified when a connection becomes evictable or closes.
    changed: Arc<Notify>,
    /// Notified when a large response begins to be sent or ends.
    large_changed: Arc<Notify>,
    /// Counts evicted connections that are not closed yet, too: each of them is an open file.
    permits: Arc<Semaphore>,
}

/// Evicted connections that are not closed yet, and the one that waits.
const CLOSING: usize = 8;
/// A client that has been reading a large response for this long may be evicted for another one.
const SLOW_READER: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct OpenConnections {
    by_id: HashMap<u64, OpenConnection>,
    last_id: u64,
}

#[derive(Debug)]
struct OpenConnection {
    activity: Activity,
    /// The response is, or will be, a large one.
    is_large: bool,
    evicted: CancellationToken,
}

#[derive(Clone, Copy, Debug)]
enum Activity {
    /// No complete request has arrived since then.
    Idle(Instant),
    /// The request has been waiting since then until its large response may be generated.
    Queued(Instant),
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
    pub(super) fn new(limit: usize, large_limit: usize) -> Self {
        let permits = Arc::new(Semaphore::new(limit.saturating_add(CLOSING)));
        let (changed, large_changed) = Default::default();
        Self { limit, large_limit, open: Arc::default(), changed, large_changed, permits }
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
            // Idle connections come before queued ones and these before slow readers, however long they are idle.
            let order = |(id, open): (&u64, &OpenConnection)| match open.activity {
                Activity::Idle(since) => Some((0, since, *id)),
                Activity::Queued(since) => Some((1, since, *id)),
                Activity::Responding(since) => Some((2, since, *id)),
                Activity::Handling | Activity::Streaming => None,
            };
            let (_, _, id) = open.by_id.iter().filter_map(order).min()?;
            if let Some(connection) = open.by_id.remove(&id) {
                connection.evicted.cancel();
            }
        }
        open.last_id += 1;
        let (id, evicted) = (open.last_id, CancellationToken::new());
        let activity = Activity::Idle(Instant::now());
        open.by_id.insert(id, OpenConnection { activity, is_large: false, evicted: evicted.clone() });
        Some((id, evicted))
    }

    /// Marks the response of a connection as a large one, if the limit allows it or a slow reader can be evicted. Otherwise returns
    /// when the next reader becomes slow, if one reads.
    fn try_start_large(&self, id: u64) -> Result<(), Option<Instant>> {
        let mut open = self.lock();
        let large = open.by_id.iter().filter(|(_, open)| open.is_large);
        if large.clone().count() >= self.large_limit {
            let reading = large.filter_map(|(id, open)| match open.activity {
                Activity::Responding(since) => Some((since + SLOW_READER, *id)),
                Activity::Idle(_) | Activity::Queued(_) | Activity::Handling | Activity::Streaming => None,
            });
            let (slow_at, slowest) = reading.min().ok_or(None)?;
            if slow_at > Instant::now() {
                return Err(Some(slow_at));
            }
            if let Some(connection) = open.by_id.remove(&slowest) {
                connection.evicted.cancel();
            }
        }
        if let Some(connection) = open.by_id.get_mut(&id) {
            (connection.activity, connection.is_large) = (Activity::Handling, true);
        }
        Ok(())
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
        let is_idle = matches!(activity, Activity::Idle(_));
        let mut was_large = false;
        if let Some(open) = self.connections.lock().by_id.get_mut(&self.id) {
            was_large = open.is_large;
            (open.activity, open.is_large) = (activity, was_large && !is_idle);
        }
        if !matches!(activity, Activity::Handling | Activity::Streaming) {
            self.connections.changed.notify_one();
            if was_large {
                self.connections.large_changed.notify_one();
            }
        }
    }
}

impl ActiveRequest {
    pub(super) fn start_handler(&self) {
        self.0.set(Activity::Handling);
    }

    /// Waits until the response may be a large one.
    pub(super) async fn start_large(&self) {
        let Connection { connections, id, .. } = &*self.0;
        self.0.set(Activity::Queued(Instant::now()));
        while let Err(slow_at) = connections.try_start_large(*id) {
            let changed = connections.large_changed.notified();
            match slow_at {
                Some(at) => drop(timeout_at(at, changed).await),
                None => changed.await,
            }
        }
    }

    pub(super) fn start_response(&self, stream: Option<&UnendingResponse>) {
        let responding = || Activity::Responding(Instant::now());
        self.0.set(stream.map_or_else(responding, |_| Activity::Streaming));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let open = self.connections.lock().by_id.remove(&self.id);
        self.connections.changed.notify_one();
        if open.is_none_or(|open| open.is_large) {
            self.connections.large_changed.notify_one();
        }
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

    use tokio::time::{Instant, advance, timeout};

    use super::{ActiveRequest, CLOSING, Connection, Connections, SLOW_READER, UnendingResponse};

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
        let connections = Connections::new(3, 1);
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
        let connections = Connections::new(1, 1);
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
        let connections = Connections::new(1, 1);
        let incomplete = register(&connections).await;
        let _request = incomplete.start_request();
        register(&connections).await;
        assert!(incomplete.evicted.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn slowest_reader_is_evicted_after_idle_connections_and_event_streams_never() {
        let connections = Connections::new(4, 1);
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

    /// A request whose large response is being sent.
    async fn respond_large(connection: &Arc<Connection>) -> ActiveRequest {
        let request = handle_request(connection);
        request.start_large().await;
        request.start_response(None);
        request
    }

    #[tokio::test(start_paused = true)]
    async fn large_response_waits_for_another_one_to_end_or_to_be_slow() {
        let connections = Connections::new(9, 1);
        let [first, second, third] =
            [register(&connections).await, register(&connections).await, register(&connections).await];
        let begun = Instant::now();
        let sent = respond_large(&first).await;
        drop(sent);
        let slow = respond_large(&second).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "the first one has ended");
        let _fast = respond_large(&third).await;
        assert_eq!((begun.elapsed(), second.evicted.is_cancelled()), (SLOW_READER, true));
        assert!(!first.evicted.is_cancelled() && !third.evicted.is_cancelled());
        drop(slow);
    }

    #[tokio::test(start_paused = true)]
    async fn large_response_that_is_generated_is_not_evicted() {
        let connections = Connections::new(9, 1);
        let [generating, waiting] = [register(&connections).await, register(&connections).await];
        let request = handle_request(&generating);
        request.start_large().await;
        let queued = handle_request(&waiting);
        assert!(timeout(Duration::from_secs(9), queued.start_large()).await.is_err());
        drop(request);
        timeout(Duration::from_secs(9), queued.start_large()).await.expect("a large response has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn queued_request_is_evicted_for_a_new_connection() {
        let connections = Connections::new(2, 1);
        let [generating, waiting] = [register(&connections).await, register(&connections).await];
        let large = handle_request(&generating);
        large.start_large().await;
        let queued = handle_request(&waiting);
        assert!(timeout(Duration::from_secs(1), queued.start_large()).await.is_err());
        register(&connections).await;
        assert_eq!((generating.evicted.is_cancelled(), waiting.evicted.is_cancelled()), (false, true));
    }

    #[tokio::test(start_paused = true)]
    async fn evicted_connections_hold_a_permit_until_they_close() {
        let connections = Connections::new(1, 1);
        let mut open = Vec::new();
        for _ in 0..=CLOSING {
            open.push(register(&connections).await);
        }
        assert!(timeout(Duration::from_secs(9), connections.acquire()).await.is_err());
        open.remove(0);
        register(&connections).await;
    }
}
