//! The frame of every page, the error pages, and the assets that pages load.

use std::sync::{Arc, LazyLock};

use axum::{
    extract::{Path, State},
    response::{Html, IntoResponse, Response},
};
use http::{
    HeaderMap, StatusCode, Uri,
    header::{
        ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{
    server::{Exposed, api},
    types::Digest,
};

/// Pages load nothing from other origins, run no inline scripts, and cannot be framed.
const SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NavPage {
    Objects,
    Sources,
    Rules,
    Log,
}

impl NavPage {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Objects, "/", "Objects"),
        (Self::Sources, "/sources", "Sources"),
        (Self::Rules, "/rules", "Rules"),
        (Self::Log, "/log", "Log"),
    ];
}

/// A page around its main part. `current` is the page that the navigation highlights.
pub(super) fn page(
    status: StatusCode,
    title: &str,
    current: Option<NavPage>,
    now: Timestamp,
    main: &Markup,
) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // The browser's clock may be wrong, so the script counts from the server's time.
                meta name="now" content=(now.as_millisecond());
                title { (title) " · drift-exporter" }
                link rel="icon" type="image/svg+xml" href=(ICON_URL);
                link rel="stylesheet" href=(STYLE.url());
                script src=(SCRIPT.url()) defer {}
                noscript { meta http-equiv="refresh" content="10"; }
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                (*VERDICT_SHAPES)
                header.top {
                    a.brand href="/" { (logo()) "drift-exporter" }
                    nav.places aria-label="Pages of drift-exporter" {
                        @for (nav_page, path, title) in NavPage::ALL {
                            a href=(path) aria-current=[(current == Some(nav_page)).then_some("page")] { (title) }
                        }
                    }
                    span #live .live role="status" hidden title="Whether this page follows what happens" {}
                }
                div #content tabindex="-1" { (main) }
                (footer())
            }
        }
    };
    with_security_headers((status, [(CACHE_CONTROL, "no-store")], Html(markup.into_string())))
}

fn with_security_headers(response: impl IntoResponse) -> Response {
    let headers = [
        (CONTENT_SECURITY_POLICY, SECURITY_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, response).into_response()
}

pub(super) fn error_page(status: StatusCode, title: &str, now: Timestamp, message: &Markup) -> Response {
    let main = html! {
        // It has the ID of an object page, so that the script replaces it when the object appears.
        main #object .narrow data-live {
            h1 { (title) }
            p { (message) }
            p { a href="/" { "All objects" } }
        }
    };
    page(status, title, None, now, &main)
}

/// The response to an unknown path: a page for browsers, a problem for other clients.
pub(crate) async fn not_found(State(exposed): State<Arc<Exposed>>, headers: HeaderMap, uri: Uri) -> Response {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
    if !accept.contains("text/html") {
        return api::not_found(uri).await;
    }
    let message = html! { "There is no page " code { (uri.path()) } "." };
    error_page(StatusCode::NOT_FOUND, "Nothing is here", exposed.clock.now(), &message)
}

fn footer() -> Markup {
    html! {
        footer.foot {
            span { "drift-exporter " (env!("CARGO_PKG_VERSION")) }
            @for (path, title) in [
                ("/metrics", "metrics"),
                ("/v1/resources?namespace=*", "objects as JSON"),
                ("/v1/history", "history as JSON"),
                ("/v1/events", "event stream"),
                ("/readyz", "readiness"),
            ] {
                a href=(path) { (title) }
            }
        }
    }
}

/// Two outlines that do not align: declared and actual.
fn logo() -> Markup {
    html! {
        svg.mark aria-hidden="true" viewBox="0 0 24 24" {
            rect.declared x="3" y="3" width="13" height="13" rx="3" {}
            rect.actual x="8" y="8" width="13" height="13" rx="3" {}
        }
    }
}

/// One symbol for each verdict, which badges refer to.
static VERDICT_SHAPES: LazyLock<PreEscaped<String>> =
    LazyLock::new(|| PreEscaped(include_str!("files/shapes.svg").replace('\n', "")));

static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("page", "css", "text/css; charset=utf-8", include_str!("files/page.css")));
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("page", "js", "text/javascript; charset=utf-8", include_str!("files/page.js"))
});
/// The name has no hash, because other sites may link to the icon.
const ICON_URL: &str = "/assets/icon.svg";

/// A file whose name contains a hash of its content, so that browsers may cache it forever.
#[derive(Debug)]
struct Asset {
    name: String,
    media_type: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(name: &str, extension: &str, media_type: &'static str, content: &'static str) -> Self {
        let hash = Digest::of(content.as_bytes()).to_string();
        Self { name: format!("{name}.{}.{extension}", &hash[..12]), media_type, content }
    }

    fn url(&self) -> String {
        format!("/assets/{}", self.name)
    }
}

pub(crate) async fn asset(Path(name): Path<String>, uri: Uri) -> Response {
    let (media_type, content, caching) =
        match [&*STYLE, &*SCRIPT].into_iter().find(|asset| asset.name == name) {
            Some(asset) => (asset.media_type, asset.content, "public, max-age=31536000, immutable"),
            None if name == "icon.svg" => {
                ("image/svg+xml", include_str!("files/icon.svg"), "public, max-age=86400")
            }
            None => return api::not_found(uri).await,
        };
    with_security_headers(([(CONTENT_TYPE, media_type), (CACHE_CONTROL, caching)], content))
}
