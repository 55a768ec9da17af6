//! Style, script and icon. They are part of the program, and their names change with their content.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue, Uri,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};

use super::layout::secure;
use crate::{server::api, types::Digest};

/// The style sheet.
pub(super) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::hashed("page", "css", "text/css; charset=utf-8", include_str!("files/page.css")));
/// The script.
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::hashed("page", "js", "text/javascript; charset=utf-8", include_str!("files/page.js"))
});
/// The icon. Its name is fixed, because others may link to it.
pub(super) const ICON: &str = "/assets/icon.svg";

/// A file with a name of its own.
#[derive(Debug)]
pub(super) struct Asset {
    name: String,
    media_type: &'static str,
    content: &'static str,
}

impl Asset {
    fn hashed(name: &str, extension: &str, media_type: &'static str, content: &'static str) -> Self {
        let hash = Digest::of(content.as_bytes()).to_string();
        Self { name: format!("{name}.{}.{extension}", &hash[..12]), media_type, content }
    }

    /// Where it is served.
    pub(super) fn url(&self) -> String {
        format!("/assets/{}", self.name)
    }
}

/// `GET /assets/{name}`.
pub(crate) async fn asset(Path(name): Path<String>, uri: Uri) -> Response {
    let (media_type, content, caching) =
        match [&*STYLE, &*SCRIPT].into_iter().find(|asset| asset.name == name) {
            Some(asset) => (asset.media_type, asset.content, "public, max-age=31536000, immutable"),
            None if name == "icon.svg" => {
                ("image/svg+xml", include_str!("files/icon.svg"), "public, max-age=86400")
            }
            None => return api::not_found(uri).await,
        };
    let mut response = content.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    secure(response)
}
