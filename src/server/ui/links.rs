//! Addresses of pages.

use std::fmt::Write as _;

use crate::types::ObjectKey;

/// The page of an object: `/objects/deployments.apps/shop/web`.
pub(super) fn object_url(key: &ObjectKey) -> String {
    let namespace = if key.namespace.is_empty() { "-" } else { &key.namespace };
    format!("/objects/{}/{}/{}", encode(&key.kind.to_string()), encode(namespace), encode(&key.name))
}

/// The dashboard of an object in Grafana, which comes with this program under that name.
pub(super) fn dashboard_url(grafana: &str, key: &ObjectKey) -> String {
    let variables = [
        ("group", &*key.kind.group),
        ("kind", &*key.kind.kind),
        ("namespace", &*key.namespace),
        ("name", &*key.name),
    ];
    let variables = variables.map(|(name, value)| format!("var-{name}={}", encode(value)));
    format!("{grafana}/d/drift-exporter-object?{}", variables.join("&"))
}

/// Text as a part of a path or of a query. Names come from the cluster and may hold anything.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    }
    encoded
}
