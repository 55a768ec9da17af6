//! A look at a cluster in which nothing is installed, as a new user takes it.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    canaries::post,
    states::kubectl,
    support::{
        cluster::{Cluster, User},
        cpu::output_and_time,
        exporter::Exporter,
        objects::{all, create_namespace, grant},
        parts::program,
    },
};

/// Objects that kubectl applied, beside those that drift.
const MANY: usize = 1_000;

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop, labels: {app: web}}\n\
    spec:\n  replicas: 3\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: 'web:1'}]}\n";

/// A cluster with a thousand applied objects, a Helm release and a Terraform state, in which somebody edited one object of each.
fn edited() -> Cluster {
    let cluster = Cluster::start();
    let client = cluster.client();
    let admin = cluster.kubeconfig(User::Admin);
    cluster.block_on(async {
        for namespace in ["shop", "bulk", "terraform"] {
            create_namespace(&client, namespace).await;
        }
        all((0..MANY).map(|at| {
            let client = client.clone();
            async move {
                let map = applied(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
                    "metadata": {"name": format!("map-{at}"), "namespace": "bulk"}}));
                let request = http::Request::post("/api/v1/namespaces/bulk/configmaps");
                let request = request.header("content-type", "application/json").body(map.to_string().into());
                client.request::<Value>(request.unwrap()).await.unwrap();
            }
        }))
        .await;
    });
    kubectl(&admin, &["apply", "-f", "-"], WEB);
    install(&cluster);
    // Times of writes are whole seconds.
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

/// The same object with what kubectl writes down when it applies it.
fn applied(mut object: Value) -> Value {
    let text = object.to_string();
    object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": text});
    object
}

/// What Terraform and Helm have made, and their own records of it.
fn install(cluster: &Cluster) {
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
    let labels = json!({"tfstate": "true", "tfstateWorkspace": "default", "tfstateSecretSuffix": "shop"});
    let secret = json!({"metadata": {"name": "tfstate-default-shop", "labels": labels},
        "data": {"tfstate": STANDARD.encode(state.to_string())}});
    post(cluster, "/api/v1/namespaces/terraform/secrets", &secret);

    let mail = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mail"},
        "spec": {"selector": {"app": "mail"}, "ports": [{"port": 25, "targetPort": 2525}]}});
    post(cluster, "/api/v1/namespaces/shop/services", &mail);
    release(cluster, "mail", &format!("---\n# Source: mail/templates/service.yaml\n{mail}\n"));
}

/// A release in `shop`, as Helm writes it down.
pub(crate) fn release(cluster: &Cluster, name: &str, manifest: &str) {
    let release = json!({"name": name, "namespace": "shop", "version": 1, "manifest": manifest,
        "info": {"status": "deployed"}, "chart": {"metadata": {"name": name, "version": "1.0.0"}}});
    let labels = json!({"owner": "helm", "name": name, "status": "deployed", "version": "1"});
    let secret = json!({"metadata": {"name": format!("sh.helm.release.v1.{name}.v1"), "labels": labels},
        "type": "helm.sh/release.v1", "stringData": {"release": STANDARD.encode(release.to_string())}});
    post(cluster, "/api/v1/namespaces/shop/secrets", &secret);
}

pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    took: Duration,
    cpu_time: Duration,
}

fn ended(command: &mut Command) -> Ended {
    let begun = Instant::now();
    let (Output { status, stdout, stderr }, cpu_time) = output_and_time(command);
    let took = begun.elapsed();
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr), took, cpu_time }
}

pub(crate) fn look(kubeconfig: &Path, arguments: &[&str]) -> Ended {
    let program = env!("CARGO_BIN_EXE_drift-exporter");
    ended(Command::new(program).args(arguments).arg("--kubeconfig").arg(kubeconfig))
}

/// The lines of a table, in single blanks and without the age.
fn lines(found: &Ended) -> BTreeSet<String> {
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
    found.stdout.lines().skip(1).map(line).collect()
}

