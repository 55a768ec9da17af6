//! CRDs that are installed, removed and moved to another version while the exporter watches.

use std::time::{Duration, Instant};

use drift_exporter::{
    config::Settings,
    diff::{Algorithm, fingerprint},
    types::{Kind, Scope, Selector, WantedKind},
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PostParams},
};
use serde_json::{Value, json};

use crate::{
    fixture::DRIFTED,
    support::{
        cluster::{Cluster, User},
        exporter_fixture::ClusterExporter,
        objects::{HASH, create_namespace, delete, from_json, grant, patch, read_only_rules},
        wait::eventually,
    },
};

const SECOND: Duration = Duration::from_secs(1);
const UP: &str = "drift_watch_stream_up";
const ONSET: &str = "drift_resource_drifted_timestamp_seconds";
const GEAR: &[(&str, &str)] =
    &[("group", "example.com"), ("kind", "Widget"), ("namespace", "shop"), ("name", "gear")];

fn kind(version: &str, name: &str) -> Kind {
    let plural = format!("{}s", name.to_lowercase()).into();
    Kind { plural, ..Kind::undiscovered("example.com", version, name) }
}

/// A cluster whose exporter may read custom resources, Deployments, Services and `ConfigMaps`.
fn cluster() -> Cluster {
    let cluster = Cluster::start();
    let client = cluster.client();
    let mut rules = read_only_rules();
    let more = json!({"apiGroups": ["example.com", ""], "resources": ["widgets", "gadgets", "configmaps"], "verbs": ["list", "watch"]});
    rules.as_array_mut().unwrap().push(more);
    cluster.block_on(async {
        grant(&client, "drift-exporter", rules).await;
        create_namespace(&client, "shop").await;
        create_namespace(&client, "attic").await;
    });
    cluster
}

fn versions(served: &[(&str, bool, bool)]) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |(name, served, storage): &(&str, bool, bool)| json!({"name": name, "served": served, "storage": storage, "schema": schema, "subresources": {"status": {}}});
    served.iter().map(version).collect()
}

async fn install(client: &Client, kind: &Kind, served: &[(&str, bool, bool)]) {
    let names = json!({"kind": &*kind.kind, "plural": &*kind.plural, "singular": kind.kind.to_lowercase()});
    let definition: CustomResourceDefinition = from_json(json!({
        "metadata": {"name": kind.to_string()},
        "spec": {"group": &*kind.group, "scope": "Namespaced", "names": names, "versions": versions(served)},
    }));
    let api = Api::all(client.clone());
    api.create(&PostParams::default(), &definition).await.expect("the kind can be installed");
}

