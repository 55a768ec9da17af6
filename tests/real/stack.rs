//! From an edit to a page and its resolution, with all real programs.

#![expect(clippy::panic, reason = "tests fail by panicking")]

use std::{
    fs,
    path::Path,
    process::Command,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    dashboards::{self, Exporters},
    support::{
        http_client,
        process::{Running, termination_requested},
        receiver::has_text_details,
        stack::{SPEED_UP, Stack},
        wait::eventually,
    },
};

const ADDRESS: &str = "module.checkout[\"eu\"].kubernetes_deployment_v1.api";
/// The `for` of critical drift in the alert rules, in the stack's time.
const ALERT_FOR: Duration = Duration::from_secs(600 / SPEED_UP);

/// PagerDuty events about this cluster. Prometheus scrapes other clusters too.
fn pagerduty_events(stack: &Stack) -> Vec<Value> {
    let all = stack.receiver.to_pagerduty().into_iter();
    all.filter(|event| event["payload"]["group"] == "stack").collect()
}

/// Messages of the channel for pages about this cluster.
fn slack_messages(stack: &Stack) -> Vec<Value> {
    let about = |message: &Value| text(message, "/attachments/0/title").ends_with("(stack)");
    stack.receiver.to_slack("pages").into_iter().filter(about).collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no text {pointer} in {value:#}"))
}

#[test]
fn edit_pages_slack_and_pagerduty_and_revert_resolves_both() {
    let others = Exporters::start();
    let mut stack = Stack::start(&[others.job()]);
    stack
        .prometheus
        .wait_for("sum(drift_resources{cluster=\"stack\",source=\"terraform\",verdict=\"in_sync\"}) == 8", 1);

    // A restart of the API server pages no one.
    stack.restart_apiserver(Duration::from_secs(3));
    stack.prometheus.wait_for("min(drift_watch_stream_up{cluster=\"stack\"}) == 1", 1);
    std::thread::sleep(ALERT_FOR * 2);
    assert_eq!(
        [pagerduty_events(&stack), slack_messages(&stack)].concat(),
        [Value::Null; 0],
        "no page is sent"
    );

    let edited = Instant::now();
    // `scale` to 0 would leave no field manager.
    stack.kubectl(&[
        "-n",
        "payments",
        "patch",
        "deployment",
        "checkout-eu",
        "-p",
        r#"{"spec":{"replicas":0}}"#,
    ]);
    let paged = eventually("PagerDuty receives the page", || pagerduty_events(&stack).into_iter().next());
    let took = edited.elapsed();
    println!("edit to page: {took:?}, of which {ALERT_FOR:?} by the rule");
    // The onset has whole seconds.
    assert!(took + Duration::from_secs(1) >= ALERT_FOR, "{took:?} is too early");
    check_pagerduty(&paged);
    let message = eventually("Slack receives the page", || slack_messages(&stack).into_iter().next());
    check_slack(&message);
    check_link_shows_the_fields(&stack, text(&paged, "/client_url"));
    check_link_shows_the_fields(&stack, text(&message, "/attachments/0/title_link"));
    check_link_shows_the_fields(&stack, text(&message, "/attachments/0/actions/2/url"));
    dashboards::check_during_drift(&stack.prometheus, "stack");

    // A restart during the drift neither resolves nor repeats the page.
    stack.restart_apiserver(Duration::from_secs(3));
    std::thread::sleep(ALERT_FOR);
    let events = pagerduty_events(&stack);
    let is_the_same =
        |event: &Value| event["event_action"] == "trigger" && event["dedup_key"] == paged["dedup_key"];
    assert!(events.iter().all(is_the_same), "{events:#?}");
    let messages = slack_messages(&stack);
    assert!(messages.iter().all(|other| other == &message), "{messages:#?}");

    // Terraform reverts the edit.
    stack.terraform.apply();
    let resolved = eventually("PagerDuty receives the resolution", || {
        pagerduty_events(&stack).into_iter().find(|event| event["event_action"] == "resolve")
    });
    assert_eq!(resolved["dedup_key"], paged["dedup_key"]);
    eventually("Slack receives the resolution", || {
        let titles = slack_messages(&stack);
        let title = "[RESOLVED] DriftResourceCritical: Deployment payments/checkout-eu (stack)";
        titles.iter().any(|sent| sent["attachments"][0]["title"] == title).then_some(())
    });

    // The same Prometheus returns data for all dashboard queries.
    dashboards::check(&others.scraped_by(stack.prometheus.clone()));
}

/// Fields of Events API v2, and the details of the object.
fn check_pagerduty(event: &Value) {
    assert_eq!(text(event, "/routing_key"), "key-of-platform");
    assert_eq!(
        text(event, "/payload/summary"),
        "[FIRING:1] DriftResourceCritical: Deployment payments/checkout-eu (stack)"
    );
    assert_eq!(text(event, "/payload/severity"), "critical");
    assert!(!text(event, "/payload/source").is_empty());
    for (name, expected) in [
        ("object", "Deployment payments/checkout-eu"),
        ("field", "replicas"),
        ("actor", "kubectl"),
        ("address", ADDRESS),
    ] {
        assert_eq!(text(event, &format!("/payload/custom_details/{name}")), expected);
    }
    assert!(has_text_details(event), "{event:#}");
    let links: Vec<&str> =
        event["links"].as_array().expect("links").iter().map(|link| text(link, "/text")).collect();
    assert_eq!(links, ["Runbook", "Dashboard", "Object", "Silence"]);
}

/// Fields of an incoming webhook, and the details of the object.
fn check_slack(message: &Value) {
    assert!(message.get("channel").is_none(), "a webhook has one channel");
    let attachment = &message["attachments"][0];
    assert_eq!(
        text(attachment, "/title"),
        "[FIRING:1] DriftResourceCritical: Deployment payments/checkout-eu (stack)"
    );
    assert_eq!(text(attachment, "/color"), "danger");
    let words = text(attachment, "/text");
    for expected in ["field replicas", "last set by kubectl", ADDRESS, "terraform/default/payments"] {
        assert!(words.contains(expected), "{expected} is not in {words}");
    }
    let buttons = attachment["actions"].as_array().expect("buttons").iter();
    let buttons: Vec<(&str, &str)> =
        buttons.map(|button| (text(button, "/text"), text(button, "/url"))).collect();
    for (at, name) in ["Runbook", "Dashboard", "Object", "Silence"].iter().enumerate() {
        assert!(buttons[at].0 == *name && buttons[at].1.starts_with("http"), "{buttons:?}");
    }
}

/// The link of a message opens the page that shows the field with both values.
fn check_link_shows_the_fields(stack: &Stack, link: &str) {
    let start = format!("http://127.0.0.1:{}", stack.exporter.port);
    let path = link.strip_prefix(&start).unwrap_or_else(|| panic!("{link} has another host"));
    let (path, place) = path.split_once('#').expect("a place on the page");
    let answer = http_client::get(stack.exporter.port, path, &[]).expect("the page");
    let shown = answer.text();
    assert_eq!(answer.status, 200);
    for expected in [
        format!("id=\"{place}\""),
        "spec.replicas".to_owned(),
        "<del>2</del>".to_owned(),
        "<ins>0</ins>".to_owned(),
    ] {
        assert!(shown.contains(&expected), "{expected} is not on {link}");
    }
}

/// `make stack`: runs all programs until Ctrl-C.
#[test]
#[ignore = "runs until it is terminated: make stack"]
fn by_hand() {
    let terminated = termination_requested();
    let stack = Stack::start(&[]);
    println!(
        "\nAll programs are running. One minute of the alert rules is one second here.\n\n  \
         page          http://127.0.0.1:{}/\n  Prometheus    http://127.0.0.1:{}/alerts\n  Alertmanager  http://127.0.0.1:{}/\n  \
         kubeconfig    {}\n\nTry: kubectl --kubeconfig {3} -n payments patch deployment checkout-eu -p '{{\"spec\":{{\"replicas\":0}}}}'\n\
         Messages to Slack and PagerDuty are printed here. Ctrl-C stops everything.\n",
        stack.exporter.port,
        stack.prometheus.port,
        stack.alertmanager.port,
        stack.cluster.kubeconfig(crate::support::cluster::User::Admin).display(),
    );
    let mut printed = 0;
    while !terminated.load(Ordering::Relaxed) {
        let messages = stack.receiver.messages();
        for message in &messages[printed..] {
            println!("{} {:#}", message.path, message.body);
        }
        printed = messages.len();
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Like `make stack`, with one program that sleeps.
#[test]
#[ignore = "runs until it is terminated"]
fn minimal_by_hand() {
    let terminated = termination_requested();
    let folder = tempfile::tempdir().expect("a folder");
    let running = Running::start(Command::new("sleep").arg("600"), &folder.path().join("log"));
    println!("started {}", running.pid());
    while !terminated.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts the test from a shell, waits for its program, runs an action, and asserts that the program ends.
fn assert_stops_after(act: impl FnOnce(&mut Running, u32)) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let executable = std::env::current_exe().expect("a path");
    let script = "\"$0\" --ignored --exact --nocapture stack::minimal_by_hand & echo \"by $!\"; wait";
    let mut shell = Running::start(Command::new("bash").args(["-c", script]).arg(executable), &log);
    let number = |word: &str| -> Option<u32> {
        let text = fs::read_to_string(&log).ok()?;
        text.split_once(word)?.1.split_whitespace().next()?.parse().ok()
    };
    let test = eventually("the test runs", || number("by "));
    let program = eventually("its program runs", || number("started "));
    let runs = || Path::new(&format!("/proc/{program}")).exists();
    assert!(runs());
    act(&mut shell, test);
    eventually("its program ends", || (!runs()).then_some(()));
}

#[test]
fn termination_stops_all_started_processes() {
    for signal in ["INT", "TERM", "HUP"] {
        assert_stops_after(|_, test| {
            let status = Command::new("kill").args(["-s", signal, &test.to_string()]).status();
            assert!(status.is_ok_and(|status| status.success()));
        });
    }
    // Terminating `make` terminates cargo, but not the test.
    assert_stops_after(|shell, _| shell.kill());
}
