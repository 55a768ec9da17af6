//! Reports transitions as they happen: a log line for each episode that starts or ends, and Warning Events if
//! the settings enable them.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    engine::{EpisodeChange, SnapshotReader, Transition},
    types::{Actor, Source},
};

/// The API server rejects longer notes.
const MAX_NOTE_LENGTH: usize = 1024;
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Follows the history. A slow consumer never delays the engine: the history itself is the queue.
#[derive(Debug)]
pub(super) struct TransitionFollower {
    pub(super) state: SnapshotReader,
    /// The sequence number of the last transition that was returned.
    pub(super) last_sequence: u64,
    pub(super) stop: CancellationToken,
}

impl TransitionFollower {
    /// Waits for the next snapshot and returns its new transitions, which may be none. None to stop.
    pub(super) async fn next(&mut self) -> Option<Vec<Arc<Transition>>> {
        let running = tokio::select! {
            changed = self.state.changed() => changed,
            () = self.stop.cancelled() => false,
        };
        let snapshot = self.state.snapshot();
        let new: Vec<_> = snapshot.history.after(self.last_sequence).cloned().collect();
        self.last_sequence = new.last().map_or(self.last_sequence, |last| last.sequence);
        running.then_some(new)
    }
}

pub(super) async fn log_transitions(mut follower: TransitionFollower) {
    while let Some(transitions) = follower.next().await {
        transitions.iter().for_each(|transition| log_transition(transition));
    }
}

fn log_transition(transition: &Transition) {
    let Some(episode) = &transition.episode else { return };
    let (object, actor, onset) = (&transition.key, episode.actor, episode.onset);
    match episode.change {
        EpisodeChange::Started => {
            let manager = episode.manager.as_deref().unwrap_or("");
            info!(%object, source = %transition.source, %actor, manager, %onset, "Drift began.");
        }
        EpisodeChange::Ended(cause) => {
            info!(%object, source = %transition.source, %cause, %onset, "Drift ended.");
        }
        EpisodeChange::Unchanged => {}
    }
}

pub(super) async fn publish_events(client: Client, mut follower: TransitionFollower) {
    let reporter =
        Reporter { controller: "drift-exporter".to_owned(), instance: std::env::var("POD_NAME").ok() };
    let recorder = Recorder::new(client, reporter);
    let stop = follower.stop.clone();
    while let Some(transitions) = follower.next().await {
        let has_started = |transition: &&Arc<Transition>| {
            transition.episode.as_ref().is_some_and(|episode| episode.change == EpisodeChange::Started)
        };
        for transition in transitions.iter().filter(has_started) {
            tokio::select! {
                () = publish_event(&recorder, transition) => {}
                () = stop.cancelled() => return,
            }
        }
    }
}

async fn publish_event(recorder: &Recorder, transition: &Transition) {
    let key = &transition.key;
    let regarding = ObjectReference {
        api_version: Some(key.kind.api_version()),
        kind: Some(key.kind.kind.to_string()),
        namespace: Some(key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
        name: Some(key.name.to_string()),
        uid: transition.uid.as_deref().map(str::to_owned),
        ..ObjectReference::default()
    };
    match timeout(EVENT_TIMEOUT, recorder.publish(&drift_event(transition), &regarding)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            warn!(object = %key, %error, "Cannot write an Event; RBAC must allow create and patch on events.k8s.io.");
        }
        Err(_) => warn!(object = %key, "Cannot write an Event: the API server does not answer."),
    }
}

/// The Event that reports an episode.
pub fn drift_event(transition: &Transition) -> Event {
    Event {
        type_: EventType::Warning,
        reason: reason(transition.source).to_owned(),
        note: Some(note(transition)),
        action: "Compare".to_owned(),
        secondary: None,
    }
}

/// The reason of an Event about drift from a baseline of this source. It is an API: users select Events by it.
fn reason(source: Source) -> &'static str {
    match source {
        Source::Terraform => "TerraformDriftDetected",
        Source::Helm => "HelmDriftDetected",
        Source::LastApplied => "LastAppliedDriftDetected",
        Source::Manifest => "ManifestDriftDetected",
        Source::StatusHash => "StatusHashDriftDetected",
        // Any tool may write the annotation. An object that no source claims has no episodes.
        Source::Annotation | Source::Unclaimed => "DriftDetected",
    }
}

/// The note names paths and the field manager, never values.
fn note(transition: &Transition) -> String {
    let Some(episode) = &transition.episode else {
        return "The object drifted.".to_owned();
    };
    let author = match (&episode.manager, episode.actor) {
        (Some(manager), actor) => format!("{manager} ({actor})"),
        (None, Actor::Unknown) => "an unknown field manager".to_owned(),
        (None, actor) => actor.to_string(),
    };
    let (source, paths) = (transition.source, episode.paths.join(", "));
    let note = format!("Differs from its {source} baseline in {paths}; last written by {author}.");
    note.chars().take(MAX_NOTE_LENGTH).collect()
}