fn api(client: &Client, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: kind.group.to_string(),
        version: kind.version.to_string(),
        api_version: kind.api_version(),
        kind: kind.kind.to_string(),
        plural: kind.plural.to_string(),
    };
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Creates an object of a kind that may just have been installed, with its own hash as baseline.
async fn create(api: &Api<DynamicObject>, kind: &Kind, name: &str) {
    let object: DynamicObject = from_json(json!({
        "apiVersion": kind.api_version(), "kind": &*kind.kind, "metadata": {"name": name}, "spec": {"teeth": 12},
    }));
    let created = loop {
        match api.create(&PostParams::default(), &object).await {
            Ok(created) => break created,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let text = serde_json::to_string(&created).expect("an object is JSON");
    let digest = fingerprint(Algorithm::JcsV1, kind, &text, "tfdrift.jin.dev").expect("a hash");
    let hash = Algorithm::JcsV1.record(digest);
    patch(api, name, "HashiCorp", json!({"metadata": {"annotations": {HASH: hash}}})).await;
}

/// The status codes of the exporter's discovery requests.
fn discovery_status_codes(cluster: &Cluster) -> Vec<i64> {
    let log = std::fs::read_to_string(cluster.folder().join("audit.log")).unwrap();
    let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let requests = entries.filter(|entry| {
        entry["user"]["username"] == User::Exporter.name()
            && ["/api", "/apis"].contains(&entry["requestURI"].as_str().unwrap_or(""))
    });
    requests.filter_map(|entry| entry["responseStatus"]["code"].as_i64()).collect()
}

#[test]
fn installed_crd_is_watched_and_removed_crd_drops_its_series() {
    let (cluster, v1) = (cluster(), kind("v1", "Widget"));
    let client = cluster.client();
    let kinds = vec![WantedKind::exactly(&v1), WantedKind::exactly(&Kind::deployment())];
    let exporter = ClusterExporter::start(&cluster, Settings { kinds, ..Settings::default() });
    eventually("it is ready", || (exporter.get("/readyz").status == 200).then_some(()));
    let missing = "Widget.example.com: not listed (not_found): the API server has no example.com/v1 Widget";
    assert!(exporter.get("/readyz").text().contains(missing), "{}", exporter.get("/readyz").text());
    assert_eq!(exporter.sample(UP, &[("kind", "Widget")]), Some(0.0));
    assert_eq!(exporter.sample(UP, &[("kind", "Deployment")]), Some(1.0));
    let unchanged = || discovery_status_codes(&cluster).iter().filter(|code| **code == 304).count();
    eventually("discovery runs again", || (unchanged() > 1).then_some(()));

    let installed = Instant::now();
    cluster.block_on(install(&client, &v1, &[("v1", true, true)]));
    exporter.wait_for(UP, &[("kind", "Widget")], Some(1.0));
    println!("watched {:?} after it was installed", installed.elapsed());
    let widgets = api(&client, &v1, "shop");
    cluster.block_on(create(&widgets, &v1, "gear"));
    exporter.wait_for(DRIFTED, GEAR, Some(0.0));
    // managedFields has times in seconds.
    std::thread::sleep(SECOND);
    cluster.block_on(patch(&widgets, "gear", "kubectl-edit", json!({"spec": {"teeth": 13}})));
    exporter.wait_for(DRIFTED, GEAR, Some(1.0));
    assert!(exporter.sample(ONSET, &[("name", "gear"), ("actor", "kubectl")]).is_some());
    let view: Value = exporter.get("/v1/resources/widget.example.com/shop/gear").json();
    assert_eq!(view["claims"][0]["verdict"], "drifted", "{view}");

    let removed = Instant::now();
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    cluster.block_on(delete(&definitions, &v1.to_string()));
    exporter.wait_for(UP, &[("kind", "Widget")], Some(0.0));
    exporter.wait_for(DRIFTED, GEAR, None);
    eventually("its watches are closed", || exporter.get("/readyz").text().contains(missing).then_some(()));
    println!("gone {:?} after it was removed", removed.elapsed());
    let deleted = [("kind", "Widget"), ("cause", "deleted")];
    assert_eq!(exporter.sample("drift_resolutions_total", &deleted), Some(1.0));
    assert_eq!(exporter.sample("drift_watch_last_contact_timestamp_seconds", &[("kind", "Widget")]), None);
    assert_eq!(exporter.sample(UP, &[("kind", "Deployment")]), Some(1.0));

    let answers = discovery_status_codes(&cluster);
    assert!(answers.iter().all(|code| [200, 304].contains(code)), "{answers:?}");
}

#[test]
fn unserved_version_is_replaced_and_the_onset_stays() {
    let (cluster, v1) = (cluster(), kind("v1", "Widget"));
    let client = cluster.client();
    let widgets = api(&client, &v1, "shop");
    cluster.block_on(async {
        install(&client, &v1, &[("v1", true, true)]).await;
        create(&widgets, &v1, "gear").await;
        create(&widgets, &v1, "clean").await;
        patch(&widgets, "gear", "kubectl-edit", json!({"spec": {"teeth": 13}})).await;
    });
    let kinds = vec![WantedKind::exactly(&v1)];
    let exporter = ClusterExporter::start(&cluster, Settings { kinds, ..Settings::default() });
    exporter.wait_for(DRIFTED, GEAR, Some(1.0));
    let onset = exporter.sample(ONSET, GEAR);
    std::thread::sleep(2 * SECOND);

    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let moved = json!({"spec": {"versions": versions(&[("v1", false, false), ("v2", true, true)])}});
    cluster.block_on(patch(&definitions, &v1.to_string(), "kubectl-edit", moved));
    exporter.wait_for(UP, &[("kind", "Widget"), ("version", "v2")], Some(1.0));
    assert_eq!(exporter.sample(UP, &[("kind", "Widget"), ("version", "v1")]), None);
    let clean = [("kind", "Widget"), ("name", "clean")];
    assert_eq!((exporter.sample(DRIFTED, GEAR), exporter.sample(DRIFTED, &clean)), (Some(1.0), Some(0.0)));
    assert_eq!(exporter.sample(ONSET, GEAR), onset);

    let widgets = api(&client, &kind("v2", "Widget"), "shop");
    cluster.block_on(patch(&widgets, "gear", "kubectl-edit", json!({"spec": {"teeth": 12}})));
    exporter.wait_for(DRIFTED, GEAR, Some(0.0));
    let reverted = [("kind", "Widget"), ("cause", "reverted")];
    assert_eq!(exporter.sample("drift_resolutions_total", &reverted), Some(1.0));
}

#[test]
fn group_wildcard_honors_exclusions_and_setting_changes() {
    let (cluster, widget, gadget) = (cluster(), kind("v1", "Widget"), kind("v1", "Gadget"));
    let client = cluster.client();
    let group =
        WantedKind { scope: Scope::new([], ["attic"]), ..WantedKind::parse("example.com/*", "*").unwrap() };
    let exporter =
        ClusterExporter::start(&cluster, Settings { kinds: vec![group.clone()], ..Settings::default() });
    exporter.wait_for(UP, &[("group", "example.com"), ("kind", "*")], Some(0.0));
    cluster.block_on(async {
        for kind in [&widget, &gadget] {
            install(&client, kind, &[("v1", true, true)]).await;
            for namespace in ["shop", "attic"] {
                create(&api(&client, kind, namespace), kind, "gear").await;
            }
        }
    });
    for kind in ["Widget", "Gadget"] {
        exporter.wait_for(UP, &[("kind", kind), ("version", "v1")], Some(1.0));
        exporter.wait_for(DRIFTED, &[("kind", kind), ("name", "gear")], Some(0.0));
        assert_eq!(
            exporter.sample("drift_cache_objects", &[("kind", kind)]),
            Some(1.0),
            "the attic is left out"
        );
    }
    assert_eq!(exporter.sample(UP, &[("group", "example.com"), ("kind", "*")]), None);
    // The API server cuts the watches of a group when it serves another kind of it.
    exporter.wait_for("drift_watch_streams", &[], Some(2.0));

    // No controller creates a ConfigMap in each namespace here.
    let config = Kind { plural: "configmaps".into(), ..Kind::undiscovered("", "v1", "ConfigMap") };
    let selector = Selector::parse("team in (a,b)").ok();
    let config = WantedKind { selector, ..WantedKind::exactly(&config) };
    let object: DynamicObject =
        from_json(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
        "metadata": {"name": "settings", "labels": {"team": "a"}}}));
    let configs = api(&client, &Kind { group: "".into(), ..kind("v1", "ConfigMap") }, "shop");
    cluster.block_on(configs.create(&PostParams::default(), &object)).unwrap();
    let only_widgets = WantedKind::exactly(&widget);
    let kinds = vec![WantedKind { scope: group.scope, ..only_widgets }, config];
    exporter.settings.replace(Settings { kinds, ..Settings::default() });
    exporter.wait_for(UP, &[("kind", "ConfigMap")], Some(1.0));
    exporter.wait_for(UP, &[("kind", "Gadget")], None);
    assert_eq!(exporter.sample("drift_cache_objects", &[("kind", "ConfigMap")]), Some(1.0));
    assert_eq!(exporter.sample(DRIFTED, &[("kind", "Gadget")]), None);
    assert_eq!(exporter.sample(DRIFTED, &[("kind", "Widget")]), Some(0.0));
    let lists = cluster
        .requests_by(User::Exporter)
        .into_iter()
        .filter(|request| *request == ("list".into(), "widgets".into()));
    assert_eq!(lists.count(), 1, "the watch stays open");
}
