//! Commands on a cluster without an installed exporter.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    canaries::post,
    support::{
        cluster::{Cluster, User},
        cpu::output_and_time,
        exporter::Exporter,
        objects::{all, create_namespace, grant},
        parts::program,
        stored::{release_secret, state_secret},
    },
    terraform_states::kubectl,
};

/// Objects that kubectl applied and that do not drift.
const APPLIED_OBJECTS: usize = 1_000;

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop, labels: {app: web}}\n\
    spec:\n  replicas: 3\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: 'web:1'}]}\n";

/// A cluster with a thousand applied objects, a Helm release and a Terraform state, in which one object of each is edited.
fn drifted_cluster() -> Cluster {
    let cluster = Cluster::start();
    let client = cluster.client();
    let admin = cluster.kubeconfig(User::Admin);
    cluster.block_on(async {
        for namespace in ["shop", "bulk", "terraform"] {
            create_namespace(&client, namespace).await;
        }
        all((0..APPLIED_OBJECTS).map(|at| {
            let client = client.clone();
            async move {
                let map =
                    with_last_applied(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
                    "metadata": {"name": format!("map-{at}"), "namespace": "bulk"}}));
                let request = http::Request::post("/api/v1/namespaces/bulk/configmaps");
                let request = request.header("content-type", "application/json").body(map.to_string().into());
                client.request::<Value>(request.unwrap()).await.unwrap();
            }
        }))
        .await;
    });
    kubectl(&admin, &["apply", "-f", "-"], WEB);
    create_terraform_and_helm_objects(&cluster);
    // managedFields has times in seconds.
    std::thread::sleep(Duration::from_millis(1100));
    let editor = |change: &str| format!("sed -i {change}");
    for (arguments, change) in [
        (["edit", "deployment", "web", "-n", "shop"], "s/image:\\ web:1/image:\\ web:2/"),
        (["edit", "configmap", "rates", "-n", "shop"], "s/0.86/0.91/"),
        (["edit", "service", "mail", "-n", "shop"], "s/port:\\ 25$/port:\\ 26/"),
    ] {
        let output = Command::new(program("kube-apiserver", "kubectl"))
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&admin)
            .env("KUBE_EDITOR", editor(change))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    cluster
}

/// The same object with kubectl's last-applied annotation.
fn with_last_applied(mut object: Value) -> Value {
    let text = object.to_string();
    object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": text});
    object
}

/// Creates objects of Terraform and of Helm, with their state and release.
fn create_terraform_and_helm_objects(cluster: &Cluster) {
    let rates = json!({"metadata": {"name": "rates"}, "data": {"GBP": "0.86"}});
    post(cluster, "/api/v1/namespaces/shop/configmaps", &rates);
    let admin = cluster.kubeconfig(User::Admin);
    let uid =
        kubectl(&admin, &["get", "configmap", "rates", "-n", "shop", "-o", "jsonpath={.metadata.uid}"], "");
    let metadata = json!([{"name": "rates", "namespace": "shop", "uid": uid, "annotations": {}, "labels": {},
        "generate_name": "", "generation": 0, "resource_version": "1"}]);
    let attributes = json!({"id": "shop/rates", "metadata": metadata, "data": {"GBP": "0.86"}, "binary_data": {}, "immutable": false});
    let state = json!({"version": 4, "serial": 1, "lineage": "l", "resources": [{"mode": "managed",
        "type": "kubernetes_config_map_v1", "name": "rates", "provider": "provider[\"registry.terraform.io/hashicorp/kubernetes\"]",
        "instances": [{"schema_version": 0, "attributes": attributes}]}]});
    let secret = state_secret("terraform", "shop", state.to_string().as_bytes());
    post(cluster, "/api/v1/namespaces/terraform/secrets", &secret);

    let mail = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mail"},
        "spec": {"selector": {"app": "mail"}, "ports": [{"port": 25, "targetPort": 2525}]}});
    post(cluster, "/api/v1/namespaces/shop/services", &mail);
    create_release(cluster, "mail", &format!("---\n# Source: mail/templates/service.yaml\n{mail}\n"));
}

