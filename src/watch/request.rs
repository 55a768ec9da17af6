//! The URLs of lists and watches.

use std::fmt::Write as _;

use crate::types::{Kind, WatchSpec};

/// The URL of a complete list. Without a resourceVersion the answer is never older than what we already saw.
pub(super) fn list_url(stream: &WatchSpec) -> String {
    let mut url = collection(&stream.kind, stream.namespace.as_deref());
    let mut joint = '?';
    if let Some(selector) = &stream.selector {
        let selector = encode(&selector.to_string());
        write!(url, "?labelSelector={selector}").expect("writing to a string cannot fail");
        joint = '&';
    }
    let excluded = stream.excluded.iter().map(|name| format!("metadata.namespace!={name}"));
    let named = stream.name.iter().map(|name| format!("metadata.name={name}"));
    // Of other kinds there may be too many for a URL, and we leave them out here.
    let left_out = stream.without.iter().filter(|_| stream.kind.is_guarded());
    let without = left_out.map(|(_, name)| format!("metadata.name!={name}"));
    let fields: Vec<String> = excluded.chain(named).chain(without).collect();
    if !fields.is_empty() {
        write!(url, "{joint}fieldSelector={}", encode(&fields.join(",")))
            .expect("writing to a string cannot fail");
    }
    url
}

/// The URL of one object.
pub fn object_url(kind: &Kind, namespace: &str, name: &str) -> String {
    let namespace = kind.namespaced.then_some(namespace);
    format!("{}/{}", collection(kind, namespace), encode(name))
}

/// The URL of a watch from this version on, which the server ends by itself after `seconds`.
pub(super) fn watch_url(stream: &WatchSpec, resource_version: &str, seconds: u64) -> String {
    let mut url = list_url(stream);
    let joint = if url.contains('?') { '&' } else { '?' };
    write!(
        url,
        "{joint}watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}",
        encode(resource_version)
    )
    .expect("writing to a string cannot fail");
    url
}

fn collection(kind: &Kind, namespace: Option<&str>) -> String {
    let mut url = if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    };
    if let Some(namespace) = namespace {
        write!(url, "/namespaces/{}", encode(namespace)).expect("writing to a string cannot fail");
    }
    write!(url, "/{}", kind.plural).expect("writing to a string cannot fail");
    url
}

/// Percent-encodes everything but unreserved characters.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => write!(encoded, "%{byte:02X}").expect("writing to a string cannot fail"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{list_url, watch_url};
    use crate::types::{Kind, Selector, WatchSpec};

    #[test]
    fn the_selector_and_the_namespace_go_to_the_server() {
        let mut stream = WatchSpec::whole(Arc::new(Kind::deployment()));
        stream.selector = Selector::parse("tfdrift.jin.dev/enabled=true").ok();
        let list = "/apis/apps/v1/deployments?labelSelector=tfdrift.jin.dev%2Fenabled%3Dtrue";
        assert_eq!(list_url(&stream), list);
        assert_eq!(
            watch_url(&stream, "42", 30),
            format!("{list}&watch=1&allowWatchBookmarks=true&timeoutSeconds=30&resourceVersion=42")
        );
        stream.kind = Arc::new(Kind::service());
        stream.namespace = Some("shop".into());
        stream.selector = None;
        assert_eq!(list_url(&stream), "/api/v1/namespaces/shop/services");
        stream.namespace = None;
        stream.excluded = vec!["kube-system".into(), "tmp".into()];
        let fields = "metadata.namespace%21%3Dkube-system%2Cmetadata.namespace%21%3Dtmp";
        assert_eq!(list_url(&stream), format!("/api/v1/services?fieldSelector={fields}"));
        stream.selector = Selector::parse("a in (b,c)").ok();
        let labels = "a%20in%20%28b%2Cc%29";
        assert_eq!(
            list_url(&stream),
            format!("/api/v1/services?labelSelector={labels}&fieldSelector={fields}")
        );
        let mut one = WatchSpec::whole(Arc::new(Kind::service()));
        (one.namespace, one.name) = (Some("shop".into()), Some("web".into()));
        assert_eq!(list_url(&one), "/api/v1/namespaces/shop/services?fieldSelector=metadata.name%3Dweb");
    }

    #[test]
    fn secrets_that_others_ask_for_are_left_out_by_the_server() {
        let secret = Kind { plural: "secrets".into(), ..Kind::unseen("", "v1", "Secret") };
        for (kind, fields) in
            [(secret, "?fieldSelector=metadata.name%21%3Da%2Cmetadata.name%21%3Db"), (Kind::service(), "")]
        {
            let url = format!("/api/v1/namespaces/shop/{}{fields}", kind.plural);
            let without = Arc::new([("shop", "a"), ("shop", "b")].into_iter().collect());
            let whole = WatchSpec::whole(Arc::new(kind));
            assert_eq!(list_url(&WatchSpec { namespace: Some("shop".into()), without, ..whole }), url);
        }
    }
}
