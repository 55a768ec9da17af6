//! Borrowed views of the parts of Deployments and Services that are hashed and shown.
//!
//! They read what a typed Go client would read: absent and null are the zero value, unknown fields are skipped.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

use super::pod_view::TemplateView;
use crate::types::Kind;

/// The spec of an object, as far as its kind is known here.
#[derive(Debug)]
pub enum SpecView<'a> {
    /// A Deployment's.
    Deployment(DeploymentView<'a>),
    /// A Service's.
    Service(ServiceView<'a>),
    /// Any other kind's.
    Other,
}

impl<'a> SpecView<'a> {
    pub(super) const DEPLOYMENT: (&'static str, &'static str) = ("apps", "Deployment");
    pub(super) const SERVICE: (&'static str, &'static str) = ("", "Service");

    /// Reads the JSON text of a spec.
    pub fn read(kind: &Kind, spec: &'a str) -> Result<Self, serde_json::Error> {
        match (&*kind.group, &*kind.kind) {
            Self::DEPLOYMENT => serde_json::from_str(spec).map(Self::Deployment),
            Self::SERVICE => serde_json::from_str(spec).map(Self::Service),
            _ => Ok(Self::Other),
        }
    }
}

/// `spec` of a Deployment.
#[derive(Debug, Default, Deserialize)]
#[serde(expecting = "spec must be an object")]
pub struct DeploymentView<'a> {
    /// Declared replicas.
    pub replicas: Option<i32>,
    /// Whether its rollouts wait until somebody says otherwise.
    #[serde(default, deserialize_with = "or_default")]
    pub paused: bool,
    #[serde(borrow)]
    pub(super) strategy: Option<Strategy<'a>>,
    /// What its pods look like.
    #[serde(borrow)]
    pub template: Option<TemplateView<'a>>,
}

/// `spec` of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "spec must be an object")]
pub struct ServiceView<'a> {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(borrow, default, rename = "type")]
    pub service_type: Text<'a>,
    /// The name that an `ExternalName` stands for.
    #[serde(borrow, default)]
    pub external_name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) selector: Pairs<'a, Text<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(super) ports: Vec<ServicePort<'a>>,
}

impl ServiceView<'_> {
    /// The first port that is served.
    pub fn first_port(&self) -> Option<i32> {
        self.ports.first().map(|port| port.port)
    }

    /// The labels by which it finds its pods.
    pub fn selector(&self) -> impl Iterator<Item = (&str, &str)> {
        self.selector.iter()
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Strategy<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) rolling_update: Option<RollingUpdate<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RollingUpdate<'a> {
    #[serde(borrow)]
    pub(super) max_unavailable: Option<IntOrText<'a>>,
    #[serde(borrow)]
    pub(super) max_surge: Option<IntOrText<'a>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServicePort<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) protocol: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) port: i32,
    #[serde(borrow)]
    pub(super) target_port: Option<IntOrText<'a>>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) node_port: i32,
}

/// A string, borrowed where it has no escapes; null is the empty string.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<'a>(pub Cow<'a, str>);

/// A quantity, which people also write as a number.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Amount<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Number(serde_json::Number),
}

impl Amount<'_> {
    /// The quantity's text.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text.trim()),
            Self::Number(number) => Cow::Owned(number.to_string()),
        }
    }
}

/// A whole number or a string.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum IntOrText<'a> {
    Int(i64),
    Text(#[serde(borrow)] Cow<'a, str>),
}

/// A map as a list sorted by the bytes of its keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pairs<'a, V>(pub(super) Vec<(Text<'a>, V)>);

impl Pairs<'_, Text<'_>> {
    /// Names and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&*name.0, &*value.0))
    }
}

impl<V> Default for Pairs<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Null is the default, as it is for Go.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Pairs<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Vec<(Text<'de>, V)>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map with string keys")
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Vec::new())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        let mut entries = deserializer.deserialize_any(Entries(std::marker::PhantomData))?;
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(Self(entries))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl<'de> Visitor<'de> for Scalar {
            type Value = Text<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(Scalar)
    }
}
