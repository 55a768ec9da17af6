//! Who last wrote the hashed part of an object, from its `managedFields`.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use crate::{compare::Text, model::Writer};

/// The newest manager that owns anything but metadata and status.
pub(super) fn last_writer(managed_fields: &str) -> Option<Writer> {
    let entries: Vec<Managed<'_>> = serde_json::from_str(managed_fields).ok()?;
    let newest = entries
        .into_iter()
        .filter(|entry| entry.fields_v1.content)
        // Times are all written in one form, so their text sorts as they do.
        .max_by(|a, b| a.time.0.cmp(&b.time.0))?;
    Some(Writer {
        manager: newest.manager.0.into(),
        subresource: newest.subresource.0.into(),
        time: newest.time.0.parse().ok(),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Managed<'a> {
    #[serde(borrow, default)]
    manager: Text<'a>,
    #[serde(borrow, default)]
    subresource: Text<'a>,
    #[serde(borrow, default)]
    time: Text<'a>,
    #[serde(default)]
    fields_v1: Owned,
}

/// Whether any content is owned, told from the first level of keys only.
#[derive(Default)]
struct Owned {
    content: bool,
}

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Owned;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a set of fields")
            }
            fn visit_unit<E>(self) -> Result<Owned, E> {
                Ok(Owned::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Owned, A::Error> {
                let mut content = false;
                while let Some((key, _)) = map.next_entry::<Text<'de>, IgnoredAny>()? {
                    content |= !matches!(&*key.0, "f:metadata" | "f:status" | ".");
                }
                Ok(Owned { content })
            }
        }
        deserializer.deserialize_any(Keys)
    }
}

#[cfg(test)]
mod tests {
    use super::last_writer;

    #[test]
    fn the_newest_owner_of_content_is_the_writer() {
        let writer = last_writer(
            r#"[{"manager":"HashiCorp","operation":"Update","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:spec":{}}},
                {"manager":"kubectl-edit","time":"2026-01-02T00:00:00Z","fieldsV1":{"f:metadata":{},"f:spec":{"f:replicas":{}}}},
                {"manager":"kubectl-annotate","time":"2026-01-03T00:00:00Z","fieldsV1":{"f:metadata":{}}},
                {"manager":"kube-controller-manager","subresource":"status","time":"2026-01-04T00:00:00Z","fieldsV1":{"f:status":{}}}]"#,
        )
        .unwrap();
        assert_eq!(&*writer.manager, "kubectl-edit");
        assert_eq!(writer.time.unwrap().to_string(), "2026-01-02T00:00:00Z");
    }

    #[test]
    fn nobody_is_the_writer_of_what_nobody_owns() {
        assert_eq!(last_writer("[]"), None);
        assert_eq!(last_writer("null"), None);
        assert_eq!(last_writer(r#"[{"manager":"a","fieldsV1":null}]"#), None);
        assert_eq!(last_writer("not json"), None);
    }
}
