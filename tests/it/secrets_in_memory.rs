//! Plain values of Secrets in the memory of the exporter's process.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "the test writes to a cluster, which the exporter must not, and prints what it measured"
)]

use std::{
    iter,
    process::Command,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use serde_json::json;

use crate::support::{
    embedded::Embedded,
    exporter::{Exporter, write_kubeconfig},
    gzip::gzip,
    memory::memory_of,
    stored::release_secret,
    wait::PATIENCE,
};

const SECRETS: usize = 40;
const ZEROS: [u8; 4096] = [0; 4096];

fn secret(at: usize, value: &str) -> Secret {
    let annotations = [("meta.helm.sh/release-name", "web"), ("meta.helm.sh/release-namespace", "default")];
    Secret {
        metadata: ObjectMeta {
            name: Some(format!("secret-{at}")),
            annotations: Some(annotations.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        data: Some([("password".to_owned(), ByteString(value.as_bytes().to_vec()))].into()),
        ..Secret::default()
    }
}

/// A stored release that declares these Secrets.
fn release(secrets: &[Secret]) -> Secret {
    let documents = secrets.iter().map(|secret| format!("---\n# Source: web/s.yaml\n{}\n", json!(secret)));
    let text = json!({"name": "web", "namespace": "default", "version": 1, "manifest": documents.collect::<String>(),
        "info": {"status": "deployed"}, "chart": {"metadata": {"name": "web", "version": "1.0.0"}}});
    let secret = release_secret("default", "web", 1, "deployed", &gzip(text.to_string()));
    serde_json::from_value(secret).unwrap()
}

/// The memory of a process, without pages that the process never wrote.
fn written_memory(pid: u32) -> Vec<u8> {
    let mut written = Vec::new();
    for page in memory_of(pid).iter().flat_map(|part| part.chunks(ZEROS.len())) {
        if page != &ZEROS[..page.len()] {
            written.extend_from_slice(page);
        }
    }
    written
}

/// The number of values that are in memory, plain or in base64.
fn found(memory: &[u8], values: &[String]) -> usize {
    let has = |form: &[u8]| memchr::memmem::find(memory, form).is_some();
    let is_found = |value: &&String| has(value.as_bytes()) || has(STANDARD.encode(value).as_bytes());
    values.iter().filter(is_found).count()
}

/// The number of values of the first and of the second version that stay in memory. Waits until at most `watched` values of the
/// second one do: the HTTP client keeps the buffer of a watch until the watch ends.
async fn left_in_memory(environment: &[(&str, &str)], watched: usize) -> [usize; 2] {
    let values = || -> Vec<String> {
        let value = || iter::repeat_with(fastrand::alphanumeric).take(24).collect();
        iter::repeat_with(value).take(SECRETS).collect()
    };
    let (first, second) = (values(), values());
    let secrets = |values: &[String]| -> Vec<Secret> {
        values.iter().enumerate().map(|(at, value)| secret(at, value)).collect()
    };
    let cluster = Embedded::start().await;
    let name = Some("default".to_owned());
    let namespace =
        Namespace { metadata: ObjectMeta { name, ..ObjectMeta::default() }, ..Namespace::default() };
    Api::all(cluster.client()).create(&PostParams::default(), &namespace).await.unwrap();
    let api: Api<Secret> = Api::namespaced(cluster.client(), "default");
    for secret in secrets(&first).iter().chain([&release(&secrets(&first))]) {
        api.create(&PostParams::default(), secret).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = write_kubeconfig(folder.path(), cluster.port);
    let mut command = Command::new(env!("CARGO_BIN_EXE_drift-exporter"));
    command.envs(environment.iter().copied());
    let flags = ["--sources", "helm"];
    let exporter = tokio::task::block_in_place(|| {
        let exporter = Exporter::start_command(&mut command, &kubeconfig, folder.path(), &flags).ready();
        let in_sync = [("kind", "Secret"), ("source", "helm"), ("verdict", "in_sync")];
        exporter.wait_for("drift_resources", &in_sync, Some(SECRETS as f64));
        exporter
    });
    for secret in secrets(&second) {
        let name = secret.metadata.name.clone().unwrap();
        let current = api.get(&name).await.unwrap();
        let metadata = ObjectMeta { resource_version: current.metadata.resource_version, ..secret.metadata };
        api.replace(&name, &PostParams::default(), &Secret { metadata, ..secret }).await.unwrap();
    }
    tokio::task::block_in_place(|| {
        let drifted = [("kind", "Secret"), ("source", "helm"), ("verdict", "drifted")];
        exporter.wait_for("drift_resources", &drifted, Some(SECRETS as f64));
    });
    let replaced = Instant::now();
    loop {
        let memory = tokio::task::block_in_place(|| written_memory(exporter.running.pid()));
        let left = [found(&memory, &first), found(&memory, &second)];
        if left[1] <= watched || replaced.elapsed() > PATIENCE {
            return left;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn most_plain_values_of_secrets_are_overwritten() {
    let perturbed = [("GLIBC_TUNABLES", "glibc.malloc.perturb=165")];
    let ([listed, watched], [listed_perturbed, watched_perturbed]) =
        tokio::join!(left_in_memory(&[], 4), left_in_memory(&perturbed, 3));
    println!(
        "of {SECRETS} values each, {listed} listed and {watched} watched ones are in memory; \
         {listed_perturbed} and {watched_perturbed} if freed memory is overwritten"
    );
    assert!(listed <= 20 && watched <= 4, "listed {listed}, watched {watched}");
    assert!(
        listed_perturbed <= 10 && watched_perturbed <= 3,
        "listed {listed_perturbed}, watched {watched_perturbed} if freed memory is overwritten"
    );
}
