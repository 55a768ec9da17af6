//! The exporter is killed, stopped, replicated and limited in memory, and its clock jumps.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    Run,
    checker::ExpectedValue,
    proxy::{CloseMode, Fault, Filter},
    report::{Bound, Counts, Outcome},
    support::{exporter::Exporter, http_client, wait::eventually},
    world::World,
};

/// Series that depend only on the objects, not on when the exporter saw them. Services have no field owners here, so they have no
/// recorded time.
fn lasting_series(page: &str) -> BTreeSet<String> {
    let is_lasting = |line: &&str| {
        line.starts_with("drift_resource_drifted{")
            || (line.starts_with("drift_resource_drifted_timestamp_seconds{") && line.contains("Deployment"))
    };
    page.lines().filter(is_lasting).map(str::to_owned).collect()
}

/// SIGKILL during and after the start. The next start shows the same verdicts and onsets.
pub(super) fn sigkill(run: &Run) -> Outcome {
    let mut world = World::fake(run.options());
    world.start_exporter();
    world.wait_converged();
    let before = lasting_series(&world.exporter().metrics());
    let mut random = fastrand::Rng::with_seed(13);
    let mut changed = 0;
    for _ in 0..run.quick_or(10, 200) {
        world.start_command(&mut Command::new(run.program()));
        std::thread::sleep(Duration::from_millis(random.u64(0..300)));
        world.start_exporter();
        world.checker.check_now();
        changed += before.symmetric_difference(&lasting_series(&world.exporter().metrics())).count();
        world.exporter.as_mut().expect("it runs").running.kill();
    }
    world.outcome(vec![Bound::count("series changed", changed, 0)])
}

/// SIGTERM in the middle of a scrape.
pub(super) fn sigterm(run: &Run) -> Outcome {
    let mut world = run.crowd();
    world.start_exporter();
    world.wait_converged();
    world.checker.check_now();
    let exporter = world.exporter();
    let length = exporter.metrics().len();
    let mut scrape = connect_with_small_buffer(exporter.port);
    write!(scrape, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("sent");
    let begin = length / 10;
    scrape.read_exact(&mut vec![0; begin]).expect("the first part of the page");
    exporter.running.signal("TERM");
    let stopped = Instant::now();
    // The exporter runs until the scrape is complete.
    let is_unready =
        || http_client::get(world.health_port, "/readyz", &[]).is_some_and(|ready| ready.status == 503);
    let mut unready = is_unready();
    while !unready && stopped.elapsed() < Duration::from_secs(2) {
        unready = is_unready();
    }
    let mut rest = Vec::new();
    let is_complete = scrape.read_to_end(&mut rest).is_ok() && rest.len() + begin >= length;
    let code = world.exporter.as_mut().expect("it runs").running.wait();
    let exited = stopped.elapsed();
    world.outcome(vec![
        Bound::time("exited", exited, Duration::from_secs(5)),
        Bound::count("scrapes cut", usize::from(!is_complete), 0),
        Bound::count("exit codes other than 0", usize::from(code != Some(0)), 0),
        Bound::count("/readyz other than 503", usize::from(!unready), 0),
    ])
}

/// A connection whose buffers do not hold the whole page, so that the exporter has to wait for the client.
fn connect_with_small_buffer(port: u16) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        socket.connect((std::net::Ipv4Addr::LOCALHOST, port).into()).await?.into_std()
    });
    let stream = stream.expect("it listens");
    stream.set_nonblocking(false).expect("it blocks");
    stream
}

/// Two exporters have the same series after the same faults.
pub(super) fn replicas(run: &Run) -> Outcome {
    let mut world = World::fake(run.options()).started();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let second = Exporter::start_program(run.program(), &world.kubeconfig, folder.path(), &[]).ready();
    for _ in 0..run.quick_or(2, 10) {
        world.proxy.inject_times(Filter::watches(""), Fault::Status(503, None), 3);
        world.proxy.close_connections(CloseMode::Reset);
        world.churn_for(Duration::from_secs(3));
        world.api().compact_history();
        world.api().close_watches();
        world.churn_for(Duration::from_secs(3));
    }
    world.proxy.heal();
    let mut other = world.checker.another();
    other.set_port(second.port);
    let mut bounds = vec![world.converged(35)];
    let converged = Instant::now();
    bounds.push(other.converged(converged, Duration::from_secs(35)));
    let difference = || {
        let [one, two] = [world.exporter(), &second].map(|exporter| lasting_series(&exporter.metrics()));
        one.symmetric_difference(&two).count()
    };
    while difference() > 0 && converged.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(50));
    }
    bounds.push(Bound::time("equal", converged.elapsed(), Duration::from_secs(5)));
    bounds.push(Bound::count("different series", difference(), 0));
    other.run();
    std::thread::sleep(Duration::from_secs(1));
    let (Counts { scrapes: _, partial, ghost, missing, wrong }, _) = other.finish();
    bounds.push(Bound::count("wrong scrapes of the second", partial + ghost + missing + wrong, 0));
    world.outcome(bounds)
}