/// Creates a deployed release in `shop`.
pub(crate) fn create_release(cluster: &Cluster, name: &str, manifest: &str) {
    let release = json!({"name": name, "namespace": "shop", "version": 1, "manifest": manifest,
        "info": {"status": "deployed"}, "chart": {"metadata": {"name": name, "version": "1.0.0"}}});
    let secret = release_secret("shop", name, 1, "deployed", release.to_string().as_bytes());
    post(cluster, "/api/v1/namespaces/shop/secrets", &secret);
}

pub(crate) struct CommandResult {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    took: Duration,
    cpu_time: Duration,
}

fn run_command(command: &mut Command) -> CommandResult {
    let started = Instant::now();
    let (Output { status, stdout, stderr }, cpu_time) = output_and_time(command);
    let took = started.elapsed();
    let text = |bytes| String::from_utf8(bytes).expect("text");
    CommandResult { code: status.code(), stdout: text(stdout), stderr: text(stderr), took, cpu_time }
}

pub(crate) fn run_exporter(kubeconfig: &Path, arguments: &[&str]) -> CommandResult {
    let program = env!("CARGO_BIN_EXE_drift-exporter");
    run_command(Command::new(program).args(arguments).arg("--kubeconfig").arg(kubeconfig))
}

/// The lines of a table, with single spaces and without the age.
fn lines(result: &CommandResult) -> BTreeSet<String> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let since = words.len().saturating_sub(2);
        words
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != since)
            .map(|(_, word)| *word)
            .collect::<Vec<_>>()
            .join(" ")
    };
    result.stdout.lines().skip(1).map(line).collect()
}

fn expected_lines() -> BTreeSet<String> {
    [
        "shop Deployment web drifted warning spec.template.spec.containers[name=web].image kubectl last_applied",
        "shop ConfigMap rates drifted warning data.GBP kubectl terraform",
        "shop Service mail drifted warning spec.ports[port=26,protocol=TCP].port +4 kubectl helm",
    ]
    .map(str::to_owned)
    .into()
}

/// Creates a service account with these rules in the namespace `shop`, and returns its kubeconfig.
pub(crate) fn create_account(cluster: &Cluster, name: &str, rules: Option<Value>) -> PathBuf {
    let admin = cluster.kubeconfig(User::Admin);
    kubectl(&admin, &["create", "serviceaccount", name, "-n", "shop"], "");
    if let Some(rules) = rules {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        post(cluster, "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles", &role);
        let (role, subject) = (format!("--role={name}"), format!("--serviceaccount=shop:{name}"));
        kubectl(&admin, &["create", "rolebinding", name, "-n", "shop", &role, &subject], "");
    }
    let token = kubectl(&admin, &["create", "token", name, "-n", "shop"], "");
    let text = fs::read_to_string(admin).unwrap().replace("admin-token", token.trim());
    let path = cluster.folder().join(format!("{name}.kubeconfig"));
    fs::write(&path, text).unwrap();
    path
}

