//! Borrowed views of pods and their templates: what is hashed of them, and what is shown.

use std::borrow::Cow;

use serde::Deserialize;

use super::views::{Amount, Pairs, Text, or_default};

/// The template that a workload makes its pods from.
#[derive(Debug, Deserialize)]
pub struct TemplateView<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<TemplateMetadata<'a>>,
    /// What the pods are to be.
    #[serde(borrow)]
    pub spec: Option<PodView<'a>>,
}

impl TemplateView<'_> {
    /// The labels of the pods.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.iter().flat_map(|metadata| metadata.labels.iter())
    }
}

/// `spec` of a pod.
#[derive(Debug, Deserialize)]
pub struct PodView<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(super) containers: Vec<Container<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    volumes: Vec<Volume<'a>>,
}

impl PodView<'_> {
    /// The quantities that its containers request under this name, as written.
    pub fn requests(&self, resource: &str) -> impl Iterator<Item = Cow<'_, str>> {
        self.containers
            .iter()
            .filter_map(|container| container.resources.as_ref())
            .flat_map(|resources| &resources.requests.0)
            .filter(move |(name, _)| *name.0 == *resource)
            .map(|(_, amount)| amount.text())
    }

    /// The first port of the first container that has one.
    pub fn first_port(&self) -> Option<i32> {
        self.containers.iter().find_map(|container| container.ports.first()).map(|port| port.number)
    }

    /// The name of the first Secret that it takes something from: all of it as variables, else single variables, else a volume.
    pub fn first_secret(&self) -> Option<&str> {
        let whole = self.containers.iter().flat_map(|container| &container.env_from.0);
        let whole = whole.filter_map(|from| from.secret_ref.as_ref());
        let single = self.containers.iter().flat_map(|container| &container.env);
        let single = single.filter_map(|variable| variable.value_from.0.as_ref()?.secret_key_ref.as_ref());
        let mounted = self.volumes.iter().filter_map(|volume| volume.secret.as_ref());
        let names = whole.chain(single).map(|own| &own.name).chain(mounted.map(|own| &own.secret_name));
        names.map(|name| &*name.0).find(|name| !name.is_empty())
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct TemplateMetadata<'a> {
    #[serde(borrow, default)]
    pub(super) labels: Pairs<'a, Text<'a>>,
    #[serde(borrow, default)]
    pub(super) annotations: Pairs<'a, Text<'a>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) image: Text<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(super) env: Vec<EnvVar<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    env_from: Unhashed<Vec<EnvFrom<'a>>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(super) ports: Vec<ContainerPort<'a>>,
    #[serde(borrow)]
    pub(super) resources: Option<Resources<'a>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EnvVar<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) value: Text<'a>,
    #[serde(borrow, default)]
    value_from: Unhashed<Option<ValueFrom<'a>>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ContainerPort<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(default, rename = "containerPort", deserialize_with = "or_default")]
    pub(super) number: i32,
    #[serde(borrow, default)]
    pub(super) protocol: Text<'a>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Resources<'a> {
    #[serde(borrow, default)]
    pub(super) limits: Pairs<'a, Amount<'a>>,
    #[serde(borrow, default)]
    pub(super) requests: Pairs<'a, Amount<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(super) claims: Vec<ResourceClaim<'a>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ResourceClaim<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) request: Text<'a>,
}

/// What is shown and no hash knows: two containers are the same whatever it is.
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
    secret_ref: Option<Named<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValueFrom<'a> {
    #[serde(borrow)]
    secret_key_ref: Option<Named<'a>>,
}

#[derive(Debug, Deserialize)]
struct Named<'a> {
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
