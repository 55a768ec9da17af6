//! An object as the API server sends it, as far as it has to be read to know what it is.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::diff::Text;

/// An object with its large parts unparsed.
#[derive(Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
    #[serde(borrow)]
    pub(super) spec: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) namespace: Text<'a>,
    #[serde(borrow, default)]
    pub(super) uid: Text<'a>,
    #[serde(borrow, default)]
    pub(super) resource_version: Text<'a>,
    pub(super) generation: Option<i64>,
    #[serde(borrow)]
    pub(super) deletion_timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) owner_references: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) labels: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) managed_fields: Option<&'a RawValue>,
}

/// The value under one key of a JSON object, without reading the others.
pub(super) fn pick<'a>(object: &'a RawValue, key: &str) -> Option<Cow<'a, str>> {
    struct Pick<'k>(&'k str);
    impl<'de> DeserializeSeed<'de> for Pick<'_> {
        type Value = Option<Text<'de>>;
        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_map(self)
        }
    }
    impl<'de> Visitor<'de> for Pick<'_> {
        type Value = Option<Text<'de>>;
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a map of strings")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(key) = map.next_key::<Text<'de>>()? {
                if key.0 == self.0 {
                    found = Some(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    Pick(key)
        .deserialize(&mut serde_json::Deserializer::from_str(object.get()))
        .ok()
        .flatten()
        .map(|text| text.0)
}
