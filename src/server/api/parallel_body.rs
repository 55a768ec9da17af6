//! Response bodies that several tasks write in parallel while the body is sent.
//!
//! Serializing 10,000 drifted objects on one worker takes longer than the 50 ms that the benchmark allows. So each worker
//! of the runtime has a writer, and the writers take batches in turn: of three writers, the first writes batches 0, 3, 6
//! and so on. [`OrderedChunks`] joins the chunks in the order of the batches. Each writer may be a few chunks ahead, so a
//! slow client costs a bounded amount of memory, however long the list is.

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde::Serialize;
use tokio::{
    runtime::Handle,
    sync::mpsc::{self, Receiver, Sender},
    task::yield_now,
};

use super::response::{Problem, with_nosniff};

/// A chunk is sent once it is at least this long.
const CHUNK_SIZE: usize = 64 << 10;
/// A chunk exceeds its size by the value that fills it.
const CHUNK_CAPACITY: usize = CHUNK_SIZE + CHUNK_SIZE / 8;
/// How many chunks of one writer may wait to be sent. With fewer, writers wait for each other and one worker does all
/// the work.
const CHUNKS_AHEAD: usize = 4;

/// Writes every n-th batch of a body, where n is the number of writers.
#[derive(Debug)]
pub(super) struct BatchWriter {
    next_batch: usize,
    writers: usize,
    batches: usize,
    buffer: Vec<u8>,
    chunks: Sender<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    bytes: Bytes,
    /// Whether the next chunk of the body comes from the next writer.
    ends_batch: bool,
}

/// The client closed the connection, so the rest of the body is not written.
#[derive(Debug)]
pub(super) struct ClientGone;

impl BatchWriter {
    /// The batch to write next. `None` if this writer has written all of its batches.
    pub(super) fn batch(&self) -> Option<usize> {
        Some(self.next_batch).filter(|batch| *batch < self.batches)
    }

    pub(super) async fn end_batch(&mut self) -> Result<(), ClientGone> {
        self.send(true).await?;
        self.next_batch += self.writers;
        Ok(())
    }

    /// Appends text that is already JSON.
    pub(super) async fn text(&mut self, text: &str) -> Result<(), ClientGone> {
        self.buffer.extend_from_slice(text.as_bytes());
        self.send_if_full().await
    }

    pub(super) async fn value(&mut self, value: &impl Serialize) -> Result<(), ClientGone> {
        serde_json::to_writer(&mut self.buffer, value).expect("a view has only string keys");
        self.send_if_full().await
    }

    async fn send_if_full(&mut self) -> Result<(), ClientGone> {
        if self.buffer.len() < CHUNK_SIZE { Ok(()) } else { self.send(false).await }
    }

    async fn send(&mut self, ends_batch: bool) -> Result<(), ClientGone> {
        let bytes = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_CAPACITY)).into();
        self.chunks.send(Chunk { bytes, ends_batch }).await.map_err(|_| ClientGone)?;
        // Short requests are answered in between.
        yield_now().await;
        Ok(())
    }
}

/// A JSON response whose body consists of `batches`, which `write` writes. A body of one chunk has a `Content-Length`.
pub(super) async fn write_in_parallel<F>(batches: usize, write: impl Fn(BatchWriter) -> F) -> Response
where
    F: Future<Output = Result<(), ClientGone>> + Send + 'static,
{
    let writers = Handle::current().metrics().num_workers().min(batches);
    let spawn = |next_batch| {
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        let buffer = Vec::new();
        tokio::spawn(write(BatchWriter { next_batch, writers, batches, buffer, chunks: sender }));
        receiver
    };
    let mut chunks = OrderedChunks { writers: (0..writers).map(spawn).collect(), batch: 0, batches };
    let body = match (chunks.next().await, chunks.next().await) {
        (None, _) => Body::empty(),
        (Some(Ok(only)), None) => Body::from(only),
        (Some(Ok(first)), Some(second)) => {
            let head = stream::iter([Ok(first), second]);
            Body::from_stream(head.chain(stream::unfold(chunks, async |mut chunks| {
                let next = chunks.next().await?;
                Some((next, chunks))
            })))
        }
        (Some(Err(why)), _) => return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why).into_response(),
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    with_nosniff(response)
}

struct OrderedChunks {
    writers: Vec<Receiver<Chunk>>,
    batch: usize,
    batches: usize,
}

impl OrderedChunks {
    /// The next chunk of the body. If a writer stops early, the last item is an error, so that the client never takes a
    /// truncated body for a complete one.
    async fn next(&mut self) -> Option<Result<Bytes, &'static str>> {
        while self.batch < self.batches {
            let owner = self.batch % self.writers.len();
            let Some(Chunk { bytes, ends_batch }) = self.writers[owner].recv().await else {
                self.batch = self.batches;
                return Some(Err("the answer could not be made"));
            };
            self.batch += usize::from(ends_batch);
            if !bytes.is_empty() {
                return Some(Ok(bytes));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt as _;
    use tokio::sync::mpsc;

    use super::{CHUNK_SIZE, write_in_parallel};

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn short_body_has_content_length_and_long_body_is_streamed_in_order() {
        for (batches, count, has_length) in [
            (0, 0, true),
            (1, 0, true),
            (1, 10, true),
            (1, CHUNK_SIZE, false),
            (7, 10, false),
            (7, CHUNK_SIZE, false),
        ] {
            let response = write_in_parallel(batches, |mut owner| async move {
                while let Some(batch) = owner.batch() {
                    for _ in 0..count {
                        owner.value(&batch).await?;
                    }
                    owner.text("end").await?;
                    owner.end_batch().await?;
                }
                Ok(())
            });
            let body = response.await.into_body();
            assert_eq!(body.size_hint().exact().is_some(), has_length, "{batches} {count}");
            let received = body.collect().await.unwrap().to_bytes();
            let expected: Vec<String> =
                (0..batches).map(|batch| format!("{}end", batch.to_string().repeat(count))).collect();
            assert!(received == expected.concat(), "{batches} {count}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn writers_stop_when_the_client_disconnects() {
        let (stopped, mut stops) = mpsc::unbounded_channel();
        let response = write_in_parallel(2, |mut owner| {
            let stopped = stopped.clone();
            async move {
                loop {
                    if let Err(gone) = owner.value(&"abc").await {
                        stopped.send(()).unwrap();
                        return Err(gone);
                    }
                }
            }
        });
        drop(response.await);
        for _writer in 0..2 {
            stops.recv().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn truncated_body_is_an_error() {
        for (batches, count) in [(1, 1), (1, 4 * CHUNK_SIZE), (5, 1), (5, CHUNK_SIZE)] {
            let response = write_in_parallel(batches, |mut owner| async move {
                while let Some(batch) = owner.batch() {
                    for _ in 0..count {
                        owner.text("abc").await?;
                    }
                    assert!(batch + 1 < batches, "the last writer panics");
                    owner.end_batch().await?;
                }
                Ok(())
            });
            let response = response.await;
            if (batches, count) == (1, 1) {
                // Nothing was sent yet, so the status can still be an error.
                assert_eq!(response.status(), 500);
                assert_eq!(response.headers()["content-type"], "application/problem+json");
            } else {
                assert!(response.into_body().collect().await.is_err(), "{batches} {count}");
            }
        }
    }
}
