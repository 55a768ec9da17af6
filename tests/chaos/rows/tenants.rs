//! A tenant with permission to write everything in the namespace `tenant`, and nothing elsewhere. The victims are the objects in
//! `shop` and a Helm release in `victim`.

use std::{
    fmt::Write as _,
    fs,
    ops::Add,
    process::Command,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::config::Limits;
use serde_json::{Value, json};

use crate::{
    Run,
    checker::{ExpectedValue, SeriesKey},
    report::{Bound, Outcome},
    support::{
        api_server::ApiServer,
        gzip::gzip,
        stored::{lock_lease, release_secret, state_secret},
        wait::eventually,
    },
    world::World,
};

const SECRETS: &str = "secrets";
/// The p99 of scrapes that is fine on any machine.
const VICTIM_SCRAPE: Duration = Duration::from_millis(20);

/// A world with all inputs that tenants may write, in which `unknown` victims count as wrong.
fn world(run: &Run, deployments: usize) -> World {
    let mut options = run.options();
    options.deployments = deployments;
    options.expectations.unknown_is_wrong = true;
    let mut world = World::fake(options);
    let settings = world.folder().join("settings.yaml");
    let text = "sources: {annotation: {}, helm: {}, terraform: {this_cluster: true}}\nteam_rules: {}\n";
    fs::write(&settings, text).expect("the settings can be written");
    world.flags.extend(["--config.file".to_owned(), settings.display().to_string()]);
    put_release(world.api(), "victim", "web", 1, "deployed", &deployment("victim", "web", 2), "");
    set_victim(&world, ExpectedValue::InSync);
    world.started()
}

fn victim() -> SeriesKey {
    SeriesKey::new("Deployment", "victim", "web", "helm")
}

/// Writes the live object of the victim's release.
fn set_victim(world: &World, expected: ExpectedValue) {
    world.checker.expected.lock().unwrap().begin(&victim(), expected);
    let replicas = if expected == ExpectedValue::Drifted { 0 } else { 2 };
    world.api().put("deployments", json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "victim", "name": "web", "uid": "victim-web", "generation": 1,
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "victim"}},
        "spec": {"replicas": replicas},
    }));
    world.checker.expected.lock().unwrap().end(&victim());
}

/// A document of a manifest.
fn deployment(namespace: &str, name: &str, replicas: u32) -> String {
    format!(
        "---\n# Source: web/templates/web.yaml\napiVersion: apps/v1\nkind: Deployment\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{replicas: {replicas}}}\n"
    )
}

/// Writes a release as Helm does. The exporter does not read `notes`.
fn put_release(
    api: &ApiServer,
    namespace: &str,
    name: &str,
    revision: u64,
    status: &str,
    manifest: &str,
    notes: &str,
) {
    // A pending operation counts only for a limited time after it starts.
    let deployed = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let release = json!({
        "name": name, "namespace": namespace, "version": revision, "manifest": manifest,
        "info": {"first_deployed": deployed, "last_deployed": deployed, "status": status, "notes": notes},
        "chart": {"metadata": {"name": "web", "version": "1.0.0"}},
    });
    let mut secret = release_secret(namespace, name, revision, status, &gzip(release.to_string()));
    secret["metadata"]["creationTimestamp"] = deployed.into();
    api.put(SECRETS, secret);
}

/// A pending upgrade of the tenant's release declares the victim's object.
pub(super) fn mutes(run: &Run) -> Outcome {
    let mut world = world(run, 24);
    let claimed = deployment("victim", "web", 2);
    put_release(world.api(), "tenant", "evil", 1, "deployed", &claimed, "");
    put_release(world.api(), "tenant", "evil", 2, "pending-upgrade", &claimed, "");
    world.churn_for(Duration::from_secs(4));
    set_victim(&world, ExpectedValue::Drifted);
    world.churn_for(Duration::from_secs(10));
    set_victim(&world, ExpectedValue::InSync);
    world.churn_for(Duration::from_secs(7));
    let bounds = vec![world.converged(10)];
    world.outcome(bounds)
}

