//! Invalid and forbidden Helm releases.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::types::{BaselineFault, SkipReason, WatchHealth};
use serde_json::json;

use crate::{
    helm_follow::{enabled, manifest, put, release, serial, stored, summary},
    support::{
        followed::{SourceEvent, SourceFixture},
        gzip::gzip,
        state_server::StateServer,
    },
    terraform_state::bomb,
};

#[tokio::test(start_paused = true)]
async fn invalid_release_reports_its_fault_and_affects_no_other() {
    let server = StateServer::default();
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
    let server = StateServer::default();
    let manifest = manifest(&["a", "b"])
        + "---\n# Source: shop/templates/left.yaml\nkind: Service\nmetadata:\n  name: {{ .Values.canary }}\n"
        + &manifest(&["a"]);
    server.put("secrets", stored("shop", 1, "deployed", &release("shop", 1, &manifest)));
    let mut source = SourceFixture::start_releases(&server, enabled());
    let baseline = source.next_baseline().await;
    let skipped: Vec<_> =
        baseline.skipped.iter().map(|resource| (&*resource.address, resource.reason)).collect();
    assert_eq!(baseline.objects.len(), 2);
    assert_eq!(
        skipped,
        [("shop/templates/left.yaml", SkipReason::NotYaml), ("shop/templates/a.yaml", SkipReason::Duplicate)]
    );
}

#[tokio::test(start_paused = true)]
async fn failed_discovery_hides_only_custom_objects() {
    let server = StateServer::default();
    server.serve("example.com/v1", "Fleet", false);
    server.forbid("apis", "");
    let custom = "---\n# Source: c/t/f.yaml\napiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: f}\n";
    let manifest = manifest(&["a"]) + custom;
    server.put("secrets", stored("shop", 1, "deployed", &release("shop", 1, &manifest)));
    let mut source = SourceFixture::start_releases(&server, enabled());
    assert_eq!(source.next_baseline().await.objects.len(), 1);
    assert!(matches!(source.next().await, SourceEvent::Health(WatchHealth::Down { .. })));
    server.allow();
    assert_eq!(source.next_baseline().await.objects.len(), 2);
    source.expect_up().await;
}

#[tokio::test(start_paused = true)]
async fn forbidden_releases_are_retried_with_backoff() {
    let server = StateServer::default();
    put(&server, 1, "deployed", &["a"]);
    server.forbid("secrets", "shop");
    let mut source = SourceFixture::start_releases(&server, enabled());
    assert!(matches!(source.next().await, SourceEvent::Health(WatchHealth::Down { .. })));
    source.expect_no_event(40).await;
    let reads = server.requests().iter().filter(|request| request.name.is_some()).count();
    assert!((5..=7).contains(&reads), "{reads} reads in 40 s");
    server.allow();
    source.next_baseline().await;
    source.expect_up().await;
}
