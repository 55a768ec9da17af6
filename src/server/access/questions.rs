//! Questions to the API server: asked once at a time, answered from memory for a while, and given up in time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use super::kept::Kept;

/// There is no answer, so it is no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unanswered;

/// The answer, or that there is none.
pub(super) type Answer<V> = Result<Option<V>, Unanswered>;

/// How long a question may take. Whoever asked does not wait that long; the answer is for the next one.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many are asked at a time.
const AT_ONCE: usize = 16;

/// Questions of one kind, whose answer is something or no.
#[derive(Debug)]
pub(super) struct Questions<V> {
    state: Arc<Mutex<State<V>>>,
    /// For those who were answered with something before: no number of strangers keeps them waiting.
    known: Lane,
    unknown: Lane,
    yes_for: Duration,
    no_for: Duration,
}

/// Questions that wait for each other.
#[derive(Clone, Debug)]
struct Lane {
    places: Arc<Semaphore>,
    /// Room for those that are asked and those that wait for it; there is no more.
    room: Arc<Semaphore>,
}

impl Lane {
    fn new(most: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE)), room: Arc::new(Semaphore::new(most)) }
    }
}

#[derive(Debug)]
struct State<V> {
    /// Apart, so that no number of bad credentials makes good ones be forgotten.
    yes: Kept<V>,
    no: Kept<()>,
    asked: HashMap<String, Shared<BoxFuture<'static, Answer<V>>>>,
}

impl<V: Clone + Send + Sync + 'static> Questions<V> {
    /// Questions of which so many may be under way at a time, and answers to so many are remembered.
    pub(super) fn new(yes_for: Duration, no_for: Duration, under_way: usize, remembered: usize) -> Self {
        let state = State { yes: Kept::new(remembered), no: Kept::new(remembered), asked: HashMap::new() };
        let (known, unknown) = (Lane::new(under_way), Lane::new(under_way));
        Self { state: Arc::new(Mutex::new(state)), known, unknown, yes_for, no_for }
    }

    /// The answer to a question, by a digest of it; asked unless it is known. `deadline`: until when somebody waits. There is none at
    /// once where too many are asked already.
    pub(super) async fn ask<F>(
        &self,
        question: String,
        deadline: Instant,
        ask: impl FnOnce() -> F,
    ) -> Answer<V>
    where
        F: Future<Output = Answer<V>> + Send + 'static,
    {
        let answer = {
            let mut state = lock(&self.state);
            if let Some(answer) = state.yes.get(&question) {
                return Ok(Some(answer));
            }
            if state.no.get(&question).is_some() {
                return Ok(None);
            }
            if let Some(answer) = state.asked.get(&question) {
                answer.clone()
            } else {
                let lane = if state.yes.had(&question) { &self.known } else { &self.unknown };
                let room = lane.room.clone().try_acquire_owned().map_err(|_| Unanswered)?;
                let answer = self.begin(question.clone(), ask(), lane.places.clone(), room);
                state.asked.insert(question, answer.clone());
                answer
            }
        };
        timeout_at(deadline, answer).await.unwrap_or(Err(Unanswered))
    }

    /// Asks on a task of its own: whoever hangs up takes nothing from others with the same question.
    fn begin(
        &self,
        question: String,
        ask: impl Future<Output = Answer<V>> + Send + 'static,
        places: Arc<Semaphore>,
        room: OwnedSemaphorePermit,
    ) -> Shared<BoxFuture<'static, Answer<V>>> {
        let state = self.state.clone();
        let (yes_for, no_for) = (self.yes_for, self.no_for);
        let asked = tokio::spawn(async move {
            let _room = room;
            let exchange = async {
                let _place = places.acquire().await.map_err(|_| Unanswered)?;
                ask.await
            };
            let answer = timeout(PATIENCE, exchange).await.unwrap_or(Err(Unanswered));
            let mut state = lock(&state);
            state.asked.remove(&question);
            match &answer {
                Ok(Some(yes)) => state.yes.put(question, yes.clone(), yes_for),
                Ok(None) => state.no.put(question, (), no_for),
                Err(Unanswered) => {}
            }
            answer
        });
        async move { asked.await.unwrap_or(Err(Unanswered)) }.boxed().shared()
    }
}

