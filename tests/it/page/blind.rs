//! Nothing looks fine where nothing can be seen.

use std::time::Duration;

use super::{has, headline, lacks, rows, shop, tile};
use crate::support::{
    api_server::{ApiServer, Mood},
    objects::{deployment, service},
    world::World,
};

#[tokio::test(start_paused = true)]
async fn an_empty_cluster_says_how_to_take_part() {
    let world = World::ready(&ApiServer::default()).await;
    let page = world.get("/").await;
    assert_eq!(headline(&page), "No object takes part yet");
    has(&page, "<code>tfdrift.jin.dev/enabled=true</code>");
    has(&page, "<code>tfdrift.jin.dev/spec-hash</code>");
    assert_eq!(tile(&page, "drifted"), "0");
}

#[tokio::test(start_paused = true)]
async fn before_the_first_list_nothing_looks_fine() {
    let api = ApiServer::default();
    api.mood("deployments", Mood::Mute);
    let world = World::start(&api);
    world.settle().await;
    let page = world.get("/").await;
    assert_eq!(headline(&page), "Waiting for the first list");
    has(&page, "Waiting for the first list of <strong>deployments.apps</strong>");
    lacks(&page, "Let objects take part");
    assert_eq!(tile(&page, "drifted"), "–");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_down_is_what_people_see_first() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    api.put("services", service("web"));
    let world = World::ready(&api).await;
    assert_eq!(headline(&world.get("/").await), "Everything is as declared");
    lacks(&world.get("/").await, "Blind");
    api.mood("deployments", Mood::Refuses(403, None));
    api.cut();
    let stale = |world: &World| world.snapshot().kinds.iter().any(|state| state.is_stale("shop", "web"));
    world.until("the stream is down", Duration::from_secs(60), stale).await;
    let page = world.get("/").await;
    assert_eq!(headline(&page), "Not everything can be seen");
    has(&page, "Blind: deployments.apps.</strong> The API server forbids listing or watching it.");
    has(&page, "1 object is unknown until it is back.");
    has(&page, "said 403");
    assert_eq!(rows(&page), ["deployments/shop/web", "services/shop/web"], "the unknown one comes first");
    assert_eq!((tile(&page, "unknown"), tile(&page, "in_sync")), ("1".to_owned(), "1".to_owned()));
    has(&page, "Healthy</span><span class=\"detail\">when last seen</span>");
    let page = world.get("/objects/deployments.apps/shop/web").await;
    has(&page, "Changes do not arrive. When it could last be judged, it was as declared.");
    has(&page, "The stream of deployments.apps is <strong>down</strong> (forbidden)");
}

#[tokio::test(start_paused = true)]
async fn drift_is_not_forgotten_while_nothing_can_be_seen() {
    let world = World::ready(&shop()).await;
    world.api.mood("deployments", Mood::Refuses(500, None));
    world.api.cut();
    let stale = |world: &World| world.snapshot().kinds.iter().any(|state| state.is_stale("shop", "web"));
    world.until("the stream is down", Duration::from_secs(60), stale).await;
    let page = world.get("/").await;
    assert_eq!(headline(&page), "Not everything can be seen; 3 objects had drifted when last seen");
    assert_eq!(tile(&page, "drifted"), "–");
    let first = rows(&page).remove(0);
    assert_eq!(first, "deployments/shop/search");
    has(&page, "stale</span><span class=\"detail\">had drifted</span>");
    let cart = world.get("/objects/deployments.apps/shop/cart").await;
    has(&cart, "it had drifted.");
    has(&cart, "aria-label=\"annotation: drifted for 30 d 11 h, then unknown now\"");
    // What is told of severities is about what is off now.
    has(&page, "warning</span> <strong>0</strong>");
    assert_eq!(rows(&world.get("/?severity=warning").await), [""; 0]);
}
