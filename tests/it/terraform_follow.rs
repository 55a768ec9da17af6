//! Following states in a cluster and in files: what is told, when, and in which order.

use std::{path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    sources::terraform::StateLocations,
    types::{BaselineFault, BaselineOrigin, DownReason, Event, Scope, Source, WatchHealth},
};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    support::{
        followed::{Followed, START, Told, start},
        gzip::gzip,
        state_server::StateServer,
    },
    terraform_state::bomb,
};

fn enabled() -> StateLocations {
    StateLocations { enabled: true, ..StateLocations::default() }
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

fn put_state(server: &StateServer, serial: u64, names: &[&str]) {
    server.put("secrets", secret("terraform", "tfstate-default-shop", &gzip(state(serial, names))));
}

#[tokio::test(start_paused = true)]
async fn all_that_is_there_is_told_of_before_the_source_is_up_and_wanted_after_that() {
    let server = StateServer::default();
    put_state(&server, 7, &["a", "b"]);
    server.put("leases", lease(Some("OperationTypeApply")));
    let other = gzip(state(1, &["c"]));
    let mut bare = secret("ops", "tfstate-default-net", &other);
    bare["metadata"]["labels"] = json!({"tfstate": "true"});
    server.put("secrets", bare);
    let mut password = secret("ops", "password", b"canary");
    password["metadata"]["labels"] = json!({});
    server.put("secrets", password);
    let mut followed = Followed::start(&server, enabled());
    let one = followed.baseline().await;
    // The second one stands in the channel, and whoever tells that the source is up waits for it to be taken.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(followed.wanted().kinds.is_empty());
    let two = followed.baseline().await;
    followed.up().await;
    followed.silent(10).await;
    assert_eq!(
        (&*one.name, one.origin, one.objects.len()),
        ("ops/default/net", BaselineOrigin::StateSecret, 1)
    );
    assert_eq!((&*two.name, two.objects.len()), ("terraform/default/shop", 2));
    let version = two.version.as_ref().unwrap();
    assert_eq!((version.serial, version.written.unwrap().to_string().as_str()), (7, "2026-01-01T11:00:00Z"));
    let lock = two.lock.as_ref().expect("locks are known before the first word");
    assert_eq!((&*lock.who, &*lock.operation), ("ci@runner-7", "OperationTypeApply"));
    assert_eq!(lock.in_flight_until, Some(start() + SignedDuration::from_mins(30)));
    let wanted = followed.wanted();
    assert_eq!(wanted.kinds.len(), 1);
    assert_eq!(
        (wanted.kinds[0].to_string(), &wanted.kinds[0].scope),
        ("v1 ConfigMap".to_owned(), &Scope::new(["shop"], []))
    );
    let sealing = &wanted.documents[&("".into(), "ConfigMap".into())];
    assert_eq!((wanted.documents.len(), sealing.keys().len()), (1, 1));
    for asked in server.requests() {
        let labelled = asked.selector.starts_with("tfstate=true")
            || asked.selector.starts_with("tfdrift.jin.dev/baseline=true");
        assert!(labelled, "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_changes_is_told_once_and_one_that_goes_is_told_gone() {
    let server = StateServer::default();
    put_state(&server, 7, &["a"]);
    let mut followed = Followed::start(&server, enabled());
    let first = followed.baseline().await;
    followed.up().await;
    put_state(&server, 8, &["a", "b"]);
    let second = followed.baseline().await;
    assert_eq!((second.version.as_ref().unwrap().serial, second.objects.len()), (8, 2));
    assert!(Arc::ptr_eq(&first.objects[0], &second.objects[0]), "what did not change is the same");
    // Written again without a change, and rolled back.
    put_state(&server, 8, &["a", "b"]);
    followed.silent(10).await;
    put_state(&server, 6, &["a"]);
    assert_eq!(followed.baseline().await.version.as_ref().unwrap().serial, 6);
    server.delete("secrets", "terraform", "tfstate-default-shop");
    assert!(matches!(followed.next().await, Told::Gone(name) if name == "terraform/default/shop"));
    followed.silent(10).await;
    assert!(followed.wanted().kinds.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_told_no_later_than_the_release_of_its_lock() {
    let server = StateServer::default();
    put_state(&server, 7, &["a"]);
    let mut followed = Followed::start(&server, enabled());
    followed.baseline().await;
    followed.up().await;
    server.put("leases", lease(Some("OperationTypeApply")));
    let locked = followed.baseline().await;
    assert!(locked.is_in_flight(start()) && locked.version.as_ref().unwrap().serial == 7);
    put_state(&server, 8, &["a", "b"]);
    server.put("leases", lease(None));
    let released = loop {
        let told = followed.baseline().await;
        let lock = told.lock.clone().expect("it is locked, or was a moment ago");
        if &*lock.operation == "released" {
            break told;
        }
        assert!(told.is_in_flight(start()));
    };
    assert_eq!((released.version.as_ref().unwrap().serial, released.objects.len()), (8, 2));
    let until = released.lock.as_ref().unwrap().in_flight_until.unwrap();
    assert!(until > start() && until <= start() + SignedDuration::from_secs(3), "{until}");
    let settled = followed.baseline().await;
    assert_eq!((settled.lock.as_ref(), settled.objects.len()), (None, 2));
    followed.silent(10).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_only_plans_changes_no_object() {
    let server = StateServer::default();
    put_state(&server, 7, &["a"]);
    let mut followed = Followed::start(&server, enabled());
    followed.baseline().await;
    followed.up().await;
    server.put("leases", lease(Some("OperationTypePlan")));
    let locked = followed.baseline().await;
    assert!(!locked.is_in_flight(start()) && locked.lock.is_some());
    server.put("leases", lease(None));
    assert_eq!(followed.baseline().await.lock, None);
}

#[tokio::test(start_paused = true)]
async fn what_is_torn_for_a_moment_is_not_told() {
    let server = StateServer::default();
    let packed = gzip(state(7, &["a", "b"]));
    let (one, other) = packed.split_at(packed.len() / 2);
    server.put("secrets", secret("terraform", "tfstate-default-shop", one));
    server.put("secrets", secret("terraform", "tfstate-default-shop-part-1", other));
    let mut followed = Followed::start(&server, enabled());
    assert_eq!(followed.baseline().await.objects.len(), 2);
    followed.up().await;
    let packed = gzip(state(8, &["a", "b", "c"]));
    let (one, other) = packed.split_at(packed.len() / 2);
    server.put("secrets", secret("terraform", "tfstate-default-shop", one));
    followed.silent(3).await;
    server.put("secrets", secret("terraform", "tfstate-default-shop-part-1", other));
    let whole = followed.baseline().await;
    assert_eq!((whole.objects.len(), whole.fault.as_ref()), (3, None));
    // And for longer, it is; what was declared last stays.
    let torn_at = Instant::now();
    server.delete("secrets", "terraform", "tfstate-default-shop-part-1");
    let torn = followed.baseline().await;
    assert!(torn_at.elapsed() >= Duration::from_secs(5) && torn_at.elapsed() < Duration::from_secs(8));
    // One half alone is a truncated state: nobody can tell that there was more.
    let trouble = torn.fault.as_ref().unwrap();
    assert_eq!((trouble.fault, torn.objects.len()), (BaselineFault::Truncated, 3));
    assert!(trouble.message.contains("Secret terraform/tfstate-default-shop"), "{}", trouble.message);
    server.put("secrets", secret("terraform", "tfstate-default-shop-part-1", b"xx"));
    let torn = followed.baseline().await;
    assert_eq!(torn.fault.as_ref().unwrap().fault, BaselineFault::Incomplete);
    server.put("secrets", secret("terraform", "tfstate-default-shop-part-1", other));
    assert_eq!(followed.baseline().await.fault, None);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_forbidden_is_named_and_the_others_go_on() {
    let server = StateServer::default();
    put_state(&server, 7, &["a"]);
    server.forbid("secrets", "ops");
    let sources = StateLocations { scope: Scope::new(["terraform", "ops"], []), ..enabled() };
    let mut followed = Followed::start(&server, sources);
    assert_eq!(&*followed.baseline().await.name, "terraform/default/shop");
    match followed.next().await {
        Told::Source(WatchHealth::Down { reason, message }) => {
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
    assert_eq!(followed.baseline().await.objects.len(), 2);
    server.allow();
    while !matches!(followed.next().await, Told::Source(WatchHealth::Up)) {}
}

#[tokio::test(start_paused = true)]
async fn bad_states_say_what_is_bad_about_them_and_never_what_is_in_them() {
    let server = StateServer::default();
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
    let mut followed = Followed::start(&server, enabled());
    followed.up().await;
    put_state(&server, 7, &["a"]);
    followed.baseline().await;
    for (bytes, fault) in cases {
        server.put("secrets", secret("terraform", "tfstate-default-shop", bytes));
        let told = followed.baseline().await;
        let trouble = told.fault.as_ref().unwrap();
        assert_eq!((trouble.fault, told.objects.len()), (fault, 1), "the last good version stays");
        assert!(
            trouble.message.starts_with("cannot read Secret terraform/tfstate-default-shop: "),
            "{}",
            trouble.message
        );
        assert!(!format!("{told:?}").contains("canary"), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_settings_count_at_once() {
    let server = StateServer::default();
    put_state(&server, 7, &["a"]);
    server.put("secrets", secret("ops", "tfstate-default-shop", &gzip(state(1, &["c"]))));
    let mut followed = Followed::start(&server, StateLocations::default());
    followed.silent(10).await;
    assert!(server.requests().is_empty(), "what is switched off asks for nothing");
    followed.sources.send_replace(Arc::new(enabled()));
    followed.baseline().await;
    followed.baseline().await;
    followed.up().await;
    followed
        .sources
        .send_replace(Arc::new(StateLocations { scope: Scope::new(["terraform"], []), ..enabled() }));
    assert!(matches!(followed.next().await, Told::Gone(name) if name == "ops/default/shop"));
    followed.sources.send_replace(Arc::new(StateLocations {
        scope: Scope::new(["terraform"], []),
        this_cluster: true,
        ..enabled()
    }));
    assert!(followed.baseline().await.this_cluster);
    followed.sources.send_replace(Arc::new(StateLocations::default()));
    assert!(matches!(followed.next().await, Told::Gone(name) if name == "terraform/default/shop"));
    assert!(matches!(followed.changes.recv().await, Some(Event::SourceRemoved(Source::Terraform))));
    followed.silent(10).await;
    assert!(followed.wanted().kinds.is_empty());
}

#[tokio::test(start_paused = true)]
async fn files_are_followed_with_their_locks() {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("shop.tfstate");
    std::fs::write(&file, state(7, &["a"])).unwrap();
    let missing: PathBuf = folder.path().join("missing").join("x.tfstate");
    let server = StateServer::default();
    let files = vec![folder.path().to_owned(), missing.clone()];
    let mut followed = Followed::start(&server, StateLocations { files, ..enabled() });
    let absent = followed.baseline().await;
    assert_eq!(absent.name, missing.display().to_string().into());
    assert!(absent.fault.as_ref().unwrap().message.contains("cannot read file "), "{absent:?}");
    let first = followed.baseline().await;
    assert_eq!((first.origin, &*first.name), (BaselineOrigin::File, &*file.display().to_string()));
    followed.up().await;
    let lock = folder.path().join(".shop.tfstate.lock.info");
    std::fs::write(
        &lock,
        json!({"Operation": "OperationTypeApply", "Who": "me", "Created": START}).to_string(),
    )
    .unwrap();
    assert_eq!(&*followed.baseline().await.lock.as_ref().unwrap().who, "me");
    // Somebody begins to write it anew.
    std::fs::write(&file, "").unwrap();
    followed.silent(3).await;
    // Half written.
    std::fs::write(&file, &state(8, &["a", "b"])[..50]).unwrap();
    followed.silent(3).await;
    std::fs::write(&file, state(8, &["a", "b"])).unwrap();
    assert_eq!(followed.baseline().await.objects.len(), 2);
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(&*followed.baseline().await.lock.as_ref().unwrap().operation, "released");
    assert_eq!(followed.baseline().await.lock, None);
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(followed.next().await, Told::Gone(name) if name == file.display().to_string()));
}
