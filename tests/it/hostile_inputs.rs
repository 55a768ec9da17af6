//! Inputs that exceed a limit: they are `too_large` and do not affect other inputs.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    config::{
        BaselineLimits, LimitExceeded, Limits, NamespaceLimits, Overrides, Settings, TeamRulesSettings, load,
        read_yaml,
    },
    rules::{RuleConfig, RuleSet, RuleSpec},
    sources::{
        read_objects,
        terraform::{self, ReadError},
    },
    types::{
        Baseline, BaselineFault, Difference, FieldValue, RedactionKey, Scope, Selector, Severity, SkipReason,
        Source, TrustedNamespaces, Verdict, VerdictKind,
    },
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    helm_source::{enabled, manifest},
    support::{
        api_server::{ApiServer, ServerFault},
        exporter_fixture::ExporterFixture,
        gzip::gzip,
        live_objects::{deployment, edited},
        source::{SourceEvent, SourceFixture},
        stored::release_secret,
    },
    terraform_source,
};

/// A Secret of Helm with a release of this name, and a chart that hides the compression ratio of its manifest.
pub(crate) fn release(namespace: &str, name: &str, revision: u64, manifest: &str) -> Value {
    let mut random = fastrand::Rng::with_seed(1);
    let noise = (manifest.len() / 60).min(900 << 10);
    let chart: String = std::iter::repeat_with(|| random.alphanumeric()).take(noise).collect();
    with_manifest(namespace, name, revision, manifest, &chart)
}

fn with_manifest(namespace: &str, name: &str, revision: u64, manifest: &str, chart: &str) -> Value {
    let text = json!({"name": name, "namespace": namespace, "version": revision, "manifest": manifest, "config": chart});
    release_secret(namespace, name, revision, "deployed", &gzip(text.to_string()))
}

/// A ConfigMap with a value in YAML.
fn config_map(value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  a: {value}\n")
}

/// Anchors that contain aliases of each other: `width` to the power of `levels` values.
fn alias_bomb(width: usize, levels: usize) -> String {
    let level = |at: usize| {
        let of = if at == 0 { "x".to_owned() } else { format!("*a{}", at - 1) };
        format!("a{at}: &a{at} [{}]\n", vec![of; width].join(","))
    };
    (0..levels).map(level).collect::<String>() + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
}

/// Documents whose aliases each stay within the limits of one document.
fn many_alias_bombs(count: usize) -> String {
    ["---\n", &alias_bomb(9, 5)].concat().repeat(count)
}

fn is_too_large(baseline: &Baseline, setting: &str) -> bool {
    baseline.fault.as_ref().is_some_and(|error| {
        error.fault == BaselineFault::TooLarge && error.message.ends_with(&format!("or raise {setting}"))
    })
}

#[test]
fn each_limit_is_reported_with_its_setting() {
    let limits = BaselineLimits::default();
    for (text, exceeded) in [
        (config_map(&format!("[{}]", "1,".repeat(600_000))), limits.nodes_exceeded()),
        (config_map(&format!("[{}]", "{a: 1},".repeat(60_000))), limits.nodes_exceeded()),
        (format!("[{}]", "1,".repeat(600_000)), limits.nodes_exceeded()),
        (format!("[{}1]", "{},".repeat(100_000)), limits.nodes_exceeded()),
        (config_map(&format!("{}{}", "[".repeat(65), "]".repeat(65))), limits.depth_exceeded()),
        ("---\n".repeat(50_001), limits.documents_exceeded()),
        (alias_bomb(9, 9), limits.nodes_exceeded()),
        (many_alias_bombs(100), limits.work_exceeded()),
    ] {
        let read = read_objects(&text, &limits).map(|objects| objects.len());
        assert_eq!(read, Err(exceeded), "{}", &text[..text.len().min(60)]);
    }
}

