//! The `drift_watch_*` metrics.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::types::{Clock, Kind, RestartReason, WatchEvent};

#[derive(Clone, Debug)]
pub struct WatchMetrics {
    events: Family<EventLabels, Counter>,
    restarts: Family<RestartLabels, Counter>,
    contact: Family<KindLabels, Gauge>,
    open: Gauge,
    clock: Clock,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    group: String,
    kind: String,
}

impl KindLabels {
    fn new(kind: &Kind) -> Self {
        Self { group: kind.group.to_string(), kind: kind.kind.to_string() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    #[prometheus(flatten)]
    kind: KindLabels,
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RestartLabels {
    #[prometheus(flatten)]
    kind: KindLabels,
    reason: &'static str,
}

/// The metrics of one kind. Counters of the hot path are looked up once.
#[derive(Clone, Debug)]
pub struct KindMetrics {
    all: WatchMetrics,
    labels: KindLabels,
    listed: Counter,
    contact: Gauge,
}

/// Counts an open watch until it is dropped.
#[derive(Debug)]
pub(super) struct OpenWatchGuard(Gauge);

impl Drop for OpenWatchGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl WatchMetrics {
    /// Metrics that nothing exposes, for watches that are not about objects of the cluster.
    pub fn unregistered(clock: Clock) -> Self {
        Self {
            events: Family::default(),
            restarts: Family::default(),
            contact: Family::default(),
            open: Gauge::default(),
            clock,
        }
    }

    pub fn register(registry: &mut Registry, clock: Clock) -> Self {
        let metrics = Self::unregistered(clock);
        registry.register(
            "drift_watch_events",
            "Objects and events received, by event",
            metrics.events.clone(),
        );
        registry.register(
            "drift_watch_restarts",
            "Watches opened again, by reason; planned: the server ended it after the time that was asked for",
            metrics.restarts.clone(),
        );
        registry.register(
            "drift_watch_last_contact_timestamp_seconds",
            "When the API server last sent anything about this kind, bookmarks included",
            metrics.contact.clone(),
        );
        registry.register("drift_watch_streams", "Open watch streams", metrics.open.clone());
        metrics
    }

    /// Removes the series of a kind that is no longer watched.
    pub(super) fn remove_kind(&self, kind: &Kind) {
        let kind = KindLabels::new(kind);
        for event in WatchEvent::ALL {
            self.events.remove(&EventLabels { kind: kind.clone(), event: event.as_str() });
        }
        for reason in RestartReason::ALL {
            self.restarts.remove(&RestartLabels { kind: kind.clone(), reason: reason.as_str() });
        }
        self.contact.remove(&kind);
    }

    pub fn for_kind(&self, kind: &Kind) -> KindMetrics {
        let labels = KindLabels::new(kind);
        let event = EventLabels { kind: labels.clone(), event: WatchEvent::Listed.as_str() };
        KindMetrics {
            listed: self.events.get_or_create_owned(&event),
            contact: self.contact.get_or_create_owned(&labels),
            all: self.clone(),
            labels,
        }
    }
}

impl KindMetrics {
    pub(super) fn listed(&self) {
        self.listed.inc();
    }

    pub(super) fn event(&self, event: WatchEvent) {
        let labels = EventLabels { kind: self.labels.clone(), event: event.as_str() };
        self.all.events.get_or_create_owned(&labels).inc();
    }

    pub(super) fn restarted(&self, reason: RestartReason) {
        let labels = RestartLabels { kind: self.labels.clone(), reason: reason.as_str() };
        self.all.restarts.get_or_create_owned(&labels).inc();
    }

    pub(super) fn contact(&self) {
        self.contact.set(self.all.clock.now().as_second());
    }

    pub(super) fn opened(&self) -> OpenWatchGuard {
        self.all.open.inc();
        OpenWatchGuard(self.all.open.clone())
    }
}
