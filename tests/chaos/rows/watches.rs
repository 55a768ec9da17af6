//! Lists and watches fail: 410, half-open connections, cut and silent responses, errors, malformed events.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    Run,
    checker::ExpectedValue,
    proxy::{CloseMode, Fault, Filter},
    report::{Bound, Outcome, worst},
    support::wait::eventually,
    world::{World, object},
};

/// The longest backoff, plus time to list.
const RECOVERY: u64 = 35;
/// Longer than a change may take to be visible.
const AFTERWARDS: Duration = Duration::from_secs(8);
const DEPLOYMENTS: &str = "deployments";

/// Every watch repeatedly receives 410 as an event, while objects change.
pub(super) fn gone_event(run: &Run) -> Outcome {
    let mut world = World::fake(run.options()).started();
    for _ in 0..run.quick_or(3, 20) {
        let gone = world.restarts("Deployment", "gone");
        world.churn(10);
        world.api().compact_history();
        world.api().close_watches();
        world.churn_for(Duration::from_secs(3));
        eventually("the watch is gone", || (world.restarts("Deployment", "gone") > gone).then_some(()));
    }
    let bounds = vec![world.converged(RECOVERY)];
    world.outcome(bounds)
}

/// The next watches receive 410 as an HTTP status.
pub(super) fn gone_status(run: &Run) -> Outcome {
    let mut world = World::fake(run.options()).started();
    for _ in 0..run.quick_or(3, 20) {
        world.proxy.inject_times(Filter::watches(""), Fault::Status(410, None), 2);
        world.api().close_watches();
        world.churn_for(Duration::from_secs(3));
    }
    world.proxy.heal();
    let bounds = vec![world.converged(RECOVERY)];
    world.outcome(bounds)
}

/// The watch of one kind falls silent and stays open. The other kind is not affected.
pub(super) fn half_open_one(run: &Run) -> Outcome {
    half_open(World::fake(run.options()).started(), Filter::all_of(DEPLOYMENTS), &["Deployment"])
}

pub(super) fn half_open_all(run: &Run) -> Outcome {
    half_open(World::fake(run.options()).started(), Filter::ALL, &["Deployment", "Service"])
}

pub(super) fn half_open_real(run: &Run) -> Outcome {
    half_open(World::real(run.options()).started(), Filter::ALL, &["Deployment", "Service"])
}

