//! Commands on a cluster with partial read permissions.

use serde_json::{Value, json};

use crate::{
    canaries::post,
    cli_direct::{create_account, create_release, run_exporter},
    support::{
        cluster::{Cluster, User},
        objects::create_namespace,
    },
    terraform_states::kubectl,
};

/// A cluster with a release in `shop` that declares objects there, a Secret in `ops`, and a `ClusterRole`. The Service and the
/// `ClusterRole` drift.
fn cluster_with_release() -> Cluster {
    let cluster = Cluster::start();
    let client = cluster.client();
    cluster.block_on(async {
        for namespace in ["shop", "ops"] {
            create_namespace(&client, namespace).await;
        }
    });
    let labels = json!({"app": "mail"});
    let mail = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mail", "labels": labels},
        "spec": {"selector": {"app": "mail"}, "ports": [{"port": 25, "targetPort": 2525}]}});
    let keys = |namespace: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": namespace, "labels": labels},
            "stringData": {"key": "a"}})
    };
    let mut live = mail.clone();
    live["spec"]["sessionAffinity"] = "ClientIP".into();
    let mut declared = mail.clone();
    declared["spec"]["sessionAffinity"] = "None".into();
    post(&cluster, "/api/v1/namespaces/shop/services", &live);
    for namespace in ["shop", "ops"] {
        post(&cluster, &format!("/api/v1/namespaces/{namespace}/secrets"), &keys(namespace));
    }
    let manifest =
        [declared, keys("shop"), keys("ops")].map(|document| format!("---\n{document}\n")).concat();
    create_release(&cluster, "mail", &manifest);
    let admin = cluster.kubeconfig(User::Admin);
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: operations}\nrules: []\n";
    kubectl(&admin, &["apply", "-f", "-"], role);
    let edit = r#"{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}"#;
    let applied = ["patch", "clusterrole", "operations", "--type", "merge", "-p", edit];
    kubectl(&admin, &applied, "");
    cluster
}

/// Allows an account to read these resources in all namespaces.
fn create_cluster_role(cluster: &Cluster, account: &str, rules: &Value) {
    let role = json!({"metadata": {"name": account}, "rules": rules});
    post(cluster, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role);
    let (role, subject) = (format!("--clusterrole={account}"), format!("--serviceaccount=shop:{account}"));
    kubectl(
        &cluster.kubeconfig(User::Admin),
        &["create", "clusterrolebinding", account, &role, &subject],
        "",
    );
}

fn read(groups: &[&str], resources: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": ["get", "list"]})
}

#[test]
fn releases_of_readable_namespaces_are_compared_and_others_are_reported() {
    let cluster = cluster_with_release();
    let team = create_account(&cluster, "team", Some(json!([read(&[""], &["secrets"])])));
    let others = ["services", "configmaps", "serviceaccounts", "namespaces"];
    create_cluster_role(&cluster, "team", &json!([read(&[""], &others), read(&["apps"], &["*"])]));
    let admin = cluster.kubeconfig(User::Admin);
    let namespaces = kubectl(&admin, &["get", "namespaces", "-o", "name"], "").lines().count();

    let result = run_exporter(&team, &["get", "-A", "-o", "name"]);
    println!("{}{}", result.stdout, result.stderr);
    assert_eq!(result.code, Some(1), "{}", result.stderr);
    assert!(result.stdout.contains("service/mail\n"), "{}", result.stdout);
    let missed = format!("releases and states in {} namespaces", namespaces - 1);
    let unseen = result.stderr.lines().last().unwrap();
    assert!(unseen.contains(&missed) && unseen.ends_with("(forbidden)"), "{unseen}");

    // Labels of Secrets in forbidden namespaces are unknown, which does not fail the command.
    let all = ["get", "-A", "--all", "-l", "app=mail", "-o", "name", "--trusted-namespaces", "shop"];
    let labelled = run_exporter(&team, &all);
    assert_eq!(labelled.code, Some(1), "{}", labelled.stderr);
    assert_eq!(labelled.stdout, "secret/keys\nservice/mail\n", "{}", labelled.stderr);
    assert!(labelled.stderr.contains("labels of Secret"), "{}", labelled.stderr);
}

#[test]
fn forbidden_kind_fails_the_command() {
    let cluster = cluster_with_release();
    let reader = create_account(&cluster, "own", Some(json!([read(&[""], &["services", "secrets"])])));
    for arguments in
        [&["get", "deploy/web"][..], &["get", "deploy"], &["diff", "deploy/web"], &["explain", "deploy/web"]]
    {
        let result = run_exporter(&reader, &[arguments, &["-n", "shop"]].concat());
        assert_eq!((result.code, &*result.stdout), (Some(2), ""), "{arguments:?}: {}", result.stderr);
        assert!(result.stderr.contains("cannot list resource \"deployments\""), "{}", result.stderr);
    }
    // Cluster-scoped objects are requested together with namespaced ones, which are in the given namespace.
    let both = run_exporter(&reader, &["diff", "svc/mail", "clusterrole/operations", "-n", "shop"]);
    assert_eq!(both.code, Some(1), "{}", both.stderr);
    assert!(
        both.stdout.contains("-  sessionAffinity: None\n+  sessionAffinity: ClientIP\n"),
        "{}",
        both.stdout
    );
    assert!(both.stderr.contains("ClusterRole") && !both.stderr.contains("Service"), "{}", both.stderr);
    assert!(!both.stderr.contains("no source declares it"), "{}", both.stderr);
}

#[test]
fn cluster_scoped_objects_are_found_with_a_namespace_flag() {
    let cluster = cluster_with_release();
    let admin = cluster.kubeconfig(User::Admin);
    for arguments in [
        &["get", "clusterrole/operations", "-n", "shop", "-o", "name"][..],
        &["get", "clusterrole", "-n", "shop", "-o", "name"],
        &["get", "clusterrole/operations", "-o", "name"],
    ] {
        let result = run_exporter(&admin, arguments);
        assert_eq!(result.code, Some(1), "{arguments:?}: {}", result.stderr);
        assert_eq!(result.stdout, "clusterrole.rbac.authorization.k8s.io/operations\n", "{arguments:?}");
    }
    let explained = run_exporter(&admin, &["explain", "clusterrole/operations", "-n", "shop"]);
    assert!(
        explained.code == Some(1) && explained.stdout.contains("last_applied: drifted"),
        "{}",
        explained.stderr
    );
}
