//! The table of Terraform resource types: how the attributes of the provider nest, and from which field each is read.
//!
//! `table/derive` derives `table/types` from the schema of the provider, the OpenAPI document of the API server and
//! `table/exceptions`.

use std::{collections::HashMap, sync::LazyLock};

/// The field of a block whose fields belong to the surrounding object.
pub(super) const INLINE: &str = "-";

/// Resource types that own single keys of an object.
pub const PART_TYPES: &[&str] = &[
    "kubernetes_labels",
    "kubernetes_annotations",
    "kubernetes_env",
    "kubernetes_config_map_v1_data",
    "kubernetes_secret_v1_data",
];

#[derive(Debug)]
pub(super) struct ProviderTable {
    types: HashMap<&'static str, ResourceType>,
    blocks: Vec<Block>,
}

/// A resource type of Terraform, and the kind of its objects.
#[derive(Clone, Copy, Debug)]
pub struct ResourceType {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub(super) block: usize,
}

#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) attributes: Vec<Attribute>,
    /// Fields of the object that the provider never reads.
    pub(super) unread: Vec<&'static str>,
}

/// An attribute, and the field that it is read from.
#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) name: &'static str,
    pub(super) field: &'static str,
    pub(super) value_type: AttributeType,
    /// The fields that identify the elements of a list.
    pub(super) keys: Vec<&'static str>,
    /// The value if the field is absent.
    pub(super) default: Option<&'static str>,
    /// Read only if another attribute of the block has this value.
    pub(super) when: Option<(&'static str, &'static str)>,
    /// Not read if the state has one of these attributes: `spec/0/metric`.
    pub(super) unless: Vec<&'static str>,
    /// Ignored keys, or attributes whose keys or value are ignored.
    pub(super) without: Vec<&'static str>,
    flags: Vec<&'static str>,
}

/// The type of an attribute. A block is an index into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttributeType {
    Text,
    Number,
    Bool,
    /// A map of texts.
    Map,
    /// A list of scalars.
    List,
    /// A set of scalars.
    Set,
    /// A block for an object.
    Block(usize),
    /// A block for each element of a list.
    BlockList(usize),
    /// A block for each element of a list whose order has no meaning.
    BlockSet(usize),
}

impl ProviderTable {
    pub(super) fn get() -> &'static Self {
        static TABLE: LazyLock<ProviderTable> =
            LazyLock::new(|| ProviderTable::parse(include_str!("table/types")));
        &TABLE
    }

    pub(super) fn resource_type(&self, name: &str) -> Option<ResourceType> {
        self.types.get(name).copied()
    }

    pub(super) fn block(&self, index: usize) -> &Block {
        &self.blocks[index]
    }

    pub(super) fn block_at(&self, resource_type: &str, attributes: &[&str]) -> Option<usize> {
        let start = self.resource_type(resource_type)?.block;
        attributes.iter().try_fold(start, |block, name| {
            let attribute = self.block(block).attributes.iter().find(|attribute| attribute.name == *name)?;
            attribute.value_type.block()
        })
    }

    fn parse(text: &'static str) -> Self {
        let mut table = Self { types: HashMap::new(), blocks: Vec::new() };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match *words.as_slice() {
                ["type", names, api_version, kind, _, block] => {
                    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
                    let resource_type = ResourceType { group, version, kind, block: parse_index(block) };
                    table.types.extend(names.split(',').map(|name| (name, resource_type)));
                }
                ["block", _] => table.blocks.push(Block::default()),
                ["#", ..] | [""] => {}
                ["!", ref unread @ ..] => table.last_block().unread = unread.to_vec(),
                ref words => table.last_block().attributes.push(Attribute::parse(words)),
            }
        }
        table
    }

    fn last_block(&mut self) -> &mut Block {
        self.blocks.last_mut().expect("the derived table begins a block before its attributes")
    }
}

impl AttributeType {
    pub(super) fn block(self) -> Option<usize> {
        match self {
            Self::Block(block) | Self::BlockList(block) | Self::BlockSet(block) => Some(block),
            Self::Text | Self::Number | Self::Bool | Self::Map | Self::List | Self::Set => None,
        }
    }
}

impl Attribute {
    /// Whether the table has this flag for the attribute; `table/exceptions` explains them.
    pub(super) fn is(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    fn parse(words: &[&'static str]) -> Self {
        let block = || parse_index(words[2]);
        let (value_type, rest) = match words[1] {
            "number" => (AttributeType::Number, &words[2..]),
            "bool" => (AttributeType::Bool, &words[2..]),
            "map" => (AttributeType::Map, &words[2..]),
            "list" => (AttributeType::List, &words[2..]),
            "set" => (AttributeType::Set, &words[2..]),
            "one" => (AttributeType::Block(block()), &words[3..]),
            "many" => (AttributeType::BlockList(block()), &words[3..]),
            "any" => (AttributeType::BlockSet(block()), &words[3..]),
            _ => (AttributeType::Text, &words[2..]),
        };
        let option = |name: &str| {
            rest.iter()
                .find_map(|word| word.split_once('=').filter(|(key, _)| *key == name))
                .map(|(_, value)| value)
        };
        let list = |name: &str| option(name).map_or_else(Vec::new, |value| value.split(',').collect());
        Self {
            name: words[0],
            field: rest[0],
            value_type,
            keys: list("key"),
            default: option("default"),
            when: option("when").and_then(|value| value.split_once(':')),
            unless: list("unless"),
            without: list("without"),
            flags: rest[1..].iter().copied().filter(|word| !word.contains('=')).collect(),
        }
    }
}

fn parse_index(word: &str) -> usize {
    word.trim_start_matches('@').parse().expect("the derived table numbers its blocks")
}

/// [`None`] for a type that is not in the table.
pub fn resource_type(name: &str) -> Option<ResourceType> {
    ProviderTable::get().resource_type(name)
}

/// Attributes of a type that are always redacted, even if the state does not mark them as sensitive.
pub fn sensitive_attributes(resource_type: &str) -> Vec<&'static str> {
    if resource_type == "kubernetes_secret_v1_data" {
        return vec!["data"];
    }
    let table = ProviderTable::get();
    let Some(resource_type) = table.resource_type(resource_type) else {
        return Vec::new();
    };
    let attributes = table.block(resource_type.block).attributes.iter();
    attributes.filter(|attribute| attribute.is("sensitive")).map(|attribute| attribute.name).collect()
}

#[cfg(test)]
mod tests {
    use super::{AttributeType, ProviderTable};

    #[test]
    fn blocks_exist_and_list_keys_are_fields_of_their_block() {
        let table = ProviderTable::get();
        for attribute in table.blocks.iter().flat_map(|block| &block.attributes) {
            let Some(block) = attribute.value_type.block() else { continue };
            for key in &attribute.keys {
                let has_key = table.block(block).attributes.iter().any(|attribute| attribute.field == *key);
                assert!(has_key, "{} has the key {key}", attribute.name);
            }
        }
        assert!(table.types.len() > 40);
    }

    #[test]
    fn block_at_follows_attributes() {
        let table = ProviderTable::get();
        let container = table.block_at("kubernetes_deployment", &["spec", "template", "spec", "container"]);
        let attributes = &table.block(container.unwrap()).attributes;
        let image = attributes.iter().find(|attribute| attribute.name == "image");
        assert_eq!(image.unwrap().value_type, AttributeType::Text);
        assert_eq!(table.block_at("kubernetes_deployment", &["spec", "image"]), None);
    }
}
