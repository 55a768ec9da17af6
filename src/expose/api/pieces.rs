//! Long answers, written while they are sent.

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde::Serialize;
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinHandle, yield_now},
};

use super::{answer::plain, problem::Problem};

/// How large a piece is, and how many there are at most that nobody has taken yet.
const PIECE: usize = 64 << 10;
const AHEAD: usize = 2;

/// Takes what belongs into an answer, and hands it on piece by piece. So no more than five pieces of an answer are in memory at a
/// time, however slowly it is read, and it is sent while the rest of it is made.
#[derive(Debug)]
pub(super) struct Pieces {
    piece: Vec<u8>,
    taken_by: mpsc::Sender<Bytes>,
}

/// Nobody reads the answer any longer.
#[derive(Debug)]
pub(super) struct NobodyReads;

impl Pieces {
    /// Adds a piece of JSON that was made before.
    pub(super) async fn text(&mut self, text: &str) -> Result<(), NobodyReads> {
        self.piece.extend_from_slice(text.as_bytes());
        self.hand_on_when(PIECE).await
    }

    /// Adds a value.
    pub(super) async fn value(&mut self, value: &impl Serialize) -> Result<(), NobodyReads> {
        serde_json::to_writer(&mut self.piece, value).expect("a view has only string keys");
        self.hand_on_when(PIECE).await
    }

    async fn hand_on_when(&mut self, least: usize) -> Result<(), NobodyReads> {
        if self.piece.len() < least {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE + PIECE / 8));
        self.taken_by.send(piece.into()).await.map_err(|_| NobodyReads)?;
        // Somebody else may have a short question.
        yield_now().await;
        Ok(())
    }
}

/// A JSON answer that `write` writes. One that is short enough is sent whole, with its length.
pub(super) async fn json_in_pieces<F>(write: impl FnOnce(Pieces) -> F) -> Response
where
    F: Future<Output = Result<Pieces, NobodyReads>> + Send + 'static,
{
    let (taken_by, mut pieces) = mpsc::channel(AHEAD);
    let written = write(Pieces { piece: Vec::new(), taken_by });
    let writer = tokio::spawn(async move {
        if let Ok(mut rest) = written.await {
            // Whether somebody reads the last one changes nothing any more.
            let _ = rest.hand_on_when(1).await;
        }
    });
    let first = pieces.recv().await.unwrap_or_default();
    let body = if let Some(second) = pieces.recv().await {
        let known = stream::iter([Ok(first), Ok(second)]);
        Body::from_stream(known.chain(stream::unfold(Some((pieces, writer)), next_piece)))
    } else if writer.await.is_ok() {
        Body::from(first)
    } else {
        let detail = "the answer could not be made";
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response();
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    plain(response)
}

/// The next piece, and what comes after it. An answer that could not be made to its end does not end as if it were whole.
async fn next_piece(rest: Option<Rest>) -> Option<(Result<Bytes, JoinError>, Option<Rest>)> {
    let (mut pieces, writer) = rest?;
    match pieces.recv().await {
        Some(piece) => Some((Ok(piece), Some((pieces, writer)))),
        None => writer.await.err().map(|error| (Err(error), None)),
    }
}

type Rest = (mpsc::Receiver<Bytes>, JoinHandle<()>);

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt as _;
    use tokio::sync::oneshot;

    use super::{PIECE, json_in_pieces};

    #[tokio::test]
    async fn a_short_answer_tells_its_length_and_a_long_one_comes_in_pieces() {
        for (count, is_whole) in [(0, true), (10, true), (PIECE, false)] {
            let answer = json_in_pieces(|mut pieces| async move {
                for _ in 0..count {
                    pieces.value(&"abc").await?;
                }
                pieces.text("end").await?;
                Ok(pieces)
            });
            let body = answer.await.into_body();
            assert_eq!(body.size_hint().exact().is_some(), is_whole, "{count}");
            let whole = body.collect().await.unwrap().to_bytes();
            assert!(whole == format!("{}end", "\"abc\"".repeat(count)), "{count}");
        }
    }

    #[tokio::test]
    async fn nothing_is_written_for_somebody_who_is_gone() {
        let (gone, was_gone) = oneshot::channel();
        let answer = json_in_pieces(|mut pieces| async move {
            loop {
                if let Err(nobody) = pieces.value(&"abc").await {
                    gone.send(()).unwrap();
                    return Err(nobody);
                }
            }
        });
        drop(answer.await);
        was_gone.await.unwrap();
    }

    #[tokio::test]
    async fn what_was_cut_short_does_not_end_as_if_it_were_whole() {
        for count in [1, 4 * PIECE] {
            let answer = json_in_pieces(|mut pieces| async move {
                for _ in 0..count {
                    pieces.text("abc").await?;
                }
                assert!(count == 0, "nobody can go on");
                Ok(pieces)
            });
            let answer = answer.await;
            let failed = answer.status().is_server_error() || answer.into_body().collect().await.is_err();
            assert!(failed, "{count}");
        }
    }
}
