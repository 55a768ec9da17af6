//! From an edit to the pager and back, through every real part.

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
        page,
        process::{Running, wanted_end},
        receiver::is_told_in_words,
        stack::{HURRY, Stack},
        wait::eventually,
    },
};

const ADDRESS: &str = "module.checkout[\"eu\"].kubernetes_deployment_v1.api";
/// What drift that cannot wait may last, as the rules say it, in the stack's time.
const ALERT_FOR: Duration = Duration::from_secs(600 / HURRY);

/// What PagerDuty was sent about this cluster; others are scraped, too, and things happen there.
fn pages(stack: &Stack) -> Vec<Value> {
    let all = stack.receiver.to_pagerduty().into_iter();
    all.filter(|event| event["payload"]["group"] == "stack").collect()
}

/// What the channel for pages was sent about this cluster.
fn told(stack: &Stack) -> Vec<Value> {
    let about = |message: &Value| text(message, "/attachments/0/title").ends_with("(stack)");
    stack.receiver.to_slack("pages").into_iter().filter(about).collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no text {pointer} in {value:#}"))
}

#[test]
fn an_edit_pages_by_slack_and_pagerduty_and_its_revert_resolves_both() {
    let others = Exporters::start();
    let mut stack = Stack::start(&[others.job()]);
    stack
        .prometheus
        .wait_for("sum(drift_resources{cluster=\"stack\",source=\"terraform\",verdict=\"in_sync\"}) == 8", 1);

    // A restart of the control plane is nobody's business.
    stack.restart_apiserver(Duration::from_secs(3));
    stack.prometheus.wait_for("min(drift_watch_stream_up{cluster=\"stack\"}) == 1", 1);
    std::thread::sleep(ALERT_FOR * 2);
    assert_eq!([pages(&stack), told(&stack)].concat(), [Value::Null; 0], "nobody is paged");

    let edited = Instant::now();
    // Not by `scale`: the API server forgets who set 0 through that.
    stack.kubectl(&[
        "-n",
        "payments",
        "patch",
        "deployment",
        "checkout-eu",
        "-p",
        r#"{"spec":{"replicas":0}}"#,
    ]);
    let paged = eventually("PagerDuty hears of it", || pages(&stack).into_iter().next());
    let took = edited.elapsed();
    println!("edit to page: {took:?}, of which {ALERT_FOR:?} by the rule");
    // The onset stands in whole seconds.
    assert!(took + Duration::from_secs(1) >= ALERT_FOR, "{took:?} is too early");
    check_pagerduty(&paged);
    let message = eventually("Slack hears of it", || told(&stack).into_iter().next());
    check_slack(&message);
    leads_to_the_fields(&stack, text(&paged, "/client_url"));
    leads_to_the_fields(&stack, text(&message, "/attachments/0/title_link"));
    leads_to_the_fields(&stack, text(&message, "/attachments/0/actions/2/url"));
    dashboards::check_while_it_drifts(&stack.prometheus, "stack");

    // Nor is one while it goes on: nothing is resolved, nothing is said twice.
    stack.restart_apiserver(Duration::from_secs(3));
    std::thread::sleep(ALERT_FOR);
    let events = pages(&stack);
    let is_the_same =
        |event: &Value| event["event_action"] == "trigger" && event["dedup_key"] == paged["dedup_key"];
    assert!(events.iter().all(is_the_same), "{events:#?}");
    let messages = told(&stack);
    assert!(messages.iter().all(|own| own == &message), "{messages:#?}");

    // Terraform puts it back.
    stack.terraform.apply();
    let resolved = eventually("PagerDuty hears of the end", || {
        pages(&stack).into_iter().find(|event| event["event_action"] == "resolve")
    });
    assert_eq!(resolved["dedup_key"], paged["dedup_key"]);
    eventually("Slack hears of the end", || {
        let titles = told(&stack);
        let title = "[RESOLVED] DriftResourceCritical: Deployment payments/checkout-eu (stack)";
        titles.iter().any(|own| own["attachments"][0]["title"] == title).then_some(())
    });

    // The same Prometheus has an answer for whatever the dashboards ask.
    dashboards::check(&others.seen_by(stack.prometheus.clone()));
}

/// What Events API v2 wants, and what people want to know.
fn check_pagerduty(event: &Value) {
    assert_eq!(text(event, "/routing_key"), "key-of-platform");
    assert_eq!(
        text(event, "/payload/summary"),
        "[FIRING:1] DriftResourceCritical: Deployment payments/checkout-eu (stack)"
    );
    assert_eq!(text(event, "/payload/severity"), "critical");
    assert!(!text(event, "/payload/source").is_empty());
    for (name, wanted) in [
        ("object", "Deployment payments/checkout-eu"),
        ("field", "replicas"),
        ("actor", "kubectl"),
        ("address", ADDRESS),
    ] {
        assert_eq!(text(event, &format!("/payload/custom_details/{name}")), wanted);
    }
    assert!(is_told_in_words(event), "{event:#}");
    let links: Vec<&str> =
        event["links"].as_array().expect("links").iter().map(|link| text(link, "/text")).collect();
    assert_eq!(links, ["Runbook", "Dashboard", "Object", "Silence"]);
}

/// What an incoming webhook takes, and what people want to know.
fn check_slack(message: &Value) {
    assert!(message.get("channel").is_none(), "a webhook has one channel");
    let attachment = &message["attachments"][0];
    assert_eq!(
        text(attachment, "/title"),
        "[FIRING:1] DriftResourceCritical: Deployment payments/checkout-eu (stack)"
    );
    assert_eq!(text(attachment, "/color"), "danger");
    let words = text(attachment, "/text");
    for wanted in ["field replicas", "last set by kubectl", ADDRESS, "terraform/default/payments"] {
        assert!(words.contains(wanted), "{wanted} is not in {words}");
    }
    let buttons = attachment["actions"].as_array().expect("buttons").iter();
    let buttons: Vec<(&str, &str)> = buttons.map(|own| (text(own, "/text"), text(own, "/url"))).collect();
    for (at, name) in ["Runbook", "Dashboard", "Object", "Silence"].iter().enumerate() {
        assert!(buttons[at].0 == *name && buttons[at].1.starts_with("http"), "{buttons:?}");
    }
}

/// The link of a message is the page on which the field stands, with both its values.
fn leads_to_the_fields(stack: &Stack, link: &str) {
    let start = format!("http://127.0.0.1:{}", stack.exporter.port);
    let path = link.strip_prefix(&start).unwrap_or_else(|| panic!("{link} leads elsewhere"));
    let (path, place) = path.split_once('#').expect("a place on the page");
    let answer = page::get(stack.exporter.port, path, &[]).expect("the page");
    let shown = answer.text();
    assert_eq!(answer.status, 200);
    for wanted in [
        format!("id=\"{place}\""),
        "spec.replicas".to_owned(),
        "<del>2</del>".to_owned(),
        "<ins>0</ins>".to_owned(),
    ] {
        assert!(shown.contains(&wanted), "{wanted} is not on {link}");
    }
}

/// `make stack`: everything runs until Ctrl-C, for people to try.
#[test]
#[ignore = "runs until somebody ends it: make stack"]
fn by_hand() {
    let ended = wanted_end();
    let stack = Stack::start(&[]);
    println!(
        "\nEverything runs. A minute of the alerts is a second here.\n\n  \
         page          http://127.0.0.1:{}/\n  Prometheus    http://127.0.0.1:{}/alerts\n  Alertmanager  http://127.0.0.1:{}/\n  \
         kubeconfig    {}\n\nTry: kubectl --kubeconfig {3} -n payments patch deployment checkout-eu -p '{{\"spec\":{{\"replicas\":0}}}}'\n\
         What Slack and PagerDuty would be sent is printed here. Ctrl-C stops it all.\n",
        stack.exporter.port,
        stack.prometheus.port,
        stack.alertmanager.port,
        stack.cluster.kubeconfig(crate::support::cluster::User::Admin).display(),
    );
    let mut told = 0;
    while !ended.load(Ordering::Relaxed) {
        let messages = stack.receiver.messages();
        for message in &messages[told..] {
            println!("{} {:#}", message.path, message.body);
        }
        told = messages.len();
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// What `make stack` does, with one program that does nothing.
#[test]
#[ignore = "runs until somebody ends it"]
fn something_small_by_hand() {
    let ended = wanted_end();
    let folder = tempfile::tempdir().expect("a folder");
    let running = Running::start(Command::new("sleep").arg("600"), &folder.path().join("log"));
    println!("started {}", running.pid());
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts it by a shell, waits until its program runs, does something to it, and wants the program to end.
fn ends_after(act: impl FnOnce(&mut Running, u32)) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let own = std::env::current_exe().expect("a path");
    let script = "\"$0\" --ignored --exact --nocapture stack::something_small_by_hand & echo \"by $!\"; wait";
    let mut shell = Running::start(Command::new("bash").args(["-c", script]).arg(own), &log);
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
fn nothing_that_was_started_stays_when_it_is_ended() {
    for signal in ["INT", "TERM", "HUP"] {
        ends_after(|_, test| {
            let status = Command::new("kill").args(["-s", signal, &test.to_string()]).status();
            assert!(status.is_ok_and(|status| status.success()));
        });
    }
    // Whoever ends `make` ends cargo, and not the test.
    ends_after(|shell, _| shell.kill());
}
