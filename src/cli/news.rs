//! Word that there is something new to look at.

use std::{io::Write, time::Duration};

use axum::body::{Body, Bytes};
use futures_util::FutureExt as _;
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, sleep};

use super::{exporter::Exporter, resources::harmless, unanswered::Unanswered};

/// How long it is waited, at least and at most, until somebody is asked again who gave no answer.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What an exporter tells of changes. Those who ask who listens have them come back now and then, and some are restarted.
pub(super) struct News {
    told: Body,
    /// Since when.
    begun: Instant,
    /// What was told of a line that has not come to its end.
    unread: String,
}

impl News {
    /// Begins to listen.
    pub(super) async fn of(exporter: &Exporter) -> Result<Self, Unanswered> {
        let told = exporter.listen().await?;
        Ok(Self { told, begun: Instant::now(), unread: String::new() })
    }

    /// Waits until there is something new. Whoever had to come back may have missed something, so that is news as well.
    pub(super) async fn wait(&mut self, exporter: &Exporter, stderr: &mut dyn Write) -> Result<(), String> {
        while let Some(Ok(frame)) = self.told.frame().await {
            let mut is_news = self.take(frame);
            // All that was told meanwhile needs one look.
            while let Some(Some(Ok(frame))) = self.told.frame().now_or_never() {
                is_news |= self.take(frame);
            }
            if is_news {
                return Ok(());
            }
        }
        if exporter.is_here() {
            return Err(format!("{} tells of nothing any more", exporter.name()));
        }
        if self.begun.elapsed() < FIRST_PAUSE {
            sleep(FIRST_PAUSE).await;
        }
        *self = until_answered(async || Self::of(exporter).await, stderr).await?;
        Ok(())
    }

    /// Takes what was told. Says whether there is something new.
    fn take(&mut self, frame: Frame<Bytes>) -> bool {
        let Ok(data) = frame.into_data() else { return false };
        self.unread.push_str(&String::from_utf8_lossy(&data));
        let Some(end) = self.unread.rfind('\n') else { return false };
        let is_news = self.unread[..end].lines().any(|line| line.starts_with("event:"));
        self.unread.drain(..=end);
        is_news
    }
}

/// Asks until there is an answer, less and less often. The error says that there will be none.
pub(super) async fn until_answered<T>(
    mut ask: impl AsyncFnMut() -> Result<T, Unanswered>,
    stderr: &mut dyn Write,
) -> Result<T, String> {
    let mut pause = FIRST_PAUSE;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(unanswered) if unanswered.is_final => return Err(unanswered.into()),
            Err(unanswered) if pause == FIRST_PAUSE => {
                let message = harmless(&unanswered.to_string());
                // Whoever does not hear that hears the next line, or nothing.
                let _ = writeln!(stderr, "drift-exporter: {message}; asking again");
            }
            Err(_) => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
