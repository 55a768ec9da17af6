//! Watching Helm releases in a cluster: the baselines that it publishes, and the objects that it reads.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    config::{BaselineLimits, ReleaseLocations, Settings},
    event::Event,
    sources::helm::decode,
    types::{
        Baseline, BaselineFault, BaselineOrigin, DownReason, Scope, SkipReason, Source, SyncHealth, WatchMode,
    },
};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::{
    support::{
        api_server::{ApiServer, custom_kind},
        cpu::least_of_three,
        gzip::gzip,
        source::{START, SourceEvent, SourceFixture, start},
        stored::release_secret,
    },
    terraform_state::bomb,
};

pub(crate) fn enabled() -> Settings {
    Settings { sources: vec![Source::Helm], ..Settings::default() }
}

/// A manifest of ConfigMaps, each from its own template.
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

/// A Secret as Helm writes it; `packed` is its content before base64.
pub(crate) fn stored(namespace: &str, revision: u64, status: &str, packed: &[u8]) -> Value {
    let mut secret = release_secret(namespace, "web", revision, status, packed);
    secret["metadata"]["creationTimestamp"] = json!(START);
    secret
}

pub(crate) fn put(server: &ApiServer, revision: u64, status: &str, names: &[&str]) {
    server.put("secrets", stored("shop", revision, status, &release("shop", revision, &manifest(names))));
}

pub(crate) fn serial(baseline: &Baseline) -> u64 {
    baseline.version.as_ref().unwrap().serial
}

/// Revision, number of objects, and the operation in flight.
pub(crate) fn summary(baseline: &Arc<Baseline>) -> (u64, usize, String) {
    let operation =
        baseline.lock.as_ref().map_or("-", |lock| lock.operation.as_deref().unwrap_or("released"));
    (serial(baseline), baseline.objects.len(), operation.to_owned())
}

/// The names of objects that were read individually.
fn reads(server: &ApiServer) -> Vec<String> {
    server.requests().into_iter().filter_map(|request| request.name).collect()
}

#[tokio::test(start_paused = true)]
async fn only_deployed_revisions_are_read() {
    let server = ApiServer::with_source_kinds();
    for revision in 1..10 {
        let status = if revision == 7 { "failed" } else { "superseded" };
        server.put("secrets", stored("shop", revision, status, b"not read"));
    }
    put(&server, 10, "deployed", &["a", "b"]);
    let mut source = SourceFixture::start_releases(&server, enabled());
    let baseline = source.next_baseline().await;
    assert_eq!(summary(&baseline), (10, 2, "-".to_owned()));
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
    source.expect_up().await;
    source.expect_no_event(30).await;
    assert_eq!(reads(&server), ["sh.helm.release.v1.web.v10"]);
    let listed = server.requests().into_iter().filter(|request| request.name.is_none());
    assert!(
        listed.into_iter().all(|request| request.metadata_only && request.label_selector == "owner=helm")
    );
    let wanted = source.requirements();
    assert_eq!(wanted.kinds.iter().map(ToString::to_string).collect::<Vec<_>>(), ["v1 ConfigMap"]);
}