/// Changes of the silenced kinds are not visible before their watches are reported as down.
fn half_open(mut world: World, filter: Filter, silenced: &[&'static str]) -> Outcome {
    const DETECTED: Duration = Duration::from_secs(45);
    world.allow_lag(silenced, DETECTED);
    world.proxy.inject(filter, Fault::Blackhole);
    let started = Instant::now();
    let mut bounds = Vec::new();
    while started.elapsed() < DETECTED && !world.is_reported_down("Deployment") {
        world.churn(1);
        std::thread::sleep(Duration::from_millis(500));
    }
    bounds.push(Bound::time("reported down", started.elapsed(), DETECTED));
    world.proxy.heal();
    bounds.push(world.converged(RECOVERY));
    world.end_allowances();
    world.churn_for(AFTERWARDS);
    bounds.push(world.converged(RECOVERY));
    world.outcome(worst(bounds))
}

/// A relist is cut after each part of its objects, while objects are deleted.
pub(super) fn list_cut(run: &Run) -> Outcome {
    let mut world = World::fake(run.options()).started();
    let (bytes, parts) = (world.proxy.list_bytes(DEPLOYMENTS), world.keys().len());
    let mut bounds = Vec::new();
    for part in (0..parts).step_by(run.quick_or(8, 1)) {
        let mode = if part % 2 == 0 { CloseMode::Orderly } else { CloseMode::Reset };
        world.proxy.inject_times(Filter::lists(DEPLOYMENTS), Fault::Close(bytes * part / parts, mode), 1);
        world.api().compact_history();
        world.api().close_watches();
        world.churn(5);
        bounds.push(world.converged(RECOVERY));
        // Events end the backoff, so that the next list is not late.
        world.churn(12);
        world.wait_converged();
    }
    world.outcome(worst(bounds))
}

/// A relist begins and never ends; the next one is complete.
pub(super) fn list_unanswered(run: &Run) -> Outcome {
    let mut world = World::fake(run.options()).started();
    let half = world.proxy.list_bytes(DEPLOYMENTS) / 2;
    let mut bounds = Vec::new();
    for fault in run.quick_or(&[Fault::Stall(half)][..], &[Fault::Stall(half), Fault::Stall(0)]) {
        world.proxy.inject_times(Filter::lists(DEPLOYMENTS), *fault, 1);
        world.api().compact_history();
        world.api().close_watches();
        world.churn(10);
        bounds.push(world.converged(60));
    }
    world.outcome(worst(bounds))
}

/// After a 410, the list takes 20 s. Before it ends, no verdict may be reported as current.
pub(super) fn list_slow_after_gone(run: &Run) -> Outcome {
    let mut world = World::fake(run.options()).started();
    for plural in [DEPLOYMENTS, "services"] {
        world.proxy.inject_times(Filter::lists(plural), Fault::Delay(Duration::from_secs(20)), 1);
    }
    world.api().compact_history();
    world.api().close_watches();
    world.churn_for(Duration::from_secs(15));
    let bounds = vec![world.converged(RECOVERY)];
    world.outcome(bounds)
}

/// Every request fails, with one status after the other.
pub(super) fn storm(run: &Run) -> Outcome {
    let world = World::fake(run.options()).started();
    storm_with(world, run.quick_or(&[503, 401][..], &[400, 401, 403, 404, 409, 422, 429, 500, 502, 503, 504]))
}

pub(super) fn storm_real(run: &Run) -> Outcome {
    storm_with(World::real(run.options()).started(), &[429, 500, 503, 504])
}

fn storm_with(mut world: World, statuses: &[u16]) -> Outcome {
    const STORM: u64 = 20;
    let mut bounds = Vec::new();
    let mut requests = 0;
    for status in statuses {
        world.proxy.inject(Filter::ALL, Fault::Status(*status, None));
        world.proxy.close_connections(CloseMode::Orderly);
        let before = world.proxy.requests(Filter::all_of(DEPLOYMENTS));
        bounds.push(world.reported_down("Deployment", Duration::from_secs(5)));
        world.churn_for(Duration::from_secs(STORM));
        requests = requests.max(world.proxy.requests(Filter::all_of(DEPLOYMENTS)) - before);
        world.proxy.heal();
        bounds.push(world.converged(RECOVERY));
    }
    // The backoff starts at 0.4 to 0.8 s and doubles.
    let mut bounds = worst(bounds);
    bounds.push(Bound::count("requests per kind in 20 s", requests, 10));
    world.outcome(bounds)
}

/// One kind is forbidden for a while. The other one keeps all its events.
pub(super) fn forbidden(run: &Run) -> Outcome {
    let mut world = World::fake(run.options()).started();
    world.proxy.inject(Filter::all_of(DEPLOYMENTS), Fault::Status(403, None));
    world.proxy.close_connections(CloseMode::Orderly);
    let reported = world.reported_down("Deployment", Duration::from_secs(5));
    world.churn_for(Duration::from_secs(run.quick_or(10, 60)));
    world.proxy.heal();
    let bounds = vec![reported, world.converged(RECOVERY)];
    world.outcome(bounds)
}

/// 429 with Retry-After is respected.
pub(super) fn retry_after(run: &Run) -> Outcome {
    let mut world = World::fake(run.options()).started();
    world.proxy.inject(Filter::all_of(DEPLOYMENTS), Fault::Status(429, Some(10)));
    world.proxy.close_connections(CloseMode::Orderly);
    let before = world.proxy.requests(Filter::all_of(DEPLOYMENTS));
    let (injected, time) = (Instant::now(), Duration::from_secs(20));
    let reported = world.reported_down("Deployment", Duration::from_secs(5));
    world.churn_for(time.saturating_sub(injected.elapsed()));
    let requests = world.proxy.requests(Filter::all_of(DEPLOYMENTS)) - before;
    world.proxy.heal();
    let bounds = vec![reported, Bound::count("requests in 20 s", requests, 3), world.converged(RECOVERY)];
    world.outcome(bounds)
}

/// Connections are reset, closed in the middle of an event, slowed down and delayed.
pub(super) fn connections(run: &Run) -> Outcome {
    let mut world = World::fake(run.options()).started();
    let faults = [
        Fault::Close(700, CloseMode::Reset),
        Fault::Close(700, CloseMode::Orderly),
        Fault::Delay(Duration::from_secs(2)),
        Fault::Throttle(20 << 10),
    ];
    for fault in faults {
        for mode in [CloseMode::Reset, CloseMode::Orderly] {
            world.proxy.inject_times(Filter::watches(""), fault, run.quick_or(1, 2));
            world.proxy.close_connections(mode);
            world.churn_for(Duration::from_secs(run.quick_or(2, 6)));
        }
    }
    world.proxy.heal();
    let bounds = vec![world.converged(RECOVERY)];
    world.outcome(bounds)
}

/// Events arrive twice, late, malformed and cut; an object has 2 MiB.
pub(super) fn events(run: &Run) -> Outcome {
    let mut world = World::fake(run.options()).started();
    let key = world.keys()[0].clone();
    for _ in 0..run.quick_or(1, 5) {
        world.write(&key, ExpectedValue::Drifted);
        let old = world.api().object(DEPLOYMENTS, &key.namespace, &key.name).expect("it exists");
        world.write(&key, ExpectedValue::InSync);
        let new = world.api().object(DEPLOYMENTS, &key.namespace, &key.name).expect("it exists");
        // The old state after the new one, twice, and the new one again.
        for object in [&old, &old, &new] {
            send_line(&world, &json!({"type": "MODIFIED", "object": object}).to_string());
        }
        world.churn_for(Duration::from_secs(2));
        let event = json!({"type": "MODIFIED", "object": new}).to_string();
        for line in
            ["not JSON", &event[..event.len() / 2], r#"{"type":"MODIFIED","object":{"metadata":7}}"#, "{}"]
        {
            send_line(&world, line);
            world.churn_for(Duration::from_secs(3));
        }
        world.write(&key, ExpectedValue::InSync);
        let mut large = object(&key, ExpectedValue::InSync);
        large["metadata"]["annotations"]["large"] = "x".repeat(2 << 20).into();
        world.api().put(DEPLOYMENTS, large);
        world.churn_for(Duration::from_secs(2));
    }
    let bounds = vec![world.converged(RECOVERY)];
    world.outcome(bounds)
}

/// Sends a line as soon as a watch is open.
fn send_line(world: &World, line: &str) {
    eventually("a watch receives the line", || (world.api().send_line(DEPLOYMENTS, line) > 0).then_some(()));
}
