//! `drift-exporter demo`.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tempfile::TempDir;

use super::{
    cpu::process_time,
    http_client::{self, Response},
    process::{Running, free_port},
    wait::eventually,
};

/// A running demo.
pub struct Demo {
    pub running: Running,
    pub port: u16,
    /// The path that it prints for kubectl.
    pub kubeconfig: PathBuf,
    /// The CPU time until its first page.
    pub first_page: Duration,
    log: PathBuf,
    _folder: TempDir,
}

/// A demo that tests share. It starts with the first test that needs it, and ends with the last one. Tests must not
/// change anything in it.
pub struct Shared {
    running: Mutex<Weak<Demo>>,
    start: fn() -> Demo,
}

/// A demo without a story.
pub static UNCHANGED: Shared = Shared::new(|| Demo::start(&["--no-story"]));

impl Shared {
    pub const fn new(start: fn() -> Demo) -> Self {
        Self { running: Mutex::new(Weak::new()), start }
    }

    pub fn get(&self) -> Arc<Demo> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.upgrade().unwrap_or_else(|| {
            let demo = Arc::new((self.start)());
            *running = Arc::downgrade(&demo);
            demo
        })
    }
}

impl Demo {
    /// Starts it on a free port, with more flags, and waits until all objects of the shop are synced.
    pub fn start(flags: &[&str]) -> Self {
        Self::start_after(":", flags)
    }

    /// The same after a shell command, such as `ulimit -n 1024`.
    pub fn start_after(preparation: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (port, log) = (free_port(), folder.path().join("demo.log"));
        let running = Running::start(
            Command::new("sh")
                .args(["-c", &format!("{preparation}; exec \"$0\" \"$@\"")])
                .arg(env!("CARGO_BIN_EXE_drift-exporter"))
                .args(["demo", "--web.listen-address", &format!("127.0.0.1:{port}")])
                .args(flags)
                .env("TMPDIR", folder.path()),
            &log,
        );
        eventually("the first page is served", || {
            http_client::get(port, "/", &[]).filter(|page| page.status == 200)
        });
        let first_page = process_time(running.pid());
        eventually("the shop is synced", || {
            http_client::get(port, "/readyz", &[]).filter(|page| page.status == 200)
        });
        let output = eventually("it prints its addresses", || {
            fs::read_to_string(&log).ok().filter(|output| output.contains("Ctrl-C"))
        });
        let kubeconfig =
            output.lines().find_map(|line| line.trim().strip_prefix("kubeconfig")).expect("a line");
        let kubeconfig = kubeconfig.trim().into();
        Self { running, port, kubeconfig, first_page, log, _folder: folder }
    }

    /// Gets a path.
    pub fn get(&self, path: &str) -> Response {
        http_client::get(self.port, path, &[]).expect("the demo answers")
    }

    /// Its output.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).expect("its output")
    }

    /// The port of its API server.
    pub fn api_port(&self) -> u16 {
        let text = fs::read_to_string(&self.kubeconfig).expect("a kubeconfig");
        let (_, rest) = text.split_once("http://127.0.0.1:").expect("an address");
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a port")
    }

    /// The transitions so far, newest first.
    pub fn transitions(&self) -> Vec<serde_json::Value> {
        let history = self.get("/v1/history?limit=1000").json();
        history["transitions"].as_array().expect("a list").clone()
    }
}
