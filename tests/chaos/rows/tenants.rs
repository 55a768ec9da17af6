//! A tenant who may write everything in the namespace `tenant`, and nothing elsewhere. The victims are the objects in `shop`
//! and a Helm release in `victim`.

use std::{
    fmt::Write as _,
    process::Command,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    Run,
    checker::{Claim, Live},
    report::{Bound, Outcome},
    support::{api_server::ApiServer, gzip::gzip},
    world::World,
};

const SECRETS: &str = "secrets";

/// A world with all sources, in which `unknown` victims are wrong.
fn world(run: &Run, deployments: usize) -> World {
    let mut options = run.options().with_flags(&["--sources", "annotation,helm,terraform"]);
    options.deployments = deployments;
    options.expectations.unknown_is_wrong = true;
    let world = World::fake(options);
    put_release(world.api(), "victim", "web", 1, "deployed", &deployment("victim", "web", 2), "");
    set_victim(&world, Live::InSync);
    world.started()
}

fn victim() -> Claim {
    Claim::new("Deployment", "victim", "web", "helm")
}

/// Writes the live object of the victim's release.
fn set_victim(world: &World, live: Live) {
    world.checker.truth.lock().unwrap().begin(&victim(), live);
    let replicas = if live == Live::Drifted { 0 } else { 2 };
    world.api().put("deployments", json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "victim", "name": "web", "uid": "victim-web", "generation": 1,
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "victim"}},
        "spec": {"replicas": replicas},
    }));
    world.checker.truth.lock().unwrap().end(&victim());
}

/// A document of a manifest.
fn deployment(namespace: &str, name: &str, replicas: u32) -> String {
    format!(
        "---\n# Source: web/templates/web.yaml\napiVersion: apps/v1\nkind: Deployment\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{replicas: {replicas}}}\n"
    )
}

/// Writes a release as Helm does. `notes` are part of it and are not read.
fn put_release(
    api: &ApiServer,
    namespace: &str,
    name: &str,
    revision: u64,
    status: &str,
    manifest: &str,
    notes: &str,
) {
    // A pending operation counts only for a while after it began.
    let deployed = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let release = json!({
        "name": name, "namespace": namespace, "version": revision, "manifest": manifest,
        "info": {"first_deployed": deployed, "last_deployed": deployed, "status": status, "notes": notes},
        "chart": {"metadata": {"name": "web", "version": "1.0.0"}},
    });
    let labels = json!({"owner": "helm", "name": name, "status": status, "version": revision.to_string()});
    let packed = STANDARD.encode(STANDARD.encode(gzip(release.to_string())));
    api.put(
        SECRETS,
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "data": {"release": packed},
            "metadata": {"name": format!("sh.helm.release.v1.{name}.v{revision}"), "namespace": namespace,
                "labels": labels, "creationTimestamp": deployed},
        }),
    );
}

/// A pending upgrade of the tenant's release declares the victim's object.
pub(super) fn mutes(run: &Run) -> Outcome {
    let mut world = world(run, 24);
    let claimed = deployment("victim", "web", 2);
    put_release(world.api(), "tenant", "evil", 1, "deployed", &claimed, "");
    put_release(world.api(), "tenant", "evil", 2, "pending-upgrade", &claimed, "");
    world.churn_for(Duration::from_secs(4));
    set_victim(&world, Live::Drifted);
    world.churn_for(Duration::from_secs(10));
    set_victim(&world, Live::InSync);
    world.churn_for(Duration::from_secs(7));
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

/// Inputs of the tenant that need much memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input {
    /// A release with a list of 27 million numbers.
    Numbers,
    /// A release with 300,000 documents.
    Documents,
    /// A Terraform state with a list of 18 million numbers.
    State,
    /// A release with 8 million empty maps.
    Maps,
    /// Eleven releases with nested anchors.
    Anchors,
}

impl Input {
    pub(super) const ALL: [Self; 5] =
        [Self::Numbers, Self::Documents, Self::State, Self::Maps, Self::Anchors];

    fn put(self, api: &ApiServer) {
        match self {
            Self::Numbers => {
                put_evil(api, "numbers", &config_map(&format!("[{}1]", "1,".repeat(27_000_000))));
            }
            Self::Documents => put_evil(api, "documents", &config_maps(300_000)),
            Self::State => put_state(api),
            Self::Maps => put_evil(api, "maps", &config_map(&format!("[{}{{}}]", "{},".repeat(8_000_000)))),
            Self::Anchors => (0..11).for_each(|index| {
                put_release(api, "tenant", &format!("anchors{index}"), 1, "deployed", &anchors(6), "");
            }),
        }
    }
}