#[test]
fn largest_honest_inputs_are_read() {
    // A chart of custom resource definitions.
    let schema = |at: usize| {
        format!(
            "        field{at}: {{type: object, description: \"{}\", properties: {{name: {{type: string}}}}}}\n",
            "text ".repeat(40)
        )
    };
    let properties: String = (0..1000).map(schema).collect();
    let definition = |at: usize| {
        format!(
            "---\n# Source: c/crds/{at}.yaml\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: c{at}.example.com}}\nspec:\n  versions:\n  - schema:\n      properties:\n{properties}"
        )
    };
    let text: String = (0..36).map(definition).collect();
    assert!(text.len() > 10_000_000, "{}", text.len());
    let objects = read_objects(&text, &BaselineLimits::default()).unwrap();
    assert!(objects.len() == 36 && objects.iter().all(Result::is_ok));
    // A state of 50 MB, most of it of another provider.
    let other = json!({"mode": "managed", "type": "aws_instance", "name": "a", "instances": [{"attributes": {"user_data": "x".repeat(50_000)}}]});
    let own = json!({"mode": "managed", "type": "kubernetes_config_map", "name": "a", "instances": [{"attributes": {
        "data": {"a": "b".repeat(1000)}, "metadata": [{"name": "a", "namespace": "shop"}]}}]});
    let resources = vec![other.to_string(); 1000].join(",");
    let state = format!(r#"{{"version":4,"serial":1,"lineage":"l","resources":[{resources},{own}]}}"#);
    assert!(state.len() > 50_000_000);
    let decoded = terraform::decode(state.as_bytes(), &RedactionKey::new([7; 32])).unwrap();
    assert_eq!(decoded.objects.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn poisoned_releases_delay_neither_readiness_nor_another_namespace() {
    const POISONED: usize = 12;
    let server = ApiServer::with_source_kinds();
    let baseline = BaselineLimits { work: 20_000, ..BaselineLimits::default() };
    let limits = Limits { baseline, ..Limits::default() };
    for at in 0..POISONED {
        server.put("secrets", release("evil", &format!("r{at}"), 1, &many_alias_bombs(400)));
    }
    server.put("secrets", release("shop", "web", 1, &manifest(&["a"])));
    let mut source = SourceFixture::start_releases(&server, Settings { limits, ..enabled() });
    let mut published: Vec<Arc<Baseline>> = Vec::new();
    while let SourceEvent::Baseline(baseline) = source.next().await {
        published.push(baseline);
    }
    let (own, poisoned): (Vec<_>, Vec<_>) =
        published.iter().partition(|baseline| &*baseline.name == "shop/web");
    assert_eq!((own.len(), own[0].objects.len()), (1, 1), "the source is up with the release of others");
    assert!(poisoned.len() <= 4, "{} poisoned releases delayed it", poisoned.len());
    assert!(poisoned.iter().all(|baseline| is_too_large(baseline, "limits.baseline.work")), "{poisoned:?}");

    server.put("secrets", release("shop", "web", 2, &manifest(&["a", "b"])));
    let mut before = 0;
    loop {
        let baseline = source.next_baseline().await;
        if &*baseline.name == "shop/web" && baseline.objects.len() == 2 {
            break;
        }
        before += usize::from(baseline.name.starts_with("evil/"));
    }
    assert!(before <= 3, "{before} poisoned releases were read before it");
}

#[tokio::test(start_paused = true)]
async fn namespace_cannot_exceed_its_share_of_claims_and_baselines() {
    let server = ApiServer::with_source_kinds();
    let namespace = NamespaceLimits { claims: 5, baselines: 2, ..NamespaceLimits::default() };
    let limits = Limits { namespace, ..Limits::default() };
    server.put("secrets", release("evil", "r1", 1, &manifest(&["a", "b", "c"])));
    let mut source = SourceFixture::start_releases(&server, Settings { limits, ..enabled() });
    assert_eq!(source.next_baseline().await.objects.len(), 3);
    source.expect_up().await;
    server.put("secrets", release("evil", "r2", 1, &manifest(&["d", "e", "f"])));
    let second = source.next_baseline().await;
    assert!(second.objects.is_empty() && is_too_large(&second, "limits.namespace.claims"), "{second:?}");
    server.put("secrets", release("shop", "web", 1, &manifest(&["a", "b", "c"])));
    assert_eq!(source.next_baseline().await.fault, None, "another namespace has a share of its own");
    while !matches!(source.next().await, SourceEvent::Baseline(baseline) if baseline.lock.is_none()) {}
    // The exporter reads it again when its namespace has a free share.
    server.delete("secrets", "evil", "sh.helm.release.v1.r1.v1");
    assert!(matches!(source.next().await, SourceEvent::Removed(name) if name == "evil/r1"));
    let second = source.next_baseline().await;
    assert_eq!((second.objects.len(), &second.fault), (3, &None));
    while !matches!(source.next().await, SourceEvent::Baseline(baseline) if baseline.lock.is_none()) {}
    for name in ["r3", "r4"] {
        server.put("secrets", release("evil", name, 1, ""));
    }
    let mut last = source.next_baseline().await;
    while last.fault.is_none() {
        last = source.next_baseline().await;
    }
    assert!(is_too_large(&last, "limits.namespace.baselines"), "{last:?}");
}

/// Documents without an object once counted against no limit of a namespace.
#[tokio::test(start_paused = true)]
async fn skipped_documents_use_the_share_of_a_namespace_and_are_listed_in_part() {
    let server = ApiServer::with_source_kinds();
    let namespace = NamespaceLimits { claims: 400, ..NamespaceLimits::default() };
    let limits = Limits { namespace, ..Limits::default() };
    let document = |at: usize| format!("---\n# Source: c/{at}.yaml\na: b\n");
    let documents = |count: usize| (0..count).map(document).collect::<String>();
    server.put("secrets", release("evil", "r1", 1, &(documents(250) + &manifest(&["a"]))));
    let mut source = SourceFixture::start_releases(&server, Settings { limits, ..enabled() });
    let first = source.next_baseline().await;
    assert_eq!((first.objects.len(), first.skipped.len(), first.skipped.listed().len()), (1, 250, 100));
    assert_eq!(first.skipped.count(SkipReason::NoIdentity), 250);
    source.expect_up().await;
    server.put("secrets", release("evil", "r2", 1, &documents(150)));
    let second = source.next_baseline().await;
    assert!(second.skipped.is_empty() && is_too_large(&second, "limits.namespace.claims"), "{second:?}");
    // Fewer skipped documents free a share.
    server.put("secrets", release("evil", "r1", 2, &documents(249)));
    server.delete("secrets", "evil", "sh.helm.release.v1.r1.v1");
    let mut next = source.next_baseline().await;
    while &*next.name != "evil/r2" {
        next = source.next_baseline().await;
    }
    assert_eq!((next.skipped.len(), &next.fault), (150, &None));
}

#[test]
fn skipped_resources_of_published_baselines_count_as_objects() {
    let skipped = json!({"address": "a", "resource_type": "kubernetes_a", "reason": "unknown_type"});
    let text =
        json!({"drift_baseline": 1, "name": "prod", "serial": 1, "lineage": "l", "terraform_version": "1",
        "published": "2026-01-01T00:00:00Z", "key": STANDARD.encode([7; 32]), "objects": [],
        "skipped": vec![skipped; 9]})
        .to_string();
    let limits = |objects| BaselineLimits { objects, ..BaselineLimits::default() };
    assert!(terraform::PublishedBaseline::read(text.as_bytes(), &limits(9)).is_ok());
    let exceeded = terraform::PublishedBaseline::read(text.as_bytes(), &limits(8)).unwrap_err();
    assert!(matches!(exceeded, ReadError::TooLarge(limit) if limit == limits(8).objects_exceeded()));
}

#[tokio::test(start_paused = true)]
async fn trusted_namespace_has_a_larger_share_of_claims() {
    let server = ApiServer::with_source_kinds();
    for namespace in ["evil", "trusted"] {
        server.put("secrets", release(namespace, "web", 1, &manifest(&["a", "b", "c"])));
    }
    let namespace = NamespaceLimits { claims: 2, trusted_claims: 3, ..NamespaceLimits::default() };
    let mut settings = Settings { limits: Limits { namespace, ..Limits::default() }, ..enabled() };
    settings.helm.trusted_namespaces = TrustedNamespaces::new(["trusted"]);
    let mut source = SourceFixture::start_releases(&server, settings);
    let mut releases = [source.next_baseline().await, source.next_baseline().await];
    releases.sort_by_key(|release| release.name.clone());
    let [evil, trusted] = &releases;
    assert!(is_too_large(evil, "limits.namespace.claims"), "{evil:?}");
    assert_eq!((trusted.objects.len(), &trusted.fault), (3, &None));

    server.put("secrets", release("trusted", "more", 1, &manifest(&["d"])));
    source.expect_up().await;
    assert!(is_too_large(&*source.next_baseline().await, "limits.namespace.trusted_claims"));
}

/// A ConfigMap without data in the cluster, and its manifest with this number of keys.
fn put_map(server: &ApiServer, namespace: &str, name: &str, keys: usize) -> String {
    let metadata = json!({"namespace": namespace, "name": name, "uid": format!("u-{name}")});
    server.put("configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
    let data: Vec<String> = (0..keys).map(|key| format!("k{key}: a")).collect();
    let data = data.join(", ");
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{{data}}}\n")
}

/// For each drifted object in the namespace: its listed differences, and whether one counts the others and is critical.
fn stored_differences(exporter: &ExporterFixture, namespace: &str) -> Vec<(usize, bool)> {
    let snapshot = exporter.snapshot();
    let entries = snapshot.kinds.iter().flat_map(|kind| kind.blocks.entries());
    let drifted = entries.filter(|entry| {
        *entry.key().namespace == *namespace && entry.claim.verdict.kind() == VerdictKind::Drifted
    });
    let count = |verdict: &Verdict| {
        let is_omitted = |difference: &&Difference| {
            matches!(difference.finding.actual, FieldValue::Omitted { .. })
                && difference.severity == Severity::Critical
        };
        let omitted = verdict.differences().filter(is_omitted).count();
        (verdict.differences().count() - omitted, omitted > 0)
    };
    drifted.map(|entry| count(&entry.claim.verdict)).collect()
}

const MANY_MAPS: usize = 200;

/// Each map has as many differences as one comparison lists.
#[tokio::test(start_paused = true)]
async fn differences_of_many_objects_do_not_fill_the_memory() {
    let server = ApiServer::with_source_kinds();
    let manifest: String =
        (0..MANY_MAPS).map(|at| put_map(&server, "evil", &format!("m{at}"), 1000)).collect();
    server.put("secrets", release("evil", "many", 1, &manifest));
    let exporter = ExporterFixture::start_with(&server, enabled());
    let is_drifted = |exporter: &ExporterFixture| stored_differences(exporter, "evil").len() == MANY_MAPS;
    exporter.until("all objects are drifted", std::time::Duration::from_secs(60), is_drifted).await;
    let stored = stored_differences(&exporter, "evil");
    let listed: usize = stored.iter().map(|(listed, _)| listed).sum();
    assert!(listed > 90_000 && listed <= 101_000, "{listed}");
    assert!(stored.iter().all(|(listed, is_omitted)| *listed == 1000 || *is_omitted), "{stored:?}");
}

#[tokio::test(start_paused = true)]
async fn differences_of_a_namespace_share_a_limit_and_are_freed() {
    let server = ApiServer::with_source_kinds();
    let manifest = |namespace: &str, names: &[&str]| -> String {
        names.iter().map(|name| put_map(&server, namespace, name, 4)).collect()
    };
    server.put("secrets", release("evil", "web", 1, &manifest("evil", &["a", "b", "c"])));
    server.put("secrets", release("shop", "web", 1, &manifest("shop", &["d"])));
    let with_limit = |findings: usize| {
        let namespace = NamespaceLimits { findings, ..NamespaceLimits::default() };
        Settings { limits: Limits { namespace, ..Limits::default() }, ..enabled() }
    };
    let exporter = ExporterFixture::start_with(&server, with_limit(6));
    let settle = || tokio::time::sleep(std::time::Duration::from_secs(5));
    let stored = |namespace: &str| {
        let mut stored = stored_differences(&exporter, namespace);
        stored.sort_unstable();
        stored
    };
    settle().await;
    assert_eq!(stored("evil"), [(0, true), (2, true), (4, false)]);
    assert_eq!(stored("shop"), [(4, false)], "another namespace has a limit of its own");

    // A changed limit applies to all of them.
    for (limit, expected) in [
        (12, [(4, false), (4, false), (4, false)]),
        (1, [(0, true), (0, true), (0, true)]),
        (6, [(0, true), (1, true), (4, false)]),
    ] {
        exporter.settings.replace(with_limit(limit));
        settle().await;
        assert_eq!(stored("evil"), expected, "{limit}");
    }

    // The differences of a deleted release do not count.
    server.delete("secrets", "evil", "sh.helm.release.v1.web.v1");
    settle().await;
    assert_eq!(stored("evil"), []);
    server.put("secrets", release("evil", "other", 1, &manifest("evil", &["e"])));
    settle().await;
    assert_eq!(stored("evil"), [(4, false)]);

    // A trusted namespace has no such limit.
    let mut trusting = with_limit(1);
    trusting.trust(&TrustedNamespaces::new(["evil"]));
    exporter.settings.replace(trusting);
    settle().await;
    assert_eq!(stored("evil"), [(4, false)]);
}

#[tokio::test(start_paused = true)]
async fn excess_baselines_of_a_namespace_are_neither_read_nor_listed() {
    let server = ApiServer::with_source_kinds();
    let namespace = NamespaceLimits { baselines: 2, ..NamespaceLimits::default() };
    let settings = |namespace| Settings { limits: Limits { namespace, ..Limits::default() }, ..enabled() };
    for at in 0..9 {
        server.put("secrets", release("evil", &format!("r{at}"), 1, &manifest(&["a"])));
    }
    server.put("secrets", release("shop", "web", 1, &manifest(&["a"])));
    let mut source = SourceFixture::start_releases(&server, settings(namespace));
    let mut published = Vec::new();
    while let SourceEvent::Baseline(baseline) = source.next().await {
        published.push((baseline.name.to_string(), is_too_large(&baseline, "limits.namespace.baselines")));
    }
    published.sort();
    let expected = [("evil/r0", false), ("evil/r1", false), ("evil/r2", true), ("shop/web", false)];
    assert_eq!(published, expected.map(|(name, is_too_large)| (name.to_owned(), is_too_large)));
    let reads = || {
        let urls = server.request_urls();
        urls.iter().filter(|url| url.contains("/evil/secrets/sh.helm.release.v1.r")).count()
    };
    assert_eq!(reads(), 2);
    // Another one reports the excess once this one is read.
    server.delete("secrets", "evil", "sh.helm.release.v1.r0.v1");
    assert!(matches!(source.next().await, SourceEvent::Removed(name) if name == "evil/r0"));
    let mut next = source.next_baseline().await;
    assert_eq!((&*next.name, &next.fault), ("evil/r2", &None));
    while &*next.name != "evil/r3" {
        next = source.next_baseline().await;
    }
    assert!(is_too_large(&next, "limits.namespace.baselines"), "{next:?}");
    assert_eq!(reads(), 3);
    source.set(settings(NamespaceLimits::default()));
    while &*next.name != "evil/r8" {
        next = source.next_baseline().await;
    }
    assert_eq!(next.fault, None);
}

#[tokio::test(start_paused = true)]
async fn raised_limit_reads_the_baseline_again() {
    let server = ApiServer::with_source_kinds();
    server.put("secrets", release("shop", "web", 1, &manifest(&["a", "b", "c"])));
    let with_objects = |objects| {
        let limits =
            Limits { baseline: BaselineLimits { objects, ..BaselineLimits::default() }, ..Limits::default() };
        Settings { limits, ..enabled() }
    };
    let mut source = SourceFixture::start_releases(&server, with_objects(2));
    let baseline = source.next_baseline().await;
    assert!(is_too_large(&baseline, "limits.baseline.objects"), "{baseline:?}");
    source.expect_up().await;
    source.set(with_objects(3));
    assert_eq!(source.next_baseline().await.objects.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn text_that_inflates_beyond_a_limit_is_reported() {
    let limits = BaselineLimits { inflated_bytes: 40_000, text_bytes: 30_000, ..BaselineLimits::default() };
    let state =
        format!(r#"{{"version":4,"serial":1,"lineage":"l","resources":[],"a":"{}"}}"#, "x".repeat(40_000));
    let state = terraform_source::secret("shop", "tfstate-default-shop", &gzip(state));
    let long = release("shop", "web", 1, &config_map(&"x".repeat(30_000)));
    let bomb = with_manifest("shop", "web", 1, &config_map(&"x".repeat(8 << 20)), "");
    for (object, source, baseline, exceeded) in [
        (long, Source::Helm, limits, limits.text_exceeded()),
        (state, Source::Terraform, limits, limits.inflated_exceeded()),
        (bomb, Source::Helm, BaselineLimits::default(), LimitExceeded::InflateRatio),
    ] {
        let server = ApiServer::with_source_kinds();
        server.put("secrets", object);
        let limits = Limits { baseline, ..Limits::default() };
        let settings = Settings { sources: vec![source], limits, ..Settings::default() };
        let mut source = match source {
            Source::Terraform => SourceFixture::start(&server, settings),
            _ => SourceFixture::start_releases(&server, settings),
        };
        let baseline = source.next_baseline().await;
        let error = baseline.fault.as_ref().unwrap();
        assert_eq!(error.fault, BaselineFault::TooLarge);
        assert!(error.message.contains(&exceeded.to_string()), "{}", error.message);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_the_last_valid_version_are_unknown() {
    let server = ApiServer::with_source_kinds();
    let metadata = json!({"namespace": "shop", "name": "a", "uid": "a"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, "metadata": metadata});
    server.put("configmaps", object);
    server.put("secrets", release("shop", "web", 1, &manifest(&["a"])));
    let exporter = ExporterFixture::start_with(&server, enabled());
    let is = |verdict: &'static str| {
        move |exporter: &ExporterFixture| {
            let snapshot = exporter.snapshot();
            let mut entries = snapshot.kinds.iter().flat_map(|kind| kind.blocks.entries());
            entries.any(|entry| entry.claim.verdict.kind().as_str() == verdict)
        }
    };
    let limit = Duration::from_secs(60);
    exporter.until("the object is in sync", limit, is("in_sync")).await;
    let too_large = config_map(&format!("[{}]", "1,".repeat(600_000)));
    server.put("secrets", release("shop", "web", 2, &too_large));
    exporter.until("the object is unknown", limit, is("unknown")).await;
    let response = exporter.get("/v1/resources?namespace=*").await.json();
    assert_eq!(response["resources"][0]["reason"], json!("too_large"), "{response:#}");
}

#[tokio::test(start_paused = true)]
async fn team_rules_of_a_namespace_share_its_limits() {
    let server = ApiServer::with_source_kinds();
    let put = |namespace: &str, name: &str, rules: &str| {
        let metadata = json!({"namespace": namespace, "name": name, "labels": {"drift": "rules"}});
        server.put("configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"rules.yaml": rules}}));
    };
    let two =
        |name: &str| format!("- {{name: {name}, effect: ignore}}\n- {{name: {name}2, effect: ignore}}\n");
    put("shop", "a", &two("a"));
    put("shop", "b", &(two("b") + "- {name: b3, effect: ignore}"));
    put("shop", "c", &"# long\n".repeat(100));
    put("ops", "a", &two("a"));
    let selector = Selector::parse("drift=rules").unwrap();
    let namespace = NamespaceLimits { rules: 4, rule_bytes: 500, ..NamespaceLimits::default() };
    let settings = Settings {
        team_rules: Some(TeamRulesSettings { scope: Scope::default(), selector }),
        limits: Limits { namespace, ..Limits::default() },
        ..Settings::default()
    };
    let exporter = ExporterFixture::ready_with(&server, settings).await;
    let rules = async || {
        let response = exporter.get("/v1/rules").await.json();
        let texts = |list: &str, field: Option<&str>| {
            let entries = response[list].as_array().unwrap().iter();
            let texts =
                entries.map(move |entry| field.map_or(entry, |field| &entry[field]).as_str().unwrap());
            texts.map(str::to_owned).collect::<Vec<_>>()
        };
        let names = texts("rules", Some("name")).into_iter().filter(|name| name.contains('/'));
        (names.collect::<Vec<_>>(), texts("problems", None))
    };
    let (names, problems) = rules().await;
    assert_eq!(names, ["ops/a", "ops/a2", "shop/a", "shop/a2"]);
    let [rules_exceeded, bytes_exceeded] = &*problems else { panic!("{problems:?}") };
    assert!(
        rules_exceeded
            .starts_with("ConfigMap shop/b: rules.yaml: with it, its namespace has more than 4 team rules"),
        "{problems:?}"
    );
    assert!(
        bytes_exceeded
            .starts_with("ConfigMap shop/c: rules.yaml: with it, its namespace has more than 500 bytes"),
        "{problems:?}"
    );
    server.delete("configmaps", "shop", "a");
    put("shop", "c", "[]");
    tokio::time::sleep(Duration::from_secs(6)).await;
    exporter.wait_idle().await;
    assert_eq!(
        rules().await,
        (["ops/a", "ops/a2", "shop/b", "shop/b2", "shop/b3"].map(str::to_owned).into(), Vec::new())
    );
}

#[tokio::test(start_paused = true)]
async fn excess_config_maps_with_team_rules_are_neither_read_nor_listed() {
    let server = ApiServer::with_source_kinds();
    let put = |namespace: &str, name: &str, rules: &str| {
        let metadata = json!({"namespace": namespace, "name": name, "labels": {"drift": "rules"}});
        server.put("configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"rules.yaml": rules}}));
    };
    let rule = |name: &str| format!("- {{name: {name}, effect: ignore}}");
    put("evil", "z", &rule("z"));
    put("shop", "a", &rule("a"));
    let namespace = NamespaceLimits { rules: 3, ..NamespaceLimits::default() };
    let selector = Selector::parse("drift=rules").unwrap();
    let settings = Settings {
        team_rules: Some(TeamRulesSettings { scope: Scope::default(), selector }),
        limits: Limits { namespace, ..Limits::default() },
        ..Settings::default()
    };
    let exporter = ExporterFixture::ready_with(&server, settings).await;
    for at in 0..30 {
        put("evil", &format!("c{at:02}"), "not: [rules");
    }
    put("shop", "b", &rule("b"));
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    exporter.wait_idle().await;
    let response = exporter.get("/v1/rules").await.json();
    let names = response["rules"].as_array().unwrap().iter().map(|rule| rule["name"].as_str().unwrap());
    let names: Vec<&str> = names.filter(|name| name.contains('/')).collect();
    assert_eq!(names, ["evil/z", "shop/a", "shop/b"], "rules in use stay");
    let problems: Vec<&str> =
        response["problems"].as_array().unwrap().iter().map(|problem| problem.as_str().unwrap()).collect();
    assert!(problems.len() == 4 && problems[1].starts_with("ConfigMap evil/c00: "), "{problems:#?}");
    assert_eq!(
        problems[0],
        "namespace evil has more than 3 ConfigMaps with team rules, and 27 of them are not read; delete some, or raise limits.namespace.rules"
    );
    let urls = server.request_urls();
    let read = urls.iter().filter(|url| url.contains("/evil/configmaps") && url.contains("metadata.name"));
    assert!(read.count() <= 4, "{urls:#?}");
}

/// A manifest with Deployments, by namespace and name.
fn deployments_in(objects: &[(&str, &str)]) -> String {
    let document = |(namespace, name): &(&str, &str)| {
        format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{namespace: {namespace}, name: {name}}}\n"
        )
    };
    objects.iter().map(document).collect()
}

/// A tenant that declares another object of another namespace with each version of a release once kept the watch of the kind
/// from ever opening: edits were not seen.
#[tokio::test(start_paused = true)]
async fn release_that_changes_its_declarations_delays_no_edit_and_relists_rarely() {
    let second = Duration::from_secs(1);
    let server = ApiServer::with_source_kinds();
    for name in ["web", "cart"] {
        server.put("deployments", deployment(name));
    }
    let mut settings = Settings { sources: vec![Source::Annotation, Source::Helm], ..Settings::default() };
    settings.helm.trusted_namespaces = TrustedNamespaces::new(["ops"]);
    let exporter = ExporterFixture::ready_with(&server, settings).await;
    let put_release = |namespace: &str, revision: u64, objects: &[(&str, &str)]| {
        server.put("secrets", release(namespace, "flip", revision, &deployments_in(objects)));
    };
    let lists = || {
        let urls = server.request_urls();
        let is_list = |url: &&String| {
            url.contains("deployments") && !url.contains("watch=1") && !url.ends_with("&limit=1")
        };
        urls.iter().filter(is_list).count()
    };
    let is_current = |exporter: &ExporterFixture| {
        exporter.cached_versions("deployments") == exporter.api.resource_versions("deployments")
    };
    let has_claim = |name: &'static str, verdict: VerdictKind| {
        move |exporter: &ExporterFixture| {
            let snapshot = exporter.snapshot();
            let mut entries = snapshot.kinds.iter().flat_map(|kind| kind.blocks.get("shop", name));
            entries.any(|entry| entry.claim.source == Source::Helm && entry.claim.verdict.kind() == verdict)
        }
    };
    // Watches all Deployments of another namespace.
    put_release("tenant", 1, &[("nowhere", "first")]);
    tokio::time::sleep(70 * second).await;
    // A cluster with many objects.
    server.set_fault("deployments", ServerFault::SlowList(2 * second));
    let before = lists();
    for round in 0..20 {
        put_release("tenant", 1, &[("nowhere", &format!("n{round}"))]);
        tokio::time::sleep(second / 4).await;
        server.put("deployments", edited(deployment("web"), round + 2));
        exporter.until("the edit arrives", second / 10, is_current).await;
        assert_eq!(exporter.sample("drift_watch_stream_up{group=\"apps\"").await, Some(1.0));
        tokio::time::sleep(second / 4).await;
    }
    assert_eq!(lists() - before, 2);

    // The filter of the watch names the namespaces, so it starts again.
    tokio::time::sleep(70 * second).await;
    let before_namespaces = lists();
    for round in 0..20 {
        put_release("tenant", 1, &[(&format!("nowhere{round}"), "web")]);
        server.put("deployments", edited(deployment("web"), round + 22));
        tokio::time::sleep(second / 2).await;
        let is_up = exporter.sample("drift_watch_stream_up{group=\"apps\"").await == Some(1.0);
        assert!(!is_up || is_current(&exporter));
    }
    assert_eq!(lists() - before_namespaces, 2);

    let before = lists();
    put_release("ops", 1, &[("shop", "cart")]);
    exporter.until("a trusted release is compared", 4 * second, has_claim("cart", VerdictKind::InSync)).await;
    put_release("tenant", 1, &[("shop", "web")]);
    exporter.until("the tenant's is, too", 40 * second, has_claim("web", VerdictKind::Untrusted)).await;
    assert!(lists() - before <= 4, "{} lists", lists() - before);
}

/// A release that declares 300,000 ConfigMaps once used the limit on series of all namespaces.
#[tokio::test(start_paused = true)]
async fn victims_keep_their_series_beside_a_release_with_too_many_objects() {
    let server = ApiServer::with_source_kinds();
    for at in 0..300 {
        server.put("deployments", edited(deployment(&format!("web-{at}")), 1));
    }
    let document = |at: usize| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{at}}}\n");
    let text: String = (0..300_000).map(document).collect();
    server.put("secrets", release("evil", "many", 1, &text));
    let settings = Settings { sources: vec![Source::Annotation, Source::Helm], ..Settings::default() };
    let exporter = ExporterFixture::start_with(&server, settings);
    exporter
        .until("the release is read", Duration::from_secs(60), |exporter| {
            exporter.snapshot().baselines.values().any(|state| state.baseline.fault.is_some())
                && exporter.cached_versions("deployments").len() == 300
        })
        .await;
    exporter.wait_idle().await;
    let page = exporter.metrics().await;
    let drifted =
        page.lines().filter(|line| line.starts_with("drift_resource_drifted{") && line.ends_with(" 1"));
    assert_eq!(drifted.count(), 300);
    assert!(!page.contains("ConfigMap"), "none of its objects has a claim");
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
}

#[test]
fn messages_shorten_names_from_outside() {
    let long = "x".repeat(200_000);
    let problems = [
        format!("- {{name: a, {long}: b}}"),
        format!("- {{name: a, effect: {long}}}"),
        format!("- {{name: a, effect: ignore, {long}: 1, {long}: 2}}"),
        format!("- {{name: a, effect: ignore, match: {{{long}: 1}}}}"),
        format!("- !{long} a"),
        format!("- *{long}"),
        format!("- {{name: a, effect: {{severity: {long}}}}}"),
    ]
    .map(|rules| match read_yaml::<Vec<RuleSpec>>(&rules) {
        Err(problem) => vec![problem.to_string()],
        Ok(rules) => {
            let problems = RuleSet::compile(&RuleConfig { rules, ..RuleConfig::default() }).err();
            problems.unwrap_or_default().iter().map(ToString::to_string).collect()
        }
    });
    let settings = [
        format!("rules: [{{name: {long}, effect: ignore}}]"),
        format!("rules: [{{name: a, effect: ignore, match: {{paths: [\"{long}[\"]}}}}]"),
        format!("rules: [{{name: a, effect: ignore, match: {{classes: [{long}]}}}}]"),
        format!("rules: [{{name: a, effect: ignore, expires: {long}}}]"),
        format!("rules: [{{name: a, effect: ignore, match: {{labels: {{\"{long}!\": b}}}}}}]"),
        format!("{long}: 1"),
    ]
    .map(|text| match load(&text, &Overrides::default(), Timestamp::UNIX_EPOCH) {
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
        Ok(_) => Vec::new(),
    });
    for problem in problems.iter().chain(&settings).flatten() {
        assert!(problem.len() < 2000, "{} bytes: {}", problem.len(), &problem[..200]);
    }
    let all = problems.iter().chain(&settings);
    let accepted: Vec<usize> =
        all.enumerate().filter(|(_, problems)| problems.is_empty()).map(|(index, _)| index).collect();
    assert!(accepted.is_empty(), "inputs {accepted:?} have no problem");
}
