//! A path of every route, for those who try all of them.

/// A path of each route, which is there. A new route needs one.
const SAMPLES: &[(&str, &str)] = &[
    ("/livez", "/livez"),
    ("/readyz", "/readyz"),
    ("/healthz", "/healthz"),
    ("/metrics", "/metrics"),
    ("/", "/"),
    ("/objects/{kind}/{namespace}/{name}", "/objects/deployment/shop/web"),
    ("/sources", "/sources"),
    ("/rules", "/rules"),
    ("/log", "/log"),
    ("/assets/{name}", "/assets/page.css"),
    ("/v1/resources", "/v1/resources?namespace=shop"),
    ("/v1/resources/{kind}/{namespace}/{name}", "/v1/resources/deployment/shop/web"),
    ("/v1/history", "/v1/history?namespace=shop"),
    ("/v1/events", "/v1/events?since=nothing"),
    ("/v1/rules", "/v1/rules"),
    ("/v1/gate", "/v1/gate?namespace=shop"),
    ("/v1/status", "/v1/status"),
    ("/openapi.json", "/openapi.json"),
];

/// A path of this route.
pub fn sample(route: &str) -> &'static str {
    let own = SAMPLES.iter().find(|(path, _)| *path == route);
    own.unwrap_or_else(|| panic!("{route} has no sample: add one, so that its protection is tried")).1
}
