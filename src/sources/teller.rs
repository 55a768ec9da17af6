//! What is told about a source, and to whom.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tracing::{info, warn};

use super::{
    feed::{Refusal, health},
    follow::SourceContext,
    known::Known,
    wanted::Declares,
};
use crate::types::{Event, Source, WatchHealth};

/// Knows the baselines of one source, and tells of them and of how the source fares, where that is news.
pub(super) struct Publisher<P, T> {
    source: Source,
    changes: mpsc::Sender<Event>,
    declares: watch::Sender<Arc<Declares>>,
    /// All baselines there are, by where they are.
    pub(super) known: BTreeMap<P, Known<T>>,
    /// Whether all of them declare objects of this cluster, so that nobody has to find out.
    pub(super) here: bool,
    /// What was last told about the source.
    health: Option<WatchHealth>,
    /// Whether something was told that may change what is declared.
    declares_other: bool,
}

/// Nobody listens any more.
pub(super) struct Closed;

impl<P: Clone + Ord, T> Publisher<P, T> {
    /// One that has told nothing yet.
    pub(super) fn new<S>(source: Source, follow: &SourceContext<S>) -> Self {
        Self {
            source,
            changes: follow.changes.clone(),
            declares: follow.declares.clone(),
            known: BTreeMap::new(),
            here: true,
            health: None,
            declares_other: true,
        }
    }

    /// Tells what is known about a baseline, where that is news.
    pub(super) async fn tell(&mut self, place: &P) -> Result<(), Closed> {
        let Some(known) = self.known.get_mut(place) else { return Ok(()) };
        let Some(baseline) = known.baseline(self.source, self.here) else { return Ok(()) };
        if known.told.as_deref() == Some(&baseline) {
            return Ok(());
        }
        let baseline = Arc::new(baseline);
        known.told = Some(baseline.clone());
        self.declares_other = true;
        self.send(Event::Baseline(baseline)).await
    }

    /// Tells that all others are gone, where they were told of.
    pub(super) async fn keep(&mut self, stays: impl Fn(&P) -> bool) -> Result<(), Closed> {
        let gone: Vec<P> = self.known.keys().filter(|place| !stays(place)).cloned().collect();
        for known in gone.iter().filter_map(|place| self.known.remove(place)).collect::<Vec<_>>() {
            if known.told.is_some() {
                info!(source = %self.source, baseline = %known.name, "A baseline is gone.");
                self.declares_other = true;
                self.send(Event::BaselineRemoved(self.source, known.name)).await?;
            }
        }
        Ok(())
    }

    /// Tells of those whose moment after somebody's work is over.
    pub(super) async fn settle(&mut self) -> Result<(), Closed> {
        let now = Instant::now();
        let over = self.known.iter().filter(|(_, known)| known.settled_at.is_some_and(|at| at <= now));
        for place in over.map(|(place, _)| place.clone()).collect::<Vec<_>>() {
            if let Some(known) = self.known.get_mut(&place) {
                known.settle();
            }
            self.tell(&place).await?;
        }
        Ok(())
    }

    /// Tells how the source fares and what is wanted, once all that is there has been told of. One that is switched off is gone.
    pub(super) async fn report(&mut self, enabled: bool, refusals: Vec<&Refusal>) -> Result<(), Closed> {
        if !self.known.values().all(|known| known.tried) {
            return Ok(());
        }
        let own = self.known.values().filter_map(|known| known.refusal.as_ref());
        let health = enabled.then(|| health(refusals.into_iter().chain(own)));
        if self.health != health {
            if let Some(WatchHealth::Down { reason, message }) = &health {
                warn!(source = %self.source, %reason, "Some baselines cannot be found: {message}");
            }
            self.health.clone_from(&health);
            self.send(match health {
                Some(health) => Event::SourceHealth(self.source, health),
                None => Event::SourceRemoved(self.source),
            })
            .await?;
        }
        if std::mem::take(&mut self.declares_other) {
            let good = self.known.values().filter_map(|known| known.good.as_ref());
            let declares = Declares::new(good.map(|good| (good.key.as_ref(), &*good.objects)));
            self.declares.send_replace(Arc::new(declares));
        }
        Ok(())
    }

    /// Whether it was told how the source fares.
    pub(super) fn has_reported(&self) -> bool {
        self.health.is_some()
    }

    /// Whether a baseline is called this.
    pub(super) fn is_taken(&self, name: &str) -> bool {
        self.known.values().any(|known| *known.name == *name)
    }

    /// One of these baselines that has to be read now.
    pub(super) fn next_due(&self, of: impl Fn(&P) -> bool) -> Option<P> {
        let now = Instant::now();
        let due = self.known.iter().filter(|(_, known)| known.read_at.is_some_and(|at| at <= now));
        let due = due.filter(|(place, _)| of(place));
        due.min_by_key(|(_, known)| known.read_at).map(|(place, _)| place.clone())
    }

    /// When the next one of these has to be read.
    pub(super) fn read_at(&self, of: impl Fn(&P) -> bool) -> Option<Instant> {
        self.known.iter().filter(|(place, _)| of(place)).filter_map(|(_, known)| known.read_at).min()
    }

    /// When the next moment after somebody's work is over.
    pub(super) fn settled_at(&self) -> Option<Instant> {
        self.known.values().filter_map(|known| known.settled_at).min()
    }

    async fn send(&self, change: Event) -> Result<(), Closed> {
        self.changes.send(change).await.map_err(|_| Closed)
    }
}
