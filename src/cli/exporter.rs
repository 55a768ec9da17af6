//! Whom commands ask: a running exporter, or one in this process that looks at the cluster. Both give the same answers.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use tokio::time::timeout;

use super::{server::Server, unanswered::Unanswered};
use crate::app::InProcessExporter;

/// No answer is larger than this.
const LARGEST: usize = 256 << 20;

/// How long an exporter may say nothing in the middle of an answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Whoever is asked.
pub(super) enum Exporter {
    /// An exporter that runs somewhere.
    Running(Server),
    /// One in this process.
    Here(Box<InProcessExporter>),
}

/// What an exporter said.
pub(super) enum Answer {
    /// What was asked for.
    Found(Bytes),
    /// It knows of nothing like that; its own words.
    Nothing(String),
}

/// An error, as the API words it.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

/// All of a body.
async fn whole(body: Body) -> Result<Bytes, String> {
    let mut body = Limited::new(body, LARGEST);
    let mut all = Vec::new();
    while let Some(frame) = timeout(PATIENCE, body.frame()).await.map_err(|_| "it says nothing more")? {
        let frame = frame.map_err(|error| error.to_string())?;
        all.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    Ok(all.into())
}

impl Exporter {
    /// Asks for a path.
    pub(super) async fn get(&self, path: &str) -> Result<Answer, Unanswered> {
        let (head, body) = self.ask(path).await?.into_parts();
        let broken =
            |why: String| Unanswered::for_now(format!("{} broke off its answer: {why}", self.name()));
        let body = whole(body).await.map_err(broken)?;
        let said = || serde_json::from_slice(&body).map(|Problem { detail }| detail).ok();
        let strange = || "it does not seem to be a drift-exporter".to_owned();
        match head.status {
            StatusCode::OK => Ok(Answer::Found(body)),
            StatusCode::NOT_FOUND if said().is_some() => Ok(Answer::Nothing(said().unwrap_or_default())),
            status => Err(self.refusal(status, &said().unwrap_or_else(strange))),
        }
    }

    /// What it means that this was answered. Whoever is asked for too much, or has no time, may answer later.
    fn refusal(&self, status: StatusCode, said: &str) -> Unanswered {
        let hint = match status {
            StatusCode::UNAUTHORIZED => "; say who you are with --token-file or --basic-auth-file",
            _ => "",
        };
        let message = format!("{} answers {status}: {said}{hint}", self.name());
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => Unanswered::for_now(message),
            status if status.is_server_error() => Unanswered::for_now(message),
            _ => message.into(),
        }
    }

    /// Asks for something that there always is.
    pub(super) async fn get_json<T: for<'a> Deserialize<'a>>(&self, path: &str) -> Result<T, Unanswered> {
        match self.get(path).await? {
            Answer::Found(body) => serde_json::from_slice(&body)
                .map_err(|error| format!("{} says something else: {error}", self.name()).into()),
            Answer::Nothing(detail) => Err(format!("{}: {detail}", self.name()).into()),
        }
    }

    /// Asks to be told of changes.
    pub(super) async fn listen(&self) -> Result<Body, Unanswered> {
        let answer = self.ask("/v1/events").await?;
        match answer.status() {
            StatusCode::OK => Ok(answer.into_body()),
            status => Err(self.refusal(status, "when asked to tell of changes")),
        }
    }

    /// Whether it is one in this process, which shows what the caller may see.
    pub(super) fn is_here(&self) -> bool {
        matches!(self, Self::Here(_))
    }

    /// What it is called in messages.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Running(server) => server.address(),
            Self::Here(_) => "this program",
        }
    }

    async fn ask(&self, path: &str) -> Result<Response<Body>, Unanswered> {
        match self {
            Self::Running(server) => server.ask(path).await,
            Self::Here(direct) => {
                let request = Request::get(path).body(Body::empty());
                Ok(direct.request(request.map_err(|error| format!("`{path}` is no path: {error}"))?).await)
            }
        }
    }
}
