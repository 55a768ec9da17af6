//! A tenant with real RBAC permissions, who may write Secrets and Leases in one namespace, and nothing else.

use http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::{
    canaries::post,
    fixture::DRIFTED,
    support::{
        cluster::{Cluster, User},
        exporter::Exporter,
        gzip::gzip,
        objects::{create_namespace, grant},
        stored::{release_secret, state_secret},
        wait::eventually,
    },
};

const SECRETS: &str = "/api/v1/namespaces/tenant/secrets";

/// Creates an object as the tenant.
fn post_as_tenant(cluster: &Cluster, path: &str, object: &Value) -> Result<(), StatusCode> {
    let request = Request::post(path)
        .header("impersonate-user", "tenant")
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .unwrap();
    cluster.block_on(cluster.client().request::<Value>(request)).map(drop).map_err(|error| match error {
        kube::Error::Api(status) => StatusCode::from_u16(status.code).unwrap(),
        error => unreachable!("{error}"),
    })
}

fn start_cluster() -> Cluster {
    let cluster = Cluster::start();
    let client = cluster.client();
    cluster.block_on(async {
        create_namespace(&client, "victim").await;
        create_namespace(&client, "tenant").await;
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]);
        grant(&client, "exporter", rules).await;
    });
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/tenant";
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}]);
    post(&cluster, &format!("{rbac}/roles"), &json!({"metadata": {"name": "tenant"}, "rules": rules}));
    let binding = json!({"metadata": {"name": "tenant"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}]});
    post(&cluster, &format!("{rbac}/rolebindings"), &binding);
    cluster
}

fn config_map(namespace: &str, name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}, "data": {"key": value}})
}

/// A stored revision of a release that declares these objects.
fn release(namespace: &str, name: &str, objects: &[Value]) -> Value {
    let manifest: Vec<String> = objects.iter().map(Value::to_string).collect();
    let manifest = manifest.join("\n---\n");
    let release = json!({"name": name, "namespace": namespace, "version": 1, "manifest": manifest,
        "info": {"status": "deployed"}, "chart": {"metadata": {"name": name, "version": "1.0.0"}}});
    release_secret(namespace, name, 1, "deployed", &gzip(release.to_string()))
}

#[test]
fn tenant_neither_mutes_nor_forges_drift() {
    let cluster = start_cluster();
    let forbidden =
        post_as_tenant(&cluster, "/api/v1/namespaces/victim/secrets", &json!({"metadata": {"name": "a"}}));
    assert_eq!(forbidden, Err(StatusCode::FORBIDDEN));
    let secret = json!({"metadata": {"name": "db"}, "stringData": {"password": "hunter2"}});
    post(&cluster, "/api/v1/namespaces/victim/secrets", &secret);
    post(&cluster, "/api/v1/namespaces/victim/configmaps", &config_map("victim", "web", "edited"));
    let honest = release("victim", "web", &[config_map("victim", "web", "declared")]);
    post(&cluster, "/api/v1/namespaces/victim/secrets", &honest);
    // A chart that installs a cluster-scoped object, with the annotations of Helm.
    let role = |verb: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}],
            "metadata": {"name": "reader", "annotations": {"meta.helm.sh/release-name": "roles", "meta.helm.sh/release-namespace": "victim"}}})
    };
    post(&cluster, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role("*"));
    post(&cluster, "/api/v1/namespaces/victim/secrets", &release("victim", "roles", &[role("get")]));

    // The tenant declares objects of other namespaces in a pending release and in a locked state.
    let guesses = ["hunter2", "hunter3"].map(|guess| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "victim", "name": "db"}, "stringData": {"password": guess}})
    });
    let forged =
        [config_map("victim", "web", "edited"), config_map("kube-system", "never-there", "a"), role("*")];
    post_as_tenant(&cluster, SECRETS, &release("tenant", "a-evil", &forged)).unwrap();
    let mut pending = release("tenant", "a-evil", &forged);
    pending["metadata"]["name"] = json!("sh.helm.release.v1.a-evil.v2");
    pending["metadata"]["labels"]["version"] = json!("2");
    pending["metadata"]["labels"]["status"] = json!("pending-upgrade");
    post_as_tenant(&cluster, SECRETS, &pending).unwrap();
    for (name, guess) in ["right", "wrong"].iter().zip(&guesses) {
        post_as_tenant(&cluster, SECRETS, &release("tenant", name, std::slice::from_ref(guess))).unwrap();
    }
    let map = json!({"metadata": [{"namespace": "victim", "name": "web"}], "data": {"key": "forged"}});
    let resource = json!({"mode": "managed", "type": "kubernetes_config_map_v1", "name": "web", "instances": [{"attributes": map}]});
    let state = json!({"version": 4, "serial": 1, "lineage": "l", "resources": [resource]}).to_string();
    post_as_tenant(&cluster, SECRETS, &state_secret("tenant", "evil", state.as_bytes())).unwrap();

    let settings = cluster.folder().join("settings.yaml");
    let sources = json!({"sources": {"terraform": {"this_cluster": true}, "helm": {}}});
    std::fs::write(&settings, sources.to_string()).unwrap();
    let flags = ["--config.file", settings.to_str().unwrap()];
    let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), &flags).ready();
    exporter.wait_for(DRIFTED, &[("source", "helm"), ("namespace", "victim"), ("name", "web")], Some(1.0));
    exporter.wait_for(DRIFTED, &[("source", "helm"), ("kind", "ClusterRole"), ("name", "reader")], Some(1.0));
    // The exporter reads the state of the tenant and does not trust it.
    exporter.wait_for("drift_resources", &[("source", "terraform"), ("verdict", "untrusted")], Some(1.0));
    assert_eq!(exporter.sample(DRIFTED, &[("source", "terraform")]), None);
    for namespace in ["kube-system", "tenant"] {
        assert_eq!(exporter.sample(DRIFTED, &[("namespace", namespace)]), None, "{namespace}");
    }
    for source in ["helm", "terraform"] {
        let labels = [("kind", "Secret"), ("source", source)];
        assert_eq!(exporter.sample("drift_resources", &labels), None, "no claim on a guess");
    }

    // The object that the honest chart installed is reported as missing.
    let delete =
        Request::delete("/apis/rbac.authorization.k8s.io/v1/clusterroles/reader").body(Vec::new()).unwrap();
    cluster.block_on(cluster.client().request::<Value>(delete)).unwrap();
    eventually("the role is missing", || {
        let labels = [("kind", "ClusterRole"), ("source", "helm"), ("verdict", "missing")];
        (exporter.sample("drift_resources", &labels) == Some(1.0)).then_some(())
    });
}
