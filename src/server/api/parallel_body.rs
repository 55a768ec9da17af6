//! Response bodies that several tasks write in parallel while the body is sent.
//!
//! Serializing 10,000 drifted objects on one worker takes longer than the 50 ms that the benchmark allows. So each worker
//! of the runtime has a writer, and the writers take batches in turn: of three writers, the first writes batches 0, 3, 6
//! and so on. Each writer may be a few chunks ahead, so a slow client costs a bounded amount of memory, however long the
//! list is and however large its objects are.

use std::{iter::StepBy, ops::Range};

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{StatusCode, header::CONTENT_TYPE};
use tokio::{
    runtime::Handle,
    sync::mpsc::{self, Receiver, Sender},
};

use super::response::{Problem, with_nosniff};

/// How many chunks of one writer may wait to be sent, ends of batches included. With fewer, writers wait for each other and
/// one worker does all the work.
const CHUNKS_AHEAD: usize = 8;
/// Ends a batch, which may have several chunks.
pub(super) const END_OF_BATCH: Bytes = Bytes::new();

/// The response must not end as if it were complete.
#[derive(Debug, thiserror::Error)]
#[error("the response could not be generated")]
struct WriterStopped;

/// A JSON response whose body consists of `batches`. `write` sends the given batches of one writer, in order, each followed by
/// `END_OF_BATCH`. A body of one chunk has a `Content-Length`.
pub(super) async fn write_in_parallel<F>(
    batches: usize,
    write: impl Fn(StepBy<Range<usize>>, Sender<Bytes>) -> F,
) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let writers = Handle::current().metrics().num_workers().min(batches).max(1);
    let spawn = |first| {
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        tokio::spawn(write((first..batches).step_by(writers), sender));
        receiver
    };
    let receivers: Vec<Receiver<Bytes>> = (0..writers).map(spawn).collect();
    // If a writer stops early, the last item is an error, so that the client never takes a truncated body for a complete one.
    let chunks = stream::unfold(
        (receivers, 0..batches),
        async |(mut receivers, mut rest): (Vec<Receiver<Bytes>>, Range<usize>)| {
            while !rest.is_empty() {
                let writer = rest.start % receivers.len();
                match receivers[writer].recv().await {
                    Some(chunk) if chunk == END_OF_BATCH => rest.start += 1,
                    Some(chunk) => return Some((Ok(chunk), (receivers, rest))),
                    None => return Some((Err(WriterStopped), (receivers, 0..0))),
                }
            }
            None
        },
    );
    let mut chunks = Box::pin(chunks.fuse());
    let body = match (chunks.next().await, chunks.next().await) {
        (None, _) => Body::empty(),
        (Some(Err(error)), _) => {
            return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
        }
        (Some(Ok(only)), None) => Body::from(only),
        (Some(first), Some(second)) => Body::from_stream(stream::iter([first, second]).chain(chunks)),
    };
    with_nosniff(([(CONTENT_TYPE, "application/json")], body))
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt as _;
    use tokio::sync::mpsc;

    use super::{END_OF_BATCH, write_in_parallel};

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn single_batch_has_content_length_and_several_are_streamed_in_order() {
        for (batches, has_length) in [(0, true), (1, true), (2, false), (70, false)] {
            let response = write_in_parallel(batches, |numbers, chunks| async move {
                for batch in numbers {
                    chunks.send(format!("{batch} ").into()).await.unwrap();
                    // Some batches have two chunks.
                    if batches > 1 && batch % 3 == 0 {
                        chunks.send("more ".into()).await.unwrap();
                    }
                    chunks.send(END_OF_BATCH).await.unwrap();
                }
            });
            let body = response.await.into_body();
            assert_eq!(body.size_hint().exact().is_some(), has_length, "{batches}");
            let received = body.collect().await.unwrap().to_bytes();
            let text =
                |batch| format!("{batch} {}", if batches > 1 && batch % 3 == 0 { "more " } else { "" });
            let expected: Vec<String> = (0..batches).map(text).collect();
            assert_eq!(received, expected.concat());
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn writers_stop_when_the_client_disconnects() {
        let (stopped, mut stops) = mpsc::unbounded_channel();
        let response = write_in_parallel(2, |_, chunks| {
            let stopped = stopped.clone();
            async move {
                while chunks.send("abc".into()).await.is_ok() {}
                stopped.send(()).unwrap();
            }
        });
        drop(response.await);
        for _writer in 0..2 {
            stops.recv().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn truncated_body_is_an_error() {
        for batches in [1, 5] {
            let response = write_in_parallel(batches, |numbers, chunks| async move {
                for batch in numbers {
                    assert!(batch + 1 < batches, "the last writer panics");
                    chunks.send("abc".into()).await.unwrap();
                    chunks.send(END_OF_BATCH).await.unwrap();
                }
            });
            let response = response.await;
            if batches == 1 {
                // Nothing was sent yet, so the status can still be an error.
                assert_eq!(response.status(), 500);
                assert_eq!(response.headers()["content-type"], "application/problem+json");
            } else {
                assert!(response.into_body().collect().await.is_err());
            }
        }
    }
}
