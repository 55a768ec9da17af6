//! What is told, and to whom.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    Closed, Follower,
    place::{Driver, Place},
};
use crate::{
    baseline::{
        feed::{Shown, health},
        wanted::Declares,
    },
    model::{Change, Source, StreamHealth},
};

impl Follower {
    /// Tells what is known about a release, where that is news.
    pub(super) async fn tell(&mut self, place: &Place) -> Result<(), Closed> {
        let Some(known) = self.releases.get_mut(place) else { return Ok(()) };
        let Some(baseline) = known.baseline(place) else { return Ok(()) };
        if known.told.as_deref() == Some(&baseline) {
            return Ok(());
        }
        let baseline = Arc::new(baseline);
        known.told = Some(baseline.clone());
        self.declares_other = true;
        self.send(Change::Baseline(baseline)).await
    }

    /// Tells that a release is gone, where it was told of.
    pub(super) async fn forget(&mut self, place: &Place) -> Result<(), Closed> {
        let Some(known) = self.releases.remove(place) else { return Ok(()) };
        if known.told.is_none() {
            return Ok(());
        }
        info!(release = %known.name, "A Helm release is gone.");
        self.declares_other = true;
        self.send(Change::BaselineGone(Source::Helm, known.name)).await
    }

    /// Tells of the releases whose moment after an upgrade is over.
    pub(super) async fn settle(&mut self) -> Result<(), Closed> {
        let now = Instant::now();
        let over = self.releases.iter().filter(|(_, known)| known.settled_at.is_some_and(|at| at <= now));
        for place in over.map(|(place, _)| place.clone()).collect::<Vec<_>>() {
            if let Some(known) = self.releases.get_mut(&place) {
                known.settle();
            }
            self.tell(&place).await?;
        }
        Ok(())
    }

    /// Tells how the source fares and what is wanted, once all that is there has been told of.
    pub(super) async fn report(&mut self, shown: &Shown<Driver>) -> Result<(), Closed> {
        if !self.releases.values().all(|known| known.tried) {
            return Ok(());
        }
        if self.sources.enabled {
            let of_releases = self.releases.values().filter_map(|known| known.refusal.as_ref());
            let health = health(shown.refusals().chain(of_releases));
            if self.health.as_ref() != Some(&health) {
                if let StreamHealth::Down { reason, message } = &health {
                    warn!(%reason, "Some Helm releases cannot be found: {message}");
                }
                self.health = Some(health.clone());
                self.send(Change::Source(Source::Helm, health)).await?;
            }
        } else if self.health.take().is_some() {
            self.send(Change::SourceGone(Source::Helm)).await?;
        }
        if std::mem::take(&mut self.declares_other) {
            self.follow.declares.send_replace(Arc::new(self.declares()));
        }
        Ok(())
    }

    fn declares(&self) -> Declares {
        let good = self.releases.values().filter_map(|known| known.good.as_ref());
        Declares::new(good.map(|good| (None, &*good.declared.objects)))
    }

    async fn send(&self, change: Change) -> Result<(), Closed> {
        self.follow.changes.send(change).await.map_err(|_| Closed)
    }
}
