//! Which documents there are about kinds, and where.

use std::{collections::HashMap, time::Duration};

use http::{
    Request,
    header::{ACCEPT, HeaderValue},
};
use kube::{Client, client::Body};
use serde::Deserialize;

use crate::watch::{
    exchange::{answer, refusal, whole},
    fault::Fault,
};

const INDEX: &str = "/openapi/v3";
/// It has a line for each group and version.
const LARGEST_INDEX: usize = 16 << 20;
/// Of a group with hundreds of large kinds it has some ten megabytes.
const LARGEST_DOCUMENT: usize = 32 << 20;

/// Where the document of each group and version is: `apis/example.com/v1`.
#[derive(Debug, Deserialize)]
pub(super) struct Index {
    paths: HashMap<String, Place>,
}

#[derive(Debug, Deserialize)]
struct Place {
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

impl Index {
    /// The index as it is now.
    pub(super) async fn read(client: &Client, silence: Duration) -> Result<Self, Fault> {
        let text = get(client, INDEX, LARGEST_INDEX, silence).await?;
        serde_json::from_slice(&text).map_err(|error| Fault::Garbled(format!("{INDEX}: {error}")))
    }

    /// The URL of the document of an API version. It has a hash of the document in it, so it is another one when that changes.
    pub(super) fn url(&self, api_version: &str) -> Option<&str> {
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let url = &self.paths.get(&format!("{root}/{api_version}"))?.url;
        // Nobody else is asked.
        url.starts_with(&format!("{INDEX}/")).then_some(url)
    }
}

/// Reads a document.
pub(super) async fn document(client: &Client, url: &str, silence: Duration) -> Result<bytes::Bytes, Fault> {
    get(client, url, LARGEST_DOCUMENT, silence).await
}

async fn get(client: &Client, url: &str, largest: usize, silence: Duration) -> Result<bytes::Bytes, Fault> {
    let json = HeaderValue::from_static("application/json");
    let request = Request::get(url).header(ACCEPT, json).body(Body::empty())?;
    let response = answer(client, request, silence).await?;
    if !response.status().is_success() {
        return Err(refusal(response, silence).await);
    }
    whole(response, largest, silence).await
}

#[cfg(test)]
mod tests {
    use super::Index;

    #[test]
    fn a_document_is_found_by_its_version_and_on_the_same_server_only() {
        let text = r#"{"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=A"}, "version": {"serverRelativeURL": "/openapi/v3/version"},
            "apis/example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/example.com/v1?hash=B"},
            "apis/evil.example/v1": {"serverRelativeURL": "https://evil.example/openapi/v3/"}}}"#;
        let index: Index = serde_json::from_str(text).unwrap();
        assert_eq!(index.url("v1"), Some("/openapi/v3/api/v1?hash=A"));
        assert_eq!(index.url("example.com/v1"), Some("/openapi/v3/apis/example.com/v1?hash=B"));
        assert_eq!([index.url("example.com/v2"), index.url("evil.example/v1")], [None, None]);
    }
}
