//! A running Alertmanager, and its shipped example configuration.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    http_client,
    parts::program,
    process::{Running, free_port},
    receiver::Receiver,
    wait::eventually,
};

pub struct Alertmanager {
    _running: Running,
    pub port: u16,
}

impl Alertmanager {
    /// Starts a server and waits until it is ready.
    pub fn start(configuration: &Path, scratch: &Path) -> Self {
        let port = free_port();
        let running = Running::start(
            Command::new(program("alertmanager", "alertmanager"))
                .arg(format!("--config.file={}", configuration.display()))
                .arg(format!("--storage.path={}", scratch.join("alertmanager").display()))
                .arg(format!("--web.listen-address=127.0.0.1:{port}"))
                .arg(format!("--web.external-url=http://127.0.0.1:{port}"))
                .arg("--cluster.listen-address="),
            &scratch.join("alertmanager.log"),
        );
        let alertmanager = Self { _running: running, port };
        eventually("a ready Alertmanager", || {
            http_client::get(port, "/-/ready", &[]).filter(|answer| answer.status == 200)
        });
        alertmanager
    }

    pub fn amtool(&self) -> Command {
        let mut command = Command::new(program("alertmanager", "amtool"));
        command.arg(format!("--alertmanager.url=http://127.0.0.1:{}", self.port));
        command
    }
}

/// The path of the shipped example.
pub fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts/alertmanager/alertmanager.yaml")
}

/// The example with secrets in a folder, the URLs of a fake receiver, and shorter intervals.
pub fn fast_example(folder: &Path, receiver: &Receiver) -> PathBuf {
    let secrets = folder.join("secrets");
    fs::create_dir_all(&secrets).expect("a folder");
    for channel in ["pages", "pages-front", "tickets", "tickets-front", "information"] {
        fs::write(secrets.join(format!("slack-{channel}")), receiver.slack(channel)).expect("written");
    }
    for team in ["platform", "front"] {
        fs::write(secrets.join(format!("pagerduty-{team}")), format!("key-of-{team}")).expect("written");
    }
    let templates = example().with_file_name("templates");
    let mut text = fs::read_to_string(example()).expect("the example");
    for (shipped, ours) in [
        ("/etc/alertmanager/secrets", secrets.display().to_string()),
        ("templates/*.tmpl", format!("{}/*.tmpl", templates.display())),
        (
            "templates:\n",
            format!(
                "global:\n  pagerduty_url: {}\n  resolve_timeout: 10s\n\ntemplates:\n",
                receiver.pagerduty()
            ),
        ),
        ("group_wait: 45s", "group_wait: 1s".to_owned()),
        ("group_interval: 5m", "group_interval: 2s".to_owned()),
    ] {
        assert!(text.contains(shipped), "{shipped} is not in the example");
        text = text.replace(shipped, &ours);
    }
    let path = folder.join("alertmanager.yaml");
    fs::write(&path, text).expect("written");
    path
}
