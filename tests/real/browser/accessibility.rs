//! Every page, on every screen, held against what axe knows of WCAG 2.2.

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
/// Runs axe and gives what it finds: the rule, and where.
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
fn axe_finds_nothing_on_any_page_whatever_the_screen() {
    let axe = fs::read_to_string(program("axe-core", "node_modules/axe-core/axe.min.js")).expect("axe");
    let demo = Demo::start(&["--no-story"]);
    let browser = open(&demo);
    scale(demo.api_port(), 7);
    let mut wrong = Vec::new();
    for (width, height, scheme) in SCREENS {
        browser.show_on(width, height, scheme);
        for path in PAGES {
            browser.open(&format!("http://127.0.0.1:{}{path}", demo.port));
            browser.wait_until("document.querySelector('#live[data-state=live]')");
            let found = audit(&browser, &axe);
            assert!(found["checked"].as_u64().is_some_and(|rules| rules >= 15), "{path}: {found}");
            let found = found["wrong"].as_array().expect("a list").iter();
            wrong.extend(found.map(|own| format!("{width} {scheme} {path}: {own}")));
            let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
            if wide.as_i64().is_none_or(|wide| wide > 0) {
                wrong.push(format!("{width} {scheme} {path}: {wide} px are beyond the edge"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // It would find something.
    browser.run("document.querySelector('input[type=search]').removeAttribute('aria-label')");
    browser.run("document.querySelector('input[type=search]').removeAttribute('placeholder')");
    assert!(audit(&browser, &axe)["wrong"].to_string().contains("label"));
}
