//! A running exporter never caches values that Terraform states mark as sensitive.

use std::collections::BTreeMap;

use drift_exporter::{
    config::{Settings, StateLocations},
    diff::unpack,
    types::{Kind, Source, TrustedNamespaces, VerdictKind},
};
use serde_json::{Value, json};

use crate::{
    support::{api_server::ApiServer, engine::config_maps, exporter_fixture::ExporterFixture, gzip::gzip},
    terraform_published::{publish, put, secrets},
    terraform_source::secret,
};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A running exporter with a Terraform state in a Secret.
struct SensitiveStateFixture {
    api: ApiServer,
    exporter: ExporterFixture,
}

fn config_map(name: &str, value: &str) -> Value {
    let copy = json!({"data": {"key": value}}).to_string();
    json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("u-{name}"), "annotations": {LAST_APPLIED: copy}}, "data": {"key": value}})
}

/// A Deployment with a token in an environment variable.
fn deployment(token: &str) -> Value {
    let env = json!([{"name": "TOKEN", "value": token}, {"name": "MODE", "value": "plain-mode"}]);
    let owned = json!({"f:env": {"k:{\"name\":\"TOKEN\"}": {"f:value": {}}}});
    let owned =
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": owned}}}}});
    json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-web",
        "managedFields": [{"manager": "kubectl-edit", "time": "2026-01-01T00:00:00Z", "fieldsV1": owned}]},
        "spec": {"replicas": 2, "strategy": {"type": "Recreate"}, "template": {"metadata": {}, "spec": {"containers": [{"name": "web", "image": "nginx", "env": env}]}}}})
}

fn attribute_path(path: &[&str]) -> Value {
    path.iter().map(|name| json!({"type": "get_attr", "value": name})).collect()
}

fn resource(resource_type: &str, name: &str, attributes: &Value, sensitive_paths: &[&[&str]]) -> Value {
    let sensitive_paths: Vec<Value> = sensitive_paths.iter().map(|path| attribute_path(path)).collect();
    json!({"mode": "managed", "type": resource_type, "name": name,
        "instances": [{"schema_version": 1, "attributes": attributes, "sensitive_attributes": sensitive_paths}]})
}

fn declared_map(name: &str, value: &str, sensitive_paths: &[&[&str]]) -> Value {
    let metadata = json!([{"name": name, "namespace": "shop", "uid": format!("u-{name}")}]);
    resource(
        "kubernetes_config_map_v1",
        name,
        &json!({"metadata": metadata, "data": {"key": value}}),
        sensitive_paths,
    )
}

fn declared_deployment(sensitive_paths: &[&[&str]]) -> Value {
    let env = json!([{"name": "TOKEN", "value": "hunter-env"}, {"name": "MODE", "value": "plain-mode"}]);
    let pod = json!([{"container": [{"name": "web", "image": "nginx", "env": env, "resources": [{}]}]}]);
    let spec = json!([{"replicas": "2", "strategy": [{"type": "Recreate"}], "template": [{"metadata": [{}], "spec": pod}]}]);
    let metadata = json!([{"name": "web", "namespace": "shop", "uid": "u-web"}]);
    resource("kubernetes_deployment_v1", "web", &json!({"metadata": metadata, "spec": spec}), sensitive_paths)
}

const ENV: &[&str] = &["spec", "template", "spec", "container", "env", "value"];
const DATA: &[&str] = &["data"];

fn state(serial: u64, resources: &[Value]) -> Value {
    json!({"version": 4, "serial": serial, "lineage": "l", "resources": resources})
}

impl SensitiveStateFixture {
    /// Starts with two ConfigMaps, a Deployment and a state with these resources.
    async fn start(resources: &[Value]) -> Self {
        let api = ApiServer::with_source_kinds();
        api.put("configmaps", config_map("marked", "hunter-data"));
        api.put("configmaps", config_map("plain", "hunter-later"));
        api.put("deployments", deployment("hunter-env"));
        let settings = Settings {
            sources: vec![Source::Terraform],
            terraform: StateLocations {
                this_cluster: true,
                trusted_namespaces: TrustedNamespaces::new(["terraform"]),
                ..StateLocations::default()
            },
            ..Settings::default()
        };
        let fixture = Self { exporter: ExporterFixture::start_with(&api, settings), api };
        fixture.write(1, resources);
        fixture.wait_synced().await;
        fixture
    }

    fn write(&self, serial: u64, resources: &[Value]) {
        let bytes = gzip(state(serial, resources).to_string());
        self.api.put("secrets", secret("terraform", "tfstate-default-shop", &bytes));
    }

    async fn wait_synced(&self) {
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    }

    /// The cached documents of all objects, unpacked.
    fn cached_documents(&self) -> String {
        let snapshot = self.exporter.snapshot();
        let entries = snapshot.kinds.iter().flat_map(|state| state.blocks.entries());
        let documents = entries.filter_map(|entry| entry.object.live()?.readable_document());
        documents.map(|document| unpack(&document.packed).to_string()).collect()
    }

    /// The number of lists per plural.
    fn lists(&self) -> BTreeMap<String, usize> {
        let mut lists = BTreeMap::new();
        for url in self.api.request_urls().iter().filter(|url| !url.contains("watch=1")) {
            let path = url.split('?').next().unwrap();
            *lists.entry(path.rsplit('/').next().unwrap().to_owned()).or_default() += 1;
        }
        lists.retain(|plural: &String, _| !["api", "apis", "secrets", "leases"].contains(&plural.as_str()));
        lists
    }

