//! drift-exporter and kube-state-metrics on one real API server, in one run. Prints a table of ratios.
//!
//! `DRIFT_BENCH_PROGRAM` is the build to measure. `DRIFT_BENCH_OBJECTS` is the number of Deployments and of Services (default 10,000 each).
//! With the argument `livez` it measures only `/livez` under load, without a real API server, and beside `DRIFT_BENCH_BASE`, which is
//! another build.

#![expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark fills the cluster, prints its table, and divides counts"
)]

mod demo;
mod livez;
#[path = "../tests/support/mod.rs"]
mod support;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use drift_exporter::types::Kind;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::Api;
use serde_json::json;
use support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    objects::{all, create_namespace, create_with_hash, deployment, grant, patch, read_only_rules, service},
    parts::program,
    process::{Running, free_port},
    wait::eventually,
};

const NAMESPACES: usize = 20;
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const SCRAPES: u32 = 40;
const EDITS: usize = 200;

/// Measurements of one program.
struct Measured {
    resident: f64,
    peak: f64,
    start_cpu: f64,
    series: f64,
    plain_cpu: f64,
    gzip_cpu: f64,
}

fn main() {
    let each: usize =
        std::env::var("DRIFT_BENCH_OBJECTS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    if std::env::args().any(|argument| argument == "livez") {
        let folder = tempfile::tempdir().expect("a directory");
        return report_livez(each, folder.path());
    }
    let mut cluster = Cluster::start();
    fill(&cluster, each);
    println!("{each} Deployments and {each} Services are there; measuring.");
    let theirs = measure_peer(&cluster, each);
    let exporter = start_ours(&cluster);
    let ours = measure(exporter.running.pid(), exporter.port, "drift_resource");
    assert_eq!(count(exporter.port), 2 * each, "the page is incomplete");
    let listed = list_all(exporter.port).as_secs_f64() * 1e3;
    let visible = edit_to_visible(&cluster, &exporter);
    let relist_peak = relist(&mut cluster, &exporter);
    report(&ours, &theirs, &visible);
    let drifted = drift_all(&cluster, &exporter, each).as_secs_f64() * 1e3;
    drop(exporter);
    let get_time = time_get(&cluster);
    let reload = rule_to_visible(&cluster);
    let (by_field, resident) = list_by_field(&cluster, each);
    let by_field = by_field.as_secs_f64() * 1e3;
    for (which, listed) in [("", listed), (" that drift", drifted), (" that drift in three fields", by_field)]
    {
        bounded(&format!("{each} objects{which} from the API, ms"), listed, 50.0);
    }
    let title = format!("get of {} objects, s", 2 * each / NAMESPACES);
    bounded(&title, get_time.as_secs_f64(), 5.0);
    bounded("a rule in the settings file to visible, s", reload.as_secs_f64(), 2.0);
    println!("| peak MiB after a complete relist | {relist_peak:.1} | | | |");
    println!("| resident MiB where {each} objects drift in three fields | {resident:.1} | | | |");
    let demo = demo::measure(cluster.folder());
    bounded("the first page of a demo, s", demo.first_page.as_secs_f64(), 2.0);
    bounded("peak MiB of a lively demo", demo.peak, 40.0);
    let title =
        format!("p99 of its scrapes beside {} idle and {} slow connections, ms", demo::IDLE, demo::SLOW);
    bounded(&title, demo.under_load.as_secs_f64() * 1e3, 45.0);
    report_livez(each, cluster.folder());
}

/// `/livez` while scrapers load a page of 100,000 series, for 10,000 objects of each kind, right after a relist.
fn report_livez(each: usize, folder: &Path) {
    let objects = each * 5 / 2;
    let mut api_server = livez::ApiServer::start(objects);
    let base = std::env::var_os("DRIFT_BENCH_BASE").map(|program| ("DRIFT_BENCH_BASE: ", program.into()));
    for (which, program) in base.into_iter().chain([("", our_program())]) {
        let latencies = api_server.measure(&program, folder);
        let load = format!(
            "{} scrapers load {} series after a relist",
            livez::SCRAPERS,
            objects * livez::SERIES_PER_OBJECT
        );
        let at = |times: &[Duration], percent: usize| percentile(times, percent).as_secs_f64() * 1e3;
        for (what, times) in [("`/livez`", &latencies.livez), ("scrape", &latencies.scrapes)] {
            println!(
                "| {which}{what} ms while {load}, p50 / p99 / max of {} | {:.1} / {:.1} / {:.1} | | | |",
                times.len(),
                at(times, 50),
                at(times, 99),
                at(times, 100)
            );
        }
        bounded(&format!("{which}p99 of `/livez` while {load}, ms"), at(&latencies.livez, 99), 50.0);
    }
}

