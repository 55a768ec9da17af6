//! A running exporter.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    page::{self, Response},
    process::{Running, free_port},
    wait::eventually,
};

/// The program itself, on a free port.
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

    /// Starts the program in an environment that was prepared.
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

    /// Asks for a path; none if nobody answers.
    pub fn get(&self, path: &str) -> Option<Response> {
        page::get(self.port, path, &[])
    }

    /// The plain text page.
    pub fn metrics(&self) -> String {
        self.get("/metrics").expect("the exporter answers").text()
    }

    /// The value of the one sample whose line begins with `name{` and holds all these labels.
    pub fn sample(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        page::sample(&self.metrics(), name, labels)
    }

    /// Waits for a sample to have a value, or to be gone.
    #[track_caller]
    pub fn wait_for(&self, name: &str, labels: &[(&str, &str)], value: Option<f64>) {
        let what = format!("{name}{labels:?} is {value:?}");
        eventually(&what, || (self.sample(name, labels) == value).then_some(()));
    }

    /// What it has logged.
    pub fn logged(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}
