//! Following Helm releases in a cluster: what is told, when, and what is never asked for.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    sources::helm::{ReleaseLocations, decode},
    types::{Baseline, BaselineFault, BaselineOrigin, DownReason, Event, Scope, Source, WatchHealth},
};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    programs::cpu::least_of_three,
    support::{
        followed::{Followed, START, Told, start},
        gzip::gzip,
        state_server::StateServer,
    },
};

pub(crate) fn enabled() -> ReleaseLocations {
    ReleaseLocations { enabled: true, ..ReleaseLocations::default() }
}

/// The manifest of some ConfigMaps, each from a template of its own.
pub(crate) fn manifest(names: &[&str]) -> String {
    let document = |name: &&str| {
        format!(
            "---\n# Source: shop/templates/{name}.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n"
        )
    };
    names.iter().map(document).collect()
}

pub(crate) fn release(namespace: &str, revision: u64, manifest: &str) -> Vec<u8> {
    let release = json!({
        "name": "web", "info": {"first_deployed": START, "last_deployed": START, "status": "deployed", "notes": "canary"},
        "chart": {"metadata": {"name": "shop", "version": "1.2.0", "appVersion": "7"}, "templates": [{"name": "a", "data": "canary"}], "values": {"a": "canary"}},
        "config": {"password": "canary"}, "manifest": manifest, "hooks": [{"manifest": "canary"}], "version": revision, "namespace": namespace,
    });
    gzip(release.to_string())
}

/// A Secret or ConfigMap as Helm writes it; `packed` is what it holds, before base64.
pub(crate) fn stored(namespace: &str, revision: u64, status: &str, packed: &[u8]) -> Value {
    let labels = json!({"owner": "helm", "name": "web", "status": status, "version": revision.to_string()});
    let metadata = json!({"name": format!("sh.helm.release.v1.web.v{revision}"), "namespace": namespace, "labels": labels,
        "creationTimestamp": START});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "helm.sh/release.v1",
        "data": {"release": STANDARD.encode(STANDARD.encode(packed))}})
}

pub(crate) fn put(server: &StateServer, revision: u64, status: &str, names: &[&str]) {
    server.put("secrets", stored("shop", revision, status, &release("shop", revision, &manifest(names))));
}

pub(crate) fn serial(baseline: &Baseline) -> u64 {
    baseline.version.as_ref().unwrap().serial
}

/// Revision, number of objects, and what is being done.
pub(crate) fn told(baseline: &Arc<Baseline>) -> (u64, usize, String) {
    let operation = baseline.lock.as_ref().map_or("-", |lock| &*lock.operation);
    (serial(baseline), baseline.objects.len(), operation.to_owned())
}

/// The names of objects that were asked for one by one.
fn got(server: &StateServer) -> Vec<String> {
    server.requests().into_iter().filter_map(|asked| asked.name).collect()
}

