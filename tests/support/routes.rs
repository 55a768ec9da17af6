//! A sample path for every route, for tests of all routes.

/// A path of each route with an existing object. Add one for a new route.
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

/// The sample path of a route.
pub fn sample(route: &str) -> &'static str {
    let found = SAMPLES.iter().find(|(path, _)| *path == route);
    found.unwrap_or_else(|| panic!("{route} has no sample: add one, so that its protection is tested")).1
}
