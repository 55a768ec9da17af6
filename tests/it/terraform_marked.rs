//! A running exporter, and states that mark values of objects as sensitive: none of them is in what it keeps.

use std::collections::BTreeMap;

use drift_exporter::{
    config::{Settings, TerraformSettings},
    diff::unpack,
    types::{Kind, Source, VerdictKind},
};
use serde_json::{Value, json};

use crate::{
    support::{
        api_server::ApiServer, claims::config_maps, gzip::gzip, state_server::StateServer, world::World,
    },
    terraform_follow::secret,
    terraform_published::{publish, put, secrets},
};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

struct Shop {
    api: ApiServer,
    states: StateServer,
    world: World,
}

/// A ConfigMap with a value that is marked, or one that is not.
fn config_map(name: &str, value: &str) -> Value {
    let copy = json!({"data": {"key": value}}).to_string();
    json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("u-{name}"), "annotations": {LAST_APPLIED: copy}}, "data": {"key": value}})
}

/// A Deployment with a token in a variable.
fn deployment(token: &str) -> Value {
    let env = json!([{"name": "TOKEN", "value": token}, {"name": "MODE", "value": "plain-mode"}]);
    let owned = json!({"f:env": {"k:{\"name\":\"TOKEN\"}": {"f:value": {}}}});
    let owned =
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": owned}}}}});
    json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-web",
        "managedFields": [{"manager": "kubectl-edit", "time": "2026-01-01T00:00:00Z", "fieldsV1": owned}]},
        "spec": {"replicas": 2, "strategy": {"type": "Recreate"}, "template": {"metadata": {}, "spec": {"containers": [{"name": "web", "image": "nginx", "env": env}]}}}})
}

fn steps(path: &[&str]) -> Value {
    path.iter().map(|name| json!({"type": "get_attr", "value": name})).collect()
}

fn resource(resource_type: &str, name: &str, attributes: &Value, marks: &[&[&str]]) -> Value {
    let marks: Vec<Value> = marks.iter().map(|path| steps(path)).collect();
    json!({"mode": "managed", "type": resource_type, "name": name,
        "instances": [{"schema_version": 1, "attributes": attributes, "sensitive_attributes": marks}]})
}

fn declared_map(name: &str, value: &str, marks: &[&[&str]]) -> Value {
    let metadata = json!([{"name": name, "namespace": "shop", "uid": format!("u-{name}")}]);
    resource("kubernetes_config_map_v1", name, &json!({"metadata": metadata, "data": {"key": value}}), marks)
}

fn declared_deployment(marks: &[&[&str]]) -> Value {
    let env = json!([{"name": "TOKEN", "value": "hunter-env"}, {"name": "MODE", "value": "plain-mode"}]);
    let pod = json!([{"container": [{"name": "web", "image": "nginx", "env": env, "resources": [{}]}]}]);
    let spec = json!([{"replicas": "2", "strategy": [{"type": "Recreate"}], "template": [{"metadata": [{}], "spec": pod}]}]);
    let metadata = json!([{"name": "web", "namespace": "shop", "uid": "u-web"}]);
    resource("kubernetes_deployment_v1", "web", &json!({"metadata": metadata, "spec": spec}), marks)
}

const ENV: &[&str] = &["spec", "template", "spec", "container", "env", "value"];
const DATA: &[&str] = &["data"];

fn state(serial: u64, resources: &[Value]) -> Value {
    json!({"version": 4, "serial": serial, "lineage": "l", "resources": resources})
}

impl Shop {
    /// A shop with two ConfigMaps and a Deployment, and the state that declares them.
    async fn open(resources: &[Value]) -> Self {
        let (api, states) = (ApiServer::default(), StateServer::default());
        api.serve(&[config_maps()]);
        api.put("configmaps", config_map("marked", "hunter-data"));
        api.put("configmaps", config_map("plain", "hunter-later"));
        api.put("deployments", deployment("hunter-env"));
        let settings = Settings {
            sources: vec![Source::Terraform],
            terraform: TerraformSettings { this_cluster: true, ..TerraformSettings::default() },
            ..Settings::default()
        };
        let client = states.client_beside(&api.client());
        let shop = Self { world: World::with_client(&api, client, settings), api, states };
        shop.write(1, resources);
        shop.rest().await;
        shop
    }

    fn write(&self, serial: u64, resources: &[Value]) {
        let bytes = gzip(state(serial, resources).to_string());
        self.states.put("secrets", secret("terraform", "tfstate-default-shop", &bytes));
    }

    /// Everything is read that has to be.
    async fn rest(&self) {
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    }

    /// What is kept of all objects, read.
    fn kept(&self) -> String {
        let snapshot = self.world.snapshot();
        let entries = snapshot.kinds.iter().flat_map(|state| state.blocks.entries());
        let documents = entries.filter_map(|entry| entry.object.document.as_ref());
        documents.map(|document| unpack(&document.packed).to_string()).collect()
    }

