//! Why the API server does not let us read something.

use crate::types::{DownReason, WatchHealth};

/// Why the API server did not give us something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sources) struct Refusal {
    pub(in crate::sources) reason: DownReason,
    pub(in crate::sources) message: Box<str>,
}

impl Refusal {
    /// What an error means for whoever wanted to do this: `list Secrets with label tfstate=true in namespace shop`.
    pub(in crate::sources) fn new(error: &kube::Error, doing: &str) -> Self {
        let (reason, said) = match error {
            kube::Error::Api(status) => {
                let reason = match status.code {
                    401 | 403 => DownReason::Forbidden,
                    404 => DownReason::NotFound,
                    _ => DownReason::Error,
                };
                (reason, status.message.clone())
            }
            // What it stumbled over may be a secret.
            kube::Error::SerdeError(_) => {
                (DownReason::Error, "the answer is not what it should be".to_owned())
            }
            other => (DownReason::Error, innermost(other)),
        };
        let hint = if reason == DownReason::Forbidden {
            "; grant this right (`drift-exporter check` names all that are needed)"
        } else {
            ""
        };
        Self { reason, message: format!("cannot {doing}: {said}{hint}").into() }
    }

    /// The server says nothing.
    pub(in crate::sources) fn stalled(doing: &str) -> Self {
        let message = format!("cannot {doing}: the API server does not answer").into();
        Self { reason: DownReason::Stalled, message }
    }
}

/// The last cause names the fault; those before it name the layers it went through.
pub fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

/// Up where nothing is refused. What is forbidden comes first: somebody has to do something about it.
pub(in crate::sources) fn health<'a>(refusals: impl Iterator<Item = &'a Refusal>) -> WatchHealth {
    let mut refusals: Vec<&Refusal> = refusals.collect();
    refusals.sort_by_key(|refusal| (refusal.reason, &refusal.message));
    refusals.dedup();
    let Some(first) = refusals.first() else { return WatchHealth::Up };
    let messages: Vec<&str> = refusals.iter().map(|refusal| &*refusal.message).collect();
    WatchHealth::Down { reason: first.reason, message: messages.join("; ").into() }
}
