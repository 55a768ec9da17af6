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
    runtime::Handle,
    sync::mpsc::{self, Receiver, Sender},
    task::yield_now,
};

use super::response::{Problem, plain};

/// How large a piece is, and how many there are at most of one writer that nobody has taken yet. With fewer, writers would wait for
/// each other, and one worker would do the work of all.
const PIECE: usize = 64 << 10;
const AHEAD: usize = 4;
/// What a piece has room for: it is handed on by the value with which it is full.
const ROOM: usize = PIECE + PIECE / 8;

/// What one of those who write an answer together hands on, piece by piece. So no more than a few pieces of an answer are in memory at a
/// time, however slowly it is read, and it is sent while the rest of it is made.
#[derive(Debug)]
pub(super) struct Pieces {
    next_turn: usize,
    /// How many take turns, and how many turns there are.
    writers: usize,
    turns: usize,
    piece: Vec<u8>,
    taken_by: Sender<Part>,
}

/// A part of a turn.
#[derive(Debug)]
struct Part {
    piece: Bytes,
    /// Whether it is the next one's turn after it.
    is_last: bool,
}

/// Nobody reads the answer any longer.
#[derive(Debug)]
pub(super) struct NobodyReads;

impl Pieces {
    /// Which turn it is that this writer has next; none when all of its turns are over.
    pub(super) fn turn(&self) -> Option<usize> {
        Some(self.next_turn).filter(|turn| *turn < self.turns)
    }

    /// Leaves it to the next one to go on.
    pub(super) async fn end_turn(&mut self) -> Result<(), NobodyReads> {
        let rest = std::mem::replace(&mut self.piece, Vec::with_capacity(ROOM));
        self.hand_on(rest, true).await?;
        self.next_turn += self.writers;
        Ok(())
    }

    /// Adds a piece of JSON that was made before.
    pub(super) async fn text(&mut self, text: &str) -> Result<(), NobodyReads> {
        self.piece.extend_from_slice(text.as_bytes());
        self.hand_on_if_full().await
    }

    /// Adds a value.
    pub(super) async fn value(&mut self, value: &impl Serialize) -> Result<(), NobodyReads> {
        serde_json::to_writer(&mut self.piece, value).expect("a view has only string keys");
        self.hand_on_if_full().await
    }

    async fn hand_on_if_full(&mut self) -> Result<(), NobodyReads> {
        if self.piece.len() < PIECE {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.piece, Vec::with_capacity(ROOM));
        self.hand_on(full, false).await
    }

    async fn hand_on(&mut self, piece: Vec<u8>, is_last: bool) -> Result<(), NobodyReads> {
        self.taken_by.send(Part { piece: piece.into(), is_last }).await.map_err(|_| NobodyReads)?;
        // Somebody else may have a short question.
        yield_now().await;
        Ok(())
    }
}

/// A JSON answer of so many turns, which as many writers as there are workers take one after the other. One that is short enough is
/// sent whole, with its length.
pub(super) async fn json_in_turns<F>(turns: usize, write: impl Fn(Pieces) -> F) -> Response
where
    F: Future<Output = Result<(), NobodyReads>> + Send + 'static,
{
    let writers = Handle::current().metrics().num_workers().min(turns);
    let begin = |next_turn| {
        let (taken_by, pieces) = mpsc::channel(AHEAD);
        tokio::spawn(write(Pieces { next_turn, writers, turns, piece: Vec::new(), taken_by }));
        pieces
    };
    let mut answer = Answer { writers: (0..writers).map(begin).collect(), turn: 0, turns };
    let body = match (answer.next().await, answer.next().await) {
        (None, _) => Body::empty(),
        (Some(Ok(only)), None) => Body::from(only),
        (Some(Ok(first)), Some(second)) => {
            let known = stream::iter([Ok(first), second]);
            Body::from_stream(known.chain(stream::unfold(answer, async |mut answer| {
                let next = answer.next().await?;
                Some((next, answer))
            })))
        }
        (Some(Err(why)), _) => return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why).into_response(),
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    plain(response)
}

/// What comes from those who write.
struct Answer {
    writers: Vec<Receiver<Part>>,
    turn: usize,
    turns: usize,
}

impl Answer {
    /// The next piece, in order. An answer that could not be made to its end does not end as if it were whole.
    async fn next(&mut self) -> Option<Result<Bytes, &'static str>> {
        while self.turn < self.turns {
            let at = self.turn % self.writers.len();
            let Some(Part { piece, is_last }) = self.writers[at].recv().await else {
                self.turn = self.turns;
                return Some(Err("the answer could not be made"));
            };
            self.turn += usize::from(is_last);
            if !piece.is_empty() {
                return Some(Ok(piece));
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

    use super::{PIECE, json_in_turns};

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn a_short_answer_tells_its_length_and_a_long_one_comes_in_pieces() {
        for (turns, count, is_whole) in
            [(0, 0, true), (1, 0, true), (1, 10, true), (1, PIECE, false), (7, 10, false), (7, PIECE, false)]
        {
            let answer = json_in_turns(turns, |mut pieces| async move {
                while let Some(turn) = pieces.turn() {
                    for _ in 0..count {
                        pieces.value(&turn).await?;
                    }
                    pieces.text("end").await?;
                    pieces.end_turn().await?;
                }
                Ok(())
            });
            let body = answer.await.into_body();
            assert_eq!(body.size_hint().exact().is_some(), is_whole, "{turns} {count}");
            let whole = body.collect().await.unwrap().to_bytes();
            let wanted: Vec<String> =
                (0..turns).map(|turn| format!("{}end", turn.to_string().repeat(count))).collect();
            assert!(whole == wanted.concat(), "{turns} {count}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_is_written_for_somebody_who_is_gone() {
        let (gone, mut were_gone) = mpsc::unbounded_channel();
        let answer = json_in_turns(2, |mut pieces| {
            let gone = gone.clone();
            async move {
                loop {
                    if let Err(nobody) = pieces.value(&"abc").await {
                        gone.send(()).unwrap();
                        return Err(nobody);
                    }
                }
            }
        });
        drop(answer.await);
        for _writer in 0..2 {
            were_gone.recv().await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_was_cut_short_does_not_end_as_if_it_were_whole() {
        for (turns, count) in [(1, 1), (1, 4 * PIECE), (5, 1), (5, PIECE)] {
            let answer = json_in_turns(turns, |mut pieces| async move {
                while let Some(turn) = pieces.turn() {
                    for _ in 0..count {
                        pieces.text("abc").await?;
                    }
                    assert!(turn + 1 < turns, "nobody can go on");
                    pieces.end_turn().await?;
                }
                Ok(())
            });
            let answer = answer.await;
            if (turns, count) == (1, 1) {
                // Nothing was sent yet, so it can be told.
                assert_eq!(answer.status(), 500);
                assert_eq!(answer.headers()["content-type"], "application/problem+json");
            } else {
                assert!(answer.into_body().collect().await.is_err(), "{turns} {count}");
            }
        }
    }
}
