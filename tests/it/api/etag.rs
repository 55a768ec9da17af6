//! `ETag`: unchanged responses are not sent again, changed responses always are.

use axum::body::Body;
use drift_exporter::config::{Prices, Settings, ShownValues};
use http::{Request, header};
use serde_json::json;

use super::shop;
use crate::support::{exporter_fixture::ExporterFixture, live_objects::deployment};

/// The `ETag` of the response to `If-None-Match`, and whether the response has a body.
async fn get_if_changed(exporter: &ExporterFixture, path: &str, etag: &str) -> (String, bool) {
    let request = Request::get(path).header(header::IF_NONE_MATCH, etag).body(Body::empty()).unwrap();
    let answer = exporter.send(request).await;
    let sent = match answer.status.as_u16() {
        200 => true,
        304 => {
            assert!(answer.body.is_empty());
            false
        }
        other => panic!("{other}: {}", answer.text()),
    };
    assert_eq!(answer.headers[header::CACHE_CONTROL], "private, no-cache");
    (answer.headers[header::ETAG].to_str().unwrap().to_owned(), sent)
}

const PATHS: [&str; 2] = ["/v1/resources?namespace=shop", "/v1/resources/deployment/shop/web"];

#[tokio::test(start_paused = true)]
async fn unchanged_response_is_not_modified() {
    let exporter = shop().await;
    for path in PATHS {
        let (tag, sent) = get_if_changed(&exporter, path, "\"another\"").await;
        assert!(sent && tag.starts_with("W/\""), "{tag}");
        assert_eq!(get_if_changed(&exporter, path, &tag).await, (tag.clone(), false));
        let strong = tag.trim_start_matches("W/");
        assert_eq!(get_if_changed(&exporter, path, &format!("\"x\", {strong}")).await, (tag.clone(), false));
        assert!(!get_if_changed(&exporter, path, "*").await.1);
        // A change that no series exposes.
        let mut moved = deployment("web");
        moved["status"]["updatedReplicas"] = json!(1);
        exporter.api.put("deployments", moved);
        exporter.wait_idle().await;
        let (newer, sent) = get_if_changed(&exporter, path, &tag).await;
        assert!(sent && newer != tag, "{path}");
        exporter.api.put("deployments", deployment("web"));
        exporter.wait_idle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn etag_depends_on_settings_and_query() {
    let exporter = shop().await;
    let [list, object] = PATHS;
    let (tag, _) = get_if_changed(&exporter, list, "").await;
    assert!(get_if_changed(&exporter, "/v1/resources?namespace=shop&limit=1", &tag).await.1);
    assert!(get_if_changed(&exporter, object, &tag).await.1);
    let usual = Settings::clone(&exporter.settings.current());
    let full = Settings { shown_values: ShownValues::Full, ..usual.clone() };
    let priced = Settings { prices: Some(Prices { cpu_core_hour: Some(1.0), ..Prices::default() }), ..usual };
    for settings in [full, priced] {
        exporter.settings.replace(settings);
        exporter.wait_idle().await;
        assert!(get_if_changed(&exporter, list, &tag).await.1);
    }
}

#[tokio::test(start_paused = true)]
async fn problem_details_have_no_etag() {
    let exporter = shop().await;
    for path in ["/v1/resources?namespace=shop&limit=0", "/v1/resources/pod/shop/web"] {
        assert!(!exporter.get(path).await.headers.contains_key(header::ETAG), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn if_none_match_star_still_returns_errors() {
    let exporter = shop().await;
    for (path, status) in [
        ("/v1/resources?namespace=shop", 304),
        ("/v1/resources?namespace=shop&limit=0", 400),
        ("/v1/resources/pod/shop/web", 404),
    ] {
        let request = Request::get(path).header(header::IF_NONE_MATCH, "*").body(Body::empty()).unwrap();
        assert_eq!(exporter.send(request).await.status.as_u16(), status, "{path}");
    }
}
