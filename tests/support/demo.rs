//! `drift-exporter demo`, as people start it.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{
    page::{self, Response},
    process::{Running, eventually, free_port},
};

/// A running demo.
pub struct Demo {
    pub running: Running,
    pub port: u16,
    /// What it says that kubectl should be given.
    pub kubeconfig: PathBuf,
    /// From its start to its first page.
    pub first_page: Duration,
    log: PathBuf,
    _folder: TempDir,
}

impl Demo {
    /// Starts it on a free port, with more flags, and waits until everything in the shop is known.
    pub fn start(flags: &[&str]) -> Self {
        Self::start_after(":", flags)
    }

    /// The same after a shell has done something, such as `ulimit -n 1024`.
    pub fn start_after(preparation: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (port, log) = (free_port(), folder.path().join("demo.log"));
        let begun = Instant::now();
        let running = Running::start(
            Command::new("sh")
                .args(["-c", &format!("{preparation}; exec \"$0\" \"$@\"")])
                .arg(env!("CARGO_BIN_EXE_drift-exporter"))
                .args(["demo", "--web.listen-address", &format!("127.0.0.1:{port}")])
                .args(flags)
                .env("TMPDIR", folder.path()),
            &log,
        );
        eventually("the first page is served", Duration::from_secs(30), || {
            page::get(port, "/", &[]).filter(|page| page.status == 200)
        });
        let first_page = begun.elapsed();
        eventually("the shop is known", Duration::from_secs(30), || {
            page::get(port, "/readyz", &[]).filter(|page| page.status == 200)
        });
        let said = eventually("it says where everything is", Duration::from_secs(5), || {
            fs::read_to_string(&log).ok().filter(|said| said.contains("Ctrl-C"))
        });
        let kubeconfig =
            said.lines().find_map(|line| line.trim().strip_prefix("kubeconfig")).expect("a line");
        let kubeconfig = kubeconfig.trim().into();
        Self { running, port, kubeconfig, first_page, log, _folder: folder }
    }

    /// Asks for a path.
    pub fn get(&self, path: &str) -> Response {
        page::get(self.port, path, &[]).expect("the demo answers")
    }

    /// What it has printed.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).expect("its output")
    }

    /// Where its API server listens.
    pub fn api_port(&self) -> u16 {
        let text = fs::read_to_string(&self.kubeconfig).expect("a kubeconfig");
        let (_, rest) = text.split_once("http://127.0.0.1:").expect("an address");
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a port")
    }

    /// The transitions so far, the newest first.
    pub fn transitions(&self) -> Vec<serde_json::Value> {
        let history = self.get("/v1/history?limit=1000").json();
        history["transitions"].as_array().expect("a list").clone()
    }
}
