//! Clients that load the exporter, and probes beside them.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{checker::percentile_99, support::http_client};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Shorter than the probe timeout of the chart, which is 2 s.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

fn connect(port: u16, timeout: Duration) -> Option<TcpStream> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let stream = TcpStream::connect_timeout(&address, timeout).ok()?;
    stream.set_read_timeout(Some(timeout)).ok()?;
    Some(stream)
}

/// What each client of a load does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Client {
    /// Requests a path, and reads a small part of the response every second.
    SlowReader(&'static str),
    /// Sends nothing.
    Idle,
    /// Sends a byte of its request every second.
    Slowloris,
    /// Requests `/metrics` continuously, with short pauses.
    Scraper,
}

/// Many clients of one kind, until it is dropped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(port: u16, client: Client, count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spawn = |work: Box<dyn FnOnce(&AtomicBool) + Send>| {
            let stop = stop.clone();
            std::thread::spawn(move || work(&stop))
        };
        let threads = match client {
            Client::Scraper => {
                (0..count).map(|_| spawn(Box::new(move |stop| scrape_until(port, stop)))).collect()
            }
            Client::SlowReader(_) | Client::Idle | Client::Slowloris => {
                vec![spawn(Box::new(move |stop| trickle(port, client, count, stop)))]
            }
        };
        Self { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().expect("a client does not panic"));
    }
}

fn scrape_until(port: u16, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let _ = http_client::get(port, "/metrics", &[]);
        // The clients of this process must not use the CPU time of its probes.
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Opens all connections at once and keeps them open. A connection that the server closes is opened again.
fn trickle(port: u16, client: Client, count: usize, stop: &AtomicBool) {
    let slow_request =
        "GET /metrics HTTP/1.1\r\nhost: localhost\r\nx-slow: ".bytes().chain(std::iter::repeat(b'a'));
    let slow_request: Vec<u8> = slow_request.take(256).collect();
    let open = || {
        let mut stream = connect(port, CONNECT_TIMEOUT)?;
        if let Client::SlowReader(path) = client {
            write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").ok()?;
        }
        stream.set_nonblocking(true).ok()?;
        Some((stream, 0))
    };
    let mut connections: Vec<Option<(TcpStream, usize)>> = (0..count).map(|_| open()).collect();
    while !stop.load(Ordering::Relaxed) {
        let turn = Instant::now();
        for connection in &mut connections {
            let Some((stream, sent)) = connection else {
                *connection = open();
                continue;
            };
            let alive = match client {
                Client::SlowReader(_) => is_open(stream.read(&mut [0; 512])),
                Client::Slowloris => {
                    let byte = slow_request[*sent % slow_request.len()];
                    *sent += 1;
                    is_open(stream.write(&[byte]))
                }
                Client::Idle | Client::Scraper => is_open(stream.peek(&mut [0])),
            };
            if !alive {
                *connection = None;
            }
        }
        std::thread::sleep(Duration::from_secs(1).saturating_sub(turn.elapsed()));
    }
}

fn is_open(result: std::io::Result<usize>) -> bool {
    result.map_or_else(|error| error.kind() == std::io::ErrorKind::WouldBlock, |length| length > 0)
}

/// Probes the health listener, as the kubelet does but more often.
pub(crate) struct Probes {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Vec<Duration>, usize)>,
}

impl Probes {
    pub(crate) fn start(port: u16) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut latencies, mut failed) = (Vec::new(), 0);
            while !until.load(Ordering::Relaxed) {
                for path in ["/livez", "/readyz"] {
                    let started = Instant::now();
                    failed += usize::from(!probe(port, path));
                    latencies.push(started.elapsed());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            (latencies, failed)
        });
        Self { stop, thread }
    }

    /// Stops, and returns the 99th percentile and the number of failed probes.
    pub(crate) fn finish(self) -> (Duration, usize) {
        self.stop.store(true, Ordering::Relaxed);
        let (latencies, failed) = self.thread.join().expect("a probe does not panic");
        (percentile_99(latencies), failed)
    }
}

fn probe(port: u16, path: &str) -> bool {
    let response = || {
        let mut stream = connect(port, PROBE_TIMEOUT)?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").ok()?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).ok()?;
        Some(head)
    };
    response().is_some_and(|head| head.ends_with(b" 200"))
}