/// A locked state of the tenant declares the object of another state.
pub(super) fn locks(run: &Run) -> Outcome {
    let mut world = world(run, 24);
    let key = SeriesKey::new("ConfigMap", "victim", "settings", "terraform");
    let set = |world: &World, expected: ExpectedValue| {
        world.checker.expected.lock().unwrap().begin(&key, expected);
        let value = if expected == ExpectedValue::Drifted { "edited" } else { "declared" };
        world.api().put(
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": value},
            "metadata": {"namespace": "victim", "name": "settings", "uid": "victim-settings"}}),
        );
        world.checker.expected.lock().unwrap().end(&key);
    };
    let declared = |value: &str| state("victim", "settings", &json!({"key": value}).to_string(), "");
    set(&world, ExpectedValue::InSync);
    put_state(world.api(), "victim", "web", &declared("declared"));
    world.wait_converged();
    let info = json!({"ID": "1", "Operation": "OperationTypeApply", "Who": "mallory", "Created": jiff::Timestamp::now().to_string()});
    world.api().put("leases", lock_lease("tenant", "web", &info));
    put_state(world.api(), "tenant", "web", &declared("edited"));
    world.churn_for(Duration::from_secs(4));
    set(&world, ExpectedValue::Drifted);
    world.churn_for(Duration::from_secs(8));
    set(&world, ExpectedValue::InSync);
    world.churn_for(Duration::from_secs(4));
    let bounds = vec![world.converged(10)];
    world.outcome(bounds)
}

/// The tenant's release declares objects elsewhere that do not exist, and guesses of a Secret.
pub(super) fn forges(run: &Run) -> Outcome {
    let mut world = world(run, 24);
    let secret = |value: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": STANDARD.encode(value)},
            "metadata": {"name": "db", "namespace": "victim", "uid": "victim-db"}})
    };
    world.api().put(SECRETS, secret("right"));
    let forged =
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: never-there, namespace: kube-system}\n";
    put_release(world.api(), "tenant", "forged", 1, "deployed", forged, "");
    for guess in ["wrong", "right"] {
        let manifest = format!("---\n{}\n", secret(guess));
        put_release(world.api(), "tenant", guess, 1, "deployed", &manifest, "");
    }
    world.churn_for(Duration::from_secs(12));
    let bounds = vec![world.converged(10)];
    world.outcome(bounds)
}

/// Inputs of the tenant that require much memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input {
    /// Releases with lists of 27 and of 14 million numbers, which exceed different limits.
    Numbers,
    /// A release with 300,000 documents.
    Documents,
    /// Terraform states with lists of 18 and of 14 million numbers.
    State,
    /// A release with 8 million empty maps.
    Maps,
    /// Eleven releases with nested anchors.
    Anchors,
    /// 60 ConfigMaps with rules, as large as the API server allows.
    Rules,
    /// 240 ConfigMaps with rules, each within the limits on its own.
    SmallRules,
    /// A release with 3,000 Secrets of a victim, and one with 3,000 of the tenant: each needs a watch of its own.
    Watches,
    /// A release with 19,990 kinds that the API server does not serve.
    Kinds,
    /// A small release that expands to 400 large documents.
    Expanded,
    /// Five ConfigMaps with rules, each with an unknown key of 900 KB.
    LongKeys,
}

impl Input {
    /// Those that are read at the same time.
    pub(super) const ALL: [Self; 8] = [
        Self::Numbers,
        Self::Documents,
        Self::State,
        Self::Maps,
        Self::Anchors,
        Self::Rules,
        Self::Expanded,
        Self::LongKeys,
    ];

