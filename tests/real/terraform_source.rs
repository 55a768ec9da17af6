//! Real Terraform applies, real kubectl edits, and the exporter reads only the states.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    objects::prepare_for_terraform,
    parts::program,
    terraform::{Provider, Terraform},
    wait::eventually,
};

const ONSET: &str = "drift_resource_drifted_timestamp_seconds";
const DRIFTED: &str = "drift_resource_drifted";
const ADDRESS: &str = "module.checkout[\"eu\"].kubernetes_deployment_v1.api";
/// Number of objects that Terraform manages.
const OBJECTS: f64 = 8.0;

struct TerraformFixture {
    cluster: Cluster,
    exporter: Exporter,
}

impl TerraformFixture {
    fn start() -> Self {
        let cluster = Cluster::start();
        let client = cluster.client();
        cluster.block_on(prepare_for_terraform(&client));
        let flags = ["--sources", "terraform", "--trusted-namespaces", "terraform"];
        let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), &flags).ready();
        Self { cluster, exporter }
    }

    fn kubectl(&self, arguments: &[&str]) {
        let output = self.kubectl_command(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn kubectl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("kube-apiserver", "kubectl"));
        command.args(arguments).arg("--kubeconfig").arg(self.cluster.kubeconfig(User::Admin));
        command
    }

    fn terraform(&self, configuration: &Path) -> Terraform {
        Terraform::init(configuration, Provider::Current, &self.cluster.kubeconfig(User::Admin))
    }

    /// Number of claims with this verdict, from `/metrics`.
    fn count(&self, verdict: &str) -> f64 {
        let page = self.exporter.metrics();
        let lines = page.lines().filter(|line| {
            line.starts_with("drift_resources{")
                && line.contains("source=\"terraform\"")
                && line.contains(&format!("verdict=\"{verdict}\""))
        });
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    #[track_caller]
    fn wait_for_in_sync(&self) {
        eventually("all objects are in sync", || {
            ((self.count("in_sync") - OBJECTS).abs() < 0.5).then_some(())
        });
    }

    fn claim(&self, kind: &str, name: &str) -> Value {
        let answer = self.exporter.get(&format!("/v1/resources/{kind}/payments/{name}")).unwrap();
        serde_json::from_str::<Value>(&answer.text()).unwrap()["claims"][0].clone()
    }

    /// The transitions of an object: verdict and cause of a resolution, oldest first.
    fn transitions(&self, name: &str) -> Vec<String> {
        let answer = self.exporter.get("/v1/history").unwrap().text();
        let history: Value = serde_json::from_str(&answer).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let of_object =
            history["transitions"].as_array().unwrap().iter().filter(|transition| transition["name"] == name);
        let mut transitions: Vec<String> = of_object
            .map(|transition| format!("{} {}", text(&transition["to"]), text(&transition["cause"])))
            .collect();
        transitions.reverse();
        transitions
    }

    /// Scales a Deployment, and returns the time until `/metrics` exposes the drift with all labels.
    fn scale_and_wait_for_drift(&self, state: &str) -> Duration {
        let (before, lists) = (seconds(), self.cluster.lists_of("deployments"));
        self.kubectl(&["scale", "deployment", "checkout-eu", "-n", "payments", "--replicas=5"]);
        let started = Instant::now();
        let labels = [
            ("kind", "Deployment"),
            ("namespace", "payments"),
            ("name", "checkout-eu"),
            ("source", "terraform"),
            ("actor", "kubectl"),
            ("field", "replicas"),
            ("state", state),
        ];
        let onset = eventually("the edit is on /metrics", || self.exporter.sample(ONSET, &labels));
        let took = started.elapsed();
        assert_eq!(self.cluster.lists_of("deployments"), lists, "the edit arrives as a watch event");
        assert!(onset >= before.floor() && onset <= seconds(), "{onset} is not about {before}");
        let address = format!("address=\"{}\"", ADDRESS.replace('"', "\\\""));
        let page = self.exporter.metrics();
        assert!(page.lines().any(|line| line.starts_with(ONSET) && line.contains(&address)), "{page}");
        assert_eq!(self.exporter.sample(DRIFTED, &labels[..4]), Some(1.0));
        let claim = self.claim("deployment.apps", "checkout-eu");
        let difference = &claim["differences"][0];
        assert_eq!(
            (&difference["path"], &difference["expected"], &difference["actual"]),
            (&json!("spec.replicas"), &json!("2"), &json!("5"))
        );
        assert_eq!((&claim["address"], &claim["state"]), (&json!(ADDRESS), &json!(state)));
        took
    }
}

fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/demo/terraform")
}

#[test]
fn state_in_the_cluster_is_compared() {
    let fixture = TerraformFixture::start();
    let terraform = fixture.terraform(&shop());
    terraform.apply();
    fixture.wait_for_in_sync();
    let took = fixture.scale_and_wait_for_drift("terraform/default/payments");
    println!("kubectl scale was on /metrics {took:?} after kubectl had ended");

    // An apply reverts it, and nothing else drifts in the meantime.
    terraform.apply();
    fixture.wait_for_in_sync();
    let transitions = fixture.transitions("checkout-eu");
    assert_eq!(transitions, ["drifted -", "in_sync reverted"]);

    // A deleted object is missing, and a refresh absorbs a live value.
    fixture.kubectl(&["delete", "networkpolicy", "refunds", "-n", "payments"]);
    let missing = [("kind", "NetworkPolicy"), ("name", "refunds"), ("field", "existence")];
    eventually("it is missing", || fixture.exporter.sample(ONSET, &missing));
    fixture.kubectl(&["set", "image", "deployment/refunds", "*=nginx:9", "-n", "payments"]);
    eventually("the image differs", || {
        fixture.exporter.sample(ONSET, &[("kind", "Deployment"), ("name", "refunds"), ("field", "image")])
    });
    terraform.run(&["apply", "-refresh-only", "-auto-approve", "-no-color", "-input=false"]);
    eventually("the live value is absorbed", || {
        fixture.transitions("refunds").contains(&"in_sync absorbed".to_owned()).then_some(())
    });
    terraform.apply();
    fixture.wait_for_in_sync();

    // These are the only detections: no apply looked like drift.
    let page = fixture.exporter.metrics();
    let detections: f64 = page
        .lines()
        .filter(|line| line.starts_with("drift_detections_total{"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!((detections - 3.0).abs() < 0.5, "{detections}: {:?}", fixture.transitions("refunds"));
    let requests = fixture.cluster.requests_by(User::Exporter);
    // Requests without a resource are discovery requests.
    let only_reads = |(verb, resource): &(String, String)| match verb.as_str() {
        "list" | "watch" => true,
        _ => verb == "get" && resource.is_empty(),
    };
    assert!(!requests.is_empty() && requests.iter().all(only_reads), "{requests:?}");
}

#[test]
fn published_baseline_is_compared() {
    let fixture = TerraformFixture::start();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("checkout")).unwrap();
    for file in ["main.tf", "checkout/main.tf"] {
        fs::copy(shop().join(file), folder.path().join(file)).unwrap();
    }
    fs::write(folder.path().join("override.tf"), "terraform {\n  backend \"local\" {}\n}\n").unwrap();
    let terraform = fixture.terraform(folder.path());
    terraform.apply();
    publish(&fixture, &terraform.state());
    fixture.wait_for_in_sync();
    let took = fixture.scale_and_wait_for_drift("shop-prod");
    println!("kubectl scale was on /metrics {took:?} after kubectl had ended");
    let written = fixture
        .exporter
        .sample("drift_terraform_state_last_write_timestamp_seconds", &[("state", "shop-prod")]);
    assert!(written.is_some_and(|written| seconds() - written < 120.0), "{written:?}");
    // A baseline that is published again after an apply replaces the old one.
    terraform.apply();
    publish(&fixture, &terraform.state());
    fixture.wait_for_in_sync();
}

/// Runs `terraform state pull | drift-exporter baseline --name shop-prod | kubectl apply -f -`.
fn publish(fixture: &TerraformFixture, state: &[u8]) {
    let mut baseline = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
        .args(["baseline", "--name", "shop-prod", "--namespace", "terraform"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    baseline.stdin.take().unwrap().write_all(state).unwrap();
    let published = baseline.wait_with_output().unwrap();
    assert!(published.status.success());
    let mut apply = fixture.kubectl_command(&["apply", "-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    apply.stdin.take().unwrap().write_all(&published.stdout).unwrap();
    assert!(apply.wait().unwrap().success());
}