fn wanted() -> BTreeSet<String> {
    [
        "shop Deployment web drifted warning spec.template.spec.containers[name=web].image kubectl last_applied",
        "shop ConfigMap rates drifted warning data.GBP kubectl terraform",
        "shop Service mail drifted warning spec.ports[port=26,protocol=TCP].port +4 kubectl helm",
    ]
    .map(str::to_owned)
    .into()
}

/// A service account with these rules in the namespace `shop`, and its kubeconfig.
pub(crate) fn account(cluster: &Cluster, name: &str, rules: Option<Value>) -> PathBuf {
    let admin = cluster.kubeconfig(User::Admin);
    kubectl(&admin, &["create", "serviceaccount", name, "-n", "shop"], "");
    if let Some(rules) = rules {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        post(cluster, "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles", &role);
        let (role, account) = (format!("--role={name}"), format!("--serviceaccount=shop:{name}"));
        kubectl(&admin, &["create", "rolebinding", name, "-n", "shop", &role, &account], "");
    }
    let token = kubectl(&admin, &["create", "token", name, "-n", "shop"], "");
    let text = fs::read_to_string(admin).unwrap().replace("admin-token", token.trim());
    let path = cluster.folder().join(format!("{name}.kubeconfig"));
    fs::write(&path, text).unwrap();
    path
}

/// `make bench` measures how long a look takes on a clock.
#[test]
fn a_cluster_that_one_has_never_touched_tells_object_field_and_tool() {
    let cluster = edited();
    let client = cluster.client();
    // Nobody needs more than to read.
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]);
    cluster.block_on(grant(&client, "exporter", rules));
    let caller = cluster.kubeconfig(User::Exporter);
    let found = look(&caller, &["get", "-A"]);
    println!("one look at {MANY} objects took {:?}\n{}{}", found.took, found.stdout, found.stderr);
    assert_eq!(found.code, Some(1), "{}", found.stderr);
    assert_eq!(lines(&found), wanted(), "{}", found.stdout);
    assert_eq!(found.stderr, format!("3 of {} declared objects drifted (3 warning)\n", MANY + 3));
    assert!(found.cpu_time < Duration::from_secs(5), "{:?} of CPU time", found.cpu_time);

    let diff = look(&caller, &["diff", "deploy/web", "-n", "shop"]);
    assert!(
        diff.code == Some(1) && diff.stdout.contains("-      - image: web:1\n+      - image: web:2\n"),
        "{}",
        diff.stdout
    );
    let explained = look(&caller, &["explain", "cm/rates", "-n", "shop"]);
    assert_eq!(explained.code, Some(1), "{}", explained.stderr);
    for part in [
        "declared by terraform/default/shop kubernetes_config_map_v1.rates",
        "data.GBP: 0.86 is declared, 0.91 is there",
        "by kubectl (kubectl-edit)",
    ] {
        assert!(explained.stdout.contains(part), "{part}: {}", explained.stdout);
    }
    let labelled = look(&caller, &["get", "-A", "-l", "app=web", "-o", "name"]);
    assert_eq!(labelled.stdout, "deployment.apps/web\n", "{}", labelled.stderr);
    let verbs: BTreeSet<String> = cluster.audit(User::Exporter).into_iter().map(|(verb, _)| verb).collect();
    assert_eq!(verbs, ["get", "list"].map(str::to_owned).into(), "nothing is watched, and nothing written");

    let folder = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_drift-exporter"), folder.path().join("kubectl-drift")).unwrap();
    let plugin = |arguments: &[&str]| {
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
        let mut kubectl = Command::new(program("kube-apiserver", "kubectl"));
        ended(kubectl.arg("drift").args(arguments).env("PATH", path).env("KUBECONFIG", &caller))
    };
    let found = plugin(&["-A"]);
    assert_eq!((found.code, lines(&found)), (Some(1), wanted()), "{}", found.stderr);
    let one = plugin(&["deployment/web", "-n", "shop", "-o", "name"]);
    assert_eq!((one.code, &*one.stdout), (Some(1), "deployment.apps/web\n"), "{}", one.stderr);
    let help = plugin(&["diff", "--help"]);
    assert!(help.stdout.contains("Usage: kubectl drift diff"), "{}", help.stdout);

    the_exporter_says_the_same(&cluster);
}

