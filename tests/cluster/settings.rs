//! Settings, rules and permissions on a real API server.

use std::{fs, path::PathBuf, process::Command};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    fixture::{DRIFTED, Shop, WEB},
    support::{
        cluster::User,
        exporter::Exporter,
        objects::{from_json, read_only_rules},
        wait::eventually,
    },
};

/// A shop whose exporter reads a settings file, and the path of the file.
fn start_shop(rules: Value, settings: &str) -> (Shop, PathBuf) {
    // The cluster's folder does not exist yet.
    let file = std::env::temp_dir().join(format!("drift-exporter-{}.yaml", fastrand::u64(..)));
    fs::write(&file, settings).expect("a file");
    let shop = Shop::start_with_rules(rules, &["--config.file", file.to_str().expect("a path")]);
    (shop, file)
}

fn command(shop: &Shop, user: User, arguments: &[&str]) -> (Option<i32>, String, String) {
    let ended = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
        .args(arguments)
        .arg("--kubeconfig")
        .arg(shop.cluster.kubeconfig(user))
        .output()
        .expect("the program can be run");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

fn onset(shop: &Shop) -> Option<f64> {
    shop.exporter.sample("drift_resource_drifted_timestamp_seconds", WEB)
}

#[test]
fn accepted_value_is_ignored_until_it_changes() {
    let (shop, file) = start_shop(read_only_rules(), "");
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 7}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    let onset_before = onset(&shop).expect("it drifts");
    let accept =
        ["accept", "deployment/web", "-n", "shop", "--for", "14d", "--owner", "me", "--reason", "load test"];
    let (code, rule, stderr) = command(&shop, User::Admin, &accept);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(rule.contains("sha256:") && rule.contains("owner: me") && rule.contains("load test"), "{rule}");
    let indented = rule.replace('\n', "\n  ");
    fs::write(&file, format!("rules:\n  {indented}\n")).expect("written");
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    assert_eq!(
        shop.exporter.sample("drift_resources", &[("kind", "Deployment"), ("verdict", "ignored")]),
        Some(1.0)
    );

    // Another value is drift again; the accepted one is not.
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 8}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    assert_eq!(onset(&shop), Some(onset_before));
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 7}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));

    // An invalid file keeps the current settings and sets the reload metric.
    fs::write(&file, "rules: [").expect("written");
    shop.exporter.wait_for("drift_config_last_reload_successful", &[], Some(0.0));
    assert_eq!(shop.exporter.sample(DRIFTED, WEB), Some(0.0));
    fs::write(&file, "").expect("written");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    assert_eq!(onset(&shop), Some(onset_before));
    fs::remove_file(file).expect("removed");

    shop.edit("kubectl-edit", json!({"spec": {"replicas": 2}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    let (code, _, stderr) = command(&shop, User::Admin, &accept);
    assert!(code == Some(1) && stderr.contains("nothing to accept"), "{stderr}");
}

#[test]
fn check_reports_permissions_and_missing_rules() {
    let rules = json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]}]);
    let (shop, file) = start_shop(rules, "");
    let settings = "kinds:\n- {apiVersion: apps/v1, kind: Deployment}\n- {apiVersion: v1, kind: Service, namespaces: [shop]}\n\
                    - {apiVersion: batch/v1, kind: Cronjob}\n- {apiVersion: nothing.example/v1, kind: Thing, namespaces: [ops, shop]}\n\
                    - {apiVersion: nothing.example/*, kind: '*'}\n- {apiVersion: v1, kind: Secret}\nteam_rules: {namespaces: [shop]}\n";
    fs::write(&file, settings).expect("written");
    let arguments = ["check", "--config.file", file.to_str().expect("a path")];
    let (code, stdout, stderr) = command(&shop, User::Exporter, &arguments);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    for expected in [
        "deployments.apps in all namespaces: allowed\n",
        "services in namespace shop: FORBIDDEN: may not list, watch\n",
        "configmaps in namespace shop: FORBIDDEN: may not list\n",
        "Thing.nothing.example in namespaces ops, shop: NOT THERE: ",
        "*.nothing.example in all namespaces: NOT THERE: ",
        "Secret in all namespaces: REFUSED: objects of this kind are asked for by a name or a selector",
        "Add to its Role in namespace shop:\n\n",
        "- apiGroups: [\"\"]\n  resources: [configmaps]\n  verbs: [list]\n",
        "- apiGroups: [\"\"]\n  resources: [services]\n  verbs: [list, watch]\n",
    ] {
        assert!(stdout.contains(expected), "{expected:?} is not in\n{stdout}");
    }
    let (code, stdout, _) = command(&shop, User::Admin, &arguments);
    assert!(code == Some(1) && stdout.contains("services in namespace shop: allowed"), "{stdout}");
    fs::write(&file, "sources: {helm: {namespaces: [shop]}}\n").expect("written");
    let (_, stdout, _) = command(&shop, User::Exporter, &arguments);
    let rule = "- apiGroups: [\"\"]\n  resources: [configmaps, secrets]\n  verbs: [get, list, watch]\n";
    assert!(stdout.contains("secrets in namespace shop: FORBIDDEN: may not get, list, watch\n"), "{stdout}");
    assert!(stdout.contains(rule), "{stdout}");
    fs::write(&file, "kinds:\n- {apiVersion: apps/v1, kind: Deployment}\n").expect("written");
    let (code, stdout, _) = command(&shop, User::Exporter, &arguments);
    assert_eq!(code, Some(0), "{stdout}");

    // The flags of `run` have the same effect.
    let narrow = [&arguments[..], &["--namespaces", "shop,ops", "--events"]].concat();
    let (code, stdout, _) = command(&shop, User::Exporter, &narrow);
    assert_eq!(code, Some(1), "{stdout}");
    let rule = "- apiGroups: [\"events.k8s.io\"]\n  resources: [events]\n  verbs: [create, patch]\n";
    for expected in [
        "deployments.apps in namespace ops: allowed\n",
        "deployments.apps in namespace shop: allowed\n",
        "events.events.k8s.io in namespace shop: FORBIDDEN: may not create, patch\n",
        &format!("Add to its Role in each of the namespaces ops, shop:\n\n{rule}"),
    ] {
        assert!(stdout.contains(expected), "{expected:?} is not in\n{stdout}");
    }
    assert!(!stdout.contains("all namespaces"), "{stdout}");
    let terraform = [&arguments[..], &["--sources", "terraform", "--trusted-namespaces", "ops"]].concat();
    let (code, stdout, stderr) = command(&shop, User::Exporter, &terraform);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    let leases = "leases.coordination.k8s.io in all namespaces: FORBIDDEN: may not list, watch\n";
    assert!(stdout.contains(leases), "{stdout}");
    fs::remove_file(file).expect("removed");
}

