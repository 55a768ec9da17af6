//! The Terraform source: states and locks in Secrets, Leases and files, and the order of its events.

use std::{path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    config::{Settings, StateLocations},
    event::Event,
    types::{BaselineFault, BaselineOrigin, DownReason, GroupKind, Scope, Source, SyncHealth},
};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    support::{
        api_server::ApiServer,
        gzip::gzip,
        source::{START, SourceEvent, SourceFixture, start},
    },
    terraform_state::bomb,
};

fn enabled() -> Settings {
    states(StateLocations::default())
}

fn states(terraform: StateLocations) -> Settings {
    Settings { sources: vec![Source::Terraform], terraform, ..Settings::default() }
}

fn state(serial: u64, names: &[&str]) -> String {
    let resources: Vec<Value> = names
        .iter()
        .map(|name| {
            let attributes = json!({"id": format!("shop/{name}"), "data": {"a": "b"}, "metadata": [{"name": name, "namespace": "shop"}]});
            json!({"mode": "managed", "type": "kubernetes_config_map_v1", "name": name, "instances": [{"attributes": attributes}]})
        })
        .collect();
    json!({"version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": "l", "resources": resources}).to_string()
}

pub(crate) fn secret(namespace: &str, name: &str, bytes: &[u8]) -> Value {
    let labels = json!({"tfstate": "true", "tfstateWorkspace": "default", "tfstateSecretSuffix": "shop"});
    let managed = json!([{"manager": "HashiCorp", "time": "2026-01-01T11:00:00Z"}]);
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace, "labels": labels, "managedFields": managed},
        "data": {"tfstate": STANDARD.encode(bytes)}})
}

fn lease(operation: Option<&str>) -> Value {
    let info = json!({"ID": "1", "Operation": operation, "Who": "ci@runner-7", "Created": START}).to_string();
    let mut lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {},
        "metadata": {"name": "lock-tfstate-default-shop", "namespace": "terraform", "labels": {"tfstate": "true"}}});
    if operation.is_some() {
        lease["spec"]["holderIdentity"] = json!("1");
        lease["metadata"]["annotations"] = json!({"app.terraform.io/lock-info": info});
    }
    lease
}

fn put_state(server: &ApiServer, serial: u64, names: &[&str]) {
    server.put("secrets", secret("terraform", "tfstate-default-shop", &gzip(state(serial, names))));
}

