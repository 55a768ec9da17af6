//! The API server is killed, its etcd is compacted or restored from a backup.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    Run,
    report::{Outcome, worst},
    support::cluster::User,
    world::World,
};

/// Longer than a change may take to be visible.
const AFTERWARDS: Duration = Duration::from_secs(8);

/// A real API server is killed and comes back after some seconds.
pub(super) fn kill(run: &Run, seconds: u64) -> Outcome {
    let mut world = World::real(run.options());
    // Without the proxy, which would accept connections while the API server is down.
    world.kubeconfig = world.cluster().kubeconfig(User::Exporter);
    let mut world = world.started();
    world.churn(20);
    world.cluster().kill_apiserver();
    let killed = Instant::now();
    let mut bounds = Vec::new();
    if seconds > 5 {
        bounds.push(world.reported_down("Deployment", Duration::from_secs(5)));
    }
    std::thread::sleep(Duration::from_secs(seconds).saturating_sub(killed.elapsed()));
    world.cluster().start_apiserver();
    world.churn(10);
    bounds.push(world.converged(35));
    world.outcome(bounds)
}

/// Objects change while the exporter is suspended, and etcd is compacted before the exporter resumes.
pub(super) fn compaction(run: &Run) -> Outcome {
    let mut world = World::real(run.options());
    world.kubeconfig = world.cluster().kubeconfig(User::Exporter);
    let mut world = world.started();
    let mut bounds = Vec::new();
    for _ in 0..2 {
        world.cluster().kill_apiserver();
        world.cluster().start_apiserver();
        world.wait_converged();
        world.exporter().running.signal("STOP");
        world.churn(20);
        // A restart closes the watches. Otherwise the exporter would read the events from its socket buffer.
        world.cluster().kill_apiserver();
        world.cluster().compact();
        world.cluster().start_apiserver();
        world.exporter().running.signal("CONT");
        bounds.push(world.converged(60));
    }
    let gone = world.exporter().metrics();
    assert!(gone.contains("reason=\"gone\""), "the exporter has not listed again");
    world.outcome(worst(bounds))
}

/// etcd goes back to a copy of its data: all resource versions that the exporter knows are in the future.
pub(super) fn restored_etcd(run: &Run) -> Outcome {
    let mut world = World::real(run.options());
    world.kubeconfig = world.cluster().kubeconfig(User::Exporter);
    let mut world = world.started();
    world.churn(10);
    let (data, copy) = (world.cluster().etcd_data(), world.folder().join("backup"));
    stop(&mut world);
    copy_folder(&data, &copy);
    let backup = world.checker.expected.lock().unwrap().current();
    start(&mut world);
    world.churn(60);
    world.wait_converged();
    stop(&mut world);
    std::fs::remove_dir_all(&data).expect("the data can be removed");
    copy_folder(&copy, &data);
    world.checker.expected.lock().unwrap().restore(&backup);
    let restored = Instant::now();
    start(&mut world);
    let mut bounds = vec![world.checker.converged(restored, Duration::from_secs(60))];
    world.churn_for(AFTERWARDS);
    bounds.push(world.converged(60));
    world.outcome(worst(bounds))
}

fn stop(world: &mut World) {
    world.cluster().kill_apiserver();
    world.cluster().kill_etcd();
}

fn start(world: &mut World) {
    world.cluster().start_etcd();
    world.cluster().start_apiserver();
}

fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot copy {}", from.display());
}

/// The same with the fake API server, which answers watches from the future with silence.
pub(super) fn restored_fake(run: &Run) -> Outcome {
    let mut world = World::fake(run.options()).started();
    world.churn(10);
    let (backup, expected) = (world.api().backup(), world.checker.expected.lock().unwrap().current());
    world.churn(60);
    world.wait_converged();
    world.api().restore(&backup);
    world.api().close_watches();
    world.checker.expected.lock().unwrap().restore(&expected);
    let mut bounds = vec![world.converged(60)];
    world.churn_for(AFTERWARDS);
    bounds.push(world.converged(60));
    world.outcome(worst(bounds))
}