/// The clock of the exporter jumps forward and back by an hour.
pub(super) fn clock(run: &Run) -> Outcome {
    let Some(library) = faketime() else {
        return Outcome::skipped("needs libfaketime (Debian: faketime)");
    };
    let mut world = World::fake(run.options());
    let file = world.folder().join("offset");
    let set =
        |hours: i64| fs::write(&file, format!("{:+}", hours * 3600)).expect("the offset can be written");
    set(0);
    let mut command = Command::new(run.program());
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &file);
    command.envs([
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ]);
    world.start_command(&mut command);
    world.wait_ready();
    world.wait_converged();
    world.checker.run();
    let mut in_future = 0;
    for hours in [1, 0, -1, 0] {
        set(hours);
        // The engine reads the clock at its next tick.
        std::thread::sleep(Duration::from_secs(3));
        in_future += onsets_after(&world.exporter().metrics(), now() + hours * 3600 + 1);
        assert_clock(&world, hours * 3600);
        world.churn_for(Duration::from_secs(run.quick_or(3, 35)));
    }
    let mut bounds = vec![Bound::count("onsets in the future", in_future, 0)];
    bounds.push(world.converged(10));
    world.outcome(bounds)
}

/// The clock of the exporter is ahead by some seconds: it records when a Service began to drift, whose fields have no managers here.
fn assert_clock(world: &World, ahead: i64) {
    let mut services = world.keys().iter().filter(|key| key.kind == "Service");
    let service = services.next().expect("a Service");
    world.write(service, ExpectedValue::InSync);
    world.wait_converged();
    let (before, labels) = (now(), [("kind", "Service"), ("name", &*service.name)]);
    world.write(service, ExpectedValue::Drifted);
    let onset = eventually("the Service has an onset", || {
        world.exporter().sample("drift_resource_drifted_timestamp_seconds", &labels)
    });
    let seconds = |time: i64| jiff::SignedDuration::from_secs(time + ahead).as_secs_f64();
    let is_shifted = (seconds(before - 2)..=seconds(now() + 2)).contains(&onset);
    assert!(is_shifted, "onset {onset} between {before} and {}, {ahead} s ahead", now());
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn onsets_after(page: &str, second: i64) -> usize {
    let mut onsets =
        page.lines().filter(|line| line.starts_with("drift_resource_drifted_timestamp_seconds{"));
    let onset = |line: &str| line.rsplit(' ').next().and_then(|onset| onset.parse::<f64>().ok());
    let second = jiff::SignedDuration::from_secs(second).as_secs_f64();
    onsets.by_ref().filter(|line| onset(line).is_some_and(|onset| onset > second)).count()
}

fn faketime() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
    folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1")).find(|path| path.exists())
}

/// Starts and relists all objects, with twice the idle memory as the limit.
pub(super) fn memory_limit(run: &Run) -> Outcome {
    let mut world = run.crowd();
    world.start_exporter();
    world.wait_converged();
    let limit = world.memory_kib("VmRSS") * 2;
    world.exporter = None;
    let Some(group) = Cgroup::new(limit) else {
        return Outcome::skipped("needs a writable memory cgroup");
    };
    let starts = run.quick_or(3, 50);
    let mut killed = 0;
    for _ in 0..starts {
        world.start_command(&mut group.command(run.program()));
        let exporter = world.exporter.as_mut().expect("it was started");
        eventually("the exporter is ready or killed", || {
            let is_ready = exporter.get("/readyz").is_some_and(|ready| ready.status == 200);
            (is_ready || exporter.running.has_ended()).then_some(())
        });
        world.api().compact_history();
        world.api().close_watches();
        std::thread::sleep(Duration::from_secs(2));
        world.checker.check_now();
        killed += usize::from(world.exporter.as_mut().expect("it was started").running.has_ended());
        world.exporter = None;
    }
    world.outcome(vec![Bound::count("killed", killed, 0)])
}

/// A memory cgroup, version 1 or 2.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(limit_kib: u64) -> Option<Self> {
        let name = format!("drift-chaos-{}", std::process::id());
        let roots = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        roots.into_iter().find_map(|(root, file)| {
            let folder = Path::new(root).join(&name);
            fs::create_dir(&folder).ok()?;
            let group = Self(folder);
            fs::write(group.0.join(file), (limit_kib << 10).to_string()).ok()?;
            Some(group)
        })
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.0.display());
        command.args(["-c", &script]).arg(program);
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
