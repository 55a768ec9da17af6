//! Releases that are broken, or may not be read.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::types::{BaselineFault, SkipReason, WatchHealth};
use serde_json::json;

use crate::{
    helm_follow::{enabled, manifest, put, release, serial, stored, told},
    support::{
        followed::{Followed, Told},
        gzip::gzip,
        state_server::StateServer,
    },
    terraform_state::bomb,
};

#[tokio::test(start_paused = true)]
async fn bad_releases_say_what_is_bad_about_them_and_leave_the_others_alone() {
    let server = StateServer::default();
    put(&server, 1, "deployed", &["a"]);
    server.put("secrets", stored("ops", 1, "deployed", &release("ops", 1, &manifest(&["a"]))));
    let mut followed = Followed::start_releases(&server, enabled());
    followed.baseline().await;
    followed.baseline().await;
    followed.up().await;
    let whole = release("shop", 2, &manifest(&["a"]));
    let mut damaged = whole.clone();
    let at = damaged.len() - 6;
    damaged[at] ^= 1;
    let case = |packed: &[u8], fault| (stored("shop", 1, "deployed", packed), fault);
    let mut no_base64 = stored("shop", 1, "deployed", b"");
    no_base64["data"]["release"] = json!(STANDARD.encode("{canary}"));
    let cases = [
        case(&whole[..whole.len() - 9], BaselineFault::Truncated),
        case(&damaged, BaselineFault::Unreadable),
        case(&bomb(1024), BaselineFault::TooLarge),
        case(&gzip(b"[\"canary\"]"), BaselineFault::Unreadable),
        case(&release("ops", 2, &manifest(&["canary"])), BaselineFault::Foreign),
        case(b"canary", BaselineFault::Unreadable),
        case(b"", BaselineFault::Truncated),
        (no_base64, BaselineFault::Unreadable),
    ];
    for (object, fault) in cases {
        server.put("secrets", object);
        let told = followed.baseline().await;
        let trouble = told.fault.as_ref().unwrap();
        assert_eq!(
            (&*told.name, trouble.fault, told.objects.len()),
            ("shop/web", fault, 1),
            "the last good one stays"
        );
        assert!(trouble.message.contains("release shop/web"), "{}", trouble.message);
        assert!(!format!("{told:?}").contains("canary"), "{told:?}");
    }

    // Without gzip it is as good, and so is one of 5 MB.
    let plain = json!({"name": "web", "namespace": "shop", "version": 3, "manifest": manifest(&["a", "b"])});
    server.put("secrets", stored("shop", 3, "deployed", plain.to_string().as_bytes()));
    let healed = followed.baseline().await;
    assert_eq!((serial(&healed), healed.objects.len(), &healed.fault), (3, 2, &None));
    followed.baseline().await;
    let mut random = fastrand::Rng::with_seed(1);
    let noise: String = std::iter::repeat_with(|| random.alphanumeric()).take(6 << 20).collect();
    let large = json!({"name": "web", "namespace": "shop", "version": 4, "config": noise, "manifest": manifest(&["a"])});
    let large = gzip(large.to_string());
    assert!(large.len() > 4 << 20, "{}", large.len());
    server.put("secrets", stored("shop", 4, "deployed", &large));
    assert_eq!(told(&followed.baseline().await), (4, 1, "released".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn documents_that_are_no_objects_are_told_and_the_others_count() {
    let server = StateServer::default();
    let manifest = manifest(&["a", "b"])
        + "---\n# Source: shop/templates/left.yaml\nkind: Service\nmetadata:\n  name: {{ .Values.canary }}\n"
        + &manifest(&["a"]);
    server.put("secrets", stored("shop", 1, "deployed", &release("shop", 1, &manifest)));
    let mut followed = Followed::start_releases(&server, enabled());
    let baseline = followed.baseline().await;
    let skipped: Vec<_> = baseline.skipped.iter().map(|own| (&*own.address, own.reason)).collect();
    assert_eq!(baseline.objects.len(), 2);
    assert_eq!(
        skipped,
        [("shop/templates/left.yaml", SkipReason::NotYaml), ("shop/templates/a.yaml", SkipReason::Duplicate)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_group_that_nobody_answers_for_hides_its_own_objects_only() {
    let server = StateServer::default();
    server.serve("example.com/v1", "Fleet", false);
    server.forbid("/apis/example.com/v1", "");
    let custom = "---\n# Source: c/t/f.yaml\napiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: f}\n";
    let manifest = manifest(&["a"]) + custom;
    server.put("secrets", stored("shop", 1, "deployed", &release("shop", 1, &manifest)));
    let mut followed = Followed::start_releases(&server, enabled());
    assert_eq!(followed.baseline().await.objects.len(), 1);
    assert!(matches!(followed.next().await, Told::Source(WatchHealth::Down { .. })));
    server.allow();
    assert_eq!(followed.baseline().await.objects.len(), 2);
    followed.up().await;
}

#[tokio::test(start_paused = true)]
async fn releases_that_may_not_be_read_are_asked_for_less_and_less_and_hold_up_nothing() {
    let server = StateServer::default();
    put(&server, 1, "deployed", &["a"]);
    server.forbid("secrets", "shop");
    let mut followed = Followed::start_releases(&server, enabled());
    assert!(matches!(followed.next().await, Told::Source(WatchHealth::Down { .. })));
    followed.silent(40).await;
    let asked = server.requests().iter().filter(|asked| asked.name.is_some()).count();
    assert!((5..=7).contains(&asked), "{asked} times in 40 s");
    server.allow();
    followed.baseline().await;
    followed.up().await;
}
