//! Commands on the live cluster.

use std::{
    path::Path,
    process::{Command, Output},
};

use drift_exporter::types::Kind;

use crate::{
    fixture::Shop,
    support::{cluster::User, objects::hash_of},
};

fn command(kubeconfig: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()
        .expect("the program can be run");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn hash_command_reports_live_objects_and_mismatches() {
    let shop = Shop::start(&[]);
    let live = shop.cluster.block_on(shop.deployments.get("web")).unwrap();
    let admin = shop.cluster.kubeconfig(User::Admin);
    let objects = ["deploy/web", "deployments.apps/web", "svc/nope", "ns/shop", "nope/x"];
    let (code, stdout, stderr) = command(&admin, &[&["hash", "-n", "shop"], &objects[..]].concat());
    let lines: Vec<_> = stdout.lines().collect();
    let expected = format!("{}  Deployment shop/web", hash_of(&Kind::deployment(), &live));
    assert_eq!(lines[..2], [&expected, &expected]);
    assert!(lines[2].starts_with("jcs-v1:") && lines[2].ends_with("  Namespace shop"), "{stdout}");
    assert_eq!((code, lines.len()), (Some(1), 3));
    assert!(stderr.contains("services \"nope\" not found") && stderr.contains("no kind `nope`"), "{stderr}");

    let (code, _, stderr) =
        command(&shop.cluster.kubeconfig(User::Exporter), &["hash", "deploy/web", "-n", "shop"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("forbidden"), "{stderr}");
}

#[test]
fn unreachable_cluster_fails_the_command_but_not_the_exporter() {
    let mut shop = Shop::start(&[]);
    shop.cluster.kill_apiserver();
    let admin = shop.cluster.kubeconfig(User::Admin);
    let (code, _, stderr) = command(&admin, &["hash", "deploy/web"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("from the cluster"), "{stderr}");
    shop.exporter.wait_for("drift_watch_stream_up", &[("kind", "Deployment")], Some(0.0));
    assert_eq!(shop.exporter.get("/livez").unwrap().status, 200);
}