    /// What the exporter reports about them.
    fn reported(self) -> Reported {
        let (too_large, accepted, rejected_rules) = match self {
            Self::Numbers | Self::State => (2, 0, 0),
            Self::Documents | Self::Maps | Self::Expanded => (1, 0, 0),
            // Those of at most five levels are within the limits.
            Self::Anchors => (6, 5, 0),
            Self::Rules => (0, 0, 60),
            // One is within the limits.
            Self::SmallRules => (0, 0, 239),
            Self::LongKeys => (0, 0, 5),
            Self::Watches => (0, 2, 0),
            Self::Kinds => (0, 1, 0),
        };
        Reported { too_large, accepted, rejected_rules }
    }

    fn put(self, api: &ApiServer) {
        match self {
            Self::Numbers => {
                put_evil(api, "numbers", &config_map(&numbers(27_000_000)));
                put_evil(api, "fewer-numbers", &config_map(&numbers(14_000_000)));
            }
            Self::Documents => put_evil(api, "documents", &config_maps(300_000)),
            Self::State => {
                for (name, count) in [("numbers", 18_000_000), ("fewer-numbers", 14_000_000)] {
                    put_state(api, "tenant", name, &state("tenant", "a", &numbers(count), &padding()));
                }
            }
            Self::Maps => put_evil(api, "maps", &config_map(&format!("[{}{{}}]", "{},".repeat(8_000_000)))),
            Self::Anchors => (0..11).for_each(|index| {
                put_release(
                    api,
                    "tenant",
                    &format!("anchors{index}"),
                    1,
                    "deployed",
                    &anchors(4 + index % 5),
                    "",
                );
            }),
            Self::Rules => {
                let rules = "- {name: a, effect: ignore}\n".repeat(18_000);
                put_rules(api, "large", 60, |_| format!("# {}\n{rules}", "x".repeat(500_000)));
            }
            Self::SmallRules => {
                let names = (0..22_000).map(|name| format!("web-{name}")).collect::<Vec<String>>().join(",");
                put_rules(api, "small", 240, |index| {
                    format!("- {{name: r{index}, match: {{names: [{names}]}}, effect: ignore}}\n")
                });
            }
            Self::Watches => {
                for namespace in ["shop", "tenant"] {
                    let manifest = many(3_000, |index| {
                        format!(
                            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s{index}, namespace: {namespace}}}"
                        )
                    });
                    put_release(api, "tenant", &format!("watches-{namespace}"), 1, "deployed", &manifest, "");
                }
            }
            Self::Kinds => {
                let kind = "K".repeat(220);
                let manifest = many(19_990, |index| {
                    format!("apiVersion: g{index}.example/v1\nkind: {kind}{index}\nmetadata: {{name: a}}")
                });
                put_evil(api, "kinds", &manifest);
            }
            Self::Expanded => put_release(api, "tenant", "expanded", 1, "deployed", &expanded(), ""),
            Self::LongKeys => {
                let key = "k".repeat(900_000);
                put_rules(api, "keys", 5, |index| {
                    format!("- {{name: r{index}, {key}: a, effect: ignore}}\n")
                });
            }
        }
    }
}

fn numbers(count: usize) -> String {
    format!("[{}1]", "1,".repeat(count - 1))
}

fn config_map(value: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{a: {value}}}\n")
}

fn config_maps(count: usize) -> String {
    many(count, |index| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{index}}}"))
}

fn many(count: usize, document: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut manifest, index| {
        let _ = writeln!(manifest, "---\n{}", document(index));
        manifest
    })
}

/// A document that expands to ten elements for each level.
fn anchors(levels: usize) -> String {
    let mut data = "x0: &x0 [1,1,1,1,1,1,1,1,1,1]".to_owned();
    for level in 1..levels {
        let aliases = vec![format!("*x{}", level - 1); 10].join(",");
        let _ = write!(data, ", x{level}: &x{level} [{aliases}]");
    }
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{{data}}}\n")
}

/// 400 documents of 110,000 values each.
fn expanded() -> String {
    anchors(5).repeat(400)
}

