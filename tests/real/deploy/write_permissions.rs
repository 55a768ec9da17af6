//! Reviews and Events that the exporter creates, with the chart's permissions and without them.

use drift_exporter::types::Kind;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::json;

use super::fixture::{DeployFixture, Permission};
use crate::support::{
    chart::NAME,
    exporter::Exporter,
    http_client,
    objects::{create_with_hash, deployment, patch},
    wait::eventually,
};

fn get_status(exporter: &Exporter, token: &str) -> Option<u16> {
    let credentials = format!("Bearer {token}");
    http_client::get(exporter.port, "/metrics", &[("authorization", &credentials)])
        .map(|answer| answer.status)
}

/// The chart's permissions to write.
fn write_permissions(fixture: &DeployFixture) -> Vec<Permission> {
    fixture.permissions().into_iter().filter(Permission::writes).collect()
}

#[test]
fn chart_permissions_suffice_for_token_reviews() {
    let fixture = DeployFixture::start();
    for account in ["prometheus", "guest"] {
        fixture.kubectl.run(&["create", "serviceaccount", account, "-n", "monitoring"], "");
    }
    fixture.install(
        "web: {auth: kubernetes, metricsReaders: [{kind: ServiceAccount, name: prometheus, namespace: monitoring}]}",
    );
    let (prometheus, guest) =
        (fixture.token("prometheus", "monitoring"), fixture.token("guest", "monitoring"));
    let exporter = fixture.exporter(&[]).ready();
    assert_eq!(get_status(&exporter, &prometheus), Some(200), "{}", exporter.logged());
    assert_eq!(get_status(&exporter, &guest), Some(403));
    drop(exporter);
    let permissions = write_permissions(&fixture);
    assert_eq!(permissions.len(), 2, "{permissions:?}");
    for permission in &permissions {
        fixture.without(permission, || {
            let exporter = fixture.exporter(&[]).ready();
            assert_eq!(
                get_status(&exporter, &prometheus),
                Some(503),
                "{permission:?}: {}",
                exporter.logged()
            );
        });
    }
}

#[test]
fn chart_permissions_suffice_for_events() {
    let fixture = DeployFixture::start();
    let client = fixture.cluster.client();
    fixture.cluster.block_on(create_with_hash(&client, &Kind::deployment(), &deployment("shop", "web")));
    fixture.install("events: true");
    let deployments: Api<Deployment> = Api::namespaced(client, "shop");
    let labels = [("kind", "Deployment"), ("name", "web")];
    // Two episodes: the first creates the Event, the second one patches its count.
    let drift_twice = |exporter: &Exporter| {
        for (replicas, value) in [(5, 1.0), (2, 0.0), (6, 1.0), (2, 0.0)] {
            let change = json!({"spec": {"replicas": replicas}});
            fixture.cluster.block_on(patch(&deployments, "web", "kubectl-edit", change));
            exporter.wait_for("drift_resource_drifted", &labels, Some(value));
        }
    };
    let exporter = fixture.exporter(&[]).ready();
    drift_twice(&exporter);
    let counted = ["get", "events.events.k8s.io", "-n", "shop", "-o", "jsonpath={.items[*].series.count}"];
    eventually("an Event that was counted", || (!fixture.kubectl.answer(&counted).is_empty()).then_some(()));
    assert!(!exporter.logged().contains("Cannot write an Event"), "{}", exporter.logged());
    drop(exporter);
    let permissions = write_permissions(&fixture);
    assert_eq!(permissions.len(), 2, "{NAME} needs create and patch: {permissions:?}");
    for permission in &permissions {
        fixture.without(permission, || {
            let exporter = fixture.exporter(&[]).ready();
            drift_twice(&exporter);
            eventually(&format!("{permission:?} is reported as missing"), || {
                exporter.logged().contains("Cannot write an Event").then_some(())
            });
        });
    }
}
