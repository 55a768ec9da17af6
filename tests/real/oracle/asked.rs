//! The exporter itself, which has the state's file to go by, and what it says about objects.

use std::{fs, path::Path};

use drift_exporter::types::DeclaredObject;
use serde_json::{Value, json};

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    wait::eventually,
};

/// A running exporter.
pub(super) struct Asked {
    exporter: Exporter,
}

impl Asked {
    /// One that reads this state.
    pub(super) fn start(cluster: &Cluster, state: &Path) -> Self {
        let settings = cluster.folder().join("settings.yaml");
        let sources = json!({"terraform": {"files": [state], "this_cluster": true}});
        fs::write(&settings, json!({"sources": sources}).to_string()).unwrap();
        let flags = ["--config.file", settings.to_str().unwrap()];
        let exporter = Exporter::start(&cluster.kubeconfig(User::Admin), cluster.folder(), &flags);
        Self { exporter: exporter.ready() }
    }

    /// Whether an object has drifted in this version, by the word of Terraform alone. None where it cannot be compared.
    pub(super) fn drifted(&self, object: &DeclaredObject, version: &Value) -> Option<bool> {
        let name = &object.object;
        let group = if name.group.is_empty() { String::new() } else { format!(".{}", name.group) };
        let namespace = if name.namespace.is_empty() { "-" } else { &name.namespace };
        let path = format!("/v1/resources/{}{group}/{namespace}/{}", name.kind, name.name);
        let known = eventually(&format!("{path} is known as {version}"), || {
            let known: Value = serde_json::from_str(&self.exporter.get(&path)?.text()).ok()?;
            (known["resourceVersion"] == *version).then_some(known)
        });
        let claim = known["claims"].as_array()?.iter().find(|claim| claim["source"] == "terraform")?;
        match claim["verdict"].as_str()? {
            "drifted" | "missing" | "replaced" => Some(true),
            "in_sync" | "ignored" => Some(false),
            _ => None,
        }
    }

    /// Everything that it has to complain about, once it has read the state of this serial.
    pub(super) fn complaints(&self, serial: u64) -> Vec<String> {
        eventually(&format!("serial {serial} is read"), || {
            let status: Value = serde_json::from_str(&self.exporter.get("/v1/status")?.text()).ok()?;
            (status["baselines"][0]["serial"] == serial).then_some(())
        });
        let claims: Value =
            serde_json::from_str(&self.exporter.get("/v1/resources?namespace=*").unwrap().text()).unwrap();
        let claims = claims["resources"].as_array().unwrap().iter();
        let fine = |claim: &Value| matches!(claim["verdict"].as_str().unwrap(), "in_sync" | "no_baseline");
        claims
            .filter(|claim| !fine(claim))
            .map(|claim| format!("{}: {} {}", claim["address"], claim["verdict"], claim["differences"]))
            .collect()
    }
}