    /// How often each kind was listed.
    fn lists(&self) -> BTreeMap<String, usize> {
        let mut lists = BTreeMap::new();
        for url in self.api.requests().iter().filter(|url| !url.contains("watch=1")) {
            let path = url.split('?').next().unwrap();
            *lists.entry(path.rsplit('/').next().unwrap().to_owned()).or_default() += 1;
        }
        lists.retain(|plural: &String, _| !["api", "apis"].contains(&plural.as_str()));
        lists
    }

    fn verdict(&self, kind: &Kind, name: &str) -> VerdictKind {
        let snapshot = self.world.snapshot();
        let state = snapshot.kinds.iter().find(|state| state.kind.is_same_type(kind)).unwrap();
        state.blocks.get("shop", name)[0].claim.verdict.kind()
    }
}

#[tokio::test(start_paused = true)]
async fn no_value_that_a_state_marks_is_kept_of_a_live_object() {
    let (map, web) = (declared_map("marked", "hunter-data", &[DATA]), declared_deployment(&[ENV]));
    let shop = Shop::open(&[map, web]).await;
    let kept = shop.kept();
    assert!(kept.contains("\"nginx\"") && kept.contains("hunter-later"), "what nobody marks is kept: {kept}");
    for value in ["hunter-env", "hunter-data"] {
        assert!(!kept.contains(value), "{value} in {kept}");
    }
    for (kind, name) in [(&config_maps(), "marked"), (&Kind::deployment(), "web")] {
        assert_eq!(shop.verdict(kind, name), VerdictKind::InSync, "{name}");
    }
    // What it is changed to is not kept either, nor told.
    shop.api.put("deployments", deployment("hunter-edit"));
    shop.api.put("configmaps", config_map("marked", "hunter-edit"));
    shop.rest().await;
    for (kind, name) in [(&config_maps(), "marked"), (&Kind::deployment(), "web")] {
        assert_eq!(shop.verdict(kind, name), VerdictKind::Drifted, "{name}");
    }
    assert!(!shop.kept().contains("hunter-edit"));
    let told = shop.world.get("/v1/resources?namespace=*").await.text();
    assert!(told.contains("env[name=TOKEN].value") && told.contains("kubectl-edit"), "{told}");
    assert!(!told.contains("hunter"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn only_kinds_of_which_other_values_are_marked_are_listed_again() {
    let others = |marks: &[&[&str]]| {
        [declared_map("marked", "hunter-data", &[DATA]), declared_map("plain", "hunter-later", marks)]
    };
    let resources = |marks: &[&[&str]], env: &[&[&str]]| {
        let [one, other] = others(marks);
        vec![one, other, declared_deployment(env)]
    };
    let shop = Shop::open(&resources(&[], &[])).await;
    let mut lists = shop.lists();
    let check = |more: &[&str], lists: &mut BTreeMap<String, usize>, why: &str| {
        for plural in more {
            *lists.get_mut(*plural).unwrap() += 1;
        }
        assert_eq!(shop.lists(), *lists, "{why}");
    };
    shop.write(2, &resources(&[], &[]));
    shop.rest().await;
    check(&[], &mut lists, "the same marks");
    shop.write(3, &resources(&[DATA, DATA], &[]));
    shop.rest().await;
    check(&["configmaps"], &mut lists, "data of another ConfigMap");
    assert!(!shop.kept().contains("hunter-later") && shop.kept().contains("hunter-env"));
    shop.write(4, &resources(&[DATA], &[]));
    shop.rest().await;
    check(&[], &mut lists, "the same marks, written once");
    shop.write(5, &resources(&[DATA], &[ENV]));
    shop.rest().await;
    check(&["deployments"], &mut lists, "a variable of a Deployment");
    assert!(!shop.kept().contains("hunter"));
    shop.write(6, &resources(&[DATA], &[]));
    shop.rest().await;
    check(&["deployments"], &mut lists, "nobody marks it any more");
    assert!(shop.kept().contains("hunter-env"));
}

#[tokio::test(start_paused = true)]
async fn a_published_baseline_with_its_own_key_has_the_kinds_read_that_are_sealed_and_that_it_declares() {
    let own = [declared_map("marked", "hunter-data", &[DATA]), declared_deployment(&[ENV])];
    let shop = Shop::open(&own).await;
    let mut lists = shop.lists();
    for serial in [1, 2] {
        // It brings another key each time, and marks nothing itself.
        put(&shop.states, &secrets(&publish(&state(serial, &[declared_deployment(&[])]), &[])));
        shop.rest().await;
        *lists.get_mut("deployments").unwrap() += 1;
        assert_eq!(shop.lists(), lists);
        assert_eq!(shop.verdict(&Kind::deployment(), "web"), VerdictKind::InSync);
        assert!(!shop.kept().contains("hunter-env"));
    }
    shop.api.put("deployments", deployment("hunter-edit"));
    shop.rest().await;
    assert_eq!(shop.verdict(&Kind::deployment(), "web"), VerdictKind::Drifted);
    let told = shop.world.get("/v1/resources/deployment.apps/shop/web").await.text();
    assert!(told.contains("shop-prod") && !told.contains("hunter"), "{told}");
}