/// Incompressible text, so that a large release is not a decompression bomb.
fn padding() -> String {
    let mut random = fastrand::Rng::with_seed(3);
    std::iter::repeat_with(|| random.alphanumeric()).take(760_000).collect()
}

fn put_evil(api: &ApiServer, name: &str, manifest: &str) {
    put_release(api, "tenant", name, 1, "deployed", manifest, &padding());
}

/// A Terraform state that declares a ConfigMap with this data, in JSON. `notes` are part of it and are not read.
fn state(namespace: &str, name: &str, data: &str, notes: &str) -> String {
    format!(
        r#"{{"version":4,"terraform_version":"1.11.4","serial":1,"lineage":"{namespace}{notes}","resources":[{{"mode":"managed","type":"kubernetes_config_map_v1","name":"a","instances":[{{"attributes":{{"id":"{namespace}/{name}","metadata":[{{"name":"{name}","namespace":"{namespace}"}}],"data":{data}}}}}]}}]}}"#
    )
}

fn put_state(api: &ApiServer, namespace: &str, name: &str, state: &str) {
    api.put(SECRETS, state_secret(namespace, name, &gzip(state)));
}

fn put_rules(api: &ApiServer, name: &str, count: usize, rules: impl Fn(usize) -> String) {
    for index in 0..count {
        let labels = json!({"tfdrift.jin.dev/rules": "true"});
        api.put(
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"rules.yaml": rules(index)},
            "metadata": {"name": format!("{name}{index}"), "namespace": "tenant", "labels": labels}}),
        );
    }
}

/// Inputs of the tenant, as the exporter reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reported {
    /// Baselines that exceed a limit.
    too_large: usize,
    /// Baselines whose objects are compared.
    accepted: usize,
    /// ConfigMaps with rules that are rejected.
    rejected_rules: usize,
}

impl Add for Reported {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            too_large: self.too_large + other.too_large,
            accepted: self.accepted + other.accepted,
            rejected_rules: self.rejected_rules + other.rejected_rules,
        }
    }
}

impl Reported {
    fn of(world: &World) -> Self {
        let get = |path: &str| world.exporter().get(path).map(|response| response.json()).unwrap_or_default();
        let (status, rules) = (get("/v1/status"), get("/v1/rules"));
        let baselines = status["baselines"].as_array().into_iter().flatten();
        let of_tenant =
            |baseline: &&Value| baseline["state"].as_str().is_some_and(|name| name.contains("tenant"));
        let (too_large, others): (Vec<&Value>, Vec<&Value>) =
            baselines.filter(of_tenant).partition(|baseline| baseline["fault"]["reason"] == "too_large");
        let accepted = others.into_iter().filter(|baseline| baseline["objects"].as_u64() > Some(0));
        let problems = rules["problems"].as_array();
        Self {
            too_large: too_large.len(),
            accepted: accepted.count(),
            rejected_rules: problems.map_or(0, Vec::len),
        }
    }
}

/// Victims keep their series, their verdicts and their latency, and the exporter its memory.
pub(super) fn memory(run: &Run, inputs: &[Input]) -> Outcome {
    let world = world(run, 24);
    let expected = inputs.iter().map(|input| input.reported()).fold(Reported::default(), Add::add);
    attacked(world, run, expected, |api| {
        inputs.iter().for_each(|input| input.put(api));
    })
}

/// Two releases with as many objects as the limits allow. None of the objects exists, so the page has series of all of them.
pub(super) fn missing(run: &Run) -> Outcome {
    let expected = Reported { accepted: 2, ..Reported::default() };
    let limits = Limits::default();
    let count = limits.baseline.objects.min(limits.namespace.claims / 2);
    attacked(world(run, 24), run, expected, |api| {
        for name in ["missing", "more-missing"] {
            let manifest = many(count, |index| {
                format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}-{index}}}")
            });
            put_release(api, "tenant", name, 1, "deployed", &manifest, "");
        }
    })
}

