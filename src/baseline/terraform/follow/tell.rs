//! What is told, and to whom.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::{info, warn};

use super::{Closed, Follower, place::Place, seen::Seen};
use crate::{
    baseline::{feed::health, wanted::Declares},
    model::{Change, Source, StreamHealth},
};

impl Follower {
    /// Tells what is known about a state, where that is news.
    pub(super) async fn tell(&mut self, place: &Place) -> Result<(), Closed> {
        let here = self.sources.here;
        let Some(known) = self.states.get_mut(place).map(|state| &mut state.known) else { return Ok(()) };
        let Some(baseline) = known.baseline(place, here) else { return Ok(()) };
        if known.told.as_deref() == Some(&baseline) {
            return Ok(());
        }
        let baseline = Arc::new(baseline);
        known.told = Some(baseline.clone());
        self.declares_other = true;
        self.send(Change::Baseline(baseline)).await
    }

    /// Tells that a state is gone, where it was told of.
    pub(super) async fn forget(&mut self, place: &Place) -> Result<(), Closed> {
        let Some(state) = self.states.remove(place) else { return Ok(()) };
        if state.known.told.is_none() {
            return Ok(());
        }
        let name = state.known.name;
        info!(state = %name, "A Terraform state is gone.");
        self.declares_other = true;
        self.send(Change::BaselineGone(Source::Terraform, name)).await
    }

    /// Tells of the states whose moment after a release is over.
    pub(super) async fn settle(&mut self) -> Result<(), Closed> {
        let now = Instant::now();
        let over = self.states.iter().filter(|(_, state)| state.known.settled_at.is_some_and(|at| at <= now));
        for place in over.map(|(place, _)| place.clone()).collect::<Vec<_>>() {
            if let Some(state) = self.states.get_mut(&place) {
                state.known.settle();
            }
            self.tell(&place).await?;
        }
        Ok(())
    }

    /// Tells how the source fares and what is wanted, once all that is there has been told of.
    pub(super) async fn report(&mut self, seen: &Seen) -> Result<(), Closed> {
        if !self.states.values().all(|state| state.known.tried) {
            return Ok(());
        }
        if self.sources.enabled {
            let of_states = self.states.values().filter_map(|state| state.known.refusal.as_ref());
            let health = health(seen.refusals().chain(of_states));
            if self.health.as_ref() != Some(&health) {
                if let StreamHealth::Down { reason, message } = &health {
                    warn!(%reason, "Some Terraform states cannot be found: {message}");
                }
                self.health = Some(health.clone());
                self.send(Change::Source(Source::Terraform, health)).await?;
            }
        }
        if !self.sources.enabled && self.health.take().is_some() {
            self.send(Change::SourceGone(Source::Terraform)).await?;
        }
        if std::mem::take(&mut self.declares_other) {
            self.follow.declares.send_replace(Arc::new(self.declares()));
        }
        Ok(())
    }

    fn declares(&self) -> Declares {
        let good = self.states.values().filter_map(|state| state.known.good.as_ref());
        Declares::new(good.map(|good| (good.key.as_ref(), &*good.objects)))
    }

    async fn send(&self, change: Change) -> Result<(), Closed> {
        self.follow.changes.send(change).await.map_err(|_| Closed)
    }
}
