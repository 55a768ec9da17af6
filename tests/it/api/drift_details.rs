//! The sentences of `driftDetails`.

use drift_exporter::{
    config::{Settings, ShownValues},
    rules::RuleSet,
    types::{Kind, Source, WantedKind},
};
use serde_json::{Value, json};

use crate::support::{
    api_server::ApiServer,
    engine::{EngineFixture, state},
    exporter_fixture::ExporterFixture,
    live_objects::{deployment, edited},
};

const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn kind(group: &str, version: &str, kind: &str, plural: &str) -> Kind {
    Kind { plural: plural.into(), ..Kind::undiscovered(group, version, kind) }
}

/// The details of an object whose manifest and live state have these bodies.
async fn details(kind: Kind, declared: &Value, live: &Value) -> Vec<String> {
    let api = ApiServer::default();
    if ![Kind::deployment(), Kind::service()].contains(&kind) {
        api.serve(std::slice::from_ref(&kind));
    }
    let named = |body: &Value| {
        let mut object = body.clone();
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = (*kind.kind).into();
        object["metadata"]["namespace"] = "shop".into();
        object["metadata"]["name"] = "web".into();
        object
    };
    let mut object = named(live);
    object["metadata"]["uid"] = "uid-web".into();
    object["metadata"]["annotations"][APPLIED] = named(declared).to_string().into();
    api.put(&kind.plural, object);
    let settings = Settings {
        sources: vec![Source::LastApplied],
        kinds: vec![WantedKind::exactly(&kind)],
        shown_values: ShownValues::Full,
        ..Settings::default()
    };
    let exporter = ExporterFixture::start_with(&api, settings);
    exporter.wait_idle().await;
    listed(&exporter).await
}

/// The details of the object `web`.
async fn listed(exporter: &ExporterFixture) -> Vec<String> {
    let list = exporter.get("/v1/resources?namespace=shop&resourceName=web&fields=driftDetails").await.json();
    assert_eq!(list["total"], 1, "{list}");
    serde_json::from_value(list["resources"][0]["driftDetails"].clone()).unwrap()
}

/// A Deployment with these fields of its container `web`.
fn with_container(fields: &Value) -> Value {
    let mut container = fields.clone();
    container["name"] = "web".into();
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

#[tokio::test(start_paused = true)]
async fn field_labels_depend_on_the_field_class() {
    let container = |value: &str| {
        let mut object = with_container(&json!({
            "image": value, "env": [{"name": "LOG", "value": value}],
            "resources": {"limits": {"cpu": value}, "requests": {"memory": value}}}));
        object["spec"]["replicas"] = value.parse::<u32>().unwrap().into();
        object["metadata"]["annotations"]["a"] = value.into();
        object
    };
    let sentences = details(Kind::deployment(), &container("1"), &container("3")).await;
    let numbers = "Replica count mismatch: desired=1, actual=3".to_owned();
    assert!(sentences.contains(&numbers), "{sentences:?}");
    for name in [
        "Image mismatch in container web",
        "CPU limit mismatch in container web",
        "Memory request mismatch in container web",
        "Environment variable LOG mismatch in container web",
        "Annotation a mismatch",
    ] {
        let strings = format!("{name}: desired=\"1\", actual=\"3\"");
        assert!(sentences.contains(&strings), "{name}: {sentences:?}");
    }
    let service =
        |port: u32| json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": port}]}});
    let autoscaler = |count: u32| json!({"spec": {"maxReplicas": count}});
    let config_map = |value: u32| json!({"data": {"key": value.to_string()}});
    let ingress = |host: u32| json!({"spec": {"rules": [{"host": host.to_string()}]}});
    let ingresses = kind("networking.k8s.io", "v1", "Ingress", "ingresses");
    let (numbers, strings) = (["1", "3"], ["\"1\"", "\"3\""]);
    for (kind, [declared, live], name, [desired, actual]) in [
        (Kind::service(), [1, 3].map(service), "Port 80/TCP targetPort", numbers),
        (Kind::autoscaler(), [1, 3].map(autoscaler), "Maximum replica count", numbers),
        (kind("", "v1", "ConfigMap", "configmaps"), [1, 3].map(config_map), "Data key", strings),
        (ingresses, [1, 3].map(ingress), "Field spec.rules[0].host", strings),
    ] {
        let sentences = details(kind, &declared, &live).await;
        assert_eq!(sentences[..1], [format!("{name} mismatch: desired={desired}, actual={actual}")]);
    }
    let api = ApiServer::default();
    api.put("deployments", edited(deployment("web"), 1));
    let hash = listed(&ExporterFixture::ready(&api).await).await;
    assert!(hash[0].starts_with("Hash of spec mismatch: desired="), "{hash:?}");
}

#[tokio::test(start_paused = true)]
async fn added_removed_and_missing_are_named() {
    let env =
        |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name, "value": "x"})).collect() };
    let [declared, live] =
        [&["A"][..], &["A", "LOG"]].map(|names| with_container(&json!({"env": env(names)})));
    let sentences = details(Kind::deployment(), &declared, &live).await;
    let added = "Environment variable LOG added in container web: actual=x";
    assert!(sentences.iter().any(|sentence| sentence == added), "{sentences:?}");
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    let removed =
        details(Kind::service(), &labels(json!({"example.com/team": "a"})), &labels(json!({}))).await;
    assert_eq!(removed, ["Label example.com/team removed: desired=a"]);
    let other = ("other", "c", "1");
    for (live, sentence) in [
        (&[other][..], "Object is missing"),
        (&[("web", "b", "1"), other], "Object was replaced: desired uid=a, actual uid=b"),
    ] {
        let fixture = EngineFixture::new(&[state("s", 1, &[("web", "a", "1"), other])], live);
        let exporter = ExporterFixture::ready(&ApiServer::default()).await;
        assert_eq!(listed(&exporter.with_snapshot(fixture.engine.snapshot())).await, [sentence]);
    }
}

#[tokio::test(start_paused = true)]
async fn long_values_are_truncated_between_characters() {
    let data = |text: &str| json!({"data": {"key": text}});
    let config_maps = kind("", "v1", "ConfigMap", "configmaps");
    let sentence = details(config_maps, &data("a"), &data(&"é".repeat(999))).await.remove(0);
    assert!(sentence.ends_with("é…") && sentence.chars().count() < 240, "{sentence}");
}

#[tokio::test(start_paused = true)]
async fn each_expecting_rule_adds_one_sentence() {
    let rules = RuleSet::built_in();
    let rule = rules.rules().iter().find(|rule| &**rule.name() == "patch-version").unwrap();
    let closing = format!("expected: rule patch-version, {}", rule.spec().reason.as_deref().unwrap());
    let pod = |images: &[&str], paused: bool| {
        let container = |(at, image): (usize, &&str)| json!({"name": format!("c{at}"), "image": image});
        let containers: Value = images.iter().enumerate().map(container).collect();
        json!({"spec": {"paused": paused, "template": {"spec": {"containers": containers}}}})
    };
    let [declared, live] = ["db:15", "db:15.2"].map(|image| pod(&[image, image], false));
    let both = details(Kind::deployment(), &declared, &live).await;
    assert_eq!(both[2..], [format!("This is {closing}")]);
    let one = details(Kind::deployment(), &pod(&["db:15"], false), &pod(&["db:15.2"], true)).await;
    assert_eq!(one[2..], [format!("spec.template.spec.containers[name=c0].image is {closing}")]);
}
