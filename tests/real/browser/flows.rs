//! User flows through all pages.

use serde_json::json;

use super::{open, scale};
use crate::support::{browser::Browser, demo::Demo};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
/// The script is running. Pages that a click opens behave like the first one.
const LIVE: &str = "document.querySelector('#live[data-state=live]')";

fn names(browser: &Browser) -> String {
    let names = browser
        .run("return [...document.querySelectorAll('tr.row td.object a')].map(a => a.textContent).join(' ')");
    names.as_str().expect("a text").to_owned()
}

fn address(browser: &Browser) -> String {
    browser.run("return location.pathname + location.search").as_str().expect("a text").to_owned()
}

#[test]
fn overview_links_to_the_object_and_its_rule() {
    let demo = Demo::start(&["--no-story"]);
    let browser = open(&demo);
    scale(demo.api_port(), 7);
    browser.wait_until("document.querySelector('#tile-drifted .number').innerText === '1'");

    // Tile, severity and column header each update the URL, and keep the other parameters.
    browser.click("#tile-drifted");
    browser.wait_until("location.search === '?verdict=drifted'");
    assert_eq!(names(&browser), "web");
    browser.click("#glance-severity li:nth-child(2) a");
    browser.wait_until("location.search === '?verdict=drifted&severity=warning'");
    browser.click("#heads th:nth-child(6) a");
    browser.wait_until("location.search === '?verdict=drifted&severity=warning&sort=since'");
    browser.wait_until(LIVE);
    browser.type_into("input[type=search]", "nonesuch");
    browser.wait_until("document.querySelector('#empty')");
    assert_eq!(address(&browser), "/?q=nonesuch&verdict=drifted&severity=warning&sort=since");
    browser.click("#empty a");
    browser
        .wait_until("location.search === '?sort=since' && document.querySelectorAll('tr.row').length > 20");
    assert!(names(&browser).starts_with("web "), "{}", names(&browser));

    // The object page: field, values, actor, timeline, commands.
    browser.click("tr.row.drifted td.object a");
    browser.wait_until("document.querySelector('main#object .diff')");
    browser.wait_until(LIVE);
    let text = browser.run("return document.querySelector('main').innerText");
    for expected in
        ["Drifted for", "kubectl", "Timeline", "Rules that match", "manual-change", "Inspect", "Accept"]
    {
        assert!(text.as_str().is_some_and(|text| text.contains(expected)), "{expected} is not in\n{text}");
    }
    let area = "const { width, height } = document.querySelector('.lane svg').getBoundingClientRect(); return width * height";
    assert!(browser.run(area).as_f64().is_some_and(|area| area > 5_000.0), "the picture is drawn");
    let permissions = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
    browser.command("Browser.grantPermissions", &permissions);
    browser.run("document.querySelector('button.copy').click()");
    browser.wait_until("document.querySelector('button.copy').textContent === 'Copied'");
    let copied =
        browser.run_until_done("navigator.clipboard.readText().then(arguments[arguments.length - 1])", "");
    assert_eq!(copied, "kubectl -n shop get deployments.apps web -o yaml --show-managed-fields");

    // The matching rule, and the objects that it matches.
    browser.click("#rules tr:first-child a");
    browser.wait_until("location.pathname === '/rules' && location.hash === '#rule-manual-change'");
    browser.click("#rule-manual-change td:last-child a");
    browser.wait_until("location.search === '?q=manual-change'");
    assert_eq!(names(&browser), "web");
    assert_eq!(browser.console_messages(), [""; 0]);
}

