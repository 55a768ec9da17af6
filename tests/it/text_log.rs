//! Control characters in the text log of the program.

use std::{fs, process::Command, thread, time::Duration};

use drift_exporter::types::is_control;
use jiff::Timestamp;
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{
    api_server::ApiServer,
    exporter::{Exporter, write_kubeconfig},
    live_objects::{deployment, edited},
    wait::eventually,
};

/// A name is a field of a line, and a problem of rules is its message.
#[tokio::test(flavor = "multi_thread")]
async fn text_from_outside_forges_no_lines_and_no_colours() {
    let (api, folder) = (ApiServer::with_source_kinds(), tempfile::tempdir().unwrap());
    let deployment = deployment("name\nforged\r\u{1b}[31m\u{9b}1m\u{202e}");
    api.put("deployments", deployment.clone());
    let metadata = json!({"namespace": "shop", "name": "rules", "labels": {"tfdrift.jin.dev/rules": "true"}});
    let rules = r#"[{name: a, "key\nforged\u001b[31m": 1, effect: ignore}]"#;
    api.put(
        "configmaps",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"rules.yaml": rules}}),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let kubeconfig = write_kubeconfig(folder.path(), listener.local_addr().unwrap().port());
    tokio::spawn(api.clone().serve_http(listener));
    let settings = folder.path().join("settings.yaml");
    fs::write(&settings, "team_rules: {}\n").unwrap();
    let flags = ["--log.format", "text", "--config.file", settings.to_str().unwrap()];
    let log = tokio::task::block_in_place(|| {
        let mut exporter = Exporter::start(&kubeconfig, folder.path(), &flags).ready();
        api.put("deployments", edited(deployment, 1));
        eventually("both are logged", || {
            let log = exporter.logged();
            (log.contains("Drift began.") && log.contains("ConfigMap shop/rules")).then_some(())
        });
        exporter.running.signal("TERM");
        assert_eq!(exporter.running.wait(), Some(0));
        exporter.logged()
    });
    for line in log.split_terminator('\n') {
        let first = line.split(' ').next().unwrap();
        assert!(first.parse::<Timestamp>().is_ok(), "{line:?} has no timestamp");
        assert!(!line.contains(is_control), "{line:?}");
    }
    for escaped in [r"name\nforged\r\u{1b}[31m\u{9b}1m\u{202e}", r"key\nforged\u{1b}[31m"] {
        assert!(log.contains(escaped), "{escaped} is not in {log}");
    }
}

/// The exporter writes to a full pipe: lines of transitions and of a reload wait, requests do not.
#[tokio::test(flavor = "multi_thread")]
async fn log_that_nobody_reads_delays_no_request() {
    const EDITED: u16 = 1_000;
    let (api, folder) = (ApiServer::with_source_kinds(), tempfile::tempdir().unwrap());
    let names: Vec<String> = (0..EDITED).map(|number| format!("web-{number}")).collect();
    names.iter().for_each(|name| api.put("deployments", deployment(name)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let kubeconfig = write_kubeconfig(folder.path(), listener.local_addr().unwrap().port());
    tokio::spawn(api.clone().serve_http(listener));
    let settings = folder.path().join("settings.yaml");
    fs::write(&settings, "team_rules: {}\n").unwrap();
    let log = folder.path().join("exporter.log");
    assert!(Command::new("mkfifo").arg(&log).status().unwrap().success());
    // Keeps the pipe open, and never reads it.
    let _pipe = fs::File::options().read(true).write(true).open(&log).unwrap();
    tokio::task::block_in_place(|| {
        let flags = ["--config.file", settings.to_str().unwrap()];
        let exporter = Exporter::start(&kubeconfig, folder.path(), &flags).ready();
        names.iter().for_each(|name| api.put("deployments", edited(deployment(name), 1)));
        let drifted = [("kind", "Deployment"), ("verdict", "drifted")];
        exporter.wait_for("drift_resources", &drifted, Some(f64::from(EDITED)));
        exporter.running.signal("HUP");
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(50));
            let health = exporter.get("/livez").expect("the server answers");
            assert_eq!(health.status, 200);
        }
        assert_eq!(exporter.sample("drift_resources", &drifted), Some(f64::from(EDITED)));
    });
}
