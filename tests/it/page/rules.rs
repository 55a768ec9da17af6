//! Rules: what they say, who answers for them, until when, and what they match.

use drift_exporter::rules::{RuleConfig, RuleSet};

use super::{between, has, rows, shop};
use crate::support::world::World;

/// Rules of the settings, one of which has expired by noon of February 1st, 2026.
fn rules() -> RuleSet {
    let rules = serde_saphyr::from_str(
        "- {name: cart-is-fine, match: {names: [cart]}, effect: ignore, owner: team-shop, reason: <b>load test</b>, expires: 2026-02-02}\n\
         - {name: was-fine, match: {names: [search]}, effect: ignore, expires: 2026-01-31}\n\
         - {name: search-is-bad, match: {names: [search], fields: [hash]}, effect: {severity: critical}}\n",
    );
    RuleSet::compile(&RuleConfig { rules: rules.unwrap(), ..RuleConfig::default() }).unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_rule_has_its_owner_its_end_and_what_it_matches() {
    let world = World::ready(&shop()).await;
    world.rules(rules()).await;
    let page = world.get("/rules").await;
    assert_eq!(page.status.as_u16(), 200);
    let text = page.text();
    let own = between(&text, "id=\"own-rules\"", "</section>");
    let cart = between(own, "id=\"rule-cart-is-fine\"", "</tr>");
    for says in [
        "team-shop",
        "&lt;b&gt;load test&lt;/b&gt;",
        "<strong class=\"off\">in 1 d 11 h</strong>",
        "<a href=\"/?q=cart-is-fine\">1</a>",
        "<code>ignore</code>",
        "<code>cart</code>",
    ] {
        assert!(cart.contains(says), "no {says} in {cart}");
    }
    let was = between(own, "id=\"rule-was-fine\"", "</tr>");
    assert!(was.contains("class=\"over\"") && was.contains("<strong>expired</strong>"), "{was}");
    let built_in = between(&text, "id=\"built-in-rules\"", "</section>");
    assert!(built_in.contains("id=\"rule-manual-change\""), "{built_in}");
    let matched = world.get("/?q=cart-is-fine").await;
    assert_eq!(rows(&matched), ["deployments/shop/cart"], "the number leads to what is ignored, too");
}

#[tokio::test(start_paused = true)]
async fn the_page_of_an_object_names_the_rules_that_match_it() {
    let world = World::ready(&shop()).await;
    world.rules(rules()).await;
    let page = world.get("/objects/deployments.apps/shop/search").await;
    let text = page.text();
    let matching = between(&text, "<section id=\"rules\">", "</section>");
    assert!(matching.contains("<a href=\"/rules#rule-search-is-bad\">search-is-bad</a>"), "{matching}");
    assert!(!matching.contains("cart-is-fine") && !matching.contains("was-fine"), "{matching}");
    let cart = world.get("/objects/deployments.apps/shop/cart").await;
    has(&cart, "Ignored by rules");
    has(&cart, "ignored by cart-is-fine");
}
