//! Re-reading states: unchanged objects are reused.

use std::sync::Arc;

use drift_exporter::{
    config::BaselineLimits,
    sources::terraform::{InflateReader, ReadError, StateReader, TerraformState, decode},
    types::RedactionKey,
};
use serde_json::{Value, json};

use crate::support::cpu::thread_time;

fn key() -> RedactionKey {
    RedactionKey::new([7; 32])
}

/// A state with many Deployments as Terraform writes them, with mostly empty attributes.
fn state(serial: u64, count: usize, image_of: impl Fn(usize) -> String) -> Vec<u8> {
    let resources: Vec<Value> = (0..count).map(|at| deployment(at, &image_of(at))).collect();
    json!({"version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": "l", "outputs": {}, "resources": resources})
        .to_string()
        .into_bytes()
}

fn deployment(at: usize, image: &str) -> Value {
    let name = format!("web-{at}");
    let probe = json!([{"exec": [], "failure_threshold": 3, "grpc": [], "http_get": [{"host": "", "http_header": [], "path": "/healthz", "port": "8080", "scheme": "HTTP"}],
        "initial_delay_seconds": 3, "period_seconds": 3, "success_threshold": 1, "tcp_socket": [], "timeout_seconds": 1}]);
    let env: Vec<Value> = (0..8)
        .map(|at| json!({"name": format!("VARIABLE_{at}"), "value": format!("value-{at}"), "value_from": []}))
        .collect();
    let container = json!({"args": [], "command": [], "env": env, "env_from": [], "image": image, "image_pull_policy": "IfNotPresent", "lifecycle": [],
        "liveness_probe": probe, "name": "web", "port": [{"container_port": 8080, "host_ip": "", "host_port": 0, "name": "http", "protocol": "TCP"}],
        "readiness_probe": probe, "resources": [{"limits": {"cpu": "200m", "memory": "100Mi"}, "requests": {"cpu": "100m", "memory": "50Mi"}}],
        "security_context": [], "startup_probe": [], "stdin": false, "stdin_once": false, "termination_message_path": "/dev/termination-log",
        "termination_message_policy": "File", "tty": true, "volume_device": [], "volume_mount": [], "working_dir": ""});
    let pod = json!({"active_deadline_seconds": 0, "affinity": [], "automount_service_account_token": true, "container": [container], "dns_config": [],
        "dns_policy": "ClusterFirst", "enable_service_links": true, "host_aliases": [], "host_ipc": false, "host_network": false, "host_pid": false, "hostname": "",
        "image_pull_secrets": [], "init_container": [], "node_name": "", "node_selector": null, "os": [], "priority_class_name": "", "readiness_gate": [],
        "restart_policy": "Always", "runtime_class_name": "", "scheduler_name": "default-scheduler", "security_context": [], "service_account_name": "",
        "share_process_namespace": false, "subdomain": "", "termination_grace_period_seconds": 30, "toleration": [], "topology_spread_constraint": [], "volume": []});
    let labels = json!({"app": name, "app.kubernetes.io/part-of": "shop"});
    let template = json!({"metadata": [{"annotations": null, "generate_name": "", "generation": 0, "labels": labels, "name": "", "namespace": "", "resource_version": "", "uid": ""}], "spec": [pod]});
    let spec = json!({"min_ready_seconds": 0, "paused": false, "progress_deadline_seconds": 600, "replicas": "1", "revision_history_limit": 10,
        "selector": [{"match_expressions": [], "match_labels": labels}], "strategy": [{"rolling_update": [{"max_surge": "25%", "max_unavailable": "25%"}], "type": "RollingUpdate"}],
        "template": [template]});
    let metadata = json!([{"annotations": null, "generate_name": "", "generation": 1, "labels": labels, "name": name, "namespace": "shop", "resource_version": "1", "uid": format!("uid-{at}")}]);
    let attributes = json!({"id": format!("shop/{name}"), "metadata": metadata, "spec": [spec], "timeouts": null, "wait_for_rollout": true});
    json!({"mode": "managed", "type": "kubernetes_deployment_v1", "name": format!("web_{at}"), "provider": "provider[\"registry.terraform.io/hashicorp/kubernetes\"]",
        "instances": [{"schema_version": 1, "attributes": attributes, "sensitive_attributes": [], "private": "eyJzY2hlbWFfdmVyc2lvbiI6IjEifQ=="}]})
}

fn read(reader: &mut StateReader, bytes: &[u8]) -> Result<TerraformState, ReadError> {
    let limits = BaselineLimits::default();
    reader.read(InflateReader::of_state(bytes, bytes.len() as u64, &limits)?, &limits)
}

#[test]
fn unchanged_object_is_reused() {
    let mut reader = StateReader::new(key());
    let first = read(&mut reader, &state(1, 20, |_| "nginx:1".to_owned())).unwrap();
    let changed = |at: usize| if at == 7 { "nginx:2" } else { "nginx:1" }.to_owned();
    let bytes = state(2, 20, changed);
    let second = read(&mut reader, &bytes).unwrap();
    assert_eq!(second, decode(&bytes, &key()).unwrap(), "the result equals that of a new reader");
    for (at, (one, other)) in first.objects.iter().zip(&second.objects).enumerate() {
        assert_eq!(Arc::ptr_eq(one, other), at != 7, "{at}");
    }
    assert!(read(&mut reader, &bytes[..bytes.len() - 2]).is_err());
    let third = read(&mut reader, &bytes).unwrap();
    let same = second.objects.iter().zip(&third.objects).all(|(one, other)| Arc::ptr_eq(one, other));
    assert!(same, "a failed read keeps the cache");
    assert_eq!(read(&mut reader, &state(3, 5, |_| "nginx:1".to_owned())).unwrap().objects.len(), 5);
}

/// Prints CPU times: `cargo test --test it state_of_1000 -- --nocapture`.
#[test]
#[expect(clippy::print_stdout, reason = "prints CPU times")]
fn state_of_1000_resources_is_reread_in_a_third_of_the_time() {
    let mut reader = StateReader::new(key());
    let bytes = state(1, 1000, |_| "nginx:1".to_owned());
    let started = thread_time();
    let state_read = read(&mut reader, &bytes).unwrap();
    let first = thread_time().saturating_sub(started);
    let next = state(2, 1000, |at| if at == 7 { "nginx:2" } else { "nginx:1" }.to_owned());
    let started = thread_time();
    read(&mut reader, &next).unwrap();
    let reread = thread_time().saturating_sub(started);
    let packed: usize = state_read
        .objects
        .iter()
        .filter_map(|object| object.body.packed())
        .map(|packed| packed.bytes().len())
        .sum();
    println!(
        "1,000 resources, {} KiB of state, {packed} bytes packed: first read {first:?}, re-read {reread:?} of CPU time (this build)",
        bytes.len() / 1024
    );
    assert!(reread * 3 < first, "{first:?} {reread:?}");
    assert!(packed / 1000 < 2048);
}
