//! The three ways of saying what to change.

use http::{HeaderMap, header::CONTENT_TYPE};
use serde_json::Value;

use super::{refusal::Refusal, strategic};

/// A change to an object, as it was sent.
#[derive(Debug)]
pub(super) enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7396.
    Merge(Value),
    /// As merge, but lists with keys are merged too: what kubectl sends.
    Strategic(Value),
}

impl Patch {
    /// Reads a patch of the content type that the headers name.
    pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Result<Self, Refusal> {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        match content_type.split(';').next().unwrap_or("").trim() {
            "application/json-patch+json" => read_json_patch(body).map(Self::Json),
            "application/merge-patch+json" => read_map(body, "error decoding patch: ").map(Self::Merge),
            "application/strategic-merge-patch+json" => read_map(body, "").map(Self::Strategic),
            "application/apply-patch+yaml" => Err(Refusal::not_implemented("server-side apply")),
            _ => Err(Refusal::unsupported_media_type()),
        }
    }

    /// The object with the change made.
    pub(super) fn apply(&self, object: &Value) -> Result<Value, Refusal> {
        let mut changed = object.clone();
        match self {
            Self::Json(patch) => {
                json_patch::patch(&mut changed, patch).map_err(|_| Refusal::unprocessable())?;
            }
            Self::Merge(patch) => json_patch::merge(&mut changed, patch),
            Self::Strategic(patch) => strategic::merge(&mut changed, patch).map_err(Refusal::internal)?,
        }
        Ok(changed)
    }
}

fn read_map(body: &[u8], prefix: &str) -> Result<Value, Refusal> {
    match serde_json::from_slice::<Value>(body) {
        Ok(patch @ Value::Object(_)) => Ok(patch),
        Ok(_) => Err(Refusal::bad_request(format!("{prefix}a patch is a JSON object"))),
        Err(error) => Err(Refusal::bad_request(format!("{prefix}{error}"))),
    }
}

/// A body that is no list of operations is a bad request; operations that make no sense cannot be processed.
fn read_json_patch(body: &[u8]) -> Result<json_patch::Patch, Refusal> {
    let operations: Vec<Value> = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))?;
    if !operations.iter().all(Value::is_object) {
        return Err(Refusal::bad_request("error decoding patch: an operation is a JSON object"));
    }
    serde_json::from_value(Value::Array(operations)).map_err(|_| Refusal::unprocessable())
}