fn config_map(value: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{a: {value}}}\n")
}

fn config_maps(count: usize) -> String {
    (0..count).fold(String::new(), |mut manifest, index| {
        let _ = writeln!(manifest, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{index}}}");
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

/// Text that does not compress, so that the rest may be large without being a decompression bomb.
fn padding() -> String {
    let mut random = fastrand::Rng::with_seed(3);
    std::iter::repeat_with(|| random.alphanumeric()).take(760_000).collect()
}

fn put_evil(api: &ApiServer, name: &str, manifest: &str) {
    put_release(api, "tenant", name, 1, "deployed", manifest, &padding());
}

fn put_state(api: &ApiServer) {
    let list = format!("[{}1]", "1,".repeat(18_000_000));
    let state = format!(
        r#"{{"version":4,"terraform_version":"1.11.4","serial":1,"lineage":"{}","resources":[{{"mode":"managed","type":"kubernetes_config_map_v1","name":"a","instances":[{{"attributes":{{"id":"tenant/a","metadata":[{{"name":"a","namespace":"tenant"}}],"data":{list}}}}}]}}]}}"#,
        padding()
    );
    let labels = json!({"tfstate": "true", "tfstateWorkspace": "default", "tfstateSecretSuffix": "evil"});
    let secret: Value = json!({"apiVersion": "v1", "kind": "Secret", "data": {"tfstate": STANDARD.encode(gzip(state))},
        "metadata": {"name": "tfstate-default-evil", "namespace": "tenant", "labels": labels}});
    api.put(SECRETS, secret);
}

/// Victims keep their series, their verdicts and their latency, and the exporter its memory.
pub(super) fn memory(run: &Run, inputs: &[Input]) -> Outcome {
    let world = world(run, 24);
    attacked(world, run, |api| {
        inputs.iter().for_each(|input| input.put(api));
    })
}

/// 300,000 declared objects of one tenant beside 300 victims.
pub(super) fn crowds(run: &Run) -> Outcome {
    let world = world(run, 300);
    attacked(world, run, |api| {
        put_evil(api, "crowd", &config_maps(300_000));
    })
}

fn attacked(mut world: World, run: &Run, attack: impl FnOnce(&ApiServer)) -> Outcome {
    std::thread::sleep(Duration::from_secs(3));
    let (idle_latency, idle_memory) = (world.checker.take_p99(), world.reset_peak());
    attack(world.api());
    // Until the inputs are read, which takes minutes if nothing limits them.
    let (attacked, limit) = (Instant::now(), Duration::from_secs(run.quick_or(30, 180)));
    let mut used = world.cpu_seconds();
    loop {
        world.churn_for(Duration::from_secs(5));
        let before = std::mem::replace(&mut used, world.cpu_seconds());
        if used - before < 2.0 || attacked.elapsed() > limit {
            break;
        }
    }
    let latency = world.checker.take_p99();
    let peak = world.memory_kib("VmHWM").saturating_sub(idle_memory);
    let limit = (idle_latency * 2).max(Duration::from_millis(100));
    let bounds = vec![
        Bound::memory("over idle", peak, 128),
        Bound::latency("scrape p99", latency, limit),
        world.converged(10),
    ];
    world.outcome(bounds)
}

/// A small release that takes long to expand delays neither the releases of others nor readiness.
pub(super) fn starves(run: &Run) -> Outcome {
    let mut world = world(run, 24);
    let manifest = anchors(6).repeat(400);
    put_release(world.api(), "tenant", "evil", 1, "deployed", &manifest, "");
    world.churn_for(Duration::from_secs(2));
    // An upgrade that the live object does not follow.
    world.checker.truth.lock().unwrap().begin(&victim(), Live::Drifted);
    put_release(world.api(), "victim", "web", 1, "superseded", &deployment("victim", "web", 2), "");
    put_release(world.api(), "victim", "web", 2, "deployed", &deployment("victim", "web", 3), "");
    world.checker.truth.lock().unwrap().end(&victim());
    let upgraded = world.converged(5);
    let outcome = world.outcome(vec![upgraded]);
    let started = Instant::now();
    world.start_command(&mut Command::new(run.program()));
    let is_ready = || world.exporter().get("/readyz").is_some_and(|ready| ready.status == 200);
    while !is_ready() && started.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let ready = Bound::time("ready", started.elapsed(), Duration::from_secs(5));
    Outcome { bounds: outcome.bounds.into_iter().chain([ready]).collect(), ..outcome }
}
