//! The rules page, and rules on object pages.

use drift_exporter::rules::{RuleConfig, RuleSet};

use super::{assert_contains, between, rows, sample_cluster};
use crate::support::exporter_fixture::ExporterFixture;

/// Rules of the settings; one has expired by noon of February 1st, 2026.
fn rules() -> RuleSet {
    let rules = serde_saphyr::from_str(
        "- {name: cart-is-fine, match: {names: [cart]}, effect: ignore, owner: team-shop, reason: <b>load test</b>, expires: 2026-02-02}\n\
         - {name: was-fine, match: {names: [search]}, effect: ignore, expires: 2026-01-31}\n\
         - {name: search-is-bad, match: {names: [search], fields: [hash]}, effect: {severity: critical}}\n",
    );
    RuleSet::compile(&RuleConfig { rules: rules.unwrap(), ..RuleConfig::default() }).unwrap()
}

#[tokio::test(start_paused = true)]
async fn rules_page_shows_owner_expiry_and_matches() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    exporter.rules(rules()).await;
    let page = exporter.get("/rules").await;
    assert_eq!(page.status.as_u16(), 200);
    let text = page.text();
    let own_rules = between(&text, "id=\"own-rules\"", "</section>");
    let cart = between(own_rules, "id=\"rule-cart-is-fine\"", "</tr>");
    for part in [
        "team-shop",
        "&lt;b&gt;load test&lt;/b&gt;",
        "<strong class=\"off\">in 1 d 11 h</strong>",
        "<a href=\"/?q=cart-is-fine\">1</a>",
        "<code>ignore</code>",
        "<code>cart</code>",
    ] {
        assert!(cart.contains(part), "no {part} in {cart}");
    }
    let expired = between(own_rules, "id=\"rule-was-fine\"", "</tr>");
    assert!(expired.contains("class=\"over\"") && expired.contains("<strong>expired</strong>"), "{expired}");
    let built_in = between(&text, "id=\"built-in-rules\"", "</section>");
    assert!(built_in.contains("id=\"rule-manual-change\""), "{built_in}");
    let matched = exporter.get("/?q=cart-is-fine").await;
    assert_eq!(rows(&matched), ["deployments/shop/cart"], "the link also lists ignored objects");
}

#[tokio::test(start_paused = true)]
async fn object_page_shows_matching_rules() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    exporter.rules(rules()).await;
    let page = exporter.get("/objects/deployments.apps/shop/search").await;
    let text = page.text();
    let matching = between(&text, "<section id=\"rules\">", "</section>");
    assert!(matching.contains("<a href=\"/rules#rule-search-is-bad\">search-is-bad</a>"), "{matching}");
    assert!(!matching.contains("cart-is-fine") && !matching.contains("was-fine"), "{matching}");
    let cart = exporter.get("/objects/deployments.apps/shop/cart").await;
    assert_contains(&cart, "Ignored by rules");
    assert_contains(&cart, "ignored by cart-is-fine");
}
