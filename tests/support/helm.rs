//! Real Helm, without a network.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::parts::program;

/// Helm with a cluster to work on.
pub struct Helm {
    kubeconfig: PathBuf,
    driver: &'static str,
}

impl Helm {
    /// One that keeps its releases in Secrets, or whatever this driver keeps them in.
    pub fn new(kubeconfig: &Path, driver: &'static str) -> Self {
        Self { kubeconfig: kubeconfig.to_owned(), driver }
    }

    /// Runs a command of Helm that has to succeed.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "helm {arguments:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command of Helm that has to fail.
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
