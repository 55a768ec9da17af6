//! Scrolling stays smooth with thousands of rows of which some change all the time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{open, put};
use crate::support::{
    demo::Demo,
    http_client::{self, post},
    wait::eventually,
};

const OBJECTS: usize = 3_000;
const ROWS: usize = 2_000;
/// Allowed ratio of late frames with updates to late frames without.
const LATER: f64 = 3.0;
/// A frame of this length is a visible stutter.
const STUTTER: f64 = 250.0;

/// Scrolls for three seconds, and returns the duration of each frame and the number of changed rows.
const SCROLL: &str = r"
const done = arguments[arguments.length - 1];
const gaps = [];
let changes = 0;
new MutationObserver((records) => (changes += records.length)).observe(document.querySelector('#rows'), { childList: true });
scrollTo(0, 0);
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
fn two_thousand_rows_scroll_smoothly_during_updates() {
    let demo = Demo::start(&["--no-story"]);
    let api = demo.api_port();
    for number in 0..OBJECTS {
        post(api, "/apis/apps/v1/namespaces/shop/deployments", &labelled(number));
    }
    eventually("all objects are synced", || {
        let answer = http_client::get(demo.port, "/v1/resources?namespace=shop&limit=1", &[])?.json();
        answer["total"].as_u64().filter(|total| *total >= OBJECTS as u64)
    });
    let browser = open(&demo);
    browser.open(&format!("http://127.0.0.1:{}/?rows={ROWS}", demo.port));
    browser.wait_until("document.querySelector('#live[data-state=live]')");
    assert_eq!(browser.run("return document.querySelectorAll('tr.row').length"), ROWS);
    // Loading the page and the first event are not part of the measurement.
    std::thread::sleep(Duration::from_secs(2));
    let quiet = Frames::of(&browser.run_until_done(SCROLL, ""));
    let busy = std::thread::scope(|scope| {
        let scrolls = scope.spawn(|| browser.run_until_done(SCROLL, ""));
        let started = Instant::now();
        for number in (0..OBJECTS).cycle() {
            if scrolls.is_finished() || started.elapsed() > Duration::from_secs(20) {
                break;
            }
            // An object without a hash has no baseline; a wrong hash is drift.
            let mut object = labelled(number);
            object["metadata"]["annotations"] = json!({"tfdrift.jin.dev/spec-hash": "0".repeat(64)});
            put(api, &format!("/apis/apps/v1/namespaces/shop/deployments/many-{number:04}"), &object);
            std::thread::sleep(Duration::from_millis(100));
        }
        Frames::of(&scrolls.join().expect("it scrolls"))
    });
    println!("scrolling {ROWS} rows, at rest: {quiet:?}; while some change: {busy:?}");
    assert!(busy.changes >= 5 && quiet.changes == 0, "{quiet:?} {busy:?}");
    assert!(
        busy.median <= 2.0 * quiet.median,
        "most frames take as long as without updates: {quiet:?} {busy:?}"
    );
    // On a busy machine, frames without updates take longer as well.
    assert!(busy.late <= LATER * quiet.late && busy.longest < STUTTER, "{quiet:?} {busy:?}");
}

/// Durations of the frames of a scroll, in ms.
#[derive(Debug)]
struct Frames {
    median: f64,
    late: f64,
    longest: f64,
    changes: u64,
}

impl Frames {
    fn of(measured: &Value) -> Self {
        let gaps = measured["gaps"].as_array().expect("a list").iter();
        let mut gaps: Vec<f64> = gaps.filter_map(Value::as_f64).collect();
        gaps.sort_by(f64::total_cmp);
        assert!(measured["scrolled"].as_f64().is_some_and(|scrolled| scrolled > 1_000.0), "{measured}");
        Self {
            median: gaps[gaps.len() / 2],
            late: gaps[gaps.len() * 95 / 100],
            longest: gaps[gaps.len() - 1],
            changes: measured["changes"].as_u64().expect("a number"),
        }
    }
}
