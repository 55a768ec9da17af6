//! Thousands of rows, some of which change all the time: scrolling must not stutter.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::open;
use crate::support::{
    demo::Demo,
    page::{self, post},
    process::eventually,
};

const OBJECTS: usize = 3_000;
const ROWS: usize = 2_000;
/// The longest that the page may stand still. People notice a tenth of a second.
const LONGEST: f64 = 100.0;

/// Scrolls for three seconds, and gives how long each frame took and how many rows changed meanwhile.
const SCROLL: &str = r"
const done = arguments[arguments.length - 1];
const gaps = [];
let changes = 0;
new MutationObserver((records) => (changes += records.length)).observe(document.querySelector('#rows'), { childList: true });
const begun = performance.now();
let last = begun;
function frame(now) {
  gaps.push(now - last);
  last = now;
  scrollBy(0, 60);
  if (now - begun < 3000) requestAnimationFrame(frame);
  else done({ gaps: gaps.slice(1), changes, scrolled: scrollY });
}
requestAnimationFrame(frame);
";

fn labelled(number: usize) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": format!("many-{number:04}"), "labels": {"tfdrift.jin.dev/enabled": "true"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "many"}}, "template": {
            "metadata": {"labels": {"app": "many"}}, "spec": {"containers": [{"name": "many", "image": "a:1"}]}}}})
}

#[test]
fn two_thousand_rows_scroll_smoothly_while_some_change() {
    let demo = Demo::start(&["--no-story"]);
    let api = demo.api_port();
    for number in 0..OBJECTS {
        post(api, "/apis/apps/v1/namespaces/shop/deployments", &labelled(number));
    }
    eventually("all are known", Duration::from_secs(30), || {
        let answer = page::get(demo.port, "/v1/resources?namespace=shop&limit=1", &[])?.json();
        answer["total"].as_u64().filter(|total| *total >= OBJECTS as u64)
    });
    let browser = open(&demo);
    browser.open(&format!("http://127.0.0.1:{}/?rows={ROWS}", demo.port));
    browser.wait_until("document.querySelector('#live[data-state=live]')");
    assert_eq!(browser.run("return document.querySelectorAll('tr.row').length"), ROWS);
    // Loading it, and hearing for the first time that there is nothing new, is not what is measured.
    std::thread::sleep(Duration::from_secs(2));
    let measured = std::thread::scope(|scope| {
        let scrolls = scope.spawn(|| browser.run_until_done(SCROLL, ""));
        let begun = Instant::now();
        for number in (0..OBJECTS).cycle() {
            if scrolls.is_finished() || begun.elapsed() > Duration::from_secs(20) {
                break;
            }
            // Without a hash nothing is declared; a wrong one is drift.
            let mut object = labelled(number);
            object["metadata"]["annotations"] = json!({"tfdrift.jin.dev/spec-hash": "0".repeat(64)});
            super::put(api, &format!("/apis/apps/v1/namespaces/shop/deployments/many-{number:04}"), &object);
            std::thread::sleep(Duration::from_millis(100));
        }
        scrolls.join().expect("it scrolls")
    });
    let gaps: Vec<f64> =
        measured["gaps"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    let longest = gaps.iter().copied().fold(0.0, f64::max);
    let (frames, changes) = (gaps.len(), measured["changes"].as_u64().unwrap_or(0));
    println!("{frames} frames in 3 s, the longest {longest:.0} ms, {changes} changes of {ROWS} rows");
    assert!(changes >= 5 && measured["scrolled"].as_f64().is_some_and(|own| own > 1_000.0), "{measured}");
    assert!(longest < LONGEST, "{longest} ms");
}