#[tokio::test(start_paused = true)]
async fn all_states_are_sent_before_the_source_is_up() {
    let server = ApiServer::with_source_kinds();
    put_state(&server, 7, &["a", "b"]);
    server.put("leases", lease(Some("OperationTypeApply")));
    let other = gzip(state(1, &["c"]));
    let mut bare = secret("ops", "tfstate-default-net", &other);
    bare["metadata"]["labels"] = json!({"tfstate": "true"});
    server.put("secrets", bare);
    let mut password = secret("ops", "password", b"canary");
    password["metadata"]["labels"] = json!({});
    server.put("secrets", password);
    let mut source = SourceFixture::start(&server, enabled());
    let one = source.next_baseline().await;
    // The second baseline fills the channel, so the source cannot send that it is up.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(source.requirements().kinds.is_empty());
    let two = source.next_baseline().await;
    source.expect_up().await;
    source.expect_no_event(10).await;
    // They are read at the same time.
    let [one, two] = if one.name < two.name { [one, two] } else { [two, one] };
    assert_eq!(
        (&*one.name, one.origin, one.objects.len()),
        ("ops/default/net", BaselineOrigin::StateSecret, 1)
    );
    assert_eq!((&*two.name, two.objects.len()), ("terraform/default/shop", 2));
    let version = two.version.as_ref().unwrap();
    assert_eq!((version.serial, version.written.unwrap().to_string().as_str()), (7, "2026-01-01T11:00:00Z"));
    let lock = two.lock.as_ref().expect("locks are read before the first event");
    assert_eq!((&*lock.who, lock.operation.as_deref()), ("ci@runner-7", Some("OperationTypeApply")));
    assert_eq!(lock.in_flight_until, Some(start() + SignedDuration::from_mins(30)));
    let wanted = source.requirements();
    assert_eq!(wanted.kinds.len(), 1);
    assert_eq!(
        (wanted.kinds[0].to_string(), &wanted.kinds[0].scope),
        ("v1 ConfigMap".to_owned(), &Scope::new(["shop"], []))
    );
    let redaction = &wanted.documents[&GroupKind::new("", "ConfigMap").into_owned()];
    assert_eq!((wanted.documents.len(), redaction.keys().len()), (1, 1));
    for request in server.requests() {
        let labelled = request.label_selector.starts_with("tfstate=true")
            || request.label_selector.starts_with("tfdrift.jin.dev/baseline=true");
        assert!(labelled, "{request:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn changed_state_is_sent_once_and_deleted_state_is_removed() {
    let server = ApiServer::with_source_kinds();
    put_state(&server, 7, &["a"]);
    let mut source = SourceFixture::start(&server, enabled());
    let first = source.next_baseline().await;
    source.expect_up().await;
    put_state(&server, 8, &["a", "b"]);
    let second = source.next_baseline().await;
    assert_eq!((second.version.as_ref().unwrap().serial, second.objects.len()), (8, 2));
    assert!(Arc::ptr_eq(&first.objects[0], &second.objects[0]), "an unchanged object is the same allocation");
    // Written again without a change, then rolled back.
    put_state(&server, 8, &["a", "b"]);
    source.expect_no_event(10).await;
    put_state(&server, 6, &["a"]);
    assert_eq!(source.next_baseline().await.version.as_ref().unwrap().serial, 6);
    server.delete("secrets", "terraform", "tfstate-default-shop");
    assert!(matches!(source.next().await, SourceEvent::Removed(name) if name == "terraform/default/shop"));
    source.expect_no_event(10).await;
    assert!(source.requirements().kinds.is_empty());
}

#[tokio::test(start_paused = true)]
async fn new_state_is_sent_before_its_lock_release() {
    let server = ApiServer::with_source_kinds();
    put_state(&server, 7, &["a"]);
    let mut source = SourceFixture::start(&server, enabled());
    source.next_baseline().await;
    source.expect_up().await;
    server.put("leases", lease(Some("OperationTypeApply")));
    let locked = source.next_baseline().await;
    assert!(locked.is_in_flight(start()) && locked.version.as_ref().unwrap().serial == 7);
    put_state(&server, 8, &["a", "b"]);
    server.put("leases", lease(None));
    let released = loop {
        let current = source.next_baseline().await;
        let lock = current.lock.clone().expect("locked or just released");
        if lock.operation.is_none() {
            break current;
        }
        assert!(current.is_in_flight(start()));
    };
    assert_eq!((released.version.as_ref().unwrap().serial, released.objects.len()), (8, 2));
    let until = released.lock.as_ref().unwrap().in_flight_until.unwrap();
    assert!(until > start() && until <= start() + SignedDuration::from_secs(3), "{until}");
    let unlocked = source.next_baseline().await;
    assert_eq!((unlocked.lock.as_ref(), unlocked.objects.len()), (None, 2));
    source.expect_no_event(10).await;
}

#[tokio::test(start_paused = true)]
async fn plan_lock_is_not_in_flight() {
    let server = ApiServer::with_source_kinds();
    put_state(&server, 7, &["a"]);
    let mut source = SourceFixture::start(&server, enabled());
    source.next_baseline().await;
    source.expect_up().await;
    server.put("leases", lease(Some("OperationTypePlan")));
    let locked = source.next_baseline().await;
    assert!(!locked.is_in_flight(start()) && locked.lock.is_some());
    server.put("leases", lease(None));
    assert_eq!(source.next_baseline().await.lock, None);
}

#[tokio::test(start_paused = true)]
async fn incomplete_state_is_reported_only_after_five_seconds() {
    let server = ApiServer::with_source_kinds();
    let packed = gzip(state(7, &["a", "b"]));
    let (one, other) = packed.split_at(packed.len() / 2);
    server.put("secrets", secret("terraform", "tfstate-default-shop", one));
    server.put("secrets", secret("terraform", "tfstate-default-shop-part-1", other));
    let mut source = SourceFixture::start(&server, enabled());
    assert_eq!(source.next_baseline().await.objects.len(), 2);
    source.expect_up().await;
    let packed = gzip(state(8, &["a", "b", "c"]));
    let (one, other) = packed.split_at(packed.len() / 2);
    server.put("secrets", secret("terraform", "tfstate-default-shop", one));
    source.expect_no_event(3).await;
    server.put("secrets", secret("terraform", "tfstate-default-shop-part-1", other));
    let whole = source.next_baseline().await;
    assert_eq!((whole.objects.len(), whole.fault.as_ref()), (3, None));
    // After five seconds the fault is reported; the last declared objects stay.
    let deleted_at = Instant::now();
    server.delete("secrets", "terraform", "tfstate-default-shop-part-1");
    let incomplete = source.next_baseline().await;
    assert!(deleted_at.elapsed() >= Duration::from_secs(5) && deleted_at.elapsed() < Duration::from_secs(8));
    // The first part alone is a truncated state: nothing shows that another part existed.
    let error = incomplete.fault.as_ref().unwrap();
    assert_eq!((error.fault, incomplete.objects.len()), (BaselineFault::Truncated, 3));
    assert!(error.message.contains("Secret terraform/tfstate-default-shop"), "{}", error.message);
    server.put("secrets", secret("terraform", "tfstate-default-shop-part-1", b"xx"));
    let incomplete = source.next_baseline().await;
    assert_eq!(incomplete.fault.as_ref().unwrap().fault, BaselineFault::Incomplete);
    server.put("secrets", secret("terraform", "tfstate-default-shop-part-1", other));
    assert_eq!(source.next_baseline().await.fault, None);
}

#[tokio::test(start_paused = true)]
async fn forbidden_namespace_is_reported_and_others_continue() {
    let server = ApiServer::with_source_kinds();
    put_state(&server, 7, &["a"]);
    server.forbid("secrets", "ops");
    let scope = Scope::new(["terraform", "ops"], []);
    let settings = states(StateLocations { scope, ..StateLocations::default() });
    let mut source = SourceFixture::start(&server, settings);
    assert_eq!(&*source.next_baseline().await.name, "terraform/default/shop");
    match source.next().await {
        SourceEvent::Health(SyncHealth::Down { reason, message }) => {
            assert_eq!(reason, DownReason::Forbidden);
            for word in
                ["list Secrets with label tfstate=true in namespace ops", "forbidden", "drift-exporter check"]
            {
                assert!(message.contains(word), "{message}");
            }
        }
        other => panic!("{other:?}"),
    }
    put_state(&server, 8, &["a", "b"]);
    assert_eq!(source.next_baseline().await.objects.len(), 2);
    server.allow();
    while !matches!(source.next().await, SourceEvent::Health(SyncHealth::Up)) {}
}

#[tokio::test(start_paused = true)]
async fn invalid_states_report_their_fault_without_values() {
    let server = ApiServer::with_source_kinds();
    let encrypted =
        r#"{"serial":1,"lineage":"a","meta":{},"encrypted_data":"canary","encryption_version":"v0"}"#;
    let whole = gzip(state(7, &["a"]));
    let bomb = bomb(8);
    let cases: [(&[u8], BaselineFault); 5] = [
        (&gzip(r#"{"version":3,"modules":["canary"]}"#), BaselineFault::UnsupportedVersion),
        (&gzip(encrypted), BaselineFault::Encrypted),
        (&whole[..whole.len() - 9], BaselineFault::Truncated),
        (b"canary", BaselineFault::Unreadable),
        (&bomb, BaselineFault::TooLarge),
    ];
    let mut source = SourceFixture::start(&server, enabled());
    source.expect_up().await;
    put_state(&server, 7, &["a"]);
    source.next_baseline().await;
    for (bytes, fault) in cases {
        server.put("secrets", secret("terraform", "tfstate-default-shop", bytes));
        let current = source.next_baseline().await;
        let error = current.fault.as_ref().unwrap();
        assert_eq!((error.fault, current.objects.len()), (fault, 1), "the last valid version stays");
        assert!(
            error.message.starts_with("cannot read Secret terraform/tfstate-default-shop: "),
            "{}",
            error.message
        );
        assert!(!format!("{current:?}").contains("canary"), "{current:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn settings_changes_take_effect_at_once() {
    let server = ApiServer::with_source_kinds();
    put_state(&server, 7, &["a"]);
    server.put("secrets", secret("ops", "tfstate-default-shop", &gzip(state(1, &["c"]))));
    let mut source = SourceFixture::start(&server, Settings::default());
    source.expect_no_event(10).await;
    assert!(server.requests().is_empty(), "a disabled source sends no requests");
    source.set(enabled());
    source.next_baseline().await;
    source.next_baseline().await;
    source.expect_up().await;
    let limited = StateLocations { scope: Scope::new(["terraform"], []), ..StateLocations::default() };
    source.set(states(limited.clone()));
    assert!(matches!(source.next().await, SourceEvent::Removed(name) if name == "ops/default/shop"));
    source.set(states(StateLocations { this_cluster: true, ..limited }));
    assert!(source.next_baseline().await.this_cluster);
    source.set(Settings::default());
    assert!(matches!(source.next().await, SourceEvent::Removed(name) if name == "terraform/default/shop"));
    assert!(matches!(source.events.recv().await, Some(Event::SourceRemoved(Source::Terraform))));
    source.expect_no_event(10).await;
    assert!(source.requirements().kinds.is_empty());
}

#[tokio::test(start_paused = true)]
async fn state_files_and_locks_are_polled() {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("shop.tfstate");
    std::fs::write(&file, state(7, &["a"])).unwrap();
    let missing: PathBuf = folder.path().join("missing").join("x.tfstate");
    let server = ApiServer::with_source_kinds();
    let files = vec![folder.path().to_owned(), missing.clone()];
    let mut source =
        SourceFixture::start(&server, states(StateLocations { files, ..StateLocations::default() }));
    let absent = source.next_baseline().await;
    assert_eq!(absent.name, missing.display().to_string().into());
    assert!(absent.fault.as_ref().unwrap().message.contains("cannot read file "), "{absent:?}");
    let first = source.next_baseline().await;
    assert_eq!((first.origin, &*first.name), (BaselineOrigin::File, &*file.display().to_string()));
    source.expect_up().await;
    let lock = folder.path().join(".shop.tfstate.lock.info");
    std::fs::write(
        &lock,
        json!({"Operation": "OperationTypeApply", "Who": "me", "Created": START}).to_string(),
    )
    .unwrap();
    assert_eq!(&*source.next_baseline().await.lock.as_ref().unwrap().who, "me");
    // A writer truncates the file.
    std::fs::write(&file, "").unwrap();
    source.expect_no_event(3).await;
    // The file is half written.
    std::fs::write(&file, &state(8, &["a", "b"])[..50]).unwrap();
    source.expect_no_event(3).await;
    std::fs::write(&file, state(8, &["a", "b"])).unwrap();
    assert_eq!(source.next_baseline().await.objects.len(), 2);
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(source.next_baseline().await.lock.as_ref().unwrap().operation, None);
    assert_eq!(source.next_baseline().await.lock, None);
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(source.next().await, SourceEvent::Removed(name) if name == file.display().to_string()));
}
