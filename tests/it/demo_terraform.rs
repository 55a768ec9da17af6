//! The Terraform state of the demo compared with its objects, before and during the story.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    demo::{Cluster, Shop, StoryEvent, play_story},
    diff::{pack_live_object, terraform::sensitive_fields},
    engine::{ClaimDetails, ClaimEntry},
    sources::terraform::{TerraformState, decode},
    types::{Clock, DeclaredObject, Kind, LiveObject, ObjectRef, RedactionKey, RedactionPolicy},
};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Duration, sleep},
};

use crate::support::diff::diff;

fn shop() -> Shop {
    Shop::open(Clock::system(), "example.com").unwrap()
}

fn object(cluster: &Cluster, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
    let kind = Cluster::resolve_kind(api_version, kind).unwrap();
    cluster.objects(&kind).remove(&(namespace.into(), name.into()))
}

fn state(cluster: &Cluster) -> TerraformState {
    let secret = object(cluster, "v1", "Secret", "terraform", "tfstate-default-payments").unwrap();
    let bytes = STANDARD.decode(secret["data"]["tfstate"].as_str().unwrap()).unwrap();
    let state = decode(&bytes, &RedactionKey::new([7; 32])).unwrap();
    assert_eq!(state.skipped, []);
    state
}

fn live(cluster: &Cluster, name: &ObjectRef) -> Option<Value> {
    object(cluster, &name.api_version(), &name.kind, &name.namespace, &name.name)
}

/// Differences between state and objects by address: paths with their field manager, `missing` or `replaced`.
fn drift(cluster: &Cluster) -> BTreeMap<String, Vec<String>> {
    let mut drift = BTreeMap::new();
    for declared in state(cluster).objects {
        let found = match live(cluster, &declared.object) {
            None => vec!["missing".to_owned()],
            Some(live) if live["metadata"]["uid"].as_str() != declared.uid.as_deref() => {
                vec!["replaced".to_owned()]
            }
            Some(live) => diff(&declared, &live)
                .findings
                .into_iter()
                .map(|found| {
                    let manager = found.owner.map_or("unknown".into(), |owner| owner.manager.to_string());
                    format!("{} by {manager}", found.path)
                })
                .collect(),
        };
        if !found.is_empty() {
            drift.insert(declared.address.to_string(), found);
        }
    }
    drift
}

#[test]
fn without_story_every_object_matches_the_state() {
    let shop = shop();
    let state = state(shop.cluster());
    let addresses: Vec<&str> = state.objects.iter().map(|object| &*object.address).collect();
    assert!(addresses.contains(&"module.checkout[\"eu\"].kubernetes_deployment_v1.api"), "{addresses:?}");
    assert_eq!(addresses.len(), 8);
    assert_eq!(drift(shop.cluster()), BTreeMap::new());
    let rates = object(shop.cluster(), "v1", "ConfigMap", "payments", "exchange-rates").unwrap();
    assert_eq!(rates["metadata"]["managedFields"][0]["manager"], "HashiCorp");
    for ((namespace, name), deployment) in
        shop.cluster().objects(&Cluster::resolve_kind("apps/v1", "Deployment").unwrap())
    {
        assert_eq!(
            deployment["status"]["readyReplicas"], deployment["spec"]["replicas"],
            "{namespace}/{name}"
        );
    }
}

/// The serial of the state, and the operation that holds its lock.
fn version(cluster: &Cluster) -> (u64, Option<String>) {
    let lock =
        object(cluster, "coordination.k8s.io/v1", "Lease", "terraform", "lock-tfstate-default-payments")
            .unwrap();
    let lock_info = lock["metadata"]["annotations"]["app.terraform.io/lock-info"].as_str();
    assert_eq!(lock_info.is_some(), lock["spec"]["holderIdentity"].is_string(), "{lock}");
    let operation = lock_info.map(|lock_info| {
        let lock_info: Value = serde_json::from_str(lock_info).unwrap();
        assert_eq!(lock_info["ID"], lock["spec"]["holderIdentity"]);
        format!("{} by {}", lock_info["Operation"].as_str().unwrap(), lock_info["Who"].as_str().unwrap())
    });
    (state(cluster).serial, operation)
}

