//! All real programs on one machine: API server, Terraform, exporter, Prometheus, Alertmanager, and a receiver of its notifications.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
    time::Duration,
};

use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::{
    alertmanager::{Alertmanager, fast_example},
    cluster::{Cluster, User},
    exporter::Exporter,
    objects::prepare_for_terraform,
    parts::program,
    prometheus::Prometheus,
    receiver::Receiver,
    terraform::{Provider, Terraform},
};

/// One minute of the alert rules is one second here.
pub const SPEED_UP: u64 = 60;

const SETTINGS: &str = "sources: {terraform: {trusted_namespaces: [terraform]}}\nmetrics: {labels: [team]}\n";

pub struct Stack {
    pub cluster: Cluster,
    pub terraform: Terraform,
    pub exporter: Exporter,
    pub receiver: Receiver,
    pub alertmanager: Alertmanager,
    pub prometheus: Rc<Prometheus>,
}

impl Stack {
    /// Starts all programs. Terraform has applied the demo's configuration. `more` are additional scrape configs.
    pub fn start(more: &[Value]) -> Self {
        let cluster = Cluster::start();
        let client = cluster.client();
        cluster.block_on(prepare_for_terraform(&client));
        let configuration = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/demo/terraform");
        let terraform = Terraform::init(&configuration, Provider::Current, &cluster.kubeconfig(User::Admin));
        terraform.apply();
        let folder = cluster.folder();
        let settings = folder.join("settings.yaml");
        fs::write(&settings, SETTINGS).expect("written");
        let flags = ["--config.file", settings.to_str().expect("a path")];
        let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), folder, &flags).ready();
        let receiver = Receiver::start();
        let alertmanager = Alertmanager::start(&fast_example(folder, &receiver), folder);
        let job = json!({"job_name": "drift-exporter", "honor_labels": true, "static_configs": [
            {"targets": [format!("127.0.0.1:{}", exporter.port)], "labels": {"cluster": "stack"}}]});
        let jobs: Vec<Value> = [job].into_iter().chain(more.iter().cloned()).collect();
        let prometheus = Prometheus::start_with(
            folder,
            &json!({
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                "scrape_configs": jobs,
                "rule_files": fast_rules(folder, exporter.port),
                "alerting": {"alertmanagers": [
                    {"static_configs": [{"targets": [format!("127.0.0.1:{}", alertmanager.port)]}]}]},
            }),
        );
        Self { cluster, terraform, exporter, receiver, alertmanager, prometheus: Rc::new(prometheus) }
    }

    /// Runs a kubectl command that must succeed.
    pub fn kubectl(&self, arguments: &[&str]) {
        let mut command = Command::new(program("kube-apiserver", "kubectl"));
        let output =
            command.args(arguments).arg("--kubeconfig").arg(self.cluster.kubeconfig(User::Admin)).output();
        let output = output.expect("kubectl can be run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Stops the API server for a while.
    pub fn restart_apiserver(&mut self, away: Duration) {
        self.cluster.kill_apiserver();
        std::thread::sleep(away);
        self.cluster.start_apiserver();
    }
}

/// The shipped rules with shorter durations and links to the exporter.
fn fast_rules(folder: &Path, page: u16) -> Vec<PathBuf> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts/rules");
    let files = fs::read_dir(shipped).expect("the rules").map(|entry| entry.expect("an entry").path());
    let written = files.map(|path| {
        let text = fs::read_to_string(&path).expect("rules");
        let text = speed_up(&text).replace("https://drift.example.com", &format!("http://127.0.0.1:{page}"));
        let target = folder.join(path.file_name().expect("a name"));
        fs::write(&target, text).expect("written");
        target
    });
    written.collect()
}

/// Shortens ranges, offsets, `for`, and the age thresholds of pages and tickets. Ages of at least a day, of locks and of
/// watches, and the age of a new replica stay the same.
fn speed_up(rules: &str) -> String {
    let lasting = Regex::new(r"(\[|offset |for: )(\d+)([mhd])").expect("an expression");
    let seconds = |number: u64, unit: &str| match unit {
        "m" => number * 60,
        "h" => number * 3_600,
        _ => number * 86_400,
    };
    let shorter = |found: &Captures<'_>| {
        let number: u64 = found[2].parse().expect("a number");
        format!("{}{}s", &found[1], seconds(number, &found[3]) / SPEED_UP)
    };
    let rules = lasting.replace_all(rules, shorter);
    let age = Regex::new(r">= (600|3600)\b").expect("an expression");
    let shorter =
        |found: &Captures<'_>| format!(">= {}", found[1].parse::<u64>().expect("a number") / SPEED_UP);
    age.replace_all(&rules, shorter).into_owned()
}
