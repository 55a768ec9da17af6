//! A real Prometheus scrapes a real exporter on a real cluster.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use drift_exporter::types::Kind;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::{Value, json};

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    objects::{create_namespace, create_with_hash, deployment, grant, patch, read_only_rules, service},
    parts::program,
    prometheus::Prometheus,
};

/// The scrape jobs of the one exporter: name, and config.
const JOBS: [(&str, &str); 4] = [
    ("openmetrics-gzip", ""),
    ("openmetrics-plain", "{enable_compression: false}"),
    ("text-gzip", "{scrape_protocols: [PrometheusText0.0.4]}"),
    ("text-plain", "{scrape_protocols: [PrometheusText0.0.4], enable_compression: false}"),
];

/// The scrape configs of the one exporter.
fn jobs(exporter: u16) -> Vec<Value> {
    let job = |(name, special): &(&str, &str)| {
        // A target label `namespace`, as service discovery adds it, must not rename ours.
        let mut job = json!({"job_name": name, "honor_labels": true,
            "static_configs": [{"targets": [format!("127.0.0.1:{exporter}")], "labels": {"namespace": "monitoring"}}]});
        let special: Value = serde_saphyr::from_str(special).unwrap_or(Value::Null);
        if let Some(special) = special.as_object() {
            job.as_object_mut().expect("a job is an object").extend(special.clone());
        }
        job
    };
    JOBS.iter().map(job).collect()
}

#[test]
fn prometheus_scrapes_the_same_series_in_every_format() {
    let cluster = Cluster::start();
    let client = cluster.client();
    let deployments = Api::<Deployment>::namespaced(client.clone(), "shop");
    cluster.block_on(async {
        grant(&client, "drift-exporter", read_only_rules()).await;
        create_namespace(&client, "shop").await;
        create_with_hash(&client, &Kind::deployment(), &deployment("shop", "web")).await;
        create_with_hash(&client, &Kind::service(), &service("shop", "web")).await;
    });
    let exporter =
        Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), &["--metrics.health"]).ready();
    let prometheus = Prometheus::start(cluster.folder(), &jobs(exporter.port));

    let up = prometheus.wait_for("up == 1", JOBS.len());
    assert_eq!(up.len(), JOBS.len(), "{up:?}");
    prometheus.wait_for("drift_resource_drifted{namespace=\"shop\",kind=\"Deployment\"} == 0", JOBS.len());

    cluster.block_on(patch(&deployments, "web", "kubectl-edit", json!({"spec": {"replicas": 5}})));
    for (labels, _) in prometheus.wait_for("drift_resource_drifted{namespace=\"shop\"} == 1", JOBS.len()) {
        assert_eq!((&labels["name"], &labels["source"]), (&json!("web"), &json!("annotation")), "{labels}");
        assert!(labels.get("exported_namespace").is_none(), "{labels}");
    }
    let ages = prometheus
        .wait_for("time() - drift_resource_drifted_timestamp_seconds{actor=\"kubectl\"}", JOBS.len());
    for (labels, age) in ages {
        assert!((0.0..60.0).contains(&age.parse::<f64>().expect("a number")), "{labels} {age}");
    }
    prometheus.wait_for("drift_detections_total{kind=\"Deployment\"} == 1", JOBS.len());

    // All jobs, plain and gzip in both formats, scrape the same series.
    let count = |job: &str| {
        prometheus.query(&format!("count({{__name__=~\"drift_.*\",job=\"{job}\"}})"))[0].1.clone()
    };
    let counts: Vec<String> = JOBS.iter().map(|(job, _)| count(job)).collect();
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    println!("{} drift_ series by each of {} ways of scraping", counts[0], JOBS.len());

    cluster.block_on(patch(&deployments, "web", "kubectl-edit", json!({"spec": {"replicas": 2}})));
    prometheus.wait_for("drift_resource_drifted{namespace=\"shop\",kind=\"Deployment\"} == 0", JOBS.len());
    prometheus.wait_for("drift_resource_drifted_timestamp_seconds", 0);
}

#[test]
fn promtool_accepts_the_metrics_page() {
    let cluster = Cluster::start();
    let client = cluster.client();
    cluster.block_on(async {
        create_namespace(&client, "shop").await;
        create_with_hash(&client, &Kind::deployment(), &deployment("shop", "web")).await;
    });
    let exporter = Exporter::start(&cluster.kubeconfig(User::Admin), cluster.folder(), &[]).ready();
    let mut child = Command::new(program("prometheus", "promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool can be run");
    child.stdin.take().expect("piped").write_all(exporter.metrics().as_bytes()).expect("promtool reads");
    let output = child.wait_with_output().expect("promtool ends");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
}