    fn verdict(&self, kind: &Kind, name: &str) -> VerdictKind {
        let snapshot = self.exporter.snapshot();
        let state = snapshot.kinds.iter().find(|state| state.kind.is_same_type(kind)).unwrap();
        state.blocks.get("shop", name)[0].claim.verdict.kind()
    }
}

#[tokio::test(start_paused = true)]
async fn sensitive_values_are_never_cached() {
    let (map, web) = (declared_map("marked", "hunter-data", &[DATA]), declared_deployment(&[ENV]));
    let fixture = SensitiveStateFixture::start(&[map, web]).await;
    let cached_documents = fixture.cached_documents();
    assert!(
        cached_documents.contains("\"nginx\"") && cached_documents.contains("hunter-later"),
        "other values are cached: {cached_documents}"
    );
    for value in ["hunter-env", "hunter-data"] {
        assert!(!cached_documents.contains(value), "{value} in {cached_documents}");
    }
    for (kind, name) in [(&config_maps(), "marked"), (&Kind::deployment(), "web")] {
        assert_eq!(fixture.verdict(kind, name), VerdictKind::InSync, "{name}");
    }
    // The edited value is neither cached nor exposed.
    fixture.api.put("deployments", deployment("hunter-edit"));
    fixture.api.put("configmaps", config_map("marked", "hunter-edit"));
    fixture.wait_synced().await;
    for (kind, name) in [(&config_maps(), "marked"), (&Kind::deployment(), "web")] {
        assert_eq!(fixture.verdict(kind, name), VerdictKind::Drifted, "{name}");
    }
    assert!(!fixture.cached_documents().contains("hunter-edit"));
    let body = fixture.exporter.get("/v1/resources?namespace=*").await.text();
    assert!(body.contains("env[name=TOKEN].value") && body.contains("kubectl-edit"), "{body}");
    assert!(!body.contains("hunter"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn only_kinds_with_changed_sensitive_paths_are_relisted() {
    let others = |sensitive_paths: &[&[&str]]| {
        [
            declared_map("marked", "hunter-data", &[DATA]),
            declared_map("plain", "hunter-later", sensitive_paths),
        ]
    };
    let resources = |sensitive_paths: &[&[&str]], env: &[&[&str]]| {
        let [one, other] = others(sensitive_paths);
        vec![one, other, declared_deployment(env)]
    };
    let fixture = SensitiveStateFixture::start(&resources(&[], &[])).await;
    let mut lists = fixture.lists();
    let check = |more: &[&str], lists: &mut BTreeMap<String, usize>, why: &str| {
        for plural in more {
            *lists.get_mut(*plural).unwrap() += 1;
        }
        assert_eq!(fixture.lists(), *lists, "{why}");
    };
    fixture.write(2, &resources(&[], &[]));
    fixture.wait_synced().await;
    check(&[], &mut lists, "unchanged paths");
    fixture.write(3, &resources(&[DATA, DATA], &[]));
    fixture.wait_synced().await;
    check(&["configmaps"], &mut lists, "data of another ConfigMap");
    assert!(
        !fixture.cached_documents().contains("hunter-later")
            && fixture.cached_documents().contains("hunter-env")
    );
    fixture.write(4, &resources(&[DATA], &[]));
    fixture.wait_synced().await;
    check(&[], &mut lists, "a duplicate path removed");
    fixture.write(5, &resources(&[DATA], &[ENV]));
    fixture.wait_synced().await;
    check(&["deployments"], &mut lists, "an environment variable of a Deployment");
    assert!(!fixture.cached_documents().contains("hunter"));
    fixture.write(6, &resources(&[DATA], &[]));
    fixture.wait_synced().await;
    check(&["deployments"], &mut lists, "the path removed");
    assert!(fixture.cached_documents().contains("hunter-env"));
}

#[tokio::test(start_paused = true)]
async fn published_baseline_with_another_key_relists_its_redacted_kinds() {
    let state_resources = [declared_map("marked", "hunter-data", &[DATA]), declared_deployment(&[ENV])];
    let fixture = SensitiveStateFixture::start(&state_resources).await;
    let mut lists = fixture.lists();
    for serial in [1, 2] {
        // Each publication has another key, and marks nothing as sensitive.
        put(&fixture.api, &secrets(&publish(&state(serial, &[declared_deployment(&[])]), &[])));
        fixture.wait_synced().await;
        *lists.get_mut("deployments").unwrap() += 1;
        assert_eq!(fixture.lists(), lists);
        assert_eq!(fixture.verdict(&Kind::deployment(), "web"), VerdictKind::InSync);
        assert!(!fixture.cached_documents().contains("hunter-env"));
    }
    fixture.api.put("deployments", deployment("hunter-edit"));
    fixture.wait_synced().await;
    assert_eq!(fixture.verdict(&Kind::deployment(), "web"), VerdictKind::Drifted);
    let body = fixture.exporter.get("/v1/resources/deployment.apps/shop/web").await.text();
    assert!(body.contains("shop-prod") && !body.contains("hunter"), "{body}");
}
