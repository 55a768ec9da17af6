//! The table of Terraform types: how the provider's attributes nest, and which field of an object each is read from.
//!
//! `table/types` is derived from the provider's own schema and the API server's (see `table/derive`), together with what neither
//! tells (`table/exceptions`).
//!
//! What is known about the types of resources.

use std::{collections::HashMap, sync::LazyLock};

/// Stands for the field of a block whose fields are beside those around it.
pub(super) const INLINE: &str = "-";

/// What is known about all types.
#[derive(Debug)]
pub(super) struct Table {
    types: HashMap<&'static str, TypeRow>,
    shapes: Vec<Shape>,
}

/// Which object a type of resource is.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypeRow {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) shape: usize,
}

/// The attributes of a block.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub(super) fields: Vec<Row>,
    /// Fields of the object that the provider never reads.
    pub(super) blind: Vec<&'static str>,
}

/// One attribute, and the field that it is read from.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) attribute: &'static str,
    pub(super) field: &'static str,
    pub(super) holds: FieldType,
    /// The fields by which elements of a list are known.
    pub(super) keys: Vec<&'static str>,
    /// What stands where the field is absent.
    pub(super) default: Option<&'static str>,
    /// Read only where another attribute of the block has this value.
    pub(super) when: Option<(&'static str, &'static str)>,
    /// Not read where the state has one of these attributes: `spec/0/metric`.
    pub(super) unless: Vec<&'static str>,
    /// Keys that are left out, or attributes whose keys or value are.
    pub(super) without: Vec<&'static str>,
    marks: Vec<&'static str>,
}

/// What an attribute holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    Text,
    Number,
    Bool,
    /// Texts by name.
    Map,
    /// Scalars in order.
    List,
    /// Scalars in no order.
    Set,
    /// A block that stands for an object.
    One(usize),
    /// A block for each element of a list.
    Many(usize),
    /// A block for each element of a list whose order means nothing.
    Any(usize),
}

impl Table {
    /// The one table.
    pub(super) fn get() -> &'static Self {
        static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("table/types")));
        &TABLE
    }

    /// The type of this name.
    pub(super) fn type_called(&self, name: &str) -> Option<TypeRow> {
        self.types.get(name).copied()
    }

    /// A shape by its number.
    pub(super) fn shape(&self, number: usize) -> &Shape {
        &self.shapes[number]
    }

    /// The shape that a path of attributes leads to.
    pub(super) fn shape_at(&self, type_name: &str, attributes: &[&str]) -> Option<usize> {
        let start = self.type_called(type_name)?.shape;
        attributes.iter().try_fold(start, |shape, attribute| {
            let field = self.shape(shape).fields.iter().find(|field| field.attribute == *attribute)?;
            field.holds.shape()
        })
    }

    fn read(text: &'static str) -> Self {
        let mut table = Self { types: HashMap::new(), shapes: Vec::new() };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match *words.as_slice() {
                ["type", names, api_version, kind, _, shape] => {
                    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
                    let row = TypeRow { group, version, kind, shape: number(shape) };
                    table.types.extend(names.split(',').map(|name| (name, row)));
                }
                ["shape", _] => table.shapes.push(Shape::default()),
                ["#", ..] | [""] => {}
                ["!", ref blind @ ..] => table.last().blind = blind.to_vec(),
                ref words => table.last().fields.push(Row::read(words)),
            }
        }
        table
    }

    fn last(&mut self) -> &mut Shape {
        self.shapes.last_mut().expect("the derived table begins a shape before its attributes")
    }
}

impl FieldType {
    /// The shape of its blocks.
    pub(super) fn shape(self) -> Option<usize> {
        match self {
            Self::One(shape) | Self::Many(shape) | Self::Any(shape) => Some(shape),
            Self::Text | Self::Number | Self::Bool | Self::Map | Self::List | Self::Set => None,
        }
    }
}

impl Row {
    /// Whether the table says this word about it.
    pub(super) fn is(&self, mark: &str) -> bool {
        self.marks.contains(&mark)
    }

    fn read(words: &[&'static str]) -> Self {
        let shape = || number(words[2]);
        let (holds, rest) = match words[1] {
            "number" => (FieldType::Number, &words[2..]),
            "bool" => (FieldType::Bool, &words[2..]),
            "map" => (FieldType::Map, &words[2..]),
            "list" => (FieldType::List, &words[2..]),
            "set" => (FieldType::Set, &words[2..]),
            "one" => (FieldType::One(shape()), &words[3..]),
            "many" => (FieldType::Many(shape()), &words[3..]),
            "any" => (FieldType::Any(shape()), &words[3..]),
            _ => (FieldType::Text, &words[2..]),
        };
        let given = |name: &str| {
            rest.iter()
                .find_map(|word| word.split_once('=').filter(|(key, _)| *key == name))
                .map(|(_, value)| value)
        };
        let list = |name: &str| given(name).map_or_else(Vec::new, |value| value.split(',').collect());
        Self {
            attribute: words[0],
            field: rest[0],
            holds,
            keys: list("key"),
            default: given("default"),
            when: given("when").and_then(|value| value.split_once(':')),
            unless: list("unless"),
            without: list("without"),
            marks: rest[1..].iter().copied().filter(|word| !word.contains('=')).collect(),
        }
    }
}

fn number(word: &str) -> usize {
    word.trim_start_matches('@').parse().expect("the derived table numbers its shapes")
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

#[cfg(test)]
mod tests {
    use super::{FieldType, Table};

    #[test]
    fn every_shape_that_is_named_is_there_and_every_key_is_an_attribute() {
        let table = Table::get();
        for field in table.shapes.iter().flat_map(|shape| &shape.fields) {
            let Some(shape) = field.holds.shape() else { continue };
            for key in &field.keys {
                let keyed = table.shape(shape).fields.iter().any(|field| field.field == *key);
                assert!(keyed, "{} is known by {key}", field.attribute);
            }
        }
        assert!(table.types.len() > 40);
    }

    #[test]
    fn attributes_lead_to_shapes() {
        let table = Table::get();
        let container = table.shape_at("kubernetes_deployment", &["spec", "template", "spec", "container"]);
        let image = table.shape(container.unwrap()).fields.iter().find(|field| field.attribute == "image");
        assert_eq!(image.unwrap().holds, FieldType::Text);
        assert_eq!(table.shape_at("kubernetes_deployment", &["spec", "image"]), None);
    }
}
