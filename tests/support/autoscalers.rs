//! `HorizontalPodAutoscalers` in two versions, and Terraform states that declare them.

use std::{fs, path::PathBuf, time::Duration};

use drift_exporter::{
    config::{Settings, StateLocations},
    types::{Kind, Scope, Source},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{api_server::ApiServer, exporter_fixture::ExporterFixture};

pub const AUTOSCALERS: &str = "horizontalpodautoscalers";
/// The exporter polls state files every second and discovery every five.
pub const SOON: Duration = Duration::from_secs(8);

/// A server with autoscalers in these versions, the preferred version first.
pub fn server(versions: &[&str]) -> ApiServer {
    let api = ApiServer::default();
    let autoscaler = |version: &&str| Kind { version: (*version).into(), ..Kind::autoscaler() };
    api.serve(&versions.iter().map(autoscaler).collect::<Vec<_>>());
    api.set_conversion(AUTOSCALERS, in_version);
    api
}

/// An autoscaler of Deployment `target` in namespace `shop`, written by `kubectl` at this second of January 2nd, 2026.
pub fn autoscaler(name: &str, target: &str, percent: u32, second: u32) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "managedFields": [
            {"manager": "kubectl-edit", "operation": "Update", "time": format!("2026-01-02T00:00:{second:02}Z"),
                "fieldsV1": {"f:spec": {"f:metrics": {}, "f:targetCPUUtilizationPercentage": {}}}}]},
        "spec": {"minReplicas": 1, "maxReplicas": 5, "percent": percent,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}},
    })
}

fn in_version(mut object: Value, version: &str) -> Value {
    let spec = object["spec"].as_object_mut().unwrap();
    let percent = spec.remove("percent").unwrap();
    if version == "v1" {
        spec.insert("targetCPUUtilizationPercentage".to_owned(), percent);
    } else {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
        spec.insert("metrics".to_owned(), metrics);
    }
    object
}

/// The same autoscaler as a Terraform resource, in version `v1` or `v2`.
pub fn declared(version: &str, name: &str, target: &str, percent: u32) -> Value {
    let target = json!([{"api_version": "apps/v1", "kind": "Deployment", "name": target}]);
    let mut spec = json!({"min_replicas": 1, "max_replicas": 5, "scale_target_ref": target});
    if version == "v1" {
        spec["target_cpu_utilization_percentage"] = percent.into();
    } else {
        let target = json!([{"type": "Utilization", "average_utilization": percent}]);
        spec["metric"] = json!([{"type": "Resource", "resource": [{"name": "cpu", "target": target}]}]);
    }
    let metadata = json!([{"name": name, "namespace": "shop", "uid": format!("uid-{name}")}]);
    let attributes = json!({"id": format!("shop/{name}"), "metadata": metadata, "spec": [spec]});
    json!({"mode": "managed", "type": format!("kubernetes_horizontal_pod_autoscaler_{version}"), "name": name,
        "instances": [{"schema_version": 0, "attributes": attributes}]})
}

/// A directory of Terraform states.
pub struct StateFiles {
    folder: TempDir,
}

impl StateFiles {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Writes a state atomically.
    pub fn write(&self, name: &str, serial: u64, resources: &[Value]) {
        let state = json!({"version": 4, "serial": serial, "lineage": name, "resources": resources});
        let new = self.folder.path().join("new");
        fs::write(&new, state.to_string()).unwrap();
        fs::rename(new, self.file(name)).unwrap();
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.file(name)).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.tfstate"))
    }

    /// Starts an exporter that reads these states.
    pub fn start_exporter(&self, api: &ApiServer) -> ExporterFixture {
        // The server has no Secrets.
        let (scope, files) = (Scope::nothing(), vec![self.folder.path().into()]);
        let terraform = StateLocations { scope, files, ..StateLocations::default() };
        let sources = vec![Source::Terraform];
        ExporterFixture::start_with(api, Settings { sources, terraform, ..Settings::default() })
    }
}

impl ExporterFixture {
    /// The verdict and reason of the first claim on an object, and the paths that differ.
    pub async fn first_claim(&self, kind: &str, name: &str) -> (String, Vec<String>) {
        let object = self.get(&format!("/v1/resources/{kind}/shop/{name}")).await.json();
        let Some(claim) = object["claims"].as_array().and_then(|claims| claims.first()) else {
            return ("unclaimed".to_owned(), Vec::new());
        };
        let reason = claim["reason"].as_str().map(|reason| format!(" {reason}")).unwrap_or_default();
        let paths = claim["differences"].as_array().unwrap().iter();
        let paths = paths.map(|difference| difference["path"].as_str().unwrap().to_owned()).collect();
        (format!("{}{reason}", claim["verdict"].as_str().unwrap()), paths)
    }

    /// Waits for a verdict of an object; returns the paths that differ.
    #[track_caller]
    pub fn wait_for_verdict<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        verdict: &'a str,
    ) -> impl Future<Output = Vec<String>> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let started = tokio::time::Instant::now();
            loop {
                let (found, paths) = self.first_claim(kind, name).await;
                if found == verdict {
                    return paths;
                }
                assert!(started.elapsed() < SOON, "{kind} {name} is {found}, want {verdict} ({caller})");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}
