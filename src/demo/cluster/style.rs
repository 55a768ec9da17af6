//! How answers look, as clients ask for it.

use http::{HeaderMap, header::ACCEPT};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{refusal::Refusal, store::Stored, table::Table};

/// How answers look.
#[derive(Clone, Debug)]
pub(super) enum Style {
    /// As objects.
    Plain,
    /// As objects of which only the metadata is told.
    Metadata,
    /// As rows.
    Table(Table),
}

impl Style {
    /// The first style among those that the client takes and that there is.
    pub(super) fn negotiate(headers: &HeaderMap, include: &str, now: Timestamp) -> Result<Self, Refusal> {
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
        for wanted in accept.split(',') {
            let mut parts = wanted.split(';').map(str::trim);
            let is_json = matches!(parts.next(), Some("application/json" | "*/*" | "application/*" | ""));
            let shape = parts.find_map(|part| part.strip_prefix("as="));
            match (is_json, shape) {
                (true, Some("Table")) => return Ok(Self::Table(Table { include: include.to_owned(), now })),
                (true, Some("PartialObjectMetadata" | "PartialObjectMetadataList")) => {
                    return Ok(Self::Metadata);
                }
                (true, None) => return Ok(Self::Plain),
                (true, Some(_)) | (false, _) => {}
            }
        }
        Err(Refusal::not_acceptable())
    }
}

/// The metadata of an object, and what that is called.
pub(super) fn metadata_of(stored: &Stored) -> Value {
    let metadata = stored.value()["metadata"].take();
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}