/// Metrics, API and commands beside each other.
fn the_exporter_says_the_same(cluster: &Cluster) {
    let admin = cluster.kubeconfig(User::Admin);
    let flags = ["--sources", "annotation,terraform,helm,last_applied"];
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
    let found = look(&admin, &["get", "-A", "--server", &server]);
    assert_eq!((found.code, lines(&found)), (Some(1), wanted()), "{}", found.stderr);
    let api = exporter.get("/v1/resources?namespace=*").unwrap().json();
    let off = api["resources"].as_array().unwrap().iter().filter(|own| own["driftDetected"] == true);
    let told: BTreeSet<&str> = off.map(|own| own["resourceName"].as_str().unwrap()).collect();
    assert_eq!(told, ["web", "rates", "mail"].into());
    let explained = |arguments: &[&str]| {
        let text = look(&admin, &[&["explain", "deploy/web", "-n", "shop"], arguments].concat()).stdout;
        assert!(text.contains("web:1 is declared, web:2 is there\n    by kubectl (kubectl-edit)"), "{text}");
        text
    };
    assert_eq!(explained(&["--server", &server]), explained(&[]));
}

#[test]
fn whoever_may_see_little_is_told_what_is_not_seen() {
    let cluster = edited();
    let read = |groups: &[&str], resources: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": ["get", "list"]});
    let own = account(&cluster, "reader", Some(json!([read(&["", "apps"], &["*"])])));
    let found = look(&own, &["get", "-n", "shop"]);
    println!("{}{}", found.stdout, found.stderr);
    assert_eq!(found.code, Some(1), "{}", found.stderr);
    let told: Vec<&str> =
        found.stdout.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(told, ["mail", "web"], "the state is elsewhere: {}", found.stdout);
    let unseen = found.stderr.lines().last().unwrap();
    assert!(unseen.starts_with("not seen: states in other namespaces, states of Terraform, "), "{unseen}");
    assert!(unseen.ends_with("more kinds (forbidden)"), "{unseen}");
    let everywhere = look(&own, &["get", "-A"]);
    assert_eq!(everywhere.code, Some(2), "{}", everywhere.stdout);
    assert!(everywhere.stderr.contains("cannot list any kind: "), "{}", everywhere.stderr);
    assert!(
        everywhere.stderr.ends_with("; use -n NAMESPACE with a namespace that you may read\n"),
        "{}",
        everywhere.stderr
    );

    let blind = account(&cluster, "blind", None);
    for arguments in [&["get", "-n", "shop"][..], &["diff", "-n", "shop"]] {
        let nothing = look(&blind, arguments);
        assert_eq!((nothing.code, &*nothing.stdout), (Some(2), ""));
        let words =
            ["cannot list any kind: ", "system:serviceaccount:shop:blind", "kubectl auth can-i --list"];
        assert!(words.iter().all(|word| nothing.stderr.contains(word)), "{}", nothing.stderr);
    }
}

#[test]
fn a_server_that_is_gone_is_said_at_once() {
    let mut cluster = Cluster::start();
    cluster.kill_apiserver();
    let times: Vec<(Duration, Duration)> = (0..3)
        .map(|_| {
            let gone = look(&cluster.kubeconfig(User::Admin), &["get", "-A"]);
            assert_eq!(gone.code, Some(2), "{}", gone.stderr);
            let words = "cannot discover the cluster's kinds: the connection failed";
            assert!(gone.stderr.contains(words), "{}", gone.stderr);
            let nowhere = look(Path::new("/nonexistent"), &["get", "-A"]);
            assert_eq!(nowhere.code, Some(2), "{}", nowhere.stderr);
            (gone.took, nowhere.took)
        })
        .collect();
    // Nothing is waited for: both take as long as a program takes to start, but for a factor.
    let quickest = times.iter().map(|(gone, _)| *gone).min().unwrap();
    let slowest = times.iter().map(|(_, nowhere)| *nowhere).max().unwrap();
    assert!(quickest < 100 * slowest, "{times:?}");
}