#[tokio::test(start_paused = true)]
async fn story_drifts_objects_and_resolves_every_drift() {
    let shop = shop();
    let cluster = shop.cluster().clone();
    let (story_events, mut story_receiver) = mpsc::channel(1);
    tokio::spawn(play_story(shop, 1.0, story_events));
    let (first_serial, _) = version(&cluster);
    let (mut observed_drift, mut locked) = (Vec::new(), BTreeSet::new());
    let mut before = drift(&cluster);
    while let Some(StoryEvent::Action { command, .. }) = story_receiver.recv().await {
        // The event precedes its action, and the next action is seconds away.
        sleep(Duration::from_millis(1)).await;
        let now = drift(&cluster);
        let name = |address: &str| address.replace("kubernetes_", "");
        for (address, found) in now.iter().filter(|(address, _)| !before.contains_key(*address)) {
            observed_drift.push(format!("+ {} {}", name(address), found.join(", ")));
        }
        for address in before.keys().filter(|address| !now.contains_key(*address)) {
            observed_drift.push(format!("- {}", name(address)));
        }
        before = now;
        locked.extend(version(&cluster).1);
        if command.starts_with("Apply complete!") {
            break;
        }
    }
    assert_eq!(
        observed_drift,
        [
            "+ module.checkout[\"eu\"].deployment_v1.api spec.replicas by kubectl",
            "+ deployment_v1.refunds spec.template.spec.containers[name=refunds].image by kubectl-set",
            "+ module.checkout[\"us\"].deployment_v1.api spec.replicas by kube-controller-manager",
            "+ config_map_v1.rates data.GBP by kubectl-edit",
            "+ secret_v1.psp data.password by kubectl-edit",
            "+ network_policy_v1.refunds missing",
            // Reverted manually.
            "- module.checkout[\"eu\"].deployment_v1.api",
            // The state absorbed the live value.
            "- deployment_v1.refunds",
            "- module.checkout[\"us\"].deployment_v1.api",
            // The apply, which holds the lock.
            "- config_map_v1.rates",
            "- network_policy_v1.refunds",
            "- secret_v1.psp",
        ]
    );
    assert_eq!(locked, ["OperationTypeApply by ci@runner-7".to_owned()].into());
    assert_eq!(version(&cluster), (first_serial + 2, None), "two writes of the state, and the lock is free");
    let policy = object(&cluster, "networking.k8s.io/v1", "NetworkPolicy", "payments", "refunds").unwrap();
    assert_eq!(policy["metadata"]["managedFields"][0]["manager"], "HashiCorp");
}

#[test]
fn cached_object_and_declaration_stay_small() {
    let shop = shop();
    for declared in state(shop.cluster()).objects {
        let name = &declared.object;
        let live = live(shop.cluster(), name).unwrap();
        let texts = [&declared.address, &declared.resource_type, &name.name, &name.namespace];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        let kind = Kind::undiscovered(&name.group, &name.version, &name.kind);
        let mut redaction = RedactionPolicy::new(RedactionKey::new([7; 32]));
        redaction.add_fields(name, sensitive_fields(&declared));
        let cached = pack_live_object(live, &kind, &redaction);
        let packed = declared.body.packed().unwrap().bytes().len() + cached.packed.bytes().len();
        let structs = size_of::<DeclaredObject>()
            + size_of::<LiveObject>()
            + size_of::<ClaimEntry>()
            + size_of::<ClaimDetails>();
        let cached = packed + 2 * texts + structs;
        assert!(cached < 2 << 10, "{}: {cached} bytes, {packed} of them packed", declared.address);
    }
}