#[tokio::test(start_paused = true)]
async fn only_what_is_deployed_is_ever_read() {
    let server = StateServer::default();
    for revision in 1..10 {
        let status = if revision == 7 { "failed" } else { "superseded" };
        server.put("secrets", stored("shop", revision, status, b"nobody reads this"));
    }
    put(&server, 10, "deployed", &["a", "b"]);
    let mut followed = Followed::start_releases(&server, enabled());
    let baseline = followed.baseline().await;
    assert_eq!(told(&baseline), (10, 2, "-".to_owned()));
    assert_eq!(
        (&*baseline.name, baseline.origin, baseline.this_cluster),
        ("shop/web", BaselineOrigin::HelmSecret, true)
    );
    let version = baseline.version.as_ref().unwrap();
    assert_eq!((&*version.lineage, version.written), (&*format!("web {START}"), Some(start())));
    assert_eq!(version.chart.as_ref().unwrap().to_string(), "shop-1.2.0");
    let object = &baseline.objects[1];
    assert_eq!((&*object.address, &*object.object.namespace), ("shop/templates/b.yaml", "shop"));
    assert!(!format!("{baseline:?}").contains("canary"));
    followed.up().await;
    followed.silent(30).await;
    assert_eq!(got(&server), ["sh.helm.release.v1.web.v10"]);
    let listed = server.requests().into_iter().filter(|asked| asked.name.is_none());
    assert!(listed.into_iter().all(|asked| asked.metadata_only && asked.selector == "owner=helm"));
    let wanted = followed.wanted();
    assert_eq!(wanted.kinds.iter().map(ToString::to_string).collect::<Vec<_>>(), ["v1 ConfigMap"]);
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_is_in_flight_until_a_second_after_its_revision_is_deployed() {
    let server = StateServer::default();
    put(&server, 1, "deployed", &["a", "b"]);
    let mut followed = Followed::start_releases(&server, enabled());
    let first = followed.baseline().await;
    followed.up().await;
    put(&server, 2, "pending-upgrade", &["a", "c"]);
    let pending = followed.baseline().await;
    assert_eq!(told(&pending), (1, 2, "pending-upgrade".to_owned()));
    let lock = pending.lock.as_ref().unwrap();
    assert_eq!(lock.in_flight_until, Some(start() + SignedDuration::from_mins(30)));
    // For a moment none is deployed.
    put(&server, 1, "superseded", &["a", "b"]);
    followed.silent(5).await;
    put(&server, 2, "deployed", &["a", "c"]);
    let released = followed.baseline().await;
    assert_eq!(told(&released), (2, 2, "released".to_owned()));
    assert!(Arc::ptr_eq(&first.objects[0], &released.objects[0]), "what did not change is the same");
    let settled = followed.baseline().await;
    assert_eq!(told(&settled), (2, 2, "-".to_owned()));
    let until = released.lock.as_ref().unwrap().in_flight_until.unwrap();
    assert_eq!(until, start() + SignedDuration::from_secs(6));

    // One that fails leaves what is deployed, one that hangs is not waited for.
    put(&server, 3, "pending-upgrade", &["d"]);
    assert_eq!(told(&followed.baseline().await), (2, 2, "pending-upgrade".to_owned()));
    put(&server, 3, "failed", &["d"]);
    assert_eq!(told(&followed.baseline().await), (2, 2, "released".to_owned()));
    assert_eq!(told(&followed.baseline().await), (2, 2, "-".to_owned()));

    // A rollback that fails leaves nothing deployed, and what was is no longer compared.
    put(&server, 4, "pending-rollback", &["a", "b"]);
    followed.baseline().await;
    put(&server, 2, "superseded", &["a", "c"]);
    put(&server, 4, "failed", &["a", "b"]);
    let failed = followed.baseline().await;
    assert_eq!(failed.fault.as_ref().unwrap().fault, BaselineFault::NotDeployed);
    assert_eq!(told(&failed), (2, 2, "-".to_owned()));
    put(&server, 5, "deployed", &["a"]);
    let healed = followed.baseline().await;
    assert_eq!((told(&healed), &healed.fault), ((5, 1, "released".to_owned()), &None));
    followed.baseline().await;

    // The first word of an uninstall ends it.
    put(&server, 5, "uninstalling", &["a"]);
    assert!(matches!(followed.next().await, Told::Gone(name) if name == "shop/web"));
    for revision in 1..6 {
        server.delete("secrets", "shop", &format!("sh.helm.release.v1.web.v{revision}"));
    }
    followed.silent(60).await;
    assert!(followed.wanted().kinds.is_empty());
    let names: Vec<String> = [1, 2, 5].map(|number| format!("sh.helm.release.v1.web.v{number}")).into();
    assert_eq!(got(&server), names, "each that was deployed was read, once");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_is_known_at_once_while_another_release_is_being_read() {
    let server = StateServer::default();
    put(&server, 1, "deployed", &["a"]);
    let other = |revision, status| {
        server.put("secrets", stored("ops", revision, status, &release("ops", revision, &manifest(&["a"]))));
    };
    other(1, "deployed");
    let mut followed = Followed::start_releases(&server, enabled());
    followed.baseline().await;
    followed.baseline().await;
    followed.up().await;
    let begun = tokio::time::Instant::now();
    server.stall("sh.helm.release.v1.web.v2");
    put(&server, 2, "deployed", &["b"]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(got(&server).last().unwrap(), "sh.helm.release.v1.web.v2", "it is being read");
    other(2, "pending-upgrade");
    let pending = followed.baseline().await;
    assert_eq!((&*pending.name, told(&pending).2), ("ops/web", "pending-upgrade".to_owned()));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_begun_right_after_an_upgrade_holds_on_when_that_was_read() {
    let server = StateServer::default();
    put(&server, 1, "deployed", &["a"]);
    let mut followed = Followed::start_releases(&server, enabled());
    followed.baseline().await;
    followed.up().await;
    put(&server, 2, "deployed", &["b"]);
    put(&server, 3, "pending-upgrade", &["c"]);
    loop {
        let baseline = followed.baseline().await;
        if serial(&baseline) == 2 {
            assert_eq!(told(&baseline), (2, 1, "pending-upgrade".to_owned()));
            break;
        }
    }
    followed.silent(60).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_what_is_deployed_now() {
    let server = StateServer::default();
    put(&server, 1, "deployed", &["stays", "name-1"]);
    let mut followed = Followed::start_releases(&server, enabled());
    let first = followed.baseline().await;
    let stays = Arc::downgrade(&first.objects[0]);
    let mut gone = vec![Arc::downgrade(&first.objects[1])];
    drop(first);
    followed.up().await;
    for revision in 2..=30 {
        put(&server, revision - 1, "superseded", &["stays"]);
        put(&server, revision, "deployed", &["stays", &format!("name-{revision}")]);
        while serial(&*followed.baseline().await) < revision {}
        let settled = followed.baseline().await;
        assert_eq!(told(&settled), (revision, 2, "-".to_owned()));
        let alive = gone.iter().filter(|own| own.strong_count() > 0).count();
        assert_eq!(alive, 0, "revision {revision}");
        gone.push(Arc::downgrade(&settled.objects[1]));
        assert!(std::ptr::eq(stays.as_ptr(), Arc::as_ptr(&settled.objects[0])));
    }
    assert_eq!(got(&server).len(), 30, "each was read once, while it was deployed");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_installed_now_settles_before_it_is_judged() {
    let server = StateServer::default();
    let mut followed = Followed::start_releases(&server, enabled());
    followed.up().await;
    put(&server, 1, "pending-install", &["a"]);
    followed.silent(10).await;
    put(&server, 1, "deployed", &["a"]);
    assert_eq!(told(&followed.baseline().await), (1, 1, "released".to_owned()));
    assert_eq!(told(&followed.baseline().await), (1, 1, "-".to_owned()));
    // Labels of other tools change nothing.
    let mut labelled = stored("shop", 1, "deployed", &release("shop", 1, &manifest(&["a"])));
    labelled["metadata"]["labels"]["backup"] = json!("done");
    server.put("secrets", labelled);
    followed.silent(10).await;
}

#[tokio::test(start_paused = true)]
async fn the_server_is_asked_which_custom_kinds_have_namespaces() {
    let server = StateServer::default();
    server.serve("example.com/v1", "Fleet", false);
    let custom = |kind: &str| {
        format!(
            "---\n# Source: c/t/{kind}.yaml\napiVersion: example.com/v1\nkind: {kind}\nmetadata: {{name: a}}\n"
        )
    };
    let manifest = custom("Fleet") + &custom("Widget");
    server.put("secrets", stored("shop", 1, "deployed", &release("shop", 1, &manifest)));
    let mut followed = Followed::start_releases(&server, enabled());
    let places = |baseline: &Baseline| -> Vec<String> {
        baseline.objects.iter().map(|own| own.object.namespace.to_string()).collect()
    };
    assert_eq!(places(&*followed.baseline().await), ["", "shop"]);
    followed.up().await;
    // A definition that comes later says it better.
    server.serve("example.com/v1", "Widget", false);
    assert_eq!(places(&*followed.baseline().await), ["", ""]);
}

#[tokio::test(start_paused = true)]
async fn both_drivers_are_followed_and_what_is_forbidden_is_told() {
    let server = StateServer::default();
    put(&server, 1, "deployed", &["a"]);
    let mut map = stored("shop", 1, "deployed", b"");
    map["kind"] = json!("ConfigMap");
    map["data"]["release"] = json!(STANDARD.encode(release("shop", 1, &manifest(&["b"]))));
    server.put("configmaps", map);
    let mut followed = Followed::start_releases(&server, enabled());
    let (one, other) = (followed.baseline().await, followed.baseline().await);
    assert_eq!((&*one.name, one.origin), ("shop/web", BaselineOrigin::HelmSecret));
    assert_eq!((&*other.name, other.origin), ("shop/web (ConfigMap)", BaselineOrigin::HelmConfigMap));
    followed.up().await;

    let scope = Scope::new(["ops"], []);
    followed.sources.send_replace(Arc::new(ReleaseLocations { scope, ..enabled() }));
    for _ in 0..2 {
        assert!(matches!(followed.next().await, Told::Gone(name) if name.starts_with("shop/web")));
    }
    server.forbid("secrets", "ops");
    followed.sources.send_replace(Arc::new(ReleaseLocations { enabled: false, ..enabled() }));
    assert!(matches!(followed.changes.recv().await, Some(Event::SourceRemoved(Source::Helm))));
    let scope = Scope::new(["ops"], []);
    followed.sources.send_replace(Arc::new(ReleaseLocations { scope, ..enabled() }));
    match followed.next().await {
        Told::Source(WatchHealth::Down { reason, message }) => {
            assert_eq!(reason, DownReason::Forbidden);
            assert!(message.contains("list Secrets with label owner=helm in namespace ops"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

/// A release of a MiB as it is stored, most of it the chart, read within the time of a blink.
#[test]
#[expect(clippy::print_stdout, reason = "it is measured")]
fn a_large_release_is_decoded_in_no_time() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut words =
        |count: usize| -> String { std::iter::repeat_with(|| random.alphanumeric()).take(count).collect() };
    let names: Vec<String> = (0..300).map(|at| format!("map-{at}-{}", words(200).to_lowercase())).collect();
    let manifest = manifest(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let files: Vec<Value> =
        (0..60).map(|at| json!({"name": format!("f{at}"), "data": words(17 << 10)})).collect();
    let release = json!({"name": "web", "namespace": "shop", "version": 1, "chart": {"files": files}, "manifest": manifest});
    let packed = STANDARD.encode(gzip(release.to_string()));
    assert!(packed.len() > 1 << 20, "{}", packed.len());
    let (took, decoded) = least_of_three(|| decode(packed.as_bytes()).unwrap());
    assert_eq!(decoded.manifest.len(), manifest.len());
    println!("a release of {} KiB was decoded in {took:?} of CPU time", packed.len() >> 10);
    let most = if cfg!(debug_assertions) { 600 } else { 30 };
    assert!(took.as_millis() < most, "{took:?}");
}
