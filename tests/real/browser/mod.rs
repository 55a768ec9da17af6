//! The web UI in a real Chromium.

/// axe on every page.
mod accessibility;
/// User flows.
mod flows;
/// Many rows that change.
mod many_rows;

use std::{
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::support::{browser::Browser, demo::Demo};

/// Returns the time at which the row has the verdict.
const WHEN: &str = r#"
const [verdict, done] = arguments;
const row = () => document.querySelector(`tr.row.${verdict}[id="/objects/deployments.apps/shop/web:annotation"]`);
const look = () => row() ? (done(Date.now()), true) : false;
if (!look()) {
  const observer = new MutationObserver(() => look() && observer.disconnect());
  observer.observe(document.body, { subtree: true, childList: true, attributes: true });
}
"#;

/// Scales a Deployment, and returns the time of the server's response.
fn scale(port: u16, replicas: u32) -> u64 {
    let url = format!("http://127.0.0.1:{port}/apis/apps/v1/namespaces/shop/deployments/web/scale");
    let body = format!(r#"{{"spec":{{"replicas":{replicas}}}}}"#);
    let status = Command::new("curl")
        .args(["-sf", "-o", "/dev/null", "-X", "PATCH", "-A", "kubectl/v1.36", "-d", &body, &url])
        .args(["-H", "content-type: application/merge-patch+json"])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "the server takes the edit");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    u64::try_from(now).expect("a time of this age")
}

/// Replaces an object.
fn put(port: u16, path: &str, object: &serde_json::Value) {
    let url = format!("http://127.0.0.1:{port}{path}");
    let status = Command::new("curl")
        .args(["-sf", "-o", "/dev/null", "-X", "PUT", "-d", &object.to_string(), &url])
        .args(["-H", "content-type: application/json"])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "the server takes {path}");
}

fn open(demo: &Demo) -> Browser {
    let browser = Browser::start();
    browser.open(&format!("http://127.0.0.1:{}/", demo.port));
    browser.wait_until("document.querySelector('#live[data-state=live]')");
    browser
}

#[test]
fn edit_is_displayed_within_200_ms() {
    let demo = Demo::start(&["--no-story"]);
    let browser = open(&demo);
    let api = demo.api_port();
    let mut took = Vec::new();
    for replicas in [7, 3, 8, 3, 1, 3, 9, 3, 2, 3] {
        let verdict = if replicas == 3 { "in_sync" } else { "drifted" };
        let (shown, edited) = std::thread::scope(|scope| {
            let waits = scope.spawn(|| browser.run_until_done(WHEN, verdict));
            std::thread::sleep(Duration::from_millis(150));
            let edited = scale(api, replicas);
            (waits.join().expect("the page changes").as_u64().expect("a time"), edited)
        });
        took.push(shown.saturating_sub(edited));
    }
    took.sort_unstable();
    println!("edit acknowledged to seen in the browser, ms, sorted: {took:?}");
    assert!(took.iter().all(|took| *took < 200), "{took:?}");

    // The content security policy allows style and script, and the object page shows all details.
    assert_eq!(browser.run("return getComputedStyle(document.querySelector('.tiles')).display"), "flex");
    browser.run("document.querySelector(\"tr.row td.object a[href$='/deployments.apps/shop/web']\").click()");
    browser.wait_until("document.querySelector('main#object')");
    let text = browser.run("return document.querySelector('main').innerText");
    for expected in ["In sync", "Episodes of drift", "kubectl", "spec", "warning"] {
        assert!(text.as_str().is_some_and(|text| text.contains(expected)), "{expected} is not in\n{text}");
    }
}

#[test]
fn typing_filters_rows_and_updates_the_url() {
    let demo = Demo::start(&["--no-story"]);
    let browser = open(&demo);
    browser.run(
        "const field = document.querySelector('input[type=search]'); field.value = 'ledger';
         field.dispatchEvent(new Event('input', { bubbles: true }))",
    );
    browser.wait_until(
        "[...document.querySelectorAll('tr.row td.object a')].map(a => a.textContent).join() === 'ledger,ledger'",
    );
    assert_eq!(browser.run("return location.search"), "?q=ledger");
    assert_eq!(browser.console_messages(), [""; 0]);
}
