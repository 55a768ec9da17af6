//! Settings that change while the program runs.

use std::{fs, path::PathBuf, process::Command, sync::Arc};

use drift_exporter::{
    demo,
    types::{Clock, Kind, ObjectKey},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::programs::{embedded::Embedded, exporter::Exporter, wait::eventually};

/// An exporter with a settings file, on an embedded cluster with one drifted Deployment.
struct Shop {
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

impl Shop {
    fn open(settings: &str) -> Self {
        Self::open_with(settings, &[])
    }

    fn open_with(settings: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let shop = demo::Shop::open(Clock::system(), "tfdrift.jin.dev").unwrap();
        let embedded = runtime.block_on(Embedded::serve(shop.cluster().clone()));
        embedded.cluster.scale(&deployment("web"), "kubectl", 9).unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let server = format!("http://127.0.0.1:{}", embedded.port);
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: t, clusters: [{{name: t, cluster: {{server: '{server}'}}}}], \
             contexts: [{{name: t, context: {{cluster: t, user: t}}}}], users: [{{name: t, user: {{}}}}]}}"
        );
        fs::write(&kubeconfig, text).unwrap();
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

    /// Replaces the file as careful people do.
    fn swap(&self, settings: &str) {
        let new = self.file.with_extension("new");
        fs::write(&new, settings).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    /// Changes the Deployment `web`, and waits until the exporter has seen that.
    #[track_caller]
    fn edit(&self, change: Value) {
        let edited = self.embedded.cluster.patch(&deployment("web"), "kubectl", change).unwrap();
        let version = &edited["metadata"]["resourceVersion"];
        eventually("the exporter sees the edit", || {
            let seen = self.exporter.get("/v1/resources/deployment/shop/web")?.json();
            (seen["resourceVersion"] == *version).then_some(())
        });
    }

    fn onset(&self) -> Option<f64> {
        self.exporter.sample("drift_resource_drifted_timestamp_seconds", WEB)
    }

    #[track_caller]
    fn reloads(&self, successful: bool) {
        let value = Some(f64::from(u8::from(successful)));
        self.exporter.wait_for("drift_config_last_reload_successful", &[], value);
    }
}

const IGNORE: &str = "rules:\n- {name: known, match: {names: [web]}, effect: ignore, owner: me}\n";

#[test]
fn a_rule_that_comes_hides_drift_and_when_it_goes_the_old_onset_is_back() {
    let shop = Shop::open("");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    let onset = shop.onset().unwrap();
    shop.write(IGNORE);
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    assert_eq!(shop.onset(), None);
    assert_eq!(shop.exporter.sample("drift_rule_matches", &[("rule", "known")]), Some(1.0));
    assert_eq!(
        shop.exporter.sample(
            "drift_resources",
            &[("kind", "Deployment"), ("namespace", "shop"), ("verdict", "ignored")]
        ),
        Some(1.0)
    );
    let page = shop.exporter.get("/objects/deployments.apps/shop/web").unwrap().text();
    assert!(page.contains("Ignored by rules") && page.contains("ignored by known"), "{page}");
    let rules = shop.exporter.get("/v1/rules").unwrap().json();
    let known = rules["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == "known").unwrap();
    assert_eq!(
        (&known["from"], &known["matches"], &known["owner"]),
        (&"settings".into(), &1.into(), &"me".into())
    );
    shop.swap("");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    assert_eq!(shop.onset(), Some(onset));
    let history = shop.exporter.get("/v1/history").unwrap().json();
    assert_eq!(history["transitions"][1]["cause"], "rule", "{history}");
}

#[test]
fn a_broken_file_changes_nothing_but_what_is_said_about_it() {
    let shop = Shop::open(IGNORE);
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    shop.reloads(true);
    for broken in ["rules: [", "rulez: []\n", "rules:\n- {name: a, effect: ignor}\n", &"#".repeat(10 << 20)] {
        shop.write(broken);
        shop.reloads(false);
        assert_eq!(shop.exporter.sample(DRIFTED, WEB), Some(0.0), "the last good rule still hides it");
        let status = shop.exporter.get("/v1/status").unwrap().json();
        assert_eq!(status["settings"]["successful"], false);
        assert!(status["settings"]["problems"][0]["message"].is_string(), "{status}");
        let page = shop.exporter.get("/").unwrap().text();
        assert!(page.contains("The settings file cannot be used"), "{page}");
        shop.write(IGNORE);
        shop.reloads(true);
    }
    fs::remove_file(&shop.file).unwrap();
    shop.reloads(false);
    assert_eq!(shop.exporter.sample(DRIFTED, WEB), Some(0.0));
    assert!(shop.exporter.logged().contains("the last valid ones stay in use"), "{}", shop.exporter.logged());
    shop.write("");
    shop.reloads(true);
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    assert!(!shop.exporter.get("/").unwrap().text().contains("The settings file cannot be used"));
}

#[test]
fn a_hangup_reads_the_file_at_once_and_kinds_come_and_go() {
    let shop = Shop::open("");
    shop.write("kinds:\n- {apiVersion: v1, kind: Namespace}\n");
    shop.exporter.running.signal("HUP");
    shop.exporter.wait_for("drift_cache_objects", &[("kind", "Namespace")], Some(6.0));
    shop.exporter.wait_for(DRIFTED, WEB, None);
    shop.exporter.wait_for("drift_watch_streams", &[], Some(1.0));
    shop.write("");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    shop.exporter.wait_for("drift_cache_objects", &[("kind", "Namespace")], None);
}

#[test]
fn a_rule_about_labels_finds_objects_that_were_read_before_it() {
    let shop = Shop::open("");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    shop.edit(json!({"metadata": {"labels": {"tier": "test"}}}));
    shop.write("rules:\n- {name: tests, match: {labels: {tier: test}}, effect: ignore}\n");
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    // Another rule that says the same with a label that nobody asked for before: nothing happens in between.
    let sum = |name: &str| -> u64 {
        let page = shop.exporter.metrics();
        let own = page.lines().filter(|line| line.starts_with(name));
        own.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    let history = shop.exporter.get("/v1/history").unwrap().json();
    let (detections, last) = (sum("drift_detections_total"), history["last"].as_u64().unwrap());
    shop.write("rules:\n- {name: tests, match: {labels: {tier: test, app.kubernetes.io/name: web}}, effect: ignore}\n");
    eventually("the new rule holds", || {
        let rules = shop.exporter.get("/v1/rules")?.text();
        (rules.contains("\"app.kubernetes.io/name\":\"web\"")).then_some(())
    });
    shop.exporter.wait_for("drift_rule_matches", &[("rule", "tests")], Some(1.0));
    // The next thing that happens is the first since then.
    shop.embedded.cluster.scale(&deployment("cart"), "kubectl", 9).unwrap();
    shop.exporter.wait_for(DRIFTED, &[("name", "cart"), ("kind", "Deployment")], Some(1.0));
    assert_eq!(sum("drift_detections_total"), detections + 1);
    assert_eq!(shop.exporter.get("/v1/history").unwrap().json()["last"], last + 1);
    shop.edit(json!({"metadata": {"labels": {"tier": null}}}));
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
}

#[test]
fn an_object_mutes_itself_only_where_settings_allow_it() {
    let shop = Shop::open("");
    let mute = |paths: &str| {
        shop.edit(json!({"metadata": {"annotations": {"tfdrift.jin.dev/ignore": paths}}}));
    };
    mute("spec.nothing, spec");
    assert_eq!(shop.exporter.sample(DRIFTED, WEB), Some(1.0));
    shop.write("mute_by_annotation: true\n");
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    let object = shop.exporter.get("/v1/resources/deployment/shop/web").unwrap().json();
    let ignored = &object["claims"][0]["ignored"][0];
    assert_eq!(
        (&ignored["path"], &ignored["ignoredBy"]),
        (&"spec".into(), &"(annotation)".into()),
        "{object}"
    );
    mute("spec.nothing, .., [");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    mute("**");
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    // What is critical cannot be muted by whoever edits the object.
    shop.write("mute_by_annotation: true\nseverities: [{severity: critical, fields: [hash]}]\n");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
}

#[test]
fn how_much_is_logged_and_shown_changes_with_the_file() {
    let shop = Shop::open("");
    let health = ("drift_resource_health", WEB);
    assert_eq!(shop.exporter.sample(health.0, health.1), None);
    shop.write("metrics: {health: true}\nlog: {level: error}\n");
    shop.exporter.wait_for(health.0, health.1, Some(1.0));
    let said = shop.exporter.logged();
    shop.write("rules: [");
    shop.reloads(false);
    assert_eq!(shop.exporter.logged(), said, "warnings are not logged any more");
    shop.write("metrics: {labels: [team, app.kubernetes.io/name]}\n");
    let labelled = [WEB, &[("app_kubernetes_io_name", "web")]].concat();
    shop.exporter.wait_for(DRIFTED, &labelled, Some(1.0));
    shop.edit(json!({"metadata": {"labels": {"team": "front"}}}));
    shop.exporter.wait_for(DRIFTED, &[&*labelled, &[("team", "front")]].concat(), Some(1.0));
    shop.write("metrics: {resources: drifted}\n");
    shop.exporter.wait_for(DRIFTED, &[("name", "cart"), ("kind", "Deployment")], None);
    assert_eq!(shop.exporter.sample(DRIFTED, WEB), Some(1.0));
}

#[test]
fn what_the_environment_switches_off_no_file_switches_on() {
    let shop = Shop::open_with("metrics: {health: true}\n", &[("DRIFT_METRICS_HEALTH", "false")]);
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    assert_eq!(shop.exporter.sample("drift_resource_health", WEB), None);
    shop.write(&format!("metrics: {{health: true}}\n{IGNORE}"));
    shop.exporter.wait_for(DRIFTED, WEB, Some(0.0));
    assert_eq!(shop.exporter.sample("drift_resource_health", WEB), None);
}

#[test]
fn two_hundred_reloads_leave_no_memory_thread_or_file_behind() {
    let shop = Shop::open("");
    let measure = || {
        // Nothing of the kind that is not wanted in this round is left, and nothing of rules that were.
        shop.exporter.wait_for("drift_watch_streams", &[], Some(1.0));
        shop.exporter.wait_for("drift_cache_objects", &[("kind", "Deployment")], None);
        shop.exporter.wait_for("drift_watch_stream_up", &[("kind", "Service")], Some(1.0));
        let series = shop.exporter.metrics().lines().filter(|line| !line.contains("_total")).count();
        let pid = shop.exporter.running.pid();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        (field("VmRSS:"), field("Threads:"), files, series)
    };
    let cycle = |round: usize| {
        let rules: Vec<String> = (0..50)
            .map(|at| format!("- {{name: r{at}, match: {{names: [x{round}]}}, effect: ignore}}\n"))
            .collect();
        let rules = rules.concat();
        let kinds = if round.is_multiple_of(2) { "" } else { "kinds:\n- {apiVersion: v1, kind: Service}\n" };
        shop.swap(&format!("# {round}\n{kinds}rules:\n{rules}"));
        shop.exporter.running.signal("HUP");
        eventually("it is taken over", || {
            let rules = shop.exporter.get("/v1/rules")?.text();
            rules.contains(&format!("\"x{round}\"")).then_some(())
        });
    };
    (0..40).for_each(cycle);
    let (memory, threads, files, series) = measure();
    (40..240).for_each(cycle);
    // Threads and connections that have nothing to do end after a while.
    let (memory_after, _, _, series_after) =
        eventually(&format!("at most {threads} threads and {files} files"), || {
            Some(measure()).filter(|after| after.1 <= threads && after.2 <= files + 4)
        });
    assert_eq!(series_after, series);
    assert!(memory_after < memory + 4096, "{memory} KiB, then {memory_after}");
    shop.swap("");
    shop.exporter.wait_for(DRIFTED, WEB, Some(1.0));
    shop.exporter.wait_for("drift_watch_streams", &[], Some(2.0));
}