#[tokio::test(start_paused = true)]
async fn upgrade_is_in_flight_until_one_second_after_deployment() {
    let server = ApiServer::with_source_kinds();
    put(&server, 1, "deployed", &["a", "b"]);
    let mut source = SourceFixture::start_releases(&server, enabled());
    let first = source.next_baseline().await;
    source.expect_up().await;
    put(&server, 2, "pending-upgrade", &["a", "c"]);
    let pending = source.next_baseline().await;
    assert_eq!(summary(&pending), (1, 2, "pending-upgrade".to_owned()));
    let lock = pending.lock.as_ref().unwrap();
    assert_eq!(lock.in_flight_until, Some(start() + SignedDuration::from_mins(30)));
    // For a moment no revision is deployed.
    put(&server, 1, "superseded", &["a", "b"]);
    source.expect_no_event(5).await;
    put(&server, 2, "deployed", &["a", "c"]);
    let released = source.next_baseline().await;
    assert_eq!(summary(&released), (2, 2, "released".to_owned()));
    assert!(Arc::ptr_eq(&first.objects[0], &released.objects[0]), "unchanged objects are shared");
    let idle = source.next_baseline().await;
    assert_eq!(summary(&idle), (2, 2, "-".to_owned()));
    let until = released.lock.as_ref().unwrap().in_flight_until.unwrap();
    assert_eq!(until, start() + SignedDuration::from_secs(6));

    // A failed upgrade leaves the deployed revision in place.
    put(&server, 3, "pending-upgrade", &["d"]);
    assert_eq!(summary(&source.next_baseline().await), (2, 2, "pending-upgrade".to_owned()));
    put(&server, 3, "failed", &["d"]);
    assert_eq!(summary(&source.next_baseline().await), (2, 2, "released".to_owned()));
    assert_eq!(summary(&source.next_baseline().await), (2, 2, "-".to_owned()));

    // A failed rollback leaves no revision deployed, so nothing is compared.
    put(&server, 4, "pending-rollback", &["a", "b"]);
    source.next_baseline().await;
    put(&server, 2, "superseded", &["a", "c"]);
    put(&server, 4, "failed", &["a", "b"]);
    let failed = source.next_baseline().await;
    assert_eq!(failed.fault.as_ref().unwrap().fault, BaselineFault::NotDeployed);
    assert_eq!(summary(&failed), (2, 2, "-".to_owned()));
    put(&server, 5, "deployed", &["a"]);
    let healed = source.next_baseline().await;
    assert_eq!((summary(&healed), &healed.fault), ((5, 1, "released".to_owned()), &None));
    source.next_baseline().await;

    // The status `uninstalling` removes the baseline.
    put(&server, 5, "uninstalling", &["a"]);
    assert!(matches!(source.next().await, SourceEvent::Removed(name) if name == "shop/web"));
    for revision in 1..6 {
        server.delete("secrets", "shop", &format!("sh.helm.release.v1.web.v{revision}"));
    }
    source.expect_no_event(60).await;
    assert!(source.requirements().kinds.is_empty());
    let names: Vec<String> = [1, 2, 5].map(|number| format!("sh.helm.release.v1.web.v{number}")).into();
    assert_eq!(reads(&server), names, "each deployed revision was read once");
}