/// 300,000 declared objects of one tenant beside 300 victims.
pub(super) fn crowds(run: &Run) -> Outcome {
    let world = world(run, 300);
    attacked(world, run, Input::Documents.reported(), |api| {
        put_evil(api, "crowd", &config_maps(300_000));
    })
}

fn attacked(mut world: World, run: &Run, expected: Reported, attack: impl FnOnce(&ApiServer)) -> Outcome {
    std::thread::sleep(Duration::from_secs(3));
    let (idle_latency, idle_memory) = (world.checker.take_p99(), world.reset_peak());
    attack(world.api());
    // Waits until the exporter has read and compared the inputs, which takes minutes without limits.
    let (attacked, limit) = (Instant::now(), Duration::from_secs(run.quick_or(60, 180)));
    let mut used = world.cpu_seconds();
    loop {
        world.churn_for(Duration::from_secs(5));
        let before = std::mem::replace(&mut used, world.cpu_seconds());
        let is_read = used - before < 2.0 && Reported::of(&world) == expected;
        if is_read || attacked.elapsed() > limit {
            break;
        }
    }
    assert_eq!(Reported::of(&world), expected, "the exporter has not read every input");
    let latency = world.checker.take_p99();
    let peak = world.memory_kib("VmHWM").saturating_sub(idle_memory);
    let limit = (idle_latency * 2).max(VICTIM_SCRAPE);
    let page = world.exporter().get("/");
    let bounds = vec![
        Bound::memory("over idle", peak, 128),
        Bound::latency("scrape p99", latency, limit).with_idle(idle_latency),
        Bound::memory("page", page.map_or(u64::MAX, |page| page.text().len() as u64 / 1024), 1),
        world.converged(10),
    ];
    world.outcome(bounds)
}

/// Upgrades the victim's release to this number of replicas, and waits until the exporter shows it.
fn upgrade(world: &World, revision: u64, replicas: u32, expected: ExpectedValue) -> Duration {
    let started = Instant::now();
    world.checker.expected.lock().unwrap().begin(&victim(), expected);
    let manifest = deployment("victim", "web", replicas);
    put_release(world.api(), "victim", "web", revision, "deployed", &manifest, "");
    world.checker.expected.lock().unwrap().end(&victim());
    world.converged(5);
    started.elapsed()
}

/// Small releases that take long to expand delay neither other releases nor readiness.
pub(super) fn starves(run: &Run) -> Outcome {
    const EXPANDED: usize = 12;
    let mut world = world(run, 24);
    // An upgrade that the live object does not follow, and the next one, which it has followed already.
    let idle =
        upgrade(&world, 2, 3, ExpectedValue::Drifted).max(upgrade(&world, 3, 2, ExpectedValue::InSync));
    // Each document is within the limits, so that only the one on work stops the exporter.
    let put_all = |revision| {
        (0..EXPANDED).for_each(|index| {
            let name = format!("evil{index}");
            put_release(world.api(), "tenant", &name, revision, "deployed", &expanded(), "");
        });
    };
    put_all(1);
    let message = "raise limits.baseline.work";
    eventually("the limit on work stops the releases", || {
        (world.exporter().logged().matches(message).count() >= EXPANDED).then_some(())
    });
    put_all(2);
    let starved = upgrade(&world, 4, 3, ExpectedValue::Drifted);
    let delay = Bound::time("delay", starved.saturating_sub(idle), Duration::from_secs(1));
    let converged = world.converged(5);
    let outcome = world.outcome(vec![delay, converged]);
    let started = Instant::now();
    world.start_command(&mut Command::new(run.program()));
    let is_ready = || world.exporter().get("/readyz").is_some_and(|ready| ready.status == 200);
    while !is_ready() && started.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let ready = Bound::time("ready", started.elapsed(), Duration::from_secs(5));
    Outcome { bounds: outcome.bounds.into_iter().chain([ready]).collect(), ..outcome }
}
