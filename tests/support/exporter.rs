//! A running exporter.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    http_client::{self, Response},
    process::{Running, free_port},
    wait::eventually,
};

/// The program on a free port.
pub struct Exporter {
    pub running: Running,
    pub port: u16,
    pub log: PathBuf,
}

impl Exporter {
    /// Starts `drift-exporter run` with more flags.
    pub fn start(kubeconfig: &Path, folder: &Path, flags: &[&str]) -> Self {
        Self::start_program(Path::new(env!("CARGO_BIN_EXE_drift-exporter")), kubeconfig, folder, flags)
    }

    /// Starts another build of the program.
    pub fn start_program(program: &Path, kubeconfig: &Path, folder: &Path, flags: &[&str]) -> Self {
        Self::start_command(&mut Command::new(program), kubeconfig, folder, flags)
    }

    /// Starts a prepared command.
    pub fn start_command(command: &mut Command, kubeconfig: &Path, folder: &Path, flags: &[&str]) -> Self {
        let port = free_port();
        let log = folder.join("exporter.log");
        let running = Running::start(
            command
                .args(["run", "--web.listen-address", &format!("127.0.0.1:{port}"), "--kubeconfig"])
                .arg(kubeconfig)
                .args(flags),
            &log,
        );
        Self { running, port, log }
    }

    /// Waits until it is ready.
    pub fn ready(self) -> Self {
        eventually("the exporter is ready", || (self.get("/readyz")?.status == 200).then_some(()));
        self
    }

    /// Gets a path; none if the connection fails.
    pub fn get(&self, path: &str) -> Option<Response> {
        http_client::get(self.port, path, &[])
    }

    /// The metrics page as plain text.
    pub fn metrics(&self) -> String {
        self.get("/metrics").expect("the exporter answers").text()
    }

    /// The value of the only sample with this name and these labels.
    pub fn sample(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        http_client::sample(&self.metrics(), name, labels)
    }

    /// Waits until a sample has a value, or is absent.
    #[track_caller]
    pub fn wait_for(&self, name: &str, labels: &[(&str, &str)], value: Option<f64>) {
        let what = format!("{name}{labels:?} is {value:?}");
        eventually(&what, || (self.sample(name, labels) == value).then_some(()));
    }

    /// The log.
    pub fn logged(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Writes a kubeconfig for an API server on the loopback interface, and returns its path.
pub fn write_kubeconfig(folder: &Path, port: u16) -> PathBuf {
    let path = folder.join("kubeconfig");
    let text = format!(
        "{{current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
         clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}], users: [{{name: u, user: {{}}}}]}}"
    );
    fs::write(&path, text).expect("the kubeconfig can be written");
    path
}
