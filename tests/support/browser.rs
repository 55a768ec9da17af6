//! A real Chromium, driven by the words of the W3C protocol for that.

use std::{process::Command, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    page::{self, post},
    process::{Running, eventually, free_port},
};

/// A browser with one window. It ends with its driver.
pub struct Browser {
    port: u16,
    session: String,
    _driver: Running,
    _folder: TempDir,
}

const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
];

impl Browser {
    /// Starts one with a profile of its own.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let driver = Running::start(
            Command::new("chromedriver").arg(format!("--port={port}")).env("TMPDIR", folder.path()),
            &folder.path().join("driver.log"),
        );
        eventually("the driver listens", Duration::from_secs(20), || page::get(port, "/status", &[]));
        let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([profile.as_str()]).collect();
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": flags}}}});
        let answer = post(port, "/session", &wanted);
        let session = answer["value"]["sessionId"].as_str();
        let session = session.unwrap_or_else(|| panic!("no session: {answer}")).to_owned();
        Self { port, session, _driver: driver, _folder: folder }
    }

    fn ask(&self, command: &str, body: &Value) -> Value {
        let answer = post(self.port, &format!("/session/{}/{command}", self.session), body);
        assert!(answer["value"].get("error").is_none(), "{command}: {answer}");
        answer["value"].clone()
    }

    /// Opens an address.
    pub fn open(&self, url: &str) {
        self.ask("url", &json!({"url": url}));
    }

    /// What a script in the page returns.
    pub fn run(&self, script: &str) -> Value {
        self.ask("execute/sync", &json!({"script": script, "args": []}))
    }

    /// What a script in the page gives to the last of its arguments, a function.
    pub fn run_until_done(&self, script: &str, argument: &str) -> Value {
        self.ask("execute/async", &json!({"script": script, "args": [argument]}))
    }

    /// Waits until an expression in the page is true.
    #[track_caller]
    pub fn wait_until(&self, expression: &str) {
        let script = format!("return Boolean({expression})");
        eventually(expression, Duration::from_secs(10), || (self.run(&script) == true).then_some(()));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver takes its browser along only when asked.
        let url = format!("http://127.0.0.1:{}/session/{}", self.port, self.session);
        let _ = Command::new("curl").args(["-s", "-o", "/dev/null", "-X", "DELETE", &url]).status();
    }
}
