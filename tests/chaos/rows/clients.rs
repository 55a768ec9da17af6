//! Clients without credentials on an exporter with 20,000 objects: slow readers, idle connections, many scrapes.

use std::time::Duration;

use crate::{
    Run,
    load::{Client, Load, Probes},
    report::{Bound, Outcome},
};

pub(super) fn slow_resources(run: &Run) -> Outcome {
    under_load(run, Client::SlowReader("/v1/resources?namespace=*"), 200)
}

pub(super) fn slow_pages(run: &Run) -> Outcome {
    under_load(run, Client::SlowReader("/"), 200)
}

pub(super) fn idle_connections(run: &Run) -> Outcome {
    under_load(run, Client::Idle, 2_000)
}

pub(super) fn slowloris(run: &Run) -> Outcome {
    under_load(run, Client::Slowloris, 1_000)
}

pub(super) fn event_streams(run: &Run) -> Outcome {
    under_load(run, Client::SlowReader("/v1/events"), 500)
}

pub(super) fn parallel_scrapes(run: &Run) -> Outcome {
    under_load(run, Client::Scraper, 20)
}

/// Probes and scrapes beside clients of one kind.
fn under_load(run: &Run, client: Client, count: usize) -> Outcome {
    let mut world = run.crowd();
    world.restart();
    world.checker.take_p99();
    std::thread::sleep(Duration::from_secs(3));
    let idle_latency = world.checker.take_p99();
    let idle_memory = world.reset_peak();
    let probes = Probes::start(world.health_port);
    let load = Load::start(world.exporter().port, client, count);
    std::thread::sleep(Duration::from_secs(run.quick_or(6, 20)));
    let mut bounds = Vec::from(probes.finish());
    let latency = world.checker.take_p99();
    drop(load);
    bounds.push(Bound::memory("over idle", world.memory_kib("VmHWM").saturating_sub(idle_memory), 64));
    if !matches!(client, Client::Scraper) {
        let limit = (idle_latency * 2).max(Duration::from_millis(100));
        bounds.push(Bound::latency("scrape p99", latency, limit));
    }
    let outcome = world.outcome(bounds);
    world.exporter = None;
    outcome
}
