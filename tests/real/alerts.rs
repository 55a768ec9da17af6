//! Alerts by the word of promtool, and who hears of them by that of amtool and a running Alertmanager.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use serde_json::Value;

use crate::support::{
    alertmanager::{Alertmanager, example},
    parts::program,
    process::eventually,
};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts").join(name)
}

/// The files of a folder whose names end so, in their order.
fn files(name: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(name)).expect("a folder of alerts");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    files.sort();
    assert!(!files.is_empty(), "{name} has no {ending}");
    files
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What a program says that has to succeed.
#[track_caller]
fn succeeded(command: &mut Command) -> String {
    let output = command.output().expect("the program can be run");
    assert!(output.status.success(), "{command:?}\n{}", said(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn amtool() -> Command {
    Command::new(program("alertmanager", "amtool"))
}

#[test]
fn promtool_finds_nothing_wrong_with_the_rules() {
    let promtool = program("prometheus", "promtool");
    let rules = files("rules", ".yaml");
    succeeded(Command::new(promtool).args(["check", "rules", "--lint=all", "--lint-fatal"]).args(rules));
}

#[test]
fn alerts_fire_when_they_should_and_at_no_other_time() {
    let promtool = program("prometheus", "promtool");
    succeeded(Command::new(promtool).args(["test", "rules"]).args(files("tests", ".yaml")));
}

#[test]
fn amtool_takes_the_configuration_and_its_templates() {
    let said = succeeded(amtool().arg("check-config").arg(example()));
    assert!(said.contains("1 templates"), "{said}");
}

#[test]
fn alerts_reach_whom_they_are_for() {
    let table = fs::read_to_string(folder("alertmanager/tests/routes.txt")).expect("the table of routes");
    let rows: Vec<&str> = table.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(rows.len() > 10, "{table}");
    for row in rows {
        let mut words = row.split_whitespace();
        let receivers = words.next().expect("receivers");
        let mut command = amtool();
        command.args(["config", "routes", "test"]).arg(format!("--config.file={}", example().display()));
        succeeded(command.arg(format!("--verify.receivers={receivers}")).args(words));
    }
}

#[test]
fn messages_name_the_object_and_have_their_links() {
    let cases = fs::read_to_string(folder("alertmanager/tests/messages.json")).expect("the messages");
    let cases: Vec<Value> = serde_json::from_str(&cases).expect("messages");
    let scratch = tempfile::tempdir().expect("a folder");
    let data = scratch.path().join("data.json");
    for case in &cases {
        fs::write(&data, case["data"].to_string()).expect("written");
        for (template, wanted) in case["want"].as_object().expect("templates") {
            let rendered = succeeded(
                amtool()
                    .args(["template", "render"])
                    .arg(format!("--template.glob={}", folder("alertmanager/templates/*.tmpl").display()))
                    .arg(format!("--template.text={{{{ template \"{template}\" . }}}}"))
                    .arg(format!("--template.data={}", data.display())),
            );
            assert_eq!(
                Some(rendered.trim_end_matches('\n')),
                wanted.as_str(),
                "{}: {template}",
                case["name"]
            );
        }
    }
    // Every template that the receivers use is rendered above.
    let text = fs::read_to_string(example()).expect("the configuration");
    for used in text.split("template \"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(cases.iter().all(|case| case["want"][used].is_string()), "{used} is not rendered");
    }
}

/// The names of the alerts that reach somebody, or of those that others hide.
fn names(alertmanager: &Alertmanager, hidden: bool) -> Vec<String> {
    let mut command = alertmanager.amtool();
    command.args(["alert", "query", "--output=json"]).args(hidden.then_some("--inhibited"));
    let alerts: Vec<Value> = serde_json::from_str(&succeeded(&mut command)).expect("alerts");
    let names = alerts.iter().filter_map(|alert| alert["labels"]["alertname"].as_str());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn a_storm_hides_the_rest_of_its_cluster_and_nothing_else() {
    const WEB: [&str; 4] = ["group=apps", "kind=Deployment", "namespace=shop", "name=web"];
    let scratch = tempfile::tempdir().expect("a folder");
    // The secrets are missing, so it cannot tell anybody anything.
    let alertmanager = Alertmanager::start(&example(), scratch.path());
    let add = |name: &str, severity: &str, cluster: &str, rest: &[&str]| {
        let own = [format!("alertname={name}"), format!("severity={severity}"), format!("cluster={cluster}")];
        let labels: Vec<&str> = own.iter().map(String::as_str).chain(rest.iter().copied()).collect();
        succeeded(alertmanager.amtool().args(["alert", "add"]).args(labels));
    };
    add("DriftStorm", "critical", "east", &["source=terraform"]);
    add("DriftResourceCritical", "critical", "east", &WEB);
    add("DriftAbsorbed", "info", "east", &["namespace=shop", "source=terraform"]);
    add("DriftExporterDown", "warning", "north", &[]);
    add("DriftWatchStreamDown", "warning", "north", &["kind=Deployment", "group=apps"]);
    // In another cluster: what pages hides the ticket about the same object, and not that about another.
    add("DriftResourceMissing", "critical", "west", &WEB);
    add("DriftResourceDrifted", "warning", "west", &WEB);
    add("DriftResourceOld", "warning", "west", &[WEB[0], WEB[1], WEB[2], "name=cart"]);
    let (heard, hidden) = eventually("all eight alerts", Duration::from_secs(30), || {
        let told = (names(&alertmanager, false), names(&alertmanager, true));
        (told.0.len() + told.1.len() == 8).then_some(told)
    });
    assert_eq!(heard, ["DriftExporterDown", "DriftResourceMissing", "DriftResourceOld", "DriftStorm"]);
    assert_eq!(
        hidden,
        ["DriftAbsorbed", "DriftResourceCritical", "DriftResourceDrifted", "DriftWatchStreamDown"]
    );
}