#[tokio::test(start_paused = true)]
async fn pending_upgrade_is_reported_while_another_release_is_read() {
    let server = ApiServer::with_source_kinds();
    put(&server, 1, "deployed", &["a"]);
    let other = |revision, status| {
        server.put("secrets", stored("ops", revision, status, &release("ops", revision, &manifest(&["a"]))));
    };
    other(1, "deployed");
    let mut source = SourceFixture::start_releases(&server, enabled());
    source.next_baseline().await;
    source.next_baseline().await;
    source.expect_up().await;
    let begin = tokio::time::Instant::now();
    server.stall("sh.helm.release.v1.web.v2");
    put(&server, 2, "deployed", &["b"]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(reads(&server).last().unwrap(), "sh.helm.release.v1.web.v2", "the read is in progress");
    other(2, "pending-upgrade");
    let pending = source.next_baseline().await;
    assert_eq!((&*pending.name, summary(&pending).2), ("ops/web", "pending-upgrade".to_owned()));
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pending_upgrade_survives_the_read_of_the_previous_revision() {
    let server = ApiServer::with_source_kinds();
    put(&server, 1, "deployed", &["a"]);
    let mut source = SourceFixture::start_releases(&server, enabled());
    source.next_baseline().await;
    source.expect_up().await;
    put(&server, 2, "deployed", &["b"]);
    put(&server, 3, "pending-upgrade", &["c"]);
    loop {
        let baseline = source.next_baseline().await;
        if serial(&baseline) == 2 {
            assert_eq!(summary(&baseline), (2, 1, "pending-upgrade".to_owned()));
            break;
        }
    }
    source.expect_no_event(60).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_deployed_revision_stays_in_memory() {
    let server = ApiServer::with_source_kinds();
    put(&server, 1, "deployed", &["stays", "name-1"]);
    let mut source = SourceFixture::start_releases(&server, enabled());
    let first = source.next_baseline().await;
    let stays = Arc::downgrade(&first.objects[0]);
    let mut gone = vec![Arc::downgrade(&first.objects[1])];
    drop(first);
    source.expect_up().await;
    for revision in 2..=30 {
        put(&server, revision - 1, "superseded", &["stays"]);
        put(&server, revision, "deployed", &["stays", &format!("name-{revision}")]);
        while serial(&*source.next_baseline().await) < revision {}
        let current = source.next_baseline().await;
        assert_eq!(summary(&current), (revision, 2, "-".to_owned()));
        let alive = gone.iter().filter(|object| object.strong_count() > 0).count();
        assert_eq!(alive, 0, "revision {revision}");
        gone.push(Arc::downgrade(&current.objects[1]));
        assert!(std::ptr::eq(stays.as_ptr(), Arc::as_ptr(&current.objects[0])));
    }
    assert_eq!(reads(&server).len(), 30, "each revision was read once, while it was deployed");
}

#[tokio::test(start_paused = true)]
async fn source_resumes_after_a_closed_watch_and_relists_after_410() {
    let server = ApiServer::with_source_kinds();
    put(&server, 1, "deployed", &["a"]);
    let mut source = SourceFixture::start_releases(&server, enabled());
    source.next_baseline().await;
    source.expect_up().await;
    let lists = || {
        let requests = server.requests();
        let of_secrets =
            requests.iter().filter(|request| request.plural == "secrets" && request.name.is_none());
        of_secrets.filter(|request| !request.url.contains("watch=1") && !request.is_probe()).count()
    };
    let newest_watch = || {
        let urls = server.request_urls();
        urls.into_iter().rfind(|url| url.contains("/secrets?") && url.contains("watch=1")).unwrap()
    };
    server.close_watches();
    put(&server, 2, "deployed", &["a", "b"]);
    assert_eq!(serial(&*source.next_baseline().await), 2);
    assert_eq!(lists(), 1, "a closed watch resumes");
    let resumed = newest_watch();
    put(&server, 3, "deployed", &["a", "b"]);
    while serial(&*source.next_baseline().await) < 3 {}
    while timeout(Duration::from_secs(40), source.events.recv()).await.is_ok() {}
    server.compact_history();
    server.close_watches();
    server.delete("secrets", "shop", "sh.helm.release.v1.web.v3");
    // The source is down until it has listed again.
    while !matches!(source.next().await, SourceEvent::Baseline(baseline) if serial(&baseline) <= 2) {}
    assert_eq!(lists(), 2, "a version that is too old relists");
    assert_ne!(newest_watch(), resumed, "the watch continues after its newest event");
}

#[tokio::test(start_paused = true)]
async fn malformed_storage_object_is_an_error_and_keeps_the_releases() {
    let server = ApiServer::with_source_kinds();
    put(&server, 1, "deployed", &["a"]);
    let mut source = SourceFixture::start_releases(&server, enabled());
    source.next_baseline().await;
    source.expect_up().await;
    let mut malformed = stored("shop", 1, "deployed", b"");
    malformed["metadata"]["annotations"] = json!("canary");
    server.put("secrets", malformed);
    for request in ["cannot watch", "cannot list"] {
        match source.next().await {
            SourceEvent::Health(SyncHealth::Down { reason: DownReason::Error, message }) => {
                assert!(
                    message.starts_with(request) && message.ends_with("the response is malformed"),
                    "{message}"
                );
            }
            other => panic!("{other:?}"),
        }
        server.compact_history();
    }
    source.expect_no_event(90).await;
    put(&server, 1, "deployed", &["a"]);
    source.expect_up().await;
}

#[tokio::test(start_paused = true)]
async fn new_release_is_in_flight_before_it_is_compared() {
    let server = ApiServer::with_source_kinds();
    let mut source = SourceFixture::start_releases(&server, enabled());
    source.expect_up().await;
    put(&server, 1, "pending-install", &["a"]);
    source.expect_no_event(10).await;
    put(&server, 1, "deployed", &["a"]);
    assert_eq!(summary(&source.next_baseline().await), (1, 1, "released".to_owned()));
    assert_eq!(summary(&source.next_baseline().await), (1, 1, "-".to_owned()));
    // Labels of other tools have no effect.
    let mut labelled = stored("shop", 1, "deployed", &release("shop", 1, &manifest(&["a"])));
    labelled["metadata"]["labels"]["backup"] = json!("done");
    server.put("secrets", labelled);
    source.expect_no_event(10).await;
}

#[tokio::test(start_paused = true)]
async fn discovery_decides_whether_custom_kinds_are_namespaced() {
    let server = ApiServer::with_source_kinds();
    server.serve(&[custom_kind("Fleet")]);
    let custom = |kind: &str| {
        format!(
            "---\n# Source: c/t/{kind}.yaml\napiVersion: example.com/v1\nkind: {kind}\nmetadata: {{name: a}}\n"
        )
    };
    let manifest = custom("Fleet") + &custom("Widget");
    server.put("secrets", stored("shop", 1, "deployed", &release("shop", 1, &manifest)));
    let mut source = SourceFixture::start_releases(&server, enabled());
    let namespaces = |baseline: &Baseline| -> Vec<String> {
        baseline.objects.iter().map(|declared| declared.object.namespace.to_string()).collect()
    };
    assert_eq!(namespaces(&*source.next_baseline().await), ["", "shop"]);
    source.expect_up().await;
    // A CustomResourceDefinition that is created later corrects the scope.
    server.serve(&[custom_kind("Fleet"), custom_kind("Widget")]);
    assert_eq!(namespaces(&*source.next_baseline().await), ["", ""]);
}

#[tokio::test(start_paused = true)]
async fn both_storage_drivers_are_watched_and_forbidden_is_reported() {
    let server = ApiServer::with_source_kinds();
    put(&server, 1, "deployed", &["a"]);
    let mut map = stored("shop", 1, "deployed", b"");
    map["kind"] = json!("ConfigMap");
    map["data"]["release"] = json!(STANDARD.encode(release("shop", 1, &manifest(&["b"]))));
    server.put("configmaps", map);
    let mut source = SourceFixture::start_releases(&server, enabled());
    let (one, other) = (source.next_baseline().await, source.next_baseline().await);
    assert_eq!((&*one.name, one.origin), ("shop/web", BaselineOrigin::HelmSecret));
    assert_eq!((&*other.name, other.origin), ("shop/web (ConfigMap)", BaselineOrigin::HelmConfigMap));
    source.expect_up().await;

    let scope = Scope::new(["ops"], []);
    source.set(Settings { helm: ReleaseLocations { scope, ..ReleaseLocations::default() }, ..enabled() });
    for _ in 0..2 {
        assert!(matches!(source.next().await, SourceEvent::Removed(name) if name.starts_with("shop/web")));
    }
    server.forbid("secrets", "ops");
    source.set(Settings::default());
    assert!(matches!(source.events.recv().await, Some(Event::SourceRemoved(Source::Helm))));
    let scope = Scope::new(["ops"], []);
    source.set(Settings { helm: ReleaseLocations { scope, ..ReleaseLocations::default() }, ..enabled() });
    match source.next().await {
        SourceEvent::Health(SyncHealth::Down { reason, message }) => {
            assert_eq!(reason, DownReason::Forbidden);
            assert!(message.contains("list Secrets with label owner=helm in namespace ops"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

/// The stored release has one MiB, most of it the chart.
#[test]
#[expect(clippy::print_stdout, reason = "the test prints its measurement")]
fn large_release_decodes_fast() {
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
    let (took, decoded) = least_of_three(|| decode(packed.as_bytes(), &BaselineLimits::default()).unwrap());
    assert_eq!(decoded.manifest.len(), manifest.len());
    println!("decoded a release of {} KiB in {took:?} of CPU time", packed.len() >> 10);
    let most = if cfg!(debug_assertions) { 600 } else { 30 };
    assert!(took.as_millis() < most, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn invalid_release_reports_its_fault_and_affects_no_other() {
    let server = ApiServer::with_source_kinds();
    put(&server, 1, "deployed", &["a"]);
    server.put("secrets", stored("ops", 1, "deployed", &release("ops", 1, &manifest(&["a"]))));
    let mut source = SourceFixture::start_releases(&server, enabled());
    source.next_baseline().await;
    source.next_baseline().await;
    source.expect_up().await;
    let whole = release("shop", 2, &manifest(&["a"]));
    let mut damaged = whole.clone();
    let at = damaged.len() - 6;
    damaged[at] ^= 1;
    let case = |packed: &[u8], fault| (stored("shop", 1, "deployed", packed), fault);
    let mut invalid_base64 = stored("shop", 1, "deployed", b"");
    invalid_base64["data"]["release"] = json!(STANDARD.encode("{canary}"));
    let cases = [
        case(&whole[..whole.len() - 9], BaselineFault::Truncated),
        case(&damaged, BaselineFault::Unreadable),
        case(&bomb(1024), BaselineFault::TooLarge),
        case(&gzip(b"[\"canary\"]"), BaselineFault::Unreadable),
        case(&release("ops", 2, &manifest(&["canary"])), BaselineFault::Foreign),
        case(b"canary", BaselineFault::Unreadable),
        case(b"", BaselineFault::Truncated),
        (invalid_base64, BaselineFault::Unreadable),
    ];
    for (object, fault) in cases {
        server.put("secrets", object);
        let baseline = source.next_baseline().await;
        let error = baseline.fault.as_ref().unwrap();
        assert_eq!(
            (&*baseline.name, error.fault, baseline.objects.len()),
            ("shop/web", fault, 1),
            "the last valid baseline is kept"
        );
        assert!(error.message.contains("release shop/web"), "{}", error.message);
        assert!(!format!("{baseline:?}").contains("canary"), "{baseline:?}");
    }

    // A release without gzip is valid, and so is one of 5 MB.
    let plain = json!({"name": "web", "namespace": "shop", "version": 3, "manifest": manifest(&["a", "b"])});
    server.put("secrets", stored("shop", 3, "deployed", plain.to_string().as_bytes()));
    let healed = source.next_baseline().await;
    assert_eq!((serial(&healed), healed.objects.len(), &healed.fault), (3, 2, &None));
    source.next_baseline().await;
    let mut random = fastrand::Rng::with_seed(1);
    let noise: String = std::iter::repeat_with(|| random.alphanumeric()).take(6 << 20).collect();
    let large = json!({"name": "web", "namespace": "shop", "version": 4, "config": noise, "manifest": manifest(&["a"])});
    let large = gzip(large.to_string());
    assert!(large.len() > 4 << 20, "{}", large.len());
    server.put("secrets", stored("shop", 4, "deployed", &large));
    assert_eq!(summary(&source.next_baseline().await), (4, 1, "released".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn invalid_documents_are_reported_as_skipped() {
    let server = ApiServer::with_source_kinds();
    let manifest = manifest(&["a", "b"])
        + "---\n# Source: shop/templates/left.yaml\nkind: Service\nmetadata:\n  name: {{ .Values.canary }}\n"
        + &manifest(&["a"]);
    server.put("secrets", stored("shop", 1, "deployed", &release("shop", 1, &manifest)));
    let mut source = SourceFixture::start_releases(&server, enabled());
    let baseline = source.next_baseline().await;
    let skipped: Vec<_> =
        baseline.skipped.listed().iter().map(|resource| (&*resource.address, resource.reason)).collect();
    assert_eq!(baseline.objects.len(), 2);
    assert_eq!(
        skipped,
        [("shop/templates/left.yaml", SkipReason::NotYaml), ("shop/templates/a.yaml", SkipReason::Duplicate)]
    );
}

#[tokio::test(start_paused = true)]
async fn failed_discovery_hides_only_custom_objects() {
    let server = ApiServer::with_source_kinds();
    server.serve(&[custom_kind("Fleet")]);
    server.forbid("apis", "");
    let custom = "---\n# Source: c/t/f.yaml\napiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: f}\n";
    let manifest = manifest(&["a"]) + custom;
    server.put("secrets", stored("shop", 1, "deployed", &release("shop", 1, &manifest)));
    let mut source = SourceFixture::start_releases(&server, enabled());
    assert_eq!(source.next_baseline().await.objects.len(), 1);
    assert!(matches!(source.next().await, SourceEvent::Health(SyncHealth::Down { .. })));
    server.allow();
    assert_eq!(source.next_baseline().await.objects.len(), 2);
    source.expect_up().await;
}

#[tokio::test(start_paused = true)]
async fn forbidden_releases_are_retried_with_backoff() {
    let server = ApiServer::with_source_kinds();
    put(&server, 1, "deployed", &["a"]);
    server.forbid("secrets", "shop");
    let mut source = SourceFixture::start_releases(&server, enabled());
    assert!(matches!(source.next().await, SourceEvent::Health(SyncHealth::Down { .. })));
    source.expect_no_event(40).await;
    let reads = server.requests().iter().filter(|request| request.name.is_some()).count();
    assert!((5..=7).contains(&reads), "{reads} reads in 40 s");
    server.allow();
    source.next_baseline().await;
    source.expect_up().await;
}

#[tokio::test(start_paused = true)]
async fn releases_are_read_with_bounded_concurrency() {
    const COUNT: usize = 200;
    let server = ApiServer::with_source_kinds();
    for at in 0..COUNT {
        let namespace = format!("shop-{at}");
        server.put("secrets", stored(&namespace, 1, "deployed", &release(&namespace, 1, &manifest(&["a"]))));
    }
    server.set_latency(Duration::from_millis(50));
    let begin = Instant::now();
    let mut source = SourceFixture::start_releases(&server, enabled());
    let mut names = BTreeSet::new();
    for _ in 0..COUNT {
        names.insert(source.next_baseline().await.name.to_string());
    }
    source.expect_up().await;
    assert_eq!(names.len(), COUNT);
    // Eight at a time: not sequentially, and not all at once.
    let took = begin.elapsed();
    assert!((1200..2000).contains(&took.as_millis()), "{took:?}");
    source.expect_no_event(60).await;
}

#[tokio::test(start_paused = true)]
async fn one_shot_read_skips_releases_deleted_meanwhile() {
    let server = ApiServer::with_source_kinds();
    put(&server, 1, "deployed", &["a"]);
    server.put("secrets", stored("other", 1, "deployed", &release("other", 1, &manifest(&["b"]))));
    server.return_not_found("sh.helm.release.v1.web.v1");
    let mut source = SourceFixture::start_releases_with(&server, enabled(), WatchMode::Once);
    let update = source.next().await;
    assert!(matches!(update, SourceEvent::Health(_)), "only the end of the read is reported: {update:?}");

    // After a concurrent upgrade, the listed revision is no longer deployed.
    let server = ApiServer::with_source_kinds();
    put(&server, 1, "deployed", &["a"]);
    server.set_latency(Duration::from_secs(1));
    let mut source = SourceFixture::start_releases_with(&server, enabled(), WatchMode::Once);
    tokio::time::sleep(Duration::from_millis(500)).await;
    put(&server, 1, "superseded", &["a"]);
    let update = source.next().await;
    assert!(matches!(update, SourceEvent::Health(_)), "{update:?}");
}
