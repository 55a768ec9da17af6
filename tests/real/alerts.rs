//! Alert rules checked with promtool; routes and messages checked with amtool and a running Alertmanager.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::support::{
    alertmanager::{Alertmanager, example, fast_example},
    parts::program,
    receiver::{Receiver, has_text_details},
    wait::eventually,
};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts").join(name)
}

/// The files of a folder with this suffix, sorted.
fn files(name: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(name)).expect("a folder of alerts");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    files.sort();
    assert!(!files.is_empty(), "{name} has no {ending}");
    files
}

fn combined_output(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a program that must succeed, and returns its standard output.
#[track_caller]
fn run_ok(command: &mut Command) -> String {
    let output = command.output().expect("the program can be run");
    assert!(output.status.success(), "{command:?}\n{}", combined_output(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn amtool() -> Command {
    Command::new(program("alertmanager", "amtool"))
}

#[test]
fn promtool_accepts_the_rules() {
    let promtool = program("prometheus", "promtool");
    let rules = files("rules", ".yaml");
    run_ok(Command::new(promtool).args(["check", "rules", "--lint=all", "--lint-fatal"]).args(rules));
}

#[test]
fn promtool_rule_tests_pass() {
    let promtool = program("prometheus", "promtool");
    run_ok(Command::new(promtool).args(["test", "rules"]).args(files("tests", ".yaml")));
}

#[test]
fn amtool_accepts_the_configuration_and_templates() {
    let output = run_ok(amtool().arg("check-config").arg(example()));
    assert!(output.contains("1 templates"), "{output}");
}

#[test]
fn routes_select_the_expected_receivers() {
    let table = fs::read_to_string(folder("alertmanager/tests/routes.txt")).expect("the table of routes");
    let rows: Vec<&str> = table.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(rows.len() > 10, "{table}");
    for row in rows {
        let mut words = row.split_whitespace();
        let receivers = words.next().expect("receivers");
        let mut command = amtool();
        command.args(["config", "routes", "test"]).arg(format!("--config.file={}", example().display()));
        run_ok(command.arg(format!("--verify.receivers={receivers}")).args(words));
    }
}

/// Renders a template for a group of alerts.
fn rendered(template: &str, data: &Path) -> String {
    let rendered = run_ok(
        amtool()
            .args(["template", "render"])
            .arg(format!("--template.glob={}", folder("alertmanager/templates/*.tmpl").display()))
            .arg(format!("--template.text={{{{ template \"{template}\" . }}}}"))
            .arg(format!("--template.data={}", data.display())),
    );
    rendered.trim_end_matches('\n').to_owned()
}

#[test]
fn messages_contain_the_object_and_its_links() {
    let cases = fs::read_to_string(folder("alertmanager/tests/messages.json")).expect("the messages");
    let cases: Vec<Value> = serde_json::from_str(&cases).expect("messages");
    let scratch = tempfile::tempdir().expect("a folder");
    let data = scratch.path().join("data.json");
    for case in &cases {
        fs::write(&data, case["data"].to_string()).expect("written");
        for (template, expected) in case["want"].as_object().expect("templates") {
            assert_eq!(
                rendered(template, &data),
                expected.as_str().expect("text"),
                "{}: {template}",
                case["name"]
            );
        }
    }
    // Every template of the receivers is rendered above.
    let text = fs::read_to_string(example()).expect("the configuration");
    for used in text.split("template \"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(cases.iter().all(|case| case["want"][used].is_string()), "{used} is not rendered");
    }
}

/// Slack truncates longer messages.
const LONGEST: usize = 3_000;

#[test]
fn message_about_many_objects_stays_short() {
    let labels = |number: usize| {
        let name = format!("checkout-settlement-worker-{number:02}-of-the-eu-central-1-region");
        json!({"alertname": "DriftResourceDrifted", "severity": "warning", "cluster": "production-eu-central-1", "group": "apps", "kind": "Deployment",
            "namespace": "payments-production", "name": name})
    };
    let alert = |number: usize| {
        let labels = labels(number);
        let name = labels["name"].as_str().expect("a name");
        let description = format!(
            "Deployment payments-production/{name} in cluster production-eu-central-1 has drifted for 1h 0m 0s. It differs from what terraform declares as \
             module.checkout[\"eu-central-1\"].kubernetes_deployment_v1.settlement[{number}] in terraform/production/checkout: warning, unexpected, field image, last set by kubectl."
        );
        let page = format!(
            "https://drift.production.example.com/objects/Deployment.apps/payments-production/{name}#differences"
        );
        json!({"status": "firing", "labels": labels, "startsAt": "2026-11-17T09:00:00Z", "annotations": {
            "summary": "An object differs from what is declared.", "description": description, "page_url": page}})
    };
    let data = json!({"status": "firing", "alerts": (0..12).map(alert).collect::<Vec<_>>(), "commonLabels": {}, "groupLabels": {},
        "commonAnnotations": {"summary": "An object differs from what is declared."}});
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("data.json");
    fs::write(&path, data.to_string()).expect("written");
    let message = rendered("drift.text", &path);
    assert_eq!(message.matches("An object differs").count(), 1, "{message}");
    assert_eq!(message.matches("#differences").count(), 5, "{message}");
    assert!(message.contains("five of 12") && message.len() < LONGEST, "{}: {message}", message.len());
}

#[test]
fn each_page_covers_one_object_with_text_details() {
    let scratch = tempfile::tempdir().expect("a folder");
    let receiver = Receiver::start();
    let alertmanager = Alertmanager::start(&fast_example(scratch.path(), &receiver), scratch.path());
    let add = |labels: &[(&str, &str)], annotations: &[(&str, &str)]| {
        let common =
            [("alertname", "DriftResourceCritical"), ("severity", "critical"), ("namespace", "shop")];
        let labels = common.iter().chain(labels).map(|(name, value)| format!("{name}={value:?}"));
        let annotations = annotations.iter().map(|(name, value)| format!("--annotation={name}={value:?}"));
        run_ok(alertmanager.amtool().args(["alert", "add"]).args(annotations).args(labels));
    };
    let described = [
        ("summary", "It was changed."),
        ("description", "It differs from what terraform declares: critical, unexpected, field rbac."),
        ("field", "rbac"),
        ("actor", "kubectl"),
        ("address", "module.shop[\"a: b\"].kubernetes_role_v1.a"),
    ];
    add(&[("kind", "Role"), ("name", "a: b")], &described);
    add(&[("kind", "Role"), ("name", "b"), ("team", "front")], &described);
    add(&[("kind", "RoleBinding"), ("name", "b")], &[]);
    let pages = eventually("three pages", || Some(receiver.to_pagerduty()).filter(|pages| pages.len() == 3));
    let mut objects = Vec::new();
    for page in &pages {
        let details = page["payload"]["custom_details"].as_object().expect("details");
        assert!(has_text_details(page), "{details:#?}");
        objects.push(details["object"].as_str().expect("words").replace('\u{a0}', " "));
    }
    objects.sort();
    assert_eq!(objects, ["Role shop/a: b", "Role shop/b", "RoleBinding shop/b"]);
    // Each webhook writes to one channel.
    eventually("messages in both channels", || {
        let sent = ["pages", "pages-front"].map(|channel| receiver.to_slack(channel).len());
        (sent == [2, 1]).then_some(())
    });
}

/// The names of the active alerts, or of the inhibited ones.
fn names(alertmanager: &Alertmanager, inhibited: bool) -> Vec<String> {
    let mut command = alertmanager.amtool();
    command.args(["alert", "query", "--output=json"]).args(inhibited.then_some("--inhibited"));
    let alerts: Vec<Value> = serde_json::from_str(&run_ok(&mut command)).expect("alerts");
    let names = alerts.iter().filter_map(|alert| alert["labels"]["alertname"].as_str());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn alertmanager_retention_covers_the_repeat_interval() {
    let scratch = tempfile::tempdir().expect("a folder");
    let _alertmanager = Alertmanager::start(&example(), scratch.path());
    let log = fs::read_to_string(scratch.path().join("alertmanager.log")).expect("its log");
    assert!(log.contains("Completed loading") && !log.contains("repeat_interval"), "{log}");
}

#[test]
fn storm_inhibits_tickets_of_its_cluster_but_no_pages() {
    const WEB: [&str; 4] = ["group=apps", "kind=Deployment", "namespace=shop", "name=web"];
    let scratch = tempfile::tempdir().expect("a folder");
    // Without the secret files, it sends no notifications.
    let alertmanager = Alertmanager::start(&example(), scratch.path());
    let add = |name: &str, severity: &str, cluster: &str, rest: &[&str]| {
        let common =
            [format!("alertname={name}"), format!("severity={severity}"), format!("cluster={cluster}")];
        let labels: Vec<&str> = common.iter().map(String::as_str).chain(rest.iter().copied()).collect();
        run_ok(alertmanager.amtool().args(["alert", "add"]).args(labels));
    };
    // The paging alert has another source than the storm: the rules exclude objects of the storm's source.
    add("DriftStorm", "critical", "east", &["source=terraform"]);
    add("DriftResourceCritical", "critical", "east", &WEB);
    add("DriftResourceMissing", "critical", "east", &[WEB[0], WEB[1], WEB[2], "name=cart"]);
    add("DriftResourceFlapping", "warning", "east", &WEB);
    add("DriftResourceExpected", "info", "east", &["namespace=shop"]);
    add("DriftAbsorbed", "info", "east", &["namespace=shop", "source=terraform"]);
    add("DriftObjectiveMissed", "warning", "east", &["source=helm"]);
    add("DriftExporterDown", "warning", "north", &[]);
    add("DriftWatchStreamDown", "warning", "north", &["kind=Deployment", "group=apps"]);
    // In another cluster, the paging alert inhibits the ticket of the same object, but not that of another.
    add("DriftResourceMissing", "critical", "west", &WEB);
    add("DriftResourceDrifted", "warning", "west", &WEB);
    add("DriftResourceOld", "warning", "west", &[WEB[0], WEB[1], WEB[2], "name=cart"]);
    let (active, inhibited) = eventually("all twelve alerts", || {
        let all = (names(&alertmanager, false), names(&alertmanager, true));
        (all.0.len() + all.1.len() == 12).then_some(all)
    });
    assert_eq!(
        active,
        [
            "DriftExporterDown",
            "DriftObjectiveMissed",
            "DriftResourceCritical",
            "DriftResourceMissing",
            "DriftResourceMissing",
            "DriftResourceOld",
            "DriftStorm"
        ]
    );
    assert_eq!(
        inhibited,
        [
            "DriftAbsorbed",
            "DriftResourceDrifted",
            "DriftResourceExpected",
            "DriftResourceFlapping",
            "DriftWatchStreamDown"
        ]
    );
}