/// `make bench` measures the wall-clock time of this command.
#[test]
fn get_reports_object_field_and_actor_without_an_exporter() {
    let cluster = drifted_cluster();
    let client = cluster.client();
    // Read permissions are sufficient.
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]);
    cluster.block_on(grant(&client, "exporter", rules));
    let caller = cluster.kubeconfig(User::Exporter);
    // A state has authority over its own namespace only, unless the user trusts its namespace.
    let untrusted = run_exporter(&caller, &["get", "-A"]);
    assert!(!untrusted.stdout.contains("rates"), "{}", untrusted.stdout);
    assert!(
        untrusted.stderr.contains("untrusted: baselines in other namespaces declare 1 object;"),
        "{}",
        untrusted.stderr
    );
    let trusted = ["--trusted-namespaces", "terraform"];
    let result = run_exporter(&caller, &["get", "-A", trusted[0], trusted[1]]);
    println!("get of {APPLIED_OBJECTS} objects took {:?}\n{}{}", result.took, result.stdout, result.stderr);
    assert_eq!(result.code, Some(1), "{}", result.stderr);
    assert_eq!(lines(&result), expected_lines(), "{}", result.stdout);
    assert_eq!(result.stderr, format!("3 of {} declared objects drifted (3 warning)\n", APPLIED_OBJECTS + 3));
    assert!(result.cpu_time < Duration::from_secs(5), "{:?} of CPU time", result.cpu_time);

    let diff = run_exporter(&caller, &["diff", "deploy/web", "-n", "shop"]);
    assert!(
        diff.code == Some(1) && diff.stdout.contains("-      - image: web:1\n+      - image: web:2\n"),
        "{}",
        diff.stdout
    );
    let explained = run_exporter(&caller, &["explain", "cm/rates", "-n", "shop", trusted[0], trusted[1]]);
    assert_eq!(explained.code, Some(1), "{}", explained.stderr);
    for part in [
        "declared by terraform/default/shop kubernetes_config_map_v1.rates",
        "data.GBP: declared \"0.86\", live \"0.91\"",
        "by kubectl (kubectl-edit)",
    ] {
        assert!(explained.stdout.contains(part), "{part}: {}", explained.stdout);
    }
    let labelled = run_exporter(&caller, &["get", "-A", "-l", "app=web", "-o", "name"]);
    assert_eq!(labelled.stdout, "deployment.apps/web\n", "{}", labelled.stderr);
    let verbs: BTreeSet<String> =
        cluster.requests_by(User::Exporter).into_iter().map(|(verb, _)| verb).collect();
    assert_eq!(verbs, ["get", "list"].map(str::to_owned).into(), "nothing is watched, and nothing written");

    let folder = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_drift-exporter"), folder.path().join("kubectl-drift")).unwrap();
    let plugin = |arguments: &[&str]| {
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
        let mut kubectl = Command::new(program("kube-apiserver", "kubectl"));
        run_command(kubectl.arg("drift").args(arguments).env("PATH", path).env("KUBECONFIG", &caller))
    };
    let result = plugin(&["-A", trusted[0], trusted[1]]);
    assert_eq!((result.code, lines(&result)), (Some(1), expected_lines()), "{}", result.stderr);
    let one = plugin(&["deployment/web", "-n", "shop", "-o", "name"]);
    assert_eq!((one.code, &*one.stdout), (Some(1), "deployment.apps/web\n"), "{}", one.stderr);
    let help = plugin(&["diff", "--help"]);
    assert!(help.stdout.contains("Usage: kubectl drift diff"), "{}", help.stdout);

    check_exporter_reports_the_same(&cluster);
}

/// Metrics, API and commands agree.
fn check_exporter_reports_the_same(cluster: &Cluster) {
    let admin = cluster.kubeconfig(User::Admin);
    let flags = ["--sources", "annotation,terraform,helm,last_applied", "--trusted-namespaces", "terraform"];
    let exporter = Exporter::start(&admin, cluster.folder(), &flags).ready();
    for (kind, name, source) in [
        ("Deployment", "web", "last_applied"),
        ("ConfigMap", "rates", "terraform"),
        ("Service", "mail", "helm"),
    ] {
        let labels = [("kind", kind), ("name", name), ("source", source)];
        exporter.wait_for("drift_resource_drifted", &labels, Some(1.0));
    }
    let metrics = exporter.metrics();
    let drifted =
        metrics.lines().filter(|line| line.starts_with("drift_resource_drifted{") && line.ends_with(" 1"));
    assert_eq!(drifted.count(), 3, "{metrics}");
    let server = format!("http://127.0.0.1:{}", exporter.port);
    let result = run_exporter(&admin, &["get", "-A", "--server", &server]);
    assert_eq!((result.code, lines(&result)), (Some(1), expected_lines()), "{}", result.stderr);
    let api = exporter.get("/v1/resources?namespace=*").unwrap().json();
    let off =
        api["resources"].as_array().unwrap().iter().filter(|resource| resource["driftDetected"] == true);
    let names: BTreeSet<&str> = off.map(|resource| resource["resourceName"].as_str().unwrap()).collect();
    assert_eq!(names, ["web", "rates", "mail"].into());
    let explained = |arguments: &[&str]| {
        let text =
            run_exporter(&admin, &[&["explain", "deploy/web", "-n", "shop"], arguments].concat()).stdout;
        assert!(text.contains("web:1, live web:2\n    by kubectl (kubectl-edit)"), "{text}");
        text
    };
    assert_eq!(explained(&["--server", &server]), explained(&[]));
}

