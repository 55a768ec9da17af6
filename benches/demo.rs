//! A demo with connections that occupy its connection slots.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use crate::{
    our_program, scrape, status_mib,
    support::{
        http_client,
        process::{Running, free_port},
        wait::eventually,
    },
};

/// Idle connections, and connections that send a request slowly.
pub(crate) const IDLE: usize = 2_000;
pub(crate) const SLOW: usize = 1_000;
const SCRAPES: usize = 400;

/// Measurements of a demo.
pub(crate) struct Demo {
    /// Time from the start to the first page.
    pub(crate) first_page: Duration,
    /// Peak memory after half a minute of the story at twenty times its speed.
    pub(crate) peak: f64,
    /// The 99th percentile of scrapes with connections that stay open as long as possible.
    pub(crate) under_load: Duration,
}

pub(crate) fn measure(folder: &Path) -> Demo {
    let port = free_port();
    let started = Instant::now();
    let demo = Running::start(
        Command::new(our_program())
            .args(["demo", "--speed", "20", "--web.listen-address", &format!("127.0.0.1:{port}")])
            .env("TMPDIR", folder),
        &folder.join("demo.log"),
    );
    eventually("the first page", || http_client::get(port, "/", &[]).filter(|page| page.status == 200));
    let first_page = started.elapsed();
    std::thread::sleep(Duration::from_secs(30));
    scrape(port, true);
    let peak = status_mib(demo.pid(), "VmHWM");
    Demo { first_page, peak, under_load: scrape_under_load(port) }
}

/// Some of the connections send nothing, some an endless header.
fn scrape_under_load(port: u16) -> Duration {
    let files = rlimit::increase_nofile_limit(8192).expect("a limit");
    assert!(files > (IDLE + SLOW) as u64, "only {files} files may be open: see ulimit -Hn");
    let (over, under_load) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| open_connections(port, &under_load, &over));
        eventually("every connection was open", || under_load.load(Ordering::Relaxed).then_some(()));
        let scrapes: Vec<(Duration, Option<u16>)> = (0..SCRAPES)
            .map(|_| {
                let started = Instant::now();
                let page = http_client::get(port, "/metrics", &[("accept-encoding", "gzip")]);
                (started.elapsed(), page.map(|page| page.status))
            })
            .collect();
        over.store(true, Ordering::Relaxed);
        assert!(scrapes.iter().all(|(_, status)| *status == Some(200)), "{scrapes:?}");
        let mut times: Vec<Duration> = scrapes.into_iter().map(|(time, _)| time).collect();
        times.sort();
        times[(times.len() - 1) * 99 / 100]
    })
}

/// Opens connections, and reopens each within two seconds after the exporter closes it.
fn open_connections(port: u16, under_load: &AtomicBool, over: &AtomicBool) {
    let open = |number: usize| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_nonblocking(true).ok()?;
        if number < SLOW {
            stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ").ok()?;
        }
        Some(stream)
    };
    let mut streams: Vec<Option<TcpStream>> = (0..IDLE + SLOW).map(open).collect();
    while !over.load(Ordering::Relaxed) {
        under_load.store(true, Ordering::Relaxed);
        for (number, connection) in streams.iter_mut().enumerate() {
            let is_open = connection.as_mut().is_some_and(|stream| {
                let silent = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
                (number >= SLOW || stream.write_all(b"x").is_ok()) && stream.read(&mut [0]).is_err_and(silent)
            });
            if !is_open {
                *connection = open(number);
            }
            // All of them within two seconds.
            if number.is_multiple_of(15) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
