//! What is done about transitions: a line in the log, and a Warning Event where people asked for them.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::engine::{StateReader, Transition, Turn};

/// Gives new transitions until told to stop.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) state: StateReader,
    /// The last transition that was given.
    pub(super) seen: u64,
    pub(super) stop: CancellationToken,
}

impl Follower {
    /// Waits for something new to be published. None when it is time to stop; the list may be empty.
    pub(super) async fn next(&mut self) -> Option<Vec<Arc<Transition>>> {
        let more = tokio::select! {
            more = self.state.changed() => more,
            () = self.stop.cancelled() => false,
        };
        let new = self.state.snapshot().history.since(self.seen);
        self.seen = new.last().map_or(self.seen, |last| last.sequence);
        more.then_some(new)
    }
}

/// Tells the log what happens until it is time to stop.
pub(super) async fn announce(mut follower: Follower) {
    while let Some(transitions) = follower.next().await {
        transitions.iter().for_each(|transition| log(transition));
    }
}

fn log(transition: &Transition) {
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

/// The API server refuses longer notes.
const LONGEST_NOTE: usize = 1024;
const PATIENCE: Duration = Duration::from_secs(10);

/// Publishes Events until it is time to stop.
pub(super) async fn publish(client: Client, mut follower: Follower) {
    let reporter =
        Reporter { controller: "drift-exporter".to_owned(), instance: std::env::var("POD_NAME").ok() };
    let recorder = Recorder::new(client, reporter);
    let stop = follower.stop.clone();
    while let Some(transitions) = follower.next().await {
        let began = |transition: &&Arc<Transition>| {
            transition.episode.as_ref().is_some_and(|episode| episode.turn == Turn::Began)
        };
        for transition in transitions.iter().filter(began) {
            tokio::select! {
                () = tell(&recorder, transition) => {}
                () = stop.cancelled() => return,
            }
        }
    }
}

async fn tell(recorder: &Recorder, transition: &Transition) {
    let key = &transition.key;
    let about = ObjectReference {
        api_version: Some(key.kind.api_version()),
        kind: Some(key.kind.kind.to_string()),
        namespace: Some(key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
        name: Some(key.name.to_string()),
        uid: Some(transition.uid.to_string()),
        ..ObjectReference::default()
    };
    let event = Event {
        type_: EventType::Warning,
        reason: "TerraformDriftDetected".to_owned(),
        note: Some(note(transition)),
        action: "Compare".to_owned(),
        secondary: None,
    };
    match timeout(PATIENCE, recorder.publish(&event, &about)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            warn!(object = %key, %error, "Cannot write an Event; RBAC must allow create and patch on events.k8s.io.");
        }
        Err(_) => warn!(object = %key, "Cannot write an Event: the API server does not answer."),
    }
}

/// Names the paths and the tool; values never leave through an Event.
fn note(transition: &Transition) -> String {
    let Some(episode) = &transition.episode else {
        return "The object drifted.".to_owned();
    };
    let manager = episode.manager.as_deref().unwrap_or("nobody who is on record");
    let note = format!(
        "Differs from its {} baseline in {}; last written by {manager} ({}).",
        transition.source,
        episode.paths.join(", "),
        episode.actor,
    );
    note.chars().take(LONGEST_NOTE).collect()
}