#[test]
fn restricted_caller_gets_a_list_of_what_was_not_read() {
    let cluster = drifted_cluster();
    let read = |groups: &[&str], resources: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": ["get", "list"]});
    let reader = create_account(&cluster, "reader", Some(json!([read(&["", "apps"], &["*"])])));
    let result = run_exporter(&reader, &["get", "-n", "shop"]);
    println!("{}{}", result.stdout, result.stderr);
    assert_eq!(result.code, Some(1), "{}", result.stderr);
    let names: Vec<&str> =
        result.stdout.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(names, ["mail", "web"], "the state is elsewhere: {}", result.stdout);
    let unseen = result.stderr.lines().last().unwrap();
    assert!(unseen.starts_with("not seen: states in other namespaces, states of Terraform, "), "{unseen}");
    assert!(unseen.ends_with("more kinds (forbidden)"), "{unseen}");
    let everywhere = run_exporter(&reader, &["get", "-A"]);
    assert_eq!(everywhere.code, Some(2), "{}", everywhere.stdout);
    assert!(everywhere.stderr.contains("cannot list any kind: "), "{}", everywhere.stderr);
    assert!(
        everywhere.stderr.ends_with("; use -n NAMESPACE with a namespace that you may read\n"),
        "{}",
        everywhere.stderr
    );

    let blind = create_account(&cluster, "blind", None);
    for arguments in [&["get", "-n", "shop"][..], &["diff", "-n", "shop"]] {
        let nothing = run_exporter(&blind, arguments);
        assert_eq!((nothing.code, &*nothing.stdout), (Some(2), ""));
        let words =
            ["cannot list any kind: ", "system:serviceaccount:shop:blind", "kubectl auth can-i --list"];
        assert!(words.iter().all(|word| nothing.stderr.contains(word)), "{}", nothing.stderr);
    }
}

#[test]
fn unreachable_api_server_fails_at_once() {
    let mut cluster = Cluster::start();
    cluster.kill_apiserver();
    let times: Vec<(Duration, Duration)> = (0..3)
        .map(|_| {
            let gone = run_exporter(&cluster.kubeconfig(User::Admin), &["get", "-A"]);
            assert_eq!(gone.code, Some(2), "{}", gone.stderr);
            let words = "cannot discover the cluster's kinds: the connection failed";
            assert!(gone.stderr.contains(words), "{}", gone.stderr);
            let nowhere = run_exporter(Path::new("/nonexistent"), &["get", "-A"]);
            assert_eq!(nowhere.code, Some(2), "{}", nowhere.stderr);
            (gone.took, nowhere.took)
        })
        .collect();
    // No time-out is involved: both commands take about as long as a process start.
    let quickest = times.iter().map(|(gone, _)| *gone).min().unwrap();
    let slowest = times.iter().map(|(_, nowhere)| *nowhere).max().unwrap();
    assert!(quickest < 100 * slowest, "{times:?}");
}