/// Of sorted times.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    times[(times.len() - 1) * percent / 100]
}

/// Prints a measurement and whether it is within its bound.
fn bounded(what: &str, ours: f64, bound: f64) {
    let verdict = if ours <= bound { "met" } else { "MISSED" };
    println!("| {what} | {ours:.1} | | | ≤ {bound} {verdict} |");
}

/// Wall-clock time of `get` in one namespace without an exporter.
fn time_get(cluster: &Cluster) -> Duration {
    let started = Instant::now();
    let found = Command::new(our_program())
        .args(["get", "-n", "team-0", "--kubeconfig"])
        .arg(cluster.kubeconfig(User::Admin))
        .output()
        .expect("the program can be run");
    let took = started.elapsed();
    assert_eq!(found.status.code(), Some(1), "{}", String::from_utf8_lossy(&found.stderr));
    took
}

/// Time from a new rule in the settings file to its effect in `/metrics`.
fn rule_to_visible(cluster: &Cluster) -> Duration {
    let settings = cluster.folder().join("settings.yaml");
    fs::write(&settings, "").expect("written");
    let flags = ["--config.file", settings.to_str().expect("a path")];
    let kubeconfig = cluster.kubeconfig(User::Exporter);
    let exporter = Exporter::start_program(&our_program(), &kubeconfig, cluster.folder(), &flags).ready();
    let edited = [("kind", "Deployment"), ("name", "shop-1")];
    exporter.wait_for("drift_resource_drifted", &edited, Some(1.0));
    fs::write(&settings, "rules:\n- {name: known, match: {names: [shop-1]}, effect: ignore}\n")
        .expect("written");
    let started = Instant::now();
    exporter.wait_for("drift_resource_drifted", &edited, Some(0.0));
    started.elapsed()
}

/// Creates objects with two containers of twelve variables each, two field managers, and their hashes.
fn fill(cluster: &Cluster, each: usize) {
    let client = cluster.client();
    let started = Instant::now();
    cluster.block_on(async {
        grant(&client, "drift-exporter", read_only_rules()).await;
        for n in 0..NAMESPACES {
            create_namespace(&client, &format!("team-{n}")).await;
        }
        all((0..each).map(async |n| {
            let (namespace, name) = (format!("team-{}", n % NAMESPACES), format!("shop-{n}"));
            create_with_hash::<Deployment>(&client, &Kind::deployment(), &rich_deployment(&namespace, &name))
                .await;
            create_with_hash::<Service>(&client, &Kind::service(), &service(&namespace, &name)).await;
        }))
        .await;
    });
    println!("filled the cluster in {:.0} s", started.elapsed().as_secs_f64());
}

fn rich_deployment(namespace: &str, name: &str) -> Deployment {
    let mut object = deployment(namespace, name);
    let spec = object.spec.template.spec.as_mut().expect("a pod spec");
    let mut container = spec.containers[0].clone();
    container.env = Some(
        (0..12)
            .map(|n| {
                support::objects::from_json(
                    json!({"name": format!("VARIABLE_{n}"), "value": format!("value {n} of {name}")}),
                )
            })
            .collect(),
    );
    let mut sidecar = container.clone();
    "sidecar".clone_into(&mut sidecar.name);
    sidecar.ports = None;
    spec.containers = vec![container, sidecar];
    object
}

fn start_ours(cluster: &Cluster) -> Exporter {
    Exporter::start_program(&our_program(), &cluster.kubeconfig(User::Exporter), cluster.folder(), &[])
        .ready()
}

fn our_program() -> PathBuf {
    std::env::var_os("DRIFT_BENCH_PROGRAM").expect("`make bench` sets DRIFT_BENCH_PROGRAM").into()
}

fn measure_peer(cluster: &Cluster, each: usize) -> Measured {
    let (port, telemetry_port) = (free_port(), free_port());
    let running = Running::start(
        Command::new(program("kube-state-metrics", "kube-state-metrics"))
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig(User::Admin))
            .args(["--resources", "deployments,services", "--enable-gzip-encoding", "--host", "127.0.0.1"])
            .args([
                "--port",
                &port.to_string(),
                "--telemetry-host",
                "127.0.0.1",
                "--telemetry-port",
                &telemetry_port.to_string(),
            ]),
        &cluster.folder().join("kube-state-metrics.log"),
    );
    let measured = measure(running.pid(), port, "kube_");
    let page = String::from_utf8_lossy(&scrape(port, false)).into_owned();
    let count_lines = |name: &str| page.lines().filter(|line| line.starts_with(name)).count();
    assert!(
        count_lines("kube_deployment_created{") >= each && count_lines("kube_service_created{") >= each,
        "the page is incomplete"
    );
    measured
}

