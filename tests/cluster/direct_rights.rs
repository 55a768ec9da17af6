//! A look at a cluster by those who may see parts of it.

use serde_json::{Value, json};

use crate::{
    canaries::post,
    direct::{account, look, release},
    states::kubectl,
    support::{
        cluster::{Cluster, User},
        objects::create_namespace,
    },
};

/// A cluster with a release in `shop` that declares objects there and a Secret in `ops`, and a `ClusterRole`; the Service and the
/// `ClusterRole` drifted.
fn installed() -> Cluster {
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
    let manifest = [declared, keys("shop"), keys("ops")].map(|own| format!("---\n{own}\n")).concat();
    release(&cluster, "mail", &manifest);
    let admin = cluster.kubeconfig(User::Admin);
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: operations}\nrules: []\n";
    kubectl(&admin, &["apply", "-f", "-"], role);
    let edit = r#"{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}"#;
    let applied = ["patch", "clusterrole", "operations", "--type", "merge", "-p", edit];
    kubectl(&admin, &applied, "");
    cluster
}

/// Lets an account read these everywhere.
fn read_everywhere(cluster: &Cluster, account: &str, rules: &Value) {
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
fn whoever_may_read_secrets_in_one_namespace_sees_its_releases_and_is_told_of_the_others() {
    let cluster = installed();
    let team = account(&cluster, "team", Some(json!([read(&[""], &["secrets"])])));
    let others = ["services", "configmaps", "serviceaccounts", "namespaces"];
    read_everywhere(&cluster, "team", &json!([read(&[""], &others), read(&["apps"], &["*"])]));
    let admin = cluster.kubeconfig(User::Admin);
    let namespaces = kubectl(&admin, &["get", "namespaces", "-o", "name"], "").lines().count();

    let found = look(&team, &["get", "-A", "-o", "name"]);
    println!("{}{}", found.stdout, found.stderr);
    assert_eq!(found.code, Some(1), "{}", found.stderr);
    assert!(found.stdout.contains("service/mail\n"), "{}", found.stdout);
    let missed = format!("releases and states in {} namespaces", namespaces - 1);
    let unseen = found.stderr.lines().last().unwrap();
    assert!(unseen.contains(&missed) && unseen.ends_with("(forbidden)"), "{unseen}");

    // Secrets of another namespace may have these labels or not; nobody is stopped by that.
    let labelled = look(&team, &["get", "-A", "--all", "-l", "app=mail", "-o", "name"]);
    assert_eq!(labelled.code, Some(1), "{}", labelled.stderr);
    assert_eq!(labelled.stdout, "secret/keys\nservice/mail\n", "{}", labelled.stderr);
    assert!(labelled.stderr.contains("labels of Secret"), "{}", labelled.stderr);
}

#[test]
fn whoever_may_not_see_a_kind_could_not_look() {
    let cluster = installed();
    let own = account(&cluster, "own", Some(json!([read(&[""], &["services", "secrets"])])));
    for arguments in
        [&["get", "deploy/web"][..], &["get", "deploy"], &["diff", "deploy/web"], &["explain", "deploy/web"]]
    {
        let ended = look(&own, &[arguments, &["-n", "shop"]].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("cannot list resource \"deployments\""), "{}", ended.stderr);
    }
    // What has no namespace is asked for beside what has one, which is looked for where people said.
    let both = look(&own, &["diff", "svc/mail", "clusterrole/operations", "-n", "shop"]);
    assert_eq!(both.code, Some(1), "{}", both.stderr);
    assert!(
        both.stdout.contains("-  sessionAffinity: None\n+  sessionAffinity: ClientIP\n"),
        "{}",
        both.stdout
    );
    assert!(both.stderr.contains("ClusterRole") && !both.stderr.contains("Service"), "{}", both.stderr);
    assert!(!both.stderr.contains("no source declares it"), "nobody knows: {}", both.stderr);
}

#[test]
fn what_has_no_namespace_is_found_from_within_one() {
    let cluster = installed();
    let admin = cluster.kubeconfig(User::Admin);
    for arguments in [
        &["get", "clusterrole/operations", "-n", "shop", "-o", "name"][..],
        &["get", "clusterrole", "-n", "shop", "-o", "name"],
        &["get", "clusterrole/operations", "-o", "name"],
    ] {
        let found = look(&admin, arguments);
        assert_eq!(found.code, Some(1), "{arguments:?}: {}", found.stderr);
        assert_eq!(found.stdout, "clusterrole.rbac.authorization.k8s.io/operations\n", "{arguments:?}");
    }
    let explained = look(&admin, &["explain", "clusterrole/operations", "-n", "shop"]);
    assert!(
        explained.code == Some(1) && explained.stdout.contains("last_applied: drifted"),
        "{}",
        explained.stderr
    );
}