fn lock<V>(state: &Mutex<State<V>>) -> MutexGuard<'_, State<V>> {
    // What is in it is whole at any time.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use tokio::time::{Instant, advance, sleep};

    use super::{Answer, Questions, Unanswered};

    const SECOND: Duration = Duration::from_secs(1);

    /// Asks something that takes so long, and counts how often it is really asked.
    async fn ask(
        questions: &Questions<u8>,
        asked: &Arc<AtomicUsize>,
        takes: Duration,
        answer: Answer<u8>,
    ) -> Answer<u8> {
        let asked = asked.clone();
        let question = || async move {
            asked.fetch_add(1, Ordering::Relaxed);
            sleep(takes).await;
            answer
        };
        questions.ask("q".to_owned(), Instant::now() + 2 * SECOND, question).await
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_remembered_and_no_answer_is_not() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = || asked.load(Ordering::Relaxed);
        let questions = Questions::new(5 * SECOND, 3 * SECOND, 9, 9);
        assert_eq!(ask(&questions, &asked, SECOND, Err(Unanswered)).await, Err(Unanswered));
        assert_eq!(ask(&questions, &asked, SECOND, Ok(None)).await, Ok(None));
        assert_eq!(ask(&questions, &asked, SECOND, Ok(Some(1))).await, Ok(None), "no is remembered");
        assert_eq!(count(), 2);
        advance(3 * SECOND).await;
        assert_eq!(ask(&questions, &asked, SECOND, Ok(Some(1))).await, Ok(Some(1)));
        advance(4 * SECOND).await;
        assert_eq!(ask(&questions, &asked, SECOND, Ok(None)).await, Ok(Some(1)), "yes is remembered longer");
        advance(2 * SECOND).await;
        assert_eq!(ask(&questions, &asked, SECOND, Ok(None)).await, Ok(None));
        assert_eq!(count(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn many_ask_once_and_nobody_waits_for_long() {
        let asked = Arc::new(AtomicUsize::new(0));
        let questions = Questions::new(60 * SECOND, SECOND, 9, 9);
        let begun = Instant::now();
        let slow = || ask(&questions, &asked, 4 * SECOND, Ok(Some(1)));
        assert_eq!(tokio::join!(slow(), slow()), (Err(Unanswered), Err(Unanswered)));
        assert_eq!(begun.elapsed(), 2 * SECOND);
        sleep(3 * SECOND).await;
        assert_eq!(slow().await, Ok(Some(1)), "the answer came after they had gone");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_that_are_too_many_are_sent_away_and_those_who_are_known_are_not() {
        let questions = Questions::<u8>::new(SECOND, SECOND, 4, 99);
        let begun = Instant::now();
        let ask = |question: String, answer| {
            let takes = async move {
                sleep(SECOND).await;
                Ok(answer)
            };
            questions.ask(question, Instant::now() + 2 * SECOND, move || takes)
        };
        assert_eq!(ask("known".to_owned(), Some(1)).await, Ok(Some(1)));
        advance(SECOND).await;
        let strangers = (0..9).map(|number| ask(number.to_string(), None));
        let (strangers, known) =
            tokio::join!(futures_util::future::join_all(strangers), ask("known".to_owned(), Some(2)));
        assert_eq!(known, Ok(Some(2)), "it is asked again, and has room");
        let sent_away = strangers.iter().filter(|own| **own == Err(Unanswered)).count();
        assert_eq!((strangers.len(), sent_away), (9, 5));
        assert_eq!(begun.elapsed(), 3 * SECOND, "nobody waited for those");
        assert_eq!(ask("9".to_owned(), None).await, Ok(None), "there is room again");
    }
}
