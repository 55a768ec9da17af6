//! Inputs that cost too much: they are `too_large`, and affect no other input.

use std::{fs, path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    config::{BaselineLimits, Limits, NamespaceLimits, Overrides, Settings, load, read_yaml},
    demo::Cluster,
    rules::RuleSpec,
    sources::{read_objects, terraform},
    types::{Baseline, BaselineFault, RedactionKey, Source},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    helm_source::{enabled, manifest},
    support::{
        api_server::ApiServer,
        embedded::Embedded,
        exporter::Exporter,
        exporter_fixture::ExporterFixture,
        gzip::gzip,
        live_objects::{deployment, edited},
        source::{SourceEvent, SourceFixture},
        wait::eventually,
    },
};

/// A Secret of Helm with a release of this name, and a chart that hides the compression ratio of its manifest.
fn release(namespace: &str, name: &str, revision: u64, manifest: &str) -> Value {
    let mut random = fastrand::Rng::with_seed(1);
    let noise = (manifest.len() / 60).min(900 << 10);
    let chart: String = std::iter::repeat_with(|| random.alphanumeric()).take(noise).collect();
    let text = json!({"name": name, "namespace": namespace, "version": revision, "manifest": manifest, "config": chart});
    let labels =
        json!({"owner": "helm", "name": name, "status": "deployed", "version": revision.to_string()});
    let metadata = json!({"name": format!("sh.helm.release.v1.{name}.v{revision}"), "namespace": namespace, "labels": labels});
    let stored = STANDARD.encode(STANDARD.encode(gzip(text.to_string())));
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "helm.sh/release.v1", "data": {"release": stored}})
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
    // It is read again once there is room.
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

/// A release that declares 300,000 ConfigMaps once took the series of all others.
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
        .until("the release is read", std::time::Duration::from_secs(60), |exporter| {
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
        Ok(_) => Vec::new(),
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
    assert!(settings.iter().all(|problems| !problems.is_empty()), "{settings:?}");
}

/// Peak memory of a process since the last reset, and its current memory, in KiB.
fn memory(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Over an idle exporter, in KiB.
const MAX_MEMORY: u64 = 128 << 10;

fn create(cluster: &Cluster, object: Value) {
    let kind = Cluster::resolve_kind("v1", object["kind"].as_str().unwrap()).unwrap();
    cluster.create(&kind, "test", object).unwrap();
}

/// The hostile objects by what they attack, each in a namespace of its own.
fn hostile_objects() -> Vec<(&'static str, Vec<Value>)> {
    let state = |attributes: &str| {
        let mut random = fastrand::Rng::with_seed(1);
        let noise: String = std::iter::repeat_with(|| random.alphanumeric()).take(500 << 10).collect();
        let text = format!(
            r#"{{"version":4,"lineage":"l","outputs":{{"a":"{noise}"}},"resources":[{{"mode":"managed","type":"kubernetes_config_map","name":"a","instances":[{{"attributes":{{"data":{attributes}}}}}]}}]}}"#
        );
        let labels = json!({"tfstate": "true", "tfstateSecretSuffix": "a", "tfstateWorkspace": "default"});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tfstate-default-a", "labels": labels},
            "data": {"tfstate": STANDARD.encode(gzip(text))}})
    };
    let list =
        |element: &str, count: usize| format!("[{}{element}]", format!("{element},").repeat(count - 1));
    let rules = |at: usize| {
        let text = format!("# {}\n{}", "x".repeat(500_000), "- {name: a, effect: ignore}\n".repeat(18_000));
        let labels = json!({"tfdrift.jin.dev/rules": "true"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("rules-{at}"), "labels": labels}, "data": {"rules.yaml": text}})
    };
    let document = |at| format!("---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{at}}}}}\n");
    let documents = (0..300_000).map(document).collect::<Vec<_>>().concat();
    let bombs = (0..11).map(|at| release("", &format!("bomb{at}"), 1, &alias_bomb(9, 4 + at % 5)));
    vec![
        ("numbers", vec![release("", "a", 1, &config_map(&list("1", 27_000_000)))]),
        ("fewer-numbers", vec![release("", "a", 1, &config_map(&list("1", 14_000_000)))]),
        ("documents", vec![release("", "a", 1, &documents)]),
        ("state-numbers", vec![state(&list("1", 18_000_000))]),
        ("state-fewer-numbers", vec![state(&list("1", 14_000_000))]),
        ("state-maps", vec![state(&list("{}", 8_000_000))]),
        ("aliases", bombs.collect()),
        ("rules", (0..60).map(rules).collect()),
    ]
}

fn start(embedded: &Embedded, folder: &Path) -> Exporter {
    let server = format!("http://127.0.0.1:{}", embedded.port);
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    let [kubeconfig, settings] = ["kubeconfig", "settings.yaml"].map(|name| folder.join(name));
    fs::write(&kubeconfig, config.to_string()).unwrap();
    fs::write(&settings, "sources: {annotation: {}, helm: {}, terraform: {}}\nteam_rules: {}\n").unwrap();
    Exporter::start(&kubeconfig, folder, &["--config.file", settings.to_str().unwrap()]).ready()
}

/// The number of baselines of a namespace that were read, and of its ConfigMaps that were rejected.
fn finished(exporter: &Exporter, namespace: &str) -> Option<usize> {
    let count = |path: &str, list: &str, field: Option<&str>, prefix: &str| {
        let answer = exporter.get(path)?.json();
        let texts = answer[list].as_array()?.iter().map(|entry| field.map_or(entry, |field| &entry[field]));
        Some(texts.filter(|text| text.as_str().is_some_and(|text| text.starts_with(prefix))).count())
    };
    let baselines = count("/v1/status", "baselines", Some("state"), &format!("{namespace}/"))?;
    Some(baselines + count("/v1/rules", "problems", None, &format!("ConfigMap {namespace}/"))?)
}

fn wait_until_finished(exporter: &Exporter, namespace: &str, count: usize) {
    let is_finished = || (finished(exporter, namespace)? == count).then_some(());
    eventually(&format!("{namespace} is read"), is_finished);
}

#[test]
#[expect(clippy::print_stdout, reason = "the test prints its measurements")]
fn hostile_inputs_take_at_most_128_mib() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let embedded = runtime.block_on(Embedded::start());
    let folder = tempfile::tempdir().unwrap();
    let exporter = start(&embedded, folder.path());
    let pid = exporter.running.pid();
    let idle = memory(pid, "VmRSS:");
    let mut counts = Vec::new();
    for (namespace, objects) in hostile_objects() {
        create(&embedded.cluster, json!({"kind": "Namespace", "metadata": {"name": namespace}}));
        fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
        let count = objects.len();
        for mut object in objects {
            object["metadata"]["namespace"] = namespace.into();
            create(&embedded.cluster, object);
        }
        wait_until_finished(&exporter, namespace, count);
        let peak = memory(pid, "VmHWM:").saturating_sub(idle);
        println!("{namespace}: {} MiB over {} MiB", peak >> 10, idle >> 10);
        assert!(peak <= MAX_MEMORY, "{namespace}: {peak} KiB");
        counts.push((namespace, count));
    }
    drop(exporter);
    let exporter = start(&embedded, folder.path());
    for (namespace, count) in counts {
        wait_until_finished(&exporter, namespace, count);
    }
    let peak = memory(exporter.running.pid(), "VmHWM:").saturating_sub(idle);
    println!("all at once: {} MiB over {} MiB", peak >> 10, idle >> 10);
    assert!(peak <= MAX_MEMORY, "all at once: {peak} KiB");
}
