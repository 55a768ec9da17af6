//! What is known about the types of resources.

use super::table::Table;

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
