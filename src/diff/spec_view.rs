//! Borrowed views of Deployments, Services and Pods, with the fields that are hashed or shown.
//!
//! They decode like a typed Go client: absent and null are the zero value, unknown fields are ignored. Those that `tfdrift-v1`
//! hashes are encoded like it, too.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::{Error as _, SerializeMap as _},
};

use super::{json_part::JsonPart, quantity::Quantity};
use crate::types::{GroupKind, Kind};

#[derive(Debug)]
pub enum SpecView<'a> {
    Deployment(DeploymentView<'a>),
    Service(ServiceView<'a>),
    Other,
}

impl<'a> SpecView<'a> {
    pub fn read(kind: &Kind, spec: Option<JsonPart<'a>>) -> Result<Self, serde_json::Error> {
        match kind.group_kind() {
            GroupKind::DEPLOYMENT => read_or_default(spec).map(Self::Deployment),
            GroupKind::SERVICE => read_or_default(spec).map(Self::Service),
            _ => Ok(Self::Other),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(expecting = "spec must be an object")]
pub struct DeploymentView<'a> {
    pub replicas: Option<i32>,
    #[serde(default, deserialize_with = "or_default")]
    pub paused: bool,
    #[serde(borrow)]
    pub(super) strategy: Option<Strategy<'a>>,
    pub template: Option<TemplateView<'a>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", expecting = "spec must be an object")]
pub struct ServiceView<'a> {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(borrow, default, rename = "type")]
    pub service_type: Text<'a>,
    #[serde(borrow, default, skip_serializing)]
    pub external_name: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "is_default", serialize_with = "trimmed")]
    pub(super) selector: Pairs<'a, Text<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(super) ports: Vec<ServicePort<'a>>,
}

impl ServiceView<'_> {
    pub fn first_port(&self) -> Option<i32> {
        self.ports.first().map(|port| port.port)
    }

    pub fn selector(&self) -> impl Iterator<Item = (&str, &str)> {
        self.selector.iter()
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Strategy<'a> {
    #[serde(borrow, default, rename = "type", skip_serializing_if = "is_default")]
    kind: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    rolling_update: Option<RollingUpdate<'a>>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct RollingUpdate<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    max_unavailable: Option<IntOrText<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    max_surge: Option<IntOrText<'a>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServicePort<'a> {
    #[serde(borrow, default, skip_serializing_if = "is_default")]
    pub(super) name: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "is_default")]
    protocol: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) port: i32,
    #[serde(borrow, serialize_with = "int_as_text")]
    target_port: Option<IntOrText<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_default")]
    node_port: i32,
}

/// A string, borrowed where it has no escapes; null is the empty string.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Text<'a>(pub Cow<'a, str>);

/// A quantity, which may be a number in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum QuantityText<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Number(serde_json::Number),
}

impl QuantityText<'_> {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text.trim()),
            Self::Number(number) => Cow::Owned(number.to_string()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
enum IntOrText<'a> {
    Int(i64),
    Text(#[serde(borrow)] Cow<'a, str>),
}

/// A map as a list sorted by the bytes of its keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pairs<'a, V>(pub(super) Vec<(Text<'a>, V)>);

impl Pairs<'_, Text<'_>> {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&*name.0, &*value.0))
    }
}

impl<V> Default for Pairs<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

pub(super) fn read_or_default<'a, T: Default + Deserialize<'a>>(
    part: Option<JsonPart<'a>>,
) -> Result<T, serde_json::Error> {
    part.map_or_else(|| Ok(T::default()), JsonPart::read)
}

/// Null is the zero value, as in Go.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Like `omitempty` in Go.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn trimmed<S: Serializer>(pairs: &Pairs<'_, Text<'_>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value.trim())))
}

fn canonical<S: Serializer>(
    quantities: &Pairs<'_, QuantityText<'_>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(quantities.0.len()))?;
    for (name, amount) in &quantities.0 {
        let quantity = Quantity::parse(&amount.text()).map_err(S::Error::custom)?;
        map.serialize_entry(name, &quantity.to_string())?;
    }
    map.end()
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn int_as_text<S: Serializer>(value: &Option<IntOrText<'_>>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        None => serializer.serialize_str("0"),
        Some(IntOrText::Int(number)) => serializer.collect_str(number),
        Some(IntOrText::Text(text)) => serializer.serialize_str(text),
    }
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