#[test]
fn sources_and_log_update_live() {
    let demo = Demo::start(&["--no-story"]);
    let browser = open(&demo);
    browser.click(".places a[href='/sources']");
    browser.wait_until(LIVE);
    let text = browser.run("return document.querySelector('main').innerText");
    for expected in [
        "terraform/default/payments",
        "platform/notifier",
        "notifier-0.4.1",
        "deployments.apps",
        "all 8 compared",
    ] {
        assert!(text.as_str().is_some_and(|text| text.contains(expected)), "{expected} is not in\n{text}");
    }
    let bar = "document.querySelector('a[href=\"/?source=annotation\"]').closest('tr').querySelector('svg').ariaLabel";
    scale(demo.api_port(), 7);
    browser.wait_until(&format!("{bar}.startsWith('1 drifted')"));

    browser.click(".places a[href='/log']");
    browser.wait_until(
        "document.querySelector('#log-lines').innerText.includes('Drift began. object=Deployment shop/web')",
    );
    browser.run("document.querySelector('h1').dataset.same = 'page'");
    browser.run("document.querySelector('#log-scroll').focus()");
    scale(demo.api_port(), 3);
    browser.wait_until("document.querySelector('#log-rows tr').innerText.includes('Drift ended. object=Deployment shop/web')");
    assert_eq!(
        browser.run("return document.querySelector('h1').dataset.same"),
        "page",
        "the page is not reloaded"
    );
    browser.run(
        "const level = document.querySelector('select[name=level]'); level.value = 'error';
         level.dispatchEvent(new Event('input', { bubbles: true }))",
    );
    browser.wait_until("document.querySelector('#log-none')");
    assert_eq!(address(&browser), "/log?level=error");
    assert_eq!(browser.console_messages(), [""; 0]);
}

#[test]
fn pages_are_usable_by_keyboard() {
    let demo = Demo::start(&["--no-story"]);
    let browser = open(&demo);
    let focused = || browser.run("return document.activeElement.textContent.trim()");
    browser.press(TAB);
    assert_eq!(focused(), "Skip to the content");
    let seen = "const { left, width } = document.activeElement.getBoundingClientRect(); return left >= 0 && width > 0";
    assert_eq!(browser.run(seen), true, "what has the focus can be seen");
    browser.press(ENTER);
    browser.wait_until("document.activeElement.id === 'content'");
    browser.press(TAB);
    assert_eq!(browser.run("return document.activeElement.id"), "tile-drifted");
    // A column header is a link, and `aria-sort` exposes the order.
    browser.run("document.querySelector('#heads th:nth-child(2) a').focus()");
    browser.press(ENTER);
    browser.wait_until("location.search === '?sort=object'");
    assert_eq!(browser.run("return document.querySelector('#heads th:nth-child(2)').ariaSort"), "ascending");
    // The focus stays on its row while rows change.
    browser.wait_until(LIVE);
    browser.run("document.querySelector(\"tr.row td.object a[href$='/deployments.apps/shop/web']\").focus()");
    scale(demo.api_port(), 7);
    browser.wait_until("document.querySelector('tr.row.drifted')");
    assert_eq!(focused(), "web");
    browser.press(ENTER);
    browser.wait_until("location.pathname === '/objects/deployments.apps/shop/web'");
    assert_eq!(browser.console_messages(), [""; 0]);
}

#[test]
fn pages_work_without_javascript() {
    let demo = Demo::start(&["--no-story"]);
    let browser = Browser::start();
    scale(demo.api_port(), 7);
    browser.command("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    for (path, expected) in [
        ("/?sort=-since&severity=warning", "1 of 32 objects"),
        ("/objects/deployments.apps/shop/web", "Rules that match"),
        ("/sources", "Terraform states"),
        ("/rules", "manual-change"),
        ("/log", "Drift began."),
    ] {
        browser.open(&format!("http://127.0.0.1:{}{path}", demo.port));
        let text = browser.run("return document.body.innerText");
        assert!(
            text.as_str().is_some_and(|text| text.contains(expected)),
            "{path}: {expected} is not in\n{text}"
        );
        assert_eq!(browser.run("return document.documentElement.className"), "", "{path}: no script ran");
        assert_eq!(browser.run("return document.querySelectorAll('button.copy').length"), 0, "{path}");
    }
    // The form works without a script.
    browser.open(&format!("http://127.0.0.1:{}/", demo.port));
    browser.type_into("input[type=search]", &format!("ledger{ENTER}"));
    browser.wait_until("location.search.startsWith('?q=ledger')");
    assert_eq!(names(&browser), "ledger ledger");
    assert_eq!(browser.console_messages(), [""; 0]);
}