/// Waits until a program is idle, then measures it idle and during scrapes.
fn measure(pid: u32, port: u16, prefix: &str) -> Measured {
    let start_cpu = wait_for_idle_cpu(pid);
    let plain = scrape(port, false);
    let series =
        String::from_utf8_lossy(&plain).lines().filter(|line| line.starts_with(prefix)).count() as f64;
    scrape(port, true);
    let [plain_cpu, gzip_cpu] = [false, true].map(|gzip| {
        let before = threads_seconds(pid);
        for _ in 0..SCRAPES {
            scrape(port, gzip);
        }
        (threads_seconds(pid) - before) / f64::from(SCRAPES)
    });
    Measured {
        resident: status_mib(pid, "VmRSS"),
        peak: status_mib(pid, "VmHWM"),
        start_cpu,
        series,
        plain_cpu: plain_cpu / series,
        gzip_cpu: gzip_cpu / series,
    }
}

/// CPU time until a program is idle.
fn wait_for_idle_cpu(pid: u32) -> f64 {
    let mut before = cpu_seconds(pid);
    let mut quiet = 0;
    while quiet < 3 {
        std::thread::sleep(Duration::from_secs(1));
        let now = cpu_seconds(pid);
        quiet = if now - before < 0.05 && now > 0.2 { quiet + 1 } else { 0 };
        before = now;
    }
    before
}

/// CPU time of a process since its start, in ticks of 10 ms.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = process(pid).stat().expect("it runs");
    (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64
}

/// CPU time of its live threads: more precise than ticks over a short time.
fn threads_seconds(pid: u32) -> f64 {
    let threads = process(pid).tasks().expect("it runs").flatten();
    let spent = threads.filter_map(|thread| thread.schedstat().ok()).map(|stat| stat.sum_exec_runtime);
    spent.sum::<u64>() as f64 / 1e9
}

fn process(pid: u32) -> procfs::process::Process {
    procfs::process::Process::new(pid.cast_signed()).expect("it runs")
}

fn status_mib(pid: u32, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with(field)).expect("the field is there");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).expect("a number") / 1024.0
}

fn scrape(port: u16, gzip: bool) -> Vec<u8> {
    get(port, "/metrics", gzip)
}

fn get(port: u16, path: &str, gzip: bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let encoding = if gzip { "accept-encoding: gzip\r\n" } else { "" };
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n{encoding}\r\n").expect("sent");
    let mut page = Vec::new();
    stream.read_to_end(&mut page).expect("a page");
    page
}

