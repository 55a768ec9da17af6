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

/// Measures probes and scrapes under the load of one kind of clients. On a busy machine, the limits grow with the latency
/// without these clients.
fn under_load(run: &Run, client: Client, count: usize) -> Outcome {
    let mut world = run.crowd();
    world.restart();
    world.checker.take_p99();
    let probes = Probes::start(world.health_port);
    std::thread::sleep(Duration::from_secs(3));
    let (idle_probe, _) = probes.finish();
    let (idle_scrape, idle_memory) = (world.checker.take_p99(), world.reset_peak());
    let probes = Probes::start(world.health_port);
    let load = Load::start(world.exporter().port, client, count);
    std::thread::sleep(Duration::from_secs(run.quick_or(6, 20)));
    let ((probe, failed), scrape) = (probes.finish(), world.checker.take_p99());
    drop(load);
    let mut bounds = vec![
        Bound::latency("probe p99", probe, (idle_probe * 2).max(Duration::from_millis(50))),
        Bound::count("failed probes", failed, 0),
        Bound::memory("over idle", world.memory_kib("VmHWM").saturating_sub(idle_memory), 64),
    ];
    if !matches!(client, Client::Scraper) {
        let limit = (idle_scrape * 2).max(Duration::from_millis(100));
        bounds.push(Bound::latency("scrape p99", scrape, limit));
    }
    let outcome = world.outcome(bounds);
    world.exporter = None;
    outcome
}
