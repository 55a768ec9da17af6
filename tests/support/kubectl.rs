//! Real kubectl.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use super::parts::program;

/// kubectl with a kubeconfig.
pub struct Kubectl {
    kubeconfig: PathBuf,
}

impl Kubectl {
    pub fn new(kubeconfig: &Path) -> Self {
        Self { kubeconfig: kubeconfig.to_owned() }
    }

    /// Runs a command that must succeed, with an input.
    #[track_caller]
    pub fn run(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {error}\n{input}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a command that must fail, and returns its error message.
    #[track_caller]
    pub fn fail(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input);
        assert!(!output.status.success(), "kubectl {arguments:?} succeeded\n{input}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// Runs a command that may fail, and returns its output.
    pub fn answer(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.output(arguments, "").stdout).expect("text")
    }

    fn output(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(program("kube-apiserver", "kubectl"))
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl can be run");
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("kubectl reads");
        child.wait_with_output().expect("kubectl ends")
    }
}
