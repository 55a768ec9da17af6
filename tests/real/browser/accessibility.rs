//! Every page in several screen sizes, checked by axe for WCAG 2.2.

use std::fs;

use serde_json::Value;

use super::{open, scale};
use crate::support::{browser::Browser, demo::Demo, parts::program};

const PAGES: [&str; 9] = [
    "/",
    "/?verdict=drifted&sort=-since",
    "/?q=nonesuch",
    "/?verdict=red",
    "/objects/deployments.apps/shop/web",
    "/objects/configmaps/payments/exchange-rates",
    "/sources",
    "/rules",
    "/log",
];
const SCREENS: [(u32, u32, &str); 4] =
    [(1280, 900, "light"), (1280, 900, "dark"), (375, 740, "light"), (375, 740, "dark")];
/// Runs axe and returns its violations: the rule and the elements.
const AXE: &str = r"
const done = arguments[arguments.length - 1];
const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
axe.run(document, { runOnly: tags }).then(({ violations, passes }) => done({
  checked: passes.length,
  wrong: violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id}: ${target} ${failureSummary}`)),
}));
";

fn audit(browser: &Browser, axe: &str) -> Value {
    browser.run(axe);
    browser.run_until_done(AXE, "")
}

#[test]
fn axe_reports_no_violation_on_any_page_and_screen() {
    let axe = fs::read_to_string(program("axe-core", "node_modules/axe-core/axe.min.js")).expect("axe");
    let demo = Demo::start(&["--no-story"]);
    let browser = open(&demo);
    scale(demo.api_port(), 7);
    let mut all_violations = Vec::new();
    for (width, height, scheme) in SCREENS {
        browser.emulate_screen(width, height, scheme);
        for path in PAGES {
            browser.open(&format!("http://127.0.0.1:{}{path}", demo.port));
            browser.wait_until("document.querySelector('#live[data-state=live]')");
            let violations = audit(&browser, &axe);
            assert!(violations["checked"].as_u64().is_some_and(|rules| rules >= 15), "{path}: {violations}");
            let violations = violations["wrong"].as_array().expect("a list").iter();
            all_violations
                .extend(violations.map(|violation| format!("{width} {scheme} {path}: {violation}")));
            let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
            if wide.as_i64().is_none_or(|wide| wide > 0) {
                all_violations.push(format!("{width} {scheme} {path}: {wide} px are beyond the edge"));
            }
        }
    }
    assert!(all_violations.is_empty(), "{}", all_violations.join("\n"));
    // axe reports a page that violates a rule.
    browser.run("document.querySelector('input[type=search]').removeAttribute('aria-label')");
    browser.run("document.querySelector('input[type=search]').removeAttribute('placeholder')");
    assert!(audit(&browser, &axe)["wrong"].to_string().contains("label"));
}
