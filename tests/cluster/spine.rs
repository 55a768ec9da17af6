//! Watch, judge, expose.

use std::time::{Duration, Instant};

use drift_exporter::model::Kind;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::json;

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    objects::{
        HASH, create_namespace, create_stamped, delete, deployment, grant, patch, read_only_rules, service,
    },
};

const SOON: Duration = Duration::from_secs(5);
const DRIFTED: &str = "drift_resource_drifted";
const WEB: &[(&str, &str)] = &[("kind", "Deployment"), ("namespace", "shop"), ("name", "web")];

/// A cluster with one Deployment and one Service that are as declared, and an exporter that may only read.
fn shop(flags: &[&str]) -> (Cluster, Api<Deployment>, Exporter) {
    let cluster = Cluster::start();
    let client = cluster.client();
    cluster.block_on(async {
        grant(&client, "drift-exporter", read_only_rules()).await;
        create_namespace(&client, "shop").await;
        create_stamped(&client, &Kind::deployment(), &deployment("shop", "web")).await;
        create_stamped(&client, &Kind::service(), &service("shop", "web")).await;
    });
    let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), flags).ready();
    let api = Api::namespaced(client, "shop");
    (cluster, api, exporter)
}

#[test]
fn an_edit_is_drift_within_a_second_and_a_revert_ends_it() {
    let (cluster, api, exporter) = shop(&[]);
    assert_eq!(exporter.sample(DRIFTED, WEB), Some(0.0));

    let edited = Instant::now();
    cluster.block_on(patch(&api, "web", "kubectl-edit", json!({"spec": {"replicas": 5}})));
    exporter.wait_for(DRIFTED, WEB, Some(1.0), Duration::from_secs(1));
    println!("edit to visible, the PATCH included: {:?}", edited.elapsed());
    let onset =
        exporter.sample("drift_resource_drifted_timestamp_seconds", &[("actor", "kubectl"), ("name", "web")]);
    println!("onset: {onset:?}");
}
