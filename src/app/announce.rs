//! A line in the log for each episode that begins or ends.

use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::state::{StateReader, Transition, Turn};

/// Tells the log about what comes after `seen`, until told to stop.
pub(super) async fn announce(mut state: StateReader, mut seen: u64, stop: CancellationToken) {
    loop {
        let more = tokio::select! {
            more = state.changed() => more,
            () = stop.cancelled() => return,
        };
        if !more {
            return;
        }
        for transition in state.snapshot().history.since(seen) {
            seen = transition.sequence;
            tell(&transition);
        }
    }
}

fn tell(transition: &Transition) {
    let Some(episode) = &transition.episode else { return };
    let (object, actor, onset) = (&transition.key, episode.actor, episode.onset);
    match episode.turn {
        Turn::Began => {
            let manager = episode.manager.as_deref().unwrap_or("");
            info!(%object, source = %transition.source, %actor, manager, %onset, "Drift began.");
        }
        Turn::Ended(cause) => info!(%object, source = %transition.source, %cause, %onset, "Drift ended."),
        Turn::GoesOn => {}
    }
}
