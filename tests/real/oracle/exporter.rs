//! A running exporter that reads the state's file.

use std::{fs, path::Path};

use drift_exporter::types::DeclaredObject;
use serde_json::{Value, json};

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    wait::eventually,
};

pub(super) struct RunningExporter {
    exporter: Exporter,
}

impl RunningExporter {
    /// Starts an exporter that reads this state.
    pub(super) fn start(cluster: &Cluster, state: &Path) -> Self {
        let settings = cluster.folder().join("settings.yaml");
        let sources = json!({"terraform": {"files": [state], "this_cluster": true}});
        fs::write(&settings, json!({"sources": sources}).to_string()).unwrap();
        let flags = ["--config.file", settings.to_str().unwrap()];
        let exporter = Exporter::start(&cluster.kubeconfig(User::Admin), cluster.folder(), &flags);
        Self { exporter: exporter.ready() }
    }

    /// Whether an object in this version has drifted from the state. None if it cannot be compared.
    pub(super) fn drifted(&self, object: &DeclaredObject, version: &Value) -> Option<bool> {
        let name = &object.object;
        let group = if name.group.is_empty() { String::new() } else { format!(".{}", name.group) };
        let namespace = if name.namespace.is_empty() { "-" } else { &name.namespace };
        let path = format!("/v1/resources/{}{group}/{namespace}/{}", name.kind, name.name);
        let resource = eventually(&format!("{path} is synced at {version}"), || {
            let resource: Value = serde_json::from_str(&self.exporter.get(&path)?.text()).ok()?;
            (resource["resourceVersion"] == *version).then_some(resource)
        });
        let claim = resource["claims"].as_array()?.iter().find(|claim| claim["source"] == "terraform")?;
        match claim["verdict"].as_str()? {
            "drifted" | "missing" | "replaced" => Some(true),
            "in_sync" | "ignored" => Some(false),
            _ => None,
        }
    }

    /// Waits until the state with this serial is read, and returns all claims that are not in sync.
    pub(super) fn wait_for_problems(&self, serial: u64) -> Vec<String> {
        eventually(&format!("serial {serial} is read"), || {
            let status: Value = serde_json::from_str(&self.exporter.get("/v1/status")?.text()).ok()?;
            (status["baselines"][0]["serial"] == serial).then_some(())
        });
        let claims: Value =
            serde_json::from_str(&self.exporter.get("/v1/resources?namespace=*").unwrap().text()).unwrap();
        let claims = claims["resources"].as_array().unwrap().iter();
        let is_in_sync =
            |claim: &Value| matches!(claim["verdict"].as_str().unwrap(), "in_sync" | "no_baseline");
        claims
            .filter(|claim| !is_in_sync(claim))
            .map(|claim| format!("{}: {} {}", claim["address"], claim["verdict"], claim["differences"]))
            .collect()
    }
}