#[test]
fn team_rules_apply_to_their_namespace_and_report_problems() {
    let mut rules = read_only_rules();
    let maps = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]});
    rules.as_array_mut().expect("a list").push(maps);
    let (mut shop, file) = start_shop(rules, "team_rules: {namespaces: [shop]}\n");
    shop.edit("kubectl-edit", json!({"spec": {"replicas": 7}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    let onset_before = onset(&shop).expect("it drifts");

    let maps: Api<ConfigMap> = Api::namespaced(shop.cluster.client(), "shop");
    let write = |name: &str, text: &str| {
        let map: ConfigMap = from_json(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"tfdrift.jin.dev/rules": "true"}}, "data": {"rules.yaml": text},
        }));
        let force = PatchParams::apply("test").force();
        shop.cluster.block_on(maps.patch(name, &force, &Patch::Apply(&map))).expect("written");
    };
    write("ours", "- {name: load-test, match: {names: [web]}, effect: ignore, owner: shop}\n");
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    assert_eq!(shop.exporter.sample("drift_rule_matches", &[("rule", "shop/load-test")]), Some(1.0));

    // Rules for other namespaces, invalid rules and too many rules are reported, and the previous rules stay in effect.
    let many: Vec<String> = (0..201).map(|at| format!("- {{name: r{at}, effect: ignore}}\n")).collect();
    for (text, complaint) in [
        ("- {name: load-test, match: {namespaces: [kube-system]}, effect: ignore}\n", "namespace"),
        ("nonsense: [", "rules.yaml"),
        (&*many.concat(), "its namespace has more than 200 team rules"),
        (&*format!("# {}", "x".repeat(256 << 10)), "more than 262144 bytes of team rules"),
    ] {
        write("ours", text);
        eventually(complaint, || {
            let response = shop.exporter.get("/v1/rules")?.json();
            let problem = response["problems"][0].as_str()?.to_owned();
            (problem.starts_with("ConfigMap shop/ours: ") && problem.contains(complaint)).then_some(())
        });
        assert_eq!(shop.exporter.sample(DRIFTED, WEB), Some(0.0), "{complaint}");
    }
    write("ours", "[]");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    assert_eq!(onset(&shop), Some(onset_before));
    write("ours", "- {name: load-test, match: {names: [web]}, effect: ignore}\n");
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    // Rules of namespaces that the settings do not allow have no effect.
    fs::write(&file, "team_rules: {namespaces: [other]}\n").expect("written");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    fs::write(&file, "team_rules: {}\n").expect("written");
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    // Team rules apply from the start: no transition is reported for an ignored object.
    shop.exporter.running.signal("TERM");
    shop.exporter.running.wait();
    let file_flag = ["--config.file", file.to_str().expect("a path")];
    shop.exporter =
        Exporter::start(&shop.cluster.kubeconfig(User::Exporter), shop.cluster.folder(), &file_flag).ready();
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    let page = shop.exporter.metrics();
    let ended = page
        .lines()
        .filter(|line| line.starts_with("drift_resolutions_total") && !line.ends_with(" 0"))
        .count();
    assert_eq!(ended, 0, "{page}");
    shop.cluster.block_on(maps.delete("ours", &DeleteParams::default())).expect("deleted");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    fs::remove_file(file).expect("removed");
    let requests = shop.cluster.requests_by(User::Exporter);
    let reads = |verb: &str| ["list", "watch", "get"].contains(&verb);
    assert!(requests.iter().all(|(verb, _)| reads(verb)), "{requests:?}");
}
