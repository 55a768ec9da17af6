//! What the exporter sends to be created, with the rights that the chart gives it, and without them: reviews and Events.

use drift_exporter::types::Kind;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::json;

use super::world::{Right, World};
use crate::support::{
    chart::NAME,
    exporter::Exporter,
    objects::{create_stamped, deployment, patch},
    page,
    wait::eventually,
};

fn ask(exporter: &Exporter, token: &str) -> Option<u16> {
    let credentials = format!("Bearer {token}");
    page::get(exporter.port, "/metrics", &[("authorization", &credentials)]).map(|answer| answer.status)
}

/// The rights to write among those that the chart has given.
fn writing(world: &World) -> Vec<Right> {
    world.rights().into_iter().filter(Right::writes).collect()
}

#[test]
fn tokens_are_reviewed_with_the_rights_of_the_chart() {
    let world = World::open();
    for account in ["prometheus", "guest"] {
        world.kubectl.run(&["create", "serviceaccount", account, "-n", "monitoring"], "");
    }
    world.install(
        "web: {auth: kubernetes, metricsReaders: [{kind: ServiceAccount, name: prometheus, namespace: monitoring}]}",
    );
    let (prometheus, guest) = (world.token("prometheus", "monitoring"), world.token("guest", "monitoring"));
    let exporter = world.exporter(&[]).ready();
    assert_eq!(ask(&exporter, &prometheus), Some(200), "{}", exporter.logged());
    assert_eq!(ask(&exporter, &guest), Some(403));
    drop(exporter);
    let rights = writing(&world);
    assert_eq!(rights.len(), 2, "{rights:?}");
    for right in &rights {
        world.without(right, || {
            let exporter = world.exporter(&[]).ready();
            assert_eq!(ask(&exporter, &prometheus), Some(503), "{right:?}: {}", exporter.logged());
        });
    }
}

#[test]
fn events_are_written_with_the_rights_of_the_chart() {
    let world = World::open();
    let client = world.cluster.client();
    world.cluster.block_on(create_stamped(&client, &Kind::deployment(), &deployment("shop", "web")));
    world.install("events: true");
    let deployments: Api<Deployment> = Api::namespaced(client, "shop");
    let labels = [("kind", "Deployment"), ("name", "web")];
    // Two episodes: the first Event is created, the second one is counted by a patch of it.
    let drift_twice = |exporter: &Exporter| {
        for (replicas, value) in [(5, 1.0), (2, 0.0), (6, 1.0), (2, 0.0)] {
            let change = json!({"spec": {"replicas": replicas}});
            world.cluster.block_on(patch(&deployments, "web", "kubectl-edit", change));
            exporter.wait_for("drift_resource_drifted", &labels, Some(value));
        }
    };
    let exporter = world.exporter(&[]).ready();
    drift_twice(&exporter);
    let counted = ["get", "events.events.k8s.io", "-n", "shop", "-o", "jsonpath={.items[*].series.count}"];
    eventually("an Event that was counted", || (!world.kubectl.answer(&counted).is_empty()).then_some(()));
    assert!(!exporter.logged().contains("Cannot write an Event"), "{}", exporter.logged());
    drop(exporter);
    let rights = writing(&world);
    assert_eq!(rights.len(), 2, "{NAME} needs create and patch: {rights:?}");
    for right in &rights {
        world.without(right, || {
            let exporter = world.exporter(&[]).ready();
            drift_twice(&exporter);
            eventually(&format!("{right:?} is missed"), || {
                exporter.logged().contains("Cannot write an Event").then_some(())
            });
        });
    }
}