#[derive(Debug, Deserialize)]
pub struct TemplateView<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<TemplateMetadata<'a>>,
    pub spec: Option<PodView<'a>>,
}

impl TemplateView<'_> {
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.iter().flat_map(|metadata| metadata.labels.iter())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView<'a> {
    #[serde(borrow, default)]
    pub restart_policy: Text<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(super) containers: Vec<Container<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    volumes: Vec<Volume<'a>>,
}

impl PodView<'_> {
    /// The requests of all containers for this resource, as written.
    pub fn requests(&self, resource: &str) -> impl Iterator<Item = Cow<'_, str>> {
        self.containers
            .iter()
            .flat_map(|container| &container.resources.requests.0)
            .filter(move |(name, _)| *name.0 == *resource)
            .map(|(_, amount)| amount.text())
    }

    pub fn first_port(&self) -> Option<i32> {
        self.containers.iter().find_map(|container| container.ports.first()).map(|port| port.number)
    }

    /// The name of the first Secret that the Pod refers to: in `envFrom`, else in `env`, else in a volume.
    pub fn first_secret(&self) -> Option<&str> {
        let env_from = self.containers.iter().flat_map(|container| &container.env_from.0);
        let env_from = env_from.filter_map(|from| from.secret_ref.as_ref());
        let env = self.containers.iter().flat_map(|container| &container.env);
        let env = env.filter_map(|variable| variable.value_from.0.as_ref()?.secret_key_ref.as_ref());
        let volumes = self.volumes.iter().filter_map(|volume| volume.secret.as_ref());
        let references = env_from.chain(env).map(|reference| &reference.name);
        let names = references.chain(volumes.map(|volume| &volume.secret_name));
        names.map(|name| &*name.0).find(|name| !name.is_empty())
    }
}

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct TemplateMetadata<'a> {
    #[serde(borrow, default, skip_serializing_if = "is_default", serialize_with = "trimmed")]
    labels: Pairs<'a, Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "is_default", serialize_with = "trimmed")]
    annotations: Pairs<'a, Text<'a>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    image: Text<'a>,
    #[serde(borrow, default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(super) env: Vec<EnvVar<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default", skip_serializing)]
    env_from: Unhashed<Vec<EnvFrom<'a>>>,
    #[serde(borrow, default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub(super) ports: Vec<ContainerPort<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    resources: Resources<'a>,
}

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EnvVar<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "is_default")]
    value: Text<'a>,
    #[serde(borrow, default, skip_serializing)]
    value_from: Unhashed<Option<ValueFrom<'a>>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct ContainerPort<'a> {
    #[serde(borrow, default, skip_serializing_if = "is_default")]
    pub(super) name: Text<'a>,
    #[serde(default, rename = "containerPort", deserialize_with = "or_default")]
    pub(super) number: i32,
    #[serde(borrow, default, skip_serializing_if = "is_default")]
    protocol: Text<'a>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct Resources<'a> {
    #[serde(borrow, default, skip_serializing_if = "is_default", serialize_with = "canonical")]
    limits: Pairs<'a, QuantityText<'a>>,
    #[serde(borrow, default, skip_serializing_if = "is_default", serialize_with = "canonical")]
    requests: Pairs<'a, QuantityText<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    claims: Vec<ResourceClaim<'a>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
struct ResourceClaim<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "is_default")]
    request: Text<'a>,
}

/// A field that is shown and not hashed: it does not take part in comparisons.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
struct Unhashed<T>(T);

impl<T> PartialEq for Unhashed<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Unhashed<T> {}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvFrom<'a> {
    #[serde(borrow)]
    secret_ref: Option<SecretReference<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValueFrom<'a> {
    #[serde(borrow)]
    secret_key_ref: Option<SecretReference<'a>>,
}

#[derive(Debug, Deserialize)]
struct SecretReference<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
}

#[derive(Debug, Deserialize)]
struct Volume<'a> {
    #[serde(borrow)]
    secret: Option<SecretVolume<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SecretVolume<'a> {
    #[serde(borrow, default)]
    secret_name: Text<'a>,
}
