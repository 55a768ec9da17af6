//! Real Helm, offline.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::parts::program;

/// Helm with a kubeconfig.
pub struct Helm {
    kubeconfig: PathBuf,
    driver: &'static str,
}

impl Helm {
    /// Helm with this storage driver.
    pub fn new(kubeconfig: &Path, driver: &'static str) -> Self {
        Self { kubeconfig: kubeconfig.to_owned(), driver }
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "helm {arguments:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command that must fail.
    #[track_caller]
    pub fn fail(&self, arguments: &[&str]) {
        let output = self.output(arguments);
        assert!(!output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    }

    fn output(&self, arguments: &[&str]) -> Output {
        Command::new(program("helm", "helm"))
            .env("HELM_DRIVER", self.driver)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .output()
            .expect("helm can be run")
    }
}
