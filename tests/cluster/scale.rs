//! Many objects, and our watcher compared with the one of kube-runtime.

use std::collections::BTreeMap;

use drift_exporter::types::Kind;
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    Api, ResourceExt as _,
    runtime::{WatchStreamExt as _, reflector, watcher},
};
use serde_json::json;

use crate::{
    fixture::{DRIFTED, Shop},
    support::{
        objects::{LABEL, all, create_with_hash, delete, deployment, patch, service},
        wait::eventually,
    },
};

fn lines(page: &str) -> usize {
    page.lines().filter(|line| line.starts_with("drift_resource_drifted{")).count()
}

#[test]
fn each_scrape_is_complete_during_a_relist_of_5000_objects() {
    const EACH: usize = 2_500;
    let mut shop = Shop::start(&[]);
    let client = shop.cluster.client();
    shop.cluster.block_on(async {
        all((1..EACH).map(async |n| {
            create_with_hash(&client, &Kind::deployment(), &deployment("shop", &format!("d{n}"))).await;
            create_with_hash(&client, &Kind::service(), &service("shop", &format!("s{n}"))).await;
        }))
        .await;
    });
    let exporter = &shop.exporter;
    eventually("all objects are there", || (lines(&exporter.metrics()) == 2 * EACH).then_some(()));

    // A restarted and compacted server forces a relist. No scrape may expose a partial list.
    shop.change_during_outage(|shop| drop(shop.edit("kubectl-edit", json!({"spec": {"replicas": 5}}))));
    let exporter = &shop.exporter;
    let mut scrapes = 0;
    eventually("the relist is through", || {
        scrapes += 1;
        let page = exporter.metrics();
        assert_eq!(lines(&page), 2 * EACH, "scrape {scrapes}");
        let drifted =
            crate::support::http_client::sample(&page, DRIFTED, &[("kind", "Deployment"), ("name", "web")]);
        (drifted == Some(1.0)).then_some(())
    });
    println!("{scrapes} scrapes, all complete");
    let gone = [("kind", "Deployment"), ("reason", "gone")];
    assert!(exporter.sample("drift_watch_restarts_total", &gone) >= Some(1.0), "there was no relist");
    let rest = exporter.get("/v1/resources?namespace=shop&limit=1&sort=-onset").unwrap().json();
    assert_eq!((&rest["total"], &rest["resources"][0]["resourceName"]), (&json!(2 * EACH), &json!("web")));
}

/// After the same edits, our watcher and kube-runtime's hold the same objects in the same versions.
#[test]
fn watcher_converges_to_the_same_objects_as_kube_runtime() {
    let shop = Shop::start(&[]);
    let client = shop.cluster.client();
    let config = watcher::Config::default().labels(&format!("{LABEL}=true"));
    let (deployments, services) = shop.cluster.block_on(async {
        (
            reflect(Api::<Deployment>::all(client.clone()), config.clone()),
            reflect(Api::<Service>::all(client.clone()), config),
        )
    });
    shop.cluster.block_on(async {
        for round in 0..150_usize {
            let name = format!("o{}", fastrand::usize(..12));
            let services = Api::<Service>::namespaced(client.clone(), "shop");
            let exists = services.get_opt(&name).await.expect("an answer").is_some();
            match (exists, round % 4) {
                (false, _) => {
                    create_with_hash(&client, &Kind::service(), &service("shop", &name)).await;
                    create_with_hash(&client, &Kind::deployment(), &deployment("shop", &name)).await;
                }
                (true, 0) => {
                    delete(&services, &name).await;
                    delete(&shop.deployments, &name).await;
                }
                (true, 1) => {
                    let on = if fastrand::bool() { json!("true") } else { json!("false") };
                    patch(&services, &name, "kubectl", json!({"metadata": {"labels": {LABEL: on}}})).await;
                }
                (true, _) => {
                    patch(&shop.deployments, &name, "kubectl", json!({"spec": {"replicas": round}})).await;
                }
            }
        }
    });
    // None if an object was deleted after the list request: an event is still pending.
    let ours = || -> Option<BTreeMap<(String, String), String>> {
        let list = shop.exporter.get("/v1/resources?namespace=*").expect("an answer").json();
        let names = list["resources"].as_array().expect("a list").iter();
        names
            .map(|resource| {
                (
                    resource["resourceType"].as_str().expect("text"),
                    resource["resourceName"].as_str().expect("text"),
                )
            })
            .map(|(kind, name)| {
                let object = shop
                    .exporter
                    .get(&format!("/v1/resources/{kind}/shop/{name}"))
                    .expect("an answer")
                    .json();
                let version = object["resourceVersion"].as_str()?.to_owned();
                Some(((kind.to_owned(), name.to_owned()), version))
            })
            .collect()
    };
    let theirs = || {
        let deployments = deployments
            .state()
            .into_iter()
            .map(|object| (("deployment".to_owned(), object.name_any()), object.resource_version()));
        let services = services
            .state()
            .into_iter()
            .map(|object| (("service".to_owned(), object.name_any()), object.resource_version()));
        deployments
            .chain(services)
            .map(|(key, version)| (key, version.unwrap_or_default()))
            .collect::<BTreeMap<_, _>>()
    };
    eventually("both agree", || {
        let (ours, theirs) = (ours()?, theirs());
        (ours == theirs && ours.len() > 2).then_some(())
    });
}

/// Watches a kind with kube-runtime's watcher and reflector, in the background.
fn reflect<K>(api: Api<K>, config: watcher::Config) -> reflector::Store<K>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let (store, writer) = reflector::store();
    tokio::spawn(async move {
        let stream = watcher(api, config).default_backoff().reflect(writer);
        pin_mut!(stream);
        while stream.next().await.is_some() {}
    });
    store
}
