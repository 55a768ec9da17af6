//! A line in the log for each episode that begins or ends.

use tracing::info;

use super::follower::Follower;
use crate::engine::{Transition, Turn};

/// Tells the log what happens until it is time to stop.
pub(super) async fn announce(mut follower: Follower) {
    while let Some(transitions) = follower.next().await {
        transitions.iter().for_each(|transition| tell(transition));
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
