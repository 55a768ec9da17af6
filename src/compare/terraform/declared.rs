//! What a Terraform state declares for one object.

use std::fmt;

use serde_json::Value;

use super::table::Table;

/// One object as a state has it. Values that may not be told are in it as digests only.
#[derive(Clone, PartialEq)]
pub struct DeclaredObject {
    /// `module.shop["eu"].kubernetes_deployment_v1.web[0]`.
    pub address: Box<str>,
    /// The type of the resource, `kubernetes_deployment_v1`.
    pub resource_type: Box<str>,
    /// Which object it is.
    pub object: ObjectName,
    /// The uid of the object that was applied, where the state has it.
    pub uid: Option<Box<str>>,
    /// Attributes, without indices, whose values may not be told: `data`, `spec.template.spec.container.env.value`.
    pub sensitive: Vec<Box<str>>,
    /// What is declared.
    pub body: Body,
}

/// Which object a resource is, as a state tells it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// The API version that the provider reads the object in.
    pub version: Box<str>,
    /// `Deployment`.
    pub kind: Box<str>,
    /// Empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// The object's name.
    pub name: Box<str>,
}

/// What is declared, in the form in which it is compared.
#[derive(Clone, PartialEq)]
pub enum Body {
    /// Attributes of a type in the table.
    Attributes(Value),
    /// The whole object as it was read after it was applied (`kubernetes_manifest`).
    Whole(Value),
    /// Only what somebody wrote down (`kubectl_manifest`).
    Subset(Value),
    /// Single keys or variables of an object that others may own the rest of.
    Parts(Value),
}

/// The types that own single keys of an object.
pub const PART_TYPES: &[&str] = &[
    "kubernetes_labels",
    "kubernetes_annotations",
    "kubernetes_env",
    "kubernetes_config_map_v1_data",
    "kubernetes_secret_v1_data",
];

/// Which objects a type of resource declares: group, version and kind. None for a type that is not in the table.
pub fn object_type(resource_type: &str) -> Option<(&'static str, &'static str, &'static str)> {
    Table::get().type_called(resource_type).map(|row| (row.group, row.version, row.kind))
}

/// Attributes of a type whose values may never be told, whatever the state says about them.
pub fn sensitive_attributes(resource_type: &str) -> Vec<&'static str> {
    if resource_type == "kubernetes_secret_v1_data" {
        return vec!["data"];
    }
    let table = Table::get();
    let Some(row) = table.type_called(resource_type) else {
        return Vec::new();
    };
    let fields = table.shape(row.shape).fields.iter();
    fields.filter(|field| field.is("sensitive")).map(|field| field.attribute).collect()
}

/// Tells which object it is and nothing that is declared for it.
impl fmt::Debug for DeclaredObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DeclaredObject")
            .field("address", &self.address)
            .field("object", &self.object)
            .field("uid", &self.uid)
            .finish_non_exhaustive()
    }
}

/// Tells its form and nothing of what is in it.
impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Attributes(_) => "Attributes(..)",
            Self::Whole(_) => "Whole(..)",
            Self::Subset(_) => "Subset(..)",
            Self::Parts(_) => "Parts(..)",
        })
    }
}
