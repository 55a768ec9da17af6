//! What ends a list or a watch.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use super::events::LineTooLong;
use crate::{
    types::{DownReason, Restart},
    watch::split::SplitError,
};

/// Why a list or a watch came to an end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The server no longer has the version that we know.
    #[error("the server has forgotten this version")]
    Gone,
    /// Nothing came, for too long.
    #[error("nothing was heard for {0:?}")]
    Stalled(Duration),
    /// The server said no.
    #[error("the server answered {status}: {message}")]
    Refused { status: StatusCode, message: String, retry_after: Option<Duration> },
    /// The connection could not be made, or broke.
    #[error("the connection failed: {0}")]
    Connection(String),
    /// What came is not what a list or a watch should be.
    #[error("what the server sent cannot be read: {0}")]
    Garbled(String),
    /// Nobody listens any more.
    #[error("the engine has stopped")]
    Stopped,
}

impl From<SplitError> for Fault {
    fn from(error: SplitError) -> Self {
        Self::Garbled(error.to_string())
    }
}

impl From<LineTooLong> for Fault {
    fn from(error: LineTooLong) -> Self {
        Self::Garbled(error.to_string())
    }
}

impl From<http::Error> for Fault {
    fn from(error: http::Error) -> Self {
        Self::Connection(error.to_string())
    }
}

impl Fault {
    /// A request that failed. The client's own time limit is a stall too; other failures are told with their innermost
    /// cause, which names the fault.
    pub(super) fn from_client(error: &kube::Error, silence: Duration) -> Self {
        let mut cause: &dyn std::error::Error = error;
        loop {
            if cause.is::<tower::timeout::error::Elapsed>() {
                return Self::Stalled(silence);
            }
            match cause.source() {
                Some(source) => cause = source,
                None => return Self::Connection(cause.to_string()),
            }
        }
    }

    /// Whether the version that we know is of no more use.
    pub(super) fn voids_version(&self) -> bool {
        match self {
            // The same line would come again.
            Self::Gone | Self::Garbled(_) => true,
            Self::Stalled(_) | Self::Refused { .. } | Self::Connection(_) | Self::Stopped => false,
        }
    }

    /// What it makes of the stream.
    pub(super) fn down_reason(&self) -> DownReason {
        match self {
            Self::Refused { status: StatusCode::FORBIDDEN, .. } => DownReason::Forbidden,
            Self::Refused { status: StatusCode::NOT_FOUND, .. } => DownReason::NotFound,
            Self::Stalled(_) => DownReason::Stalled,
            Self::Refused { .. } | Self::Connection(_) | Self::Garbled(_) | Self::Gone | Self::Stopped => {
                DownReason::Error
            }
        }
    }

    /// How it is counted.
    pub(super) fn restart(&self) -> Restart {
        match (self, self.down_reason()) {
            (Self::Gone, _) => Restart::Gone,
            (_, DownReason::Forbidden) => Restart::Forbidden,
            (_, DownReason::NotFound) => Restart::NotFound,
            (_, DownReason::Stalled) => Restart::Stalled,
            (_, DownReason::Refused | DownReason::Error) => Restart::Error,
        }
    }

    /// How long the server wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Gone | Self::Stalled(_) | Self::Connection(_) | Self::Garbled(_) | Self::Stopped => None,
        }
    }
}

/// The part of a Kubernetes `Status` that we act on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiStatus {
    code: u16,
    message: String,
}

impl ApiStatus {
    /// What a status means; `http` is the response's own, for bodies that name none.
    pub(super) fn into_fault(self, http: StatusCode, retry_after: Option<Duration>) -> Fault {
        let status = StatusCode::from_u16(self.code).ok().filter(|code| code.as_u16() >= 400).unwrap_or(http);
        if status == StatusCode::GONE {
            return Fault::Gone;
        }
        let message = if self.message.is_empty() { "no message".to_owned() } else { self.message };
        Fault::Refused { status, message: message.chars().take(512).collect(), retry_after }
    }
}