/// The median time to list every Deployment.
fn list_all(port: u16) -> Duration {
    let mut times: Vec<Duration> = (0..SCRAPES)
        .map(|_| {
            let started = Instant::now();
            let list = get(port, "/v1/resources?namespace=*&resourceType=deployment", false);
            assert!(list.len() > 1000, "{}", String::from_utf8_lossy(&list));
            started.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// The same with an edit in each of them.
fn drift_all(cluster: &Cluster, exporter: &Exporter, each: usize) -> Duration {
    let client = cluster.client();
    cluster.block_on(all((0..each).map(async |n| {
        let api = Api::<Deployment>::namespaced(client.clone(), &format!("team-{}", n % NAMESPACES));
        let name = format!("shop-{n}");
        let applied = json!({LAST_APPLIED: applied(&format!("team-{}", n % NAMESPACES), &name)});
        let edit = json!({"metadata": {"annotations": applied}, "spec": {"replicas": 9}});
        patch(&api, &name, "kubectl-edit", edit).await;
    })));
    eventually("every Deployment drifts", || {
        let page = String::from_utf8_lossy(&scrape(exporter.port, false)).into_owned();
        let drifted =
            page.lines().filter(|line| line.starts_with("drift_resource_drifted_timestamp_seconds"));
        (drifted.count() >= each).then_some(())
    });
    list_all(exporter.port)
}

/// A last-applied annotation that differs from the Deployment in three fields.
fn applied(namespace: &str, name: &str) -> String {
    let mut manifest = serde_json::to_value(rich_deployment(namespace, name)).expect("it can be written");
    manifest["spec"]["replicas"] = json!(1);
    let container = &mut manifest["spec"]["template"]["spec"]["containers"][0];
    container["image"] = json!("nginx:1.0");
    container["env"][0]["value"] = json!("another one");
    manifest.to_string()
}

/// The median time of the same request with the source `last_applied`, and the resident memory.
fn list_by_field(cluster: &Cluster, each: usize) -> (Duration, f64) {
    let kubeconfig = cluster.kubeconfig(User::Exporter);
    let arguments = ["--sources", "last_applied"];
    let exporter = Exporter::start_program(&our_program(), &kubeconfig, cluster.folder(), &arguments).ready();
    let page = String::from_utf8_lossy(&scrape(exporter.port, false)).into_owned();
    let in_three = |line: &&str| line.starts_with("drift_resource_drifted_fields{") && line.ends_with(" 3");
    assert_eq!(page.lines().filter(in_three).count(), each, "each Deployment drifts in three fields");
    let resident = status_mib(exporter.running.pid(), "VmRSS");
    (list_all(exporter.port), resident)
}

fn count(port: u16) -> usize {
    String::from_utf8_lossy(&scrape(port, false))
        .lines()
        .filter(|line| line.starts_with("drift_resource_drifted{"))
        .count()
}

/// Time from the acknowledgement of an edit to its display in `/metrics`. The request itself is not counted.
fn edit_to_visible(cluster: &Cluster, exporter: &Exporter) -> Vec<Duration> {
    let client = cluster.client();
    let mut times: Vec<Duration> = (0..EDITS)
        .map(|n| {
            let name = format!("shop-{n}");
            let api = Api::<Deployment>::namespaced(client.clone(), &format!("team-{}", n % NAMESPACES));
            cluster.block_on(patch(&api, &name, "kubectl-edit", json!({"spec": {"replicas": 9}})));
            let edited = Instant::now();
            let line = format!("name=\"{name}\",source=\"annotation\"}} 1\n");
            while !String::from_utf8_lossy(&scrape(exporter.port, false)).contains(&line) {
                assert!(edited.elapsed() < Duration::from_secs(5), "{name} does not show");
            }
            edited.elapsed()
        })
        .collect();
    times.sort();
    times
}

/// Compacts etcd, so that the exporter has to relist everything, and returns its peak memory afterwards.
fn relist(cluster: &mut Cluster, exporter: &Exporter) -> f64 {
    exporter.running.signal("STOP");
    cluster.kill_apiserver();
    cluster.start_apiserver();
    let api = Api::<Deployment>::namespaced(cluster.client(), "team-0");
    cluster.block_on(patch(&api, "shop-0", "kubectl-edit", json!({"spec": {"replicas": 3}})));
    cluster.kill_apiserver();
    cluster.compact();
    cluster.start_apiserver();
    exporter.running.signal("CONT");
    for kind in ["Deployment", "Service"] {
        let gone = [("kind", kind), ("reason", "gone")];
        eventually("the relist", || exporter.sample("drift_watch_restarts_total", &gone));
        exporter.wait_for("drift_watch_stream_up", &[("kind", kind)], Some(1.0));
    }
    std::thread::sleep(Duration::from_secs(5));
    status_mib(exporter.running.pid(), "VmHWM")
}

fn report(ours: &Measured, theirs: &Measured, visible: &[Duration]) {
    println!("\n| | drift-exporter | kube-state-metrics 2.18.0 | ratio | target |\n|---|---|---|---|---|");
    let row = |what: &str, ours: f64, theirs: f64, target: f64| {
        let ratio = ours / theirs;
        let verdict = if ratio <= target { "met" } else { "MISSED" };
        println!(
            "| {what} | {ours:.3} | {theirs:.3} | 1/{:.1} ({ratio:.3}) | ≤ {target:.3} {verdict} |",
            1.0 / ratio
        );
    };
    row("resident MiB", ours.resident, theirs.resident, 0.1);
    row("peak MiB", ours.peak, theirs.peak, 0.1);
    row("CPU s to start", ours.start_cpu, theirs.start_cpu, 0.7);
    row("CPU µs per series, plain", ours.plain_cpu * 1e6, theirs.plain_cpu * 1e6, 0.1);
    row("CPU µs per series, gzip", ours.gzip_cpu * 1e6, theirs.gzip_cpu * 1e6, 0.02);
    println!("| series on the page | {} | {} | | |", ours.series, theirs.series);
    let at = |percent| percentile(visible, percent).as_secs_f64() * 1e3;
    let verdict = if at(99) <= 50.0 { "met" } else { "MISSED" };
    println!("| edit to visible ms, p50 / p99 | {:.1} / {:.1} | | | p99 ≤ 50 {verdict} |", at(50), at(99));
}
