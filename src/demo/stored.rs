//! What tools keep in the cluster: which object it is, and packed text in it.

use std::{io::Write as _, sync::Arc};

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

use super::cluster::{Cluster, Refusal};
use crate::types::ObjectKey;

/// The key of an object that says what it is.
pub(super) fn object_key(object: &Value) -> Result<ObjectKey, Refusal> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let kind = Cluster::kind(&text(&object["apiVersion"]), &text(&object["kind"]))?;
    let metadata = &object["metadata"];
    Ok(ObjectKey {
        kind: Arc::new(kind),
        namespace: text(&metadata["namespace"]).into(),
        name: text(&metadata["name"]).into(),
    })
}

/// A text, packed.
pub(super) fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}
