//! Memory while a long list is read.

#![expect(clippy::print_stdout, reason = "the test prints what it measured")]

use std::{fs, sync::Arc};

use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{
    api_server::{ApiServer, ServerFault},
    exporter::{Exporter, write_kubeconfig},
    memory::{memory_kib, reset_peak},
    wait::eventually,
};

const OBJECTS: usize = 200_000;
const MAX_KIB: u64 = 4 << 10;
/// The API server applies one selector. The decoder applies several, and keeps none of the listed objects.
const SETTINGS: &str = "kinds:\n\
    - {apiVersion: apps/v1, kind: Deployment, selector: team=a}\n\
    - {apiVersion: apps/v1, kind: Deployment, selector: team=b}\n";

/// Lists have no `limit`, because objects are decoded while the body arrives. Without that, this one takes about 100 MiB.
#[tokio::test(flavor = "multi_thread")]
async fn long_list_is_decoded_while_it_arrives() {
    let (api, folder) = (ApiServer::default(), tempfile::tempdir().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let kubeconfig = write_kubeconfig(folder.path(), listener.local_addr().unwrap().port());
    tokio::spawn(api.clone().serve_http(listener));
    let settings = folder.path().join("settings.yaml");
    fs::write(&settings, SETTINGS).unwrap();
    let flags = ["--config.file", settings.to_str().unwrap()];
    let peak = tokio::task::block_in_place(|| {
        let exporter = Exporter::start(&kubeconfig, folder.path(), &flags).ready();
        let pid = exporter.running.pid();
        let before = reset_peak(pid);
        let metadata = json!({"namespace": "shop", "name": "web-", "uid": "u", "labels": {"app": "web"}, "resourceVersion": "1"});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 2}});
        api.set_fault("deployments", ServerFault::LongList(OBJECTS, Arc::new(object)));
        let expired = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410}}).to_string();
        eventually("the version of the watch expires", || {
            (api.send_line("deployments", &expired) > 0).then_some(())
        });
        let listed = [("kind", "Deployment"), ("event", "listed")];
        exporter.wait_for("drift_watch_events_total", &listed, Some(OBJECTS as f64));
        memory_kib(pid, "VmHWM").saturating_sub(before)
    });
    println!("a list of {OBJECTS} objects adds {peak} KiB");
    assert!(peak <= MAX_KIB, "{peak} KiB");
}
