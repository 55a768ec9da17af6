//! A real Chromium, controlled by W3C WebDriver.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    http_client::{self, post},
    process::{Running, free_port},
    wait::eventually,
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
    /// Starts a browser with its own profile.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let driver = Running::start(
            Command::new("chromedriver").arg(format!("--port={port}")).env("TMPDIR", folder.path()),
            &folder.path().join("driver.log"),
        );
        eventually("the driver listens", || http_client::get(port, "/status", &[]));
        let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([profile.as_str()]).collect();
        // The Chromium on the PATH. The driver might choose another version.
        let binary = Command::new("sh").args(["-c", "command -v chromium"]).output().expect("a shell").stdout;
        let binary = String::from_utf8(binary).expect("a path");
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": flags, "binary": binary.trim()},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let answer = post(port, "/session", &capabilities);
        let session = answer["value"]["sessionId"].as_str();
        let session = session.unwrap_or_else(|| panic!("no session: {answer}")).to_owned();
        Self { port, session, _driver: driver, _folder: folder }
    }

    fn send(&self, command: &str, body: &Value) -> Value {
        let answer = post(self.port, &format!("/session/{}/{command}", self.session), body);
        assert!(answer["value"].get("error").is_none(), "{command}: {answer}");
        answer["value"].clone()
    }

    /// Opens a URL.
    pub fn open(&self, url: &str) {
        self.send("url", &json!({"url": url}));
    }

    /// Runs a script in the page, and returns its result.
    pub fn run(&self, script: &str) -> Value {
        self.send("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Runs an asynchronous script in the page: its last argument is the callback for the result.
    pub fn run_until_done(&self, script: &str, argument: &str) -> Value {
        self.send("execute/async", &json!({"script": script, "args": [argument]}))
    }

    /// Clicks the only element that matches a selector.
    pub fn click(&self, selector: &str) {
        // A found element may be replaced before the click: try again.
        eventually(&format!("{selector} can be clicked on"), || {
            let command = format!("/session/{}/element/{}/click", self.session, self.find(selector));
            let answer = post(self.port, &command, &json!({}));
            let is_stale = answer["value"]["error"] == "stale element reference";
            assert!(is_stale || answer["value"].is_null(), "{selector}: {answer}");
            (!is_stale).then_some(())
        });
    }

    /// Types into the only element that matches a selector.
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.send(&format!("element/{element}/value"), &json!({"text": text}));
    }

    /// Presses keys, one after another, in the focused element. Special keys have code points of WebDriver.
    pub fn press(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
            })
            .collect();
        self.send("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]}));
    }

    /// Runs a command of the Chrome DevTools Protocol.
    pub fn command(&self, name: &str, parameters: &Value) -> Value {
        self.send("goog/cdp/execute", &json!({"cmd": name, "params": parameters}))
    }

    /// Emulates a screen size and a colour scheme.
    pub fn emulate_screen(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.command("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.command("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Errors and warnings of the console since the last call, with violations of the content security policy.
    pub fn console_messages(&self) -> Vec<String> {
        let lines = self.send("se/log", &json!({"type": "browser"}));
        let lines = lines.as_array().expect("a list").iter();
        let lines = lines.filter(|line| line["level"] == "SEVERE" || line["level"] == "WARNING");
        lines.map(|line| line["message"].to_string()).collect()
    }

    fn find(&self, selector: &str) -> String {
        let found = self.send("elements", &json!({"using": "css selector", "value": selector}));
        let found = found.as_array().expect("a list");
        assert_eq!(found.len(), 1, "{selector} finds {found:?}");
        let id = found[0].as_object().and_then(|element| element.values().next()).and_then(Value::as_str);
        id.expect("an element").to_owned()
    }

    /// Waits until an expression in the page is true.
    #[track_caller]
    pub fn wait_until(&self, expression: &str) {
        let script = format!("return Boolean({expression})");
        eventually(expression, || (self.run(&script) == true).then_some(()));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver closes its browser only on request.
        let url = format!("http://127.0.0.1:{}/session/{}", self.port, self.session);
        let _ = Command::new("curl").args(["-s", "-o", "/dev/null", "-X", "DELETE", &url]).status();
    }
}
