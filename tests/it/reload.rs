//! Settings file changes while the exporter runs.

use std::{fs, path::PathBuf, process::Command, sync::Arc};

use drift_exporter::{
    demo,
    types::{Clock, Kind, ObjectKey},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::{
    embedded::Embedded,
    exporter::{Exporter, write_kubeconfig},
    wait::eventually,
};

/// An exporter process with a settings file, on an embedded cluster with one drifted Deployment.
struct ReloadFixture {
    exporter: Exporter,
    embedded: Embedded,
    file: PathBuf,
    _runtime: Runtime,
    _folder: TempDir,
}

const DRIFTED: &str = "drift_resource_drifted";
const WEB: &[(&str, &str)] = &[("name", "web"), ("kind", "Deployment")];

fn deployment(name: &str) -> ObjectKey {
    ObjectKey { kind: Arc::new(Kind::deployment()), namespace: "shop".into(), name: name.into() }
}

impl ReloadFixture {
    fn start(settings: &str) -> Self {
        Self::start_with(settings, &[])
    }

    fn start_with(settings: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let shop = demo::Shop::open(Clock::system(), "tfdrift.jin.dev").unwrap();
        let embedded = runtime.block_on(Embedded::serve(shop.cluster().clone()));
        embedded.cluster.scale(&deployment("web"), "kubectl", 9).unwrap();
        let kubeconfig = write_kubeconfig(folder.path(), embedded.port);
        let file = folder.path().join("settings.yaml");
        fs::write(&file, settings).unwrap();
        let flags = ["--config.file", file.to_str().unwrap()];
        let mut command = Command::new(env!("CARGO_BIN_EXE_drift-exporter"));
        command.envs(environment.iter().copied());
        let exporter = Exporter::start_command(&mut command, &kubeconfig, folder.path(), &flags).ready();
        Self { exporter, embedded, file, _runtime: runtime, _folder: folder }
    }

    fn write(&self, settings: &str) {
        fs::write(&self.file, settings).unwrap();
    }

    fn write_atomically(&self, settings: &str) {
        let new = self.file.with_extension("new");
        fs::write(&new, settings).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    /// Patches Deployment `web` and waits until the exporter has received the event.
    #[track_caller]
    fn patch_web(&self, change: Value) {
        let edited = self.embedded.cluster.patch(&deployment("web"), "kubectl", change).unwrap();
        let version = &edited["metadata"]["resourceVersion"];
        eventually("the exporter receives the edit", || {
            let seen = self.exporter.get("/v1/resources/deployment/shop/web")?.json();
            (seen["resourceVersion"] == *version).then_some(())
        });
    }

    fn onset(&self) -> Option<f64> {
        self.exporter.sample("drift_resource_drifted_timestamp_seconds", WEB)
    }

    #[track_caller]
    fn wait_for_reload(&self, successful: bool) {
        let value = Some(f64::from(u8::from(successful)));
        self.exporter.wait_for("drift_config_last_reload_successful", &[], value);
    }
}

const IGNORE: &str = "rules:\n- {name: known, match: {names: [web]}, effect: ignore, owner: me}\n";

#[test]
fn added_rule_ignores_drift_and_removal_restores_onset() {
    let fixture = ReloadFixture::start("");
    fixture.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    let onset = fixture.onset().unwrap();
    fixture.write(IGNORE);
    fixture.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    assert_eq!(fixture.onset(), None);
    assert_eq!(fixture.exporter.sample("drift_rule_matches", &[("rule", "known")]), Some(1.0));
    assert_eq!(
        fixture.exporter.sample(
            "drift_resources",
            &[("kind", "Deployment"), ("namespace", "shop"), ("verdict", "ignored")]
        ),
        Some(1.0)
    );
    let page = fixture.exporter.get("/objects/deployments.apps/shop/web").unwrap().text();
    assert!(page.contains("Ignored by rules") && page.contains("ignored by known"), "{page}");
    let rules = fixture.exporter.get("/v1/rules").unwrap().json();
    let known = rules["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == "known").unwrap();
    assert_eq!(
        (&known["from"], &known["matches"], &known["owner"]),
        (&"settings".into(), &1.into(), &"me".into())
    );
    fixture.write_atomically("");
    fixture.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    assert_eq!(fixture.onset(), Some(onset));
    let history = fixture.exporter.get("/v1/history").unwrap().json();
    assert_eq!(history["transitions"][1]["cause"], "rule", "{history}");
}

#[test]
fn invalid_file_keeps_settings_and_is_reported() {
    let fixture = ReloadFixture::start(IGNORE);
    fixture.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    fixture.wait_for_reload(true);
    for broken in ["rules: [", "rulez: []\n", "rules:\n- {name: a, effect: ignor}\n", &"#".repeat(10 << 20)] {
        fixture.write(broken);
        fixture.wait_for_reload(false);
        assert_eq!(fixture.exporter.sample(DRIFTED, WEB), Some(0.0), "the last valid rule still ignores it");
        let status = fixture.exporter.get("/v1/status").unwrap().json();
        assert_eq!(status["settings"]["successful"], false);
        assert!(status["settings"]["problems"][0]["message"].is_string(), "{status}");
        let page = fixture.exporter.get("/").unwrap().text();
        assert!(page.contains("The settings file cannot be used"), "{page}");
        fixture.write(IGNORE);
        fixture.wait_for_reload(true);
    }
    fs::remove_file(&fixture.file).unwrap();
    fixture.wait_for_reload(false);
    assert_eq!(fixture.exporter.sample(DRIFTED, WEB), Some(0.0));
    assert!(
        fixture.exporter.logged().contains("the last valid ones stay in use"),
        "{}",
        fixture.exporter.logged()
    );
    fixture.write("");
    fixture.wait_for_reload(true);
    fixture.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    assert!(!fixture.exporter.get("/").unwrap().text().contains("The settings file cannot be used"));
}

#[test]
fn sighup_reloads_at_once_and_changes_kinds() {
    let fixture = ReloadFixture::start("");
    fixture.write("kinds:\n- {apiVersion: v1, kind: Namespace}\n");
    fixture.exporter.running.signal("HUP");
    fixture.exporter.wait_for("drift_cache_objects", &[("kind", "Namespace")], Some(6.0));
    fixture.exporter.wait_for(DRIFTED, WEB, None);
    fixture.exporter.wait_for("drift_watch_streams", &[], Some(1.0));
    fixture.write("");
    fixture.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    fixture.exporter.wait_for("drift_cache_objects", &[("kind", "Namespace")], None);
}

#[test]
fn label_rule_matches_cached_objects() {
    let fixture = ReloadFixture::start("");
    fixture.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    fixture.patch_web(json!({"metadata": {"labels": {"tier": "test"}}}));
    fixture.write("rules:\n- {name: tests, match: {labels: {tier: test}}, effect: ignore}\n");
    fixture.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    // A rule with another label has the same effect: the switch causes no transition.
    let sum = |name: &str| -> u64 {
        let page = fixture.exporter.metrics();
        let lines = page.lines().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    let history = fixture.exporter.get("/v1/history").unwrap().json();
    let (detections, last) = (sum("drift_detections_total"), history["last"].as_u64().unwrap());
    fixture.write("rules:\n- {name: tests, match: {labels: {tier: test, app.kubernetes.io/name: web}}, effect: ignore}\n");
    eventually("the new rule is active", || {
        let rules = fixture.exporter.get("/v1/rules")?.text();
        (rules.contains("\"app.kubernetes.io/name\":\"web\"")).then_some(())
    });
    fixture.exporter.wait_for("drift_rule_matches", &[("rule", "tests")], Some(1.0));
    // The next transition is the first since then.
    fixture.embedded.cluster.scale(&deployment("cart"), "kubectl", 9).unwrap();
    fixture.exporter.wait_for(DRIFTED, &[("name", "cart"), ("kind", "Deployment")], Some(1.0));
    assert_eq!(sum("drift_detections_total"), detections + 1);
    assert_eq!(fixture.exporter.get("/v1/history").unwrap().json()["last"], last + 1);
    fixture.patch_web(json!({"metadata": {"labels": {"tier": null}}}));
    fixture.exporter.wait_for(DRIFTED, WEB, Some(1.0));
}

#[test]
fn mute_annotation_requires_the_setting() {
    let fixture = ReloadFixture::start("");
    let mute = |paths: &str| {
        fixture.patch_web(json!({"metadata": {"annotations": {"tfdrift.jin.dev/ignore": paths}}}));
    };
    mute("spec.nothing, spec");
    assert_eq!(fixture.exporter.sample(DRIFTED, WEB), Some(1.0));
    fixture.write("mute_by_annotation: true\n");
    fixture.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    let object = fixture.exporter.get("/v1/resources/deployment/shop/web").unwrap().json();
    let ignored = &object["claims"][0]["ignored"][0];
    assert_eq!(
        (&ignored["path"], &ignored["ignoredBy"]),
        (&"spec".into(), &"(annotation)".into()),
        "{object}"
    );
    mute("spec.nothing, .., [");
    fixture.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    mute("**");
    fixture.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    // An annotation cannot mute critical drift.
    fixture.write("mute_by_annotation: true\nseverities: [{severity: critical, fields: [hash]}]\n");
    fixture.exporter.wait_for(DRIFTED, WEB, Some(1.0));
}

#[test]
fn log_level_and_series_change_with_the_file() {
    let fixture = ReloadFixture::start("");
    let health = ("drift_resource_health", WEB);
    assert_eq!(fixture.exporter.sample(health.0, health.1), None);
    fixture.write("metrics: {health: true}\nlog: {level: error}\n");
    fixture.exporter.wait_for(health.0, health.1, Some(1.0));
    let logged = fixture.exporter.logged();
    fixture.write("rules: [");
    fixture.wait_for_reload(false);
    assert_eq!(fixture.exporter.logged(), logged, "warnings are not logged");
    fixture.write("metrics: {labels: [team, app.kubernetes.io/name]}\n");
    let labelled = [WEB, &[("app_kubernetes_io_name", "web")]].concat();
    fixture.exporter.wait_for(DRIFTED, &labelled, Some(1.0));
    fixture.patch_web(json!({"metadata": {"labels": {"team": "front"}}}));
    fixture.exporter.wait_for(DRIFTED, &[&*labelled, &[("team", "front")]].concat(), Some(1.0));
    fixture.write("metrics: {resources: drifted}\n");
    fixture.exporter.wait_for(DRIFTED, &[("name", "cart"), ("kind", "Deployment")], None);
    assert_eq!(fixture.exporter.sample(DRIFTED, WEB), Some(1.0));
}

#[test]
fn environment_overrides_the_file() {
    let fixture =
        ReloadFixture::start_with("metrics: {health: true}\n", &[("DRIFT_METRICS_HEALTH", "false")]);
    fixture.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    assert_eq!(fixture.exporter.sample("drift_resource_health", WEB), None);
    fixture.write(&format!("metrics: {{health: true}}\n{IGNORE}"));
    fixture.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    assert_eq!(fixture.exporter.sample("drift_resource_health", WEB), None);
}

#[test]
fn two_hundred_reloads_leak_nothing() {
    let fixture = ReloadFixture::start("");
    // Without a request, which would use threads and a connection.
    let process = || {
        let pid = fixture.exporter.running.pid();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        (field("VmRSS:"), field("Threads:"), files)
    };
    let series = || {
        // Nothing is left of the dropped kind and of old rules.
        fixture.exporter.wait_for("drift_watch_streams", &[], Some(1.0));
        fixture.exporter.wait_for("drift_cache_objects", &[("kind", "Deployment")], None);
        fixture.exporter.wait_for("drift_watch_stream_up", &[("kind", "Service")], Some(1.0));
        fixture.exporter.metrics().lines().filter(|line| !line.contains("_total")).count()
    };
    let cycle = |round: usize| {
        let rules: Vec<String> = (0..50)
            .map(|at| format!("- {{name: r{at}, match: {{names: [x{round}]}}, effect: ignore}}\n"))
            .collect();
        let rules = rules.concat();
        let kinds = if round.is_multiple_of(2) { "" } else { "kinds:\n- {apiVersion: v1, kind: Service}\n" };
        fixture.write_atomically(&format!("# {round}\n{kinds}rules:\n{rules}"));
        fixture.exporter.running.signal("HUP");
        eventually("the new settings are active", || {
            let rules = fixture.exporter.get("/v1/rules")?.text();
            rules.contains(&format!("\"x{round}\"")).then_some(())
        });
    };
    (0..40).for_each(cycle);
    let series_before = series();
    let (memory, threads, files) = process();
    (40..240).for_each(cycle);
    assert_eq!(series(), series_before);
    // Idle threads and connections end after a while.
    let (memory_after, ..) = eventually(&format!("at most {threads} threads and {files} files"), || {
        Some(process()).filter(|after| after.1 <= threads && after.2 <= files + 4)
    });
    assert!(memory_after < memory + 4096, "{memory} KiB, then {memory_after}");
    fixture.write_atomically("");
    fixture.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    fixture.exporter.wait_for("drift_watch_streams", &[], Some(2.0));
}

#[test]
fn hangup_without_a_settings_file_does_not_stop_the_exporter() {
    let fixture = ReloadFixture::start("{}");
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = write_kubeconfig(folder.path(), fixture.embedded.port);
    let mut without = Exporter::start(&kubeconfig, folder.path(), &[]).ready();
    without.running.signal("HUP");
    without.wait_for(DRIFTED, WEB, Some(1.0));
    without.running.signal("TERM");
    assert_eq!(without.running.wait(), Some(0));
}
