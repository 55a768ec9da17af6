//! Estimated monthly costs of objects and of their drift.

use drift_exporter::{
    config::{Overrides, Settings, load},
    types::{Kind, Source, WantedKind},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    settings::check,
    support::{api_server::ApiServer, exporter_fixture::ExporterFixture},
};

const PRICES: &str =
    "api: {prices: {currency: EUR, cpu_core_hour: 0.02, memory_gib_hour: 0.003, load_balancer_hour: 0.01}}\n";
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A Deployment with a last-applied-configuration and a live spec.
pub(crate) fn applied(name: &str, declared: &Value, live: &Value) -> Value {
    let copy = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"}, "spec": declared});
    json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "generation": 1, "annotations": {APPLIED: copy.to_string()}},
        "spec": live, "status": {"observedGeneration": 1, "replicas": live["replicas"], "updatedReplicas": live["replicas"], "availableReplicas": live["replicas"]},
    })
}

pub(super) fn spec(replicas: i32, image: &str, cpu: &str) -> Value {
    json!({"replicas": replicas, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{
        "name": "web", "image": image, "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}},
        "envFrom": [{"secretRef": {"name": "web-credentials"}}],
    }]}}})
}

/// An exporter with the source `last_applied`.
pub(crate) async fn last_applied_exporter(api: &ApiServer, settings: Settings) -> ExporterFixture {
    let kinds = [Kind::deployment(), Kind::service()].iter().map(WantedKind::exactly).collect();
    let exporter =
        ExporterFixture::start_with(api, Settings { sources: vec![Source::LastApplied], kinds, ..settings });
    exporter.wait_idle().await;
    exporter
}

#[tokio::test(start_paused = true)]
async fn drift_cost_is_the_excess_over_declared_requests() {
    let api = ApiServer::default();
    api.put("deployments", applied("web", &spec(1, "nginx:1", "500m"), &spec(3, "nginx:1", "1")));
    api.put("deployments", applied("calm", &spec(2, "nginx:1", "500m"), &spec(2, "nginx:1", "500m")));
    let load_balancer = json!({"metadata": {"namespace": "shop", "name": "web", "uid": "uid-s"},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 443}]},
        "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}});
    api.put("services", load_balancer);
    let settings = load(PRICES, &Overrides::default(), Timestamp::UNIX_EPOCH).unwrap().settings;
    let exporter = last_applied_exporter(&api, settings).await;
    let list = exporter.get("/v1/resources?namespace=shop&fields=resourceName,resourceType,estimatedMonthlyCost,driftMonthlyCost,costCurrency,driftDetails,connectionSecret,endpoint,port,verdict").await.json();
    let [in_sync, service, web] = list["resources"].as_array().unwrap().as_slice() else { panic!("{list}") };
    // A core is 14.60 a month, a GiB 2.19.
    assert_eq!(
        (&web["estimatedMonthlyCost"], &web["driftMonthlyCost"]),
        (&json!(50.37), &json!(40.88)),
        "{web}"
    );
    assert_eq!(
        web["driftDetails"],
        json!([
            "Replica count mismatch: desired=1, actual=3",
            "CPU request mismatch in container web: desired=500m, actual=\"1\""
        ])
    );
    assert_eq!((&web["connectionSecret"], &web["costCurrency"]), (&json!("web-credentials"), &json!("EUR")));
    assert_eq!((&web["endpoint"], &web["port"]), (&json!("lb.example.com"), &json!(443)));
    assert_eq!(
        (&in_sync["estimatedMonthlyCost"], &in_sync["driftMonthlyCost"]),
        (&json!(18.98), &json!(0.0))
    );
    assert_eq!(
        (&service["estimatedMonthlyCost"], &service["driftMonthlyCost"]),
        (&json!(7.3), &json!(null)),
        "no source claims the Service"
    );
}

#[test]
fn invalid_prices_are_reported() {
    check(
        "api:\n  prices: {currency: '', cpu_core_hour: -1}\n",
        &[
            "line 2, column 22: api.prices.currency: invalid currency ``; want letters such as EUR",
            "line 2, column 41: api.prices.cpu_core_hour: invalid price `-1`; want a number that is not negative",
        ],
    );
    let nothing = "api: {prices: {currency: EUR, storage_gib_month: .nan}}\n";
    check(nothing, &["api.prices.storage_gib_month: invalid price `NaN`"]);
    check(
        "api: {prices: {currency: EUR}}\n",
        &["line 1, column 15: api.prices: no price is set; want at least one"],
    );
    check("api: {prices: {cpu_core_hour: 1}}\n", &["line 1, …missing field `currency`"]);
    check("api: {prices: {currency: EUR, cpu_hour: 1}}\n", &["unknown field `cpu_hour`"]);
}
