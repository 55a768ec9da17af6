//! What the streams count about themselves.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::types::{Clock, Kind, Restart, WatchEvent};

/// Counters of all streams.
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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    group: String,
    kind: String,
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RestartLabels {
    group: String,
    kind: String,
    reason: &'static str,
}

/// The handles of one kind, looked up once.
#[derive(Clone, Debug)]
pub(super) struct KindMetrics {
    all: WatchMetrics,
    labels: KindLabels,
    listed: Counter,
    contact: Gauge,
}

/// Counts an open stream for as long as it lives.
#[derive(Debug)]
pub(super) struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl WatchMetrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry, clock: Clock) -> Self {
        let metrics = Self {
            events: Family::default(),
            restarts: Family::default(),
            contact: Family::default(),
            open: Gauge::default(),
            clock,
        };
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

    /// Drops the series of a kind that is no longer watched.
    pub(super) fn forget(&self, kind: &Kind) {
        let (group, kind) = (kind.group.to_string(), kind.kind.to_string());
        for event in WatchEvent::ALL {
            let event = event.as_str();
            self.events.remove(&EventLabels { group: group.clone(), kind: kind.clone(), event });
        }
        for reason in Restart::ALL {
            let reason = reason.as_str();
            self.restarts.remove(&RestartLabels { group: group.clone(), kind: kind.clone(), reason });
        }
        self.contact.remove(&KindLabels { group, kind });
    }

    pub(super) fn of_kind(&self, kind: &Kind) -> KindMetrics {
        let labels = KindLabels { group: kind.group.to_string(), kind: kind.kind.to_string() };
        let event = EventLabels {
            group: labels.group.clone(),
            kind: labels.kind.clone(),
            event: WatchEvent::Listed.as_str(),
        };
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
        let labels = EventLabels {
            group: self.labels.group.clone(),
            kind: self.labels.kind.clone(),
            event: event.as_str(),
        };
        self.all.events.get_or_create_owned(&labels).inc();
    }

    pub(super) fn restarted(&self, reason: Restart) {
        let labels = RestartLabels {
            group: self.labels.group.clone(),
            kind: self.labels.kind.clone(),
            reason: reason.as_str(),
        };
        self.all.restarts.get_or_create_owned(&labels).inc();
    }

    pub(super) fn contact(&self) {
        self.contact.set(self.all.clock.now().as_second());
    }

    pub(super) fn opened(&self) -> OpenStream {
        self.all.open.inc();
        OpenStream(self.all.open.clone())
    }
}
