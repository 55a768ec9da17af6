//! Real Terraform with the real Kubernetes provider, offline.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use super::parts::program;

/// The versions of the provider in `parts`.
#[derive(Clone, Copy, Debug)]
pub enum Provider {
    Current,
    /// Writes states of schema 0.
    Old,
}

impl Provider {
    /// The version that the part pins.
    fn version(self) -> &'static str {
        match self {
            Self::Current => "3.2.1",
            Self::Old => "1.13.4",
        }
    }

    fn part(self) -> &'static str {
        match self {
            Self::Current => "terraform-provider-kubernetes",
            Self::Old => "terraform-provider-kubernetes-1.13",
        }
    }
}

/// A folder with a configuration.
pub struct Terraform {
    folder: TempDir,
    variables: BTreeMap<&'static str, String>,
}

/// A resource that a refresh changes.
#[derive(Debug)]
pub struct Drifted {
    pub address: String,
    pub before: Value,
    pub after: Value,
}

impl Terraform {
    /// Copies the `*.tf` files of a folder, and initializes Terraform with the provider.
    pub fn init(configuration: &Path, provider: Provider, kubeconfig: &Path) -> Self {
        let version = provider.version();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let platform = format!("linux_{}", if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" });
        let mirror = folder.path().join("mirror");
        let place = mirror.join(format!("registry.terraform.io/hashicorp/kubernetes/{version}/{platform}"));
        fs::create_dir_all(&place).expect("the mirror can be made");
        let provider = program(provider.part(), "terraform-provider-kubernetes");
        let link = place.join(format!("terraform-provider-kubernetes_v{version}"));
        std::os::unix::fs::symlink(provider, link).expect("the provider can be linked");
        let settings = format!(
            "disable_checkpoint = true\nprovider_installation {{\n  filesystem_mirror {{\n    path = {:?}\n  }}\n}}\n",
            mirror.display().to_string()
        );
        fs::write(folder.path().join("terraformrc"), settings).expect("the settings can be written");
        copy_configuration(configuration, folder.path());
        let variables = BTreeMap::from([("kubeconfig", kubeconfig.display().to_string())]);
        let terraform = Self { folder, variables };
        terraform.run(&["init", "-no-color", "-input=false"]);
        terraform
    }

    /// The folder of the configuration and of a local state.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sets a variable.
    pub fn set(&mut self, variable: &'static str, value: String) {
        self.variables.insert(variable, value);
    }

    pub fn apply(&self) {
        self.run(&["apply", "-no-color", "-auto-approve", "-input=false", "-parallelism=20"]);
    }

    /// The state as it is stored.
    pub fn state(&self) -> Vec<u8> {
        self.run(&["state", "pull"])
    }

    /// The schema of the provider.
    pub fn schema(&self) -> Vec<u8> {
        self.run(&["providers", "schema", "-json"])
    }

    /// The resources that a refresh changes.
    pub fn drift(&self) -> Vec<Drifted> {
        self.run(&["plan", "-refresh-only", "-no-color", "-input=false", "-parallelism=20", "-out=plan"]);
        let plan: Value =
            serde_json::from_slice(&self.run(&["show", "-json", "plan"])).expect("a plan in JSON");
        let drift = plan["resource_drift"].as_array().cloned().unwrap_or_default();
        let read = |change: Value| Drifted {
            address: change["address"].as_str().expect("an address").to_owned(),
            before: change["change"]["before"].clone(),
            after: change["change"]["after"].clone(),
        };
        drift.into_iter().map(read).collect()
    }

    /// Runs a command that must succeed.
    pub fn run(&self, arguments: &[&str]) -> Vec<u8> {
        let output = Command::new("terraform")
            .current_dir(self.folder.path())
            .env("TF_CLI_CONFIG_FILE", self.folder.path().join("terraformrc"))
            .env("TF_IN_AUTOMATION", "1")
            // For the Kubernetes backend, and providers without a configuration.
            .env("KUBE_CONFIG_PATH", &self.variables["kubeconfig"])
            .envs(self.variables.iter().map(|(name, value)| (format!("TF_VAR_{name}"), value)))
            .args(arguments)
            .output()
            .expect("terraform is on the path");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "terraform {arguments:?}: {error}");
        output.stdout
    }
}

/// Copies the `*.tf` files of a folder and of its modules.
fn copy_configuration(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder can be made");
    for entry in fs::read_dir(from).expect("the configuration can be read") {
        let path = entry.expect("an entry").path();
        let copy = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_configuration(&path, &copy);
        } else if path.extension().is_some_and(|extension| extension == "tf") {
            fs::copy(&path, copy).expect("a copy");
        }
    }
}
