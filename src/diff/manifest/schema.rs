//! Schemas of the kinds that are compared: the type of each field, and the rules by which the API server stores it.
//!
//! The schemas of the built-in kinds are in `table/schemas`. `table/derive` derives them from the OpenAPI documents and dry-run
//! responses of an API server and from `table/exceptions`. The schemas of custom resources are read from the cluster
//! ([`ClusterSchemas`]).

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

use crate::diff::{
    digests::decode_base64,
    quantity::Quantity,
    tree::{Node, Scalar},
};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Schemas {
    /// By API version, then by kind.
    pub(super) kinds: HashMap<Name, HashMap<Name, FieldType>>,
    /// [`FieldType::Object`] refers to these by index.
    pub(super) objects: Vec<ObjectSchema>,
    /// Whether the defaults of the API server are known, as they are for built-in kinds only.
    pub(super) has_defaults: bool,
}

/// Borrowed from the built-in table, or owned by an OpenAPI document.
pub(super) type Name = Cow<'static, str>;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ObjectSchema {
    /// Sorted by name.
    pub(super) fields: Vec<FieldSchema>,
    /// The type of all other fields.
    pub(super) additional: FieldType,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FieldSchema {
    pub(super) name: Name,
    pub(super) field_type: FieldType,
    pub(super) rules: Vec<FieldRule>,
}

/// The type of a field, of a value of a map or of an element of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    /// A scalar that is compared as text.
    Plain,
    Quantity,
    /// A quantity in a resource list, which the server rounds up to thousandths.
    ResourceQuantity,
    /// Base64.
    Bytes,
    Time,
    /// Any JSON, which the server stores unchanged.
    Any,
    Unknown,
    /// Never compared.
    Ignored,
    /// An index into [`Schemas::objects`].
    Object(usize),
    Map(Box<Self>),
    List(Box<Self>, ListType),
}

/// How the elements of a list are identified, as in `x-kubernetes-list-type`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListType {
    /// By index: the list is one value.
    Atomic,
    /// Elements have no identity, and their order has no meaning.
    Unordered,
    /// By value.
    Set,
    /// By the values of these fields.
    Map(Vec<ListKey>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListKey {
    pub(super) field: Name,
    /// The value if the field is absent.
    pub(super) default: Name,
}

/// How the API server treats the value of a field.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FieldRule {
    /// An empty value differs from an absent one.
    KeepsEmpty,
    /// An empty object equals an absent one.
    DropsEmptyObject,
    /// The server or a controller sets a value that is absent or empty: this one, or an unpredictable one.
    Defaulted(Option<Name>),
    /// The whole value is declared, so that undeclared members differ.
    Atomic,
    /// Bytes that are only white space are empty.
    BlankIsEmpty,
    /// Not compared if this field of the same object is declared.
    IgnoredIf(Name),
    /// The system adds elements whose `field` starts with `prefix`. An empty `field` is the element itself.
    SystemAdds { field: Name, prefix: Name },
}

impl Schemas {
    pub fn built_in() -> &'static Self {
        static TABLE: LazyLock<Schemas> = LazyLock::new(|| parse_table(include_str!("table/schemas")));
        &TABLE
    }

    pub fn has(&self, kind: TypeMeta<&str>) -> bool {
        self.kind(kind).is_some()
    }

    pub(super) fn kind(&self, kind: TypeMeta<&str>) -> Option<&FieldType> {
        self.kinds.get(kind.api_version)?.get(kind.kind)
    }

    /// The type of `metadata`, which all kinds share.
    pub(super) fn metadata() -> &'static FieldType {
        match Self::built_in().kind(TypeMeta::new("v1", "ConfigMap")) {
            Some(FieldType::Object(object)) => Self::built_in().field(*object, "metadata").0,
            _ => &FieldType::Unknown,
        }
    }

    fn field(&self, object: usize, name: &str) -> (&FieldType, &[FieldRule]) {
        let Some(object) = self.objects.get(object) else {
            return (&FieldType::Unknown, &[]);
        };
        match object.fields.binary_search_by(|field| (*field.name).cmp(name)) {
            Ok(at) => (&object.fields[at].field_type, &object.fields[at].rules),
            Err(_) => (&object.additional, &[]),
        }
    }
}

impl ObjectSchema {
    pub(super) fn new(mut fields: Vec<FieldSchema>, additional: FieldType) -> Self {
        fields.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Self { fields, additional }
    }
}

fn parse_table(text: &'static str) -> Schemas {
    let mut schemas = Schemas { has_defaults: true, ..Schemas::default() };
    let (heads, bodies) = text.split_once("\n@").unwrap_or((text, ""));
    for line in heads.lines() {
        if let ["kind", api_version, kind, object] = *line.split(' ').collect::<Vec<_>>() {
            let field_type = parse_type(&mut [object].into_iter());
            schemas.kinds.entry(api_version.into()).or_default().insert(kind.into(), field_type);
        }
    }
    for body in bodies.split("\n@") {
        let fields = body.lines().skip(1).flat_map(parse_fields).collect();
        schemas.objects.push(ObjectSchema::new(fields, FieldType::Unknown));
    }
    schemas
}

/// A line names several plain fields, or one field with its type and rules.
fn parse_fields(line: &'static str) -> Vec<FieldSchema> {
    let mut words = line.split(' ');
    match words.next() {
        Some("-") => {
            let plain = |name| FieldSchema { name, field_type: FieldType::Plain, rules: Vec::new() };
            words.map(Cow::Borrowed).map(plain).collect()
        }
        Some(name) => {
            let field_type = parse_type(&mut words);
            let rules = words.filter_map(parse_rule).collect();
            vec![FieldSchema { name: Cow::Borrowed(name), field_type, rules }]
        }
        None => Vec::new(),
    }
}

fn parse_type(words: &mut impl Iterator<Item = &'static str>) -> FieldType {
    match words.next().unwrap_or_default() {
        "-" => FieldType::Plain,
        "quantity" => FieldType::Quantity,
        "amount" => FieldType::ResourceQuantity,
        "bytes" => FieldType::Bytes,
        "time" => FieldType::Time,
        "any" => FieldType::Any,
        "none" => FieldType::Ignored,
        "{}" => FieldType::Map(Box::new(parse_type(words))),
        "[]" => FieldType::List(Box::new(parse_type(words)), ListType::Atomic),
        "[*]" => FieldType::List(Box::new(parse_type(words)), ListType::Unordered),
        "[=]" => FieldType::List(Box::new(parse_type(words)), ListType::Set),
        word => match (word.strip_prefix('@'), word.strip_prefix('[')) {
            (Some(object), _) => object.parse().map_or(FieldType::Unknown, FieldType::Object),
            (_, Some(keys)) => {
                let keys = keys.trim_end_matches(']').split(',').map(|key| {
                    let (field, default) = key.split_once('=').unwrap_or((key, ""));
                    ListKey { field: Cow::Borrowed(field), default: Cow::Borrowed(default) }
                });
                FieldType::List(Box::new(parse_type(words)), ListType::Map(keys.collect()))
            }
            (None, None) => FieldType::Unknown,
        },
    }
}

fn parse_rule(word: &'static str) -> Option<FieldRule> {
    match word {
        "kept" => Some(FieldRule::KeepsEmpty),
        "dropped" => Some(FieldRule::DropsEmptyObject),
        "filled" => Some(FieldRule::Defaulted(None)),
        "whole" => Some(FieldRule::Atomic),
        "blank" => Some(FieldRule::BlankIsEmpty),
        _ => match word.split_once('=')? {
            ("filled", value) => Some(FieldRule::Defaulted(Some(Cow::Borrowed(value)))),
            ("unless", field) => Some(FieldRule::IgnoredIf(Cow::Borrowed(field))),
            ("adds", rule) => {
                let (field, prefix) = rule.split_once(':')?;
                Some(FieldRule::SystemAdds { field: Cow::Borrowed(field), prefix: Cow::Borrowed(prefix) })
            }
            _ => None,
        },
    }
}

/// The schema of one value in an object: the walk over an object steps from node to node.
#[derive(Clone, Copy, Debug)]
pub(in crate::diff) struct SchemaNode<'a> {
    schemas: &'a Schemas,
    /// The name of the innermost field.
    pub(in crate::diff) name: &'a str,
    pub(super) field_type: &'a FieldType,
    rules: &'a [FieldRule],
    /// Whether the value is within an atomic list or object, so that undeclared members differ.
    pub(super) is_atomic: bool,
}

impl<'a> SchemaNode<'a> {
    pub(super) fn new(schemas: &'a Schemas, field_type: &'a FieldType) -> Self {
        Self { schemas, name: "", field_type, rules: &[], is_atomic: false }
    }

    pub(in crate::diff) fn member(self, name: &'a str) -> Self {
        let (field_type, rules): (&FieldType, &[FieldRule]) = match self.field_type {
            FieldType::Object(object) => self.schemas.field(*object, name),
            FieldType::Map(values) => (values, &[FieldRule::KeepsEmpty]),
            FieldType::Any => (&FieldType::Any, &[]),
            _ => (&FieldType::Unknown, &[]),
        };
        let node = Self { name, field_type, rules, ..self };
        // The default of a map or a list is unknown, so undeclared members may be part of it.
        let has_open_default = node.is_defaulted() && !matches!(field_type, FieldType::Object(_));
        Self { is_atomic: self.is_atomic && !has_open_default || rules.contains(&FieldRule::Atomic), ..node }
    }

    pub(in crate::diff) fn element(self) -> Self {
        let (field_type, is_one_value): (&FieldType, bool) = match self.field_type {
            FieldType::List(elements, list_type) => {
                (elements, matches!(list_type, ListType::Atomic | ListType::Unordered))
            }
            FieldType::Any => (&FieldType::Any, false),
            _ => (&FieldType::Unknown, false),
        };
        let is_atomic = self.is_atomic || is_one_value && self.schemas.has_defaults;
        Self { field_type, rules: &[], is_atomic, ..self }
    }

    pub(super) fn is_built_in(self) -> bool {
        self.schemas.has_defaults
    }

    pub(super) fn is_defaulted(self) -> bool {
        self.rules.iter().any(|rule| matches!(rule, FieldRule::Defaulted(_)))
    }

    /// Whether the server may have set this value.
    pub(super) fn is_default(self, live: &Node) -> bool {
        self.rules.iter().any(|rule| match rule {
            FieldRule::Defaulted(Some(default)) => live.scalar() == Scalar::from(&**default),
            FieldRule::Defaulted(None) => true,
            _ => false,
        })
    }

    /// Whether an empty value differs from an absent one.
    pub(super) fn keeps_empty(self) -> bool {
        *self.field_type == FieldType::Any || self.rules.contains(&FieldRule::KeepsEmpty)
    }

    /// Whether another declared field of the same object replaces this one.
    pub(super) fn is_superseded(self, is_declared: impl Fn(&str) -> bool) -> bool {
        self.rules.iter().any(|rule| matches!(rule, FieldRule::IgnoredIf(other) if is_declared(other)))
    }

    /// Whether the system adds such an element to the list.
    pub(super) fn is_added_by_system(self, element: &Node) -> bool {
        self.rules.iter().any(|rule| match rule {
            FieldRule::SystemAdds { field, prefix } => {
                let value = if field.is_empty() { element } else { &element[&**field] };
                matches!(value.scalar(), Scalar::Text(text) if text.starts_with(&**prefix))
            }
            _ => false,
        })
    }

    pub(super) fn is_empty(self, value: &Node) -> bool {
        match value {
            Node::Null => true,
            Node::Redacted(_) => false,
            Node::Bool(set) => !set,
            Node::Number(number) => number.as_f64() == Some(0.0),
            Node::String(text) => text.is_empty() || self.is_empty_text(text),
            Node::Array(elements) => elements.is_empty(),
            Node::Object(members) => {
                let is_map = matches!(self.field_type, FieldType::Map(_));
                members.is_empty() && (is_map || self.rules.contains(&FieldRule::DropsEmptyObject))
            }
        }
    }

    fn is_empty_text(self, text: &str) -> bool {
        match self.field_type {
            FieldType::Quantity => Quantity::are_same(text, "0"),
            FieldType::Bytes if self.rules.contains(&FieldRule::BlankIsEmpty) => {
                decode_base64(text).is_some_and(|bytes| bytes.trim_ascii().is_empty())
            }
            _ => false,
        }
    }
}

/// A kind in one version, as in manifests, owned or borrowed: `TypeMeta<&str>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeMeta<S = Box<str>> {
    /// `example.com/v1`.
    pub api_version: S,
    /// `Widget`.
    pub kind: S,
}

impl<'a> TypeMeta<&'a str> {
    pub const fn new(api_version: &'a str, kind: &'a str) -> Self {
        Self { api_version, kind }
    }

    pub fn into_owned(self) -> TypeMeta {
        TypeMeta { api_version: self.api_version.into(), kind: self.kind.into() }
    }
}

/// The schemas of the custom resources that are compared; [`None`] while a schema is being read.
#[derive(Clone, Debug, Default)]
pub struct ClusterSchemas(BTreeMap<TypeMeta, Option<Arc<Schemas>>>);

impl ClusterSchemas {
    /// The schema of a kind, which is empty if the kind is not tracked; [`None`] while the schema is being read.
    pub fn of(&self, api_version: &str, kind: &str) -> Option<&Schemas> {
        static EMPTY: LazyLock<Schemas> = LazyLock::new(Schemas::default);
        match self.0.get(&TypeMeta::new(api_version, kind).into_owned()) {
            Some(schemas) => schemas.as_deref(),
            None => Some(&EMPTY),
        }
    }

    pub fn any_pending(&self) -> bool {
        self.0.values().any(Option::is_none)
    }

    /// Whether the schema of one of these kinds is being read.
    pub fn is_pending(&self, api_version: &str, kinds: &BTreeSet<Box<str>>) -> bool {
        kinds.iter().any(|kind| self.of(api_version, kind).is_none())
    }

    /// Tracks exactly these kinds: new ones are pending, others are dropped. Returns whether the set changed.
    pub fn track(&mut self, kinds: &BTreeSet<TypeMeta>) -> bool {
        let before = self.0.len();
        self.0.retain(|kind, _| kinds.contains(kind));
        let has_dropped = self.0.len() < before;
        let remaining = self.0.len();
        for kind in kinds {
            self.0.entry(kind.clone()).or_default();
        }
        has_dropped || self.0.len() > remaining
    }

    pub fn tracked(&self) -> BTreeMap<Box<str>, BTreeSet<Box<str>>> {
        let mut versions: BTreeMap<Box<str>, BTreeSet<Box<str>>> = BTreeMap::new();
        for TypeMeta { api_version, kind } in self.0.keys() {
            versions.entry(api_version.clone()).or_default().insert(kind.clone());
        }
        versions
    }

    pub fn tracks(&self, api_version: &str, kind: &str) -> bool {
        self.0.contains_key(&TypeMeta::new(api_version, kind).into_owned())
    }

    /// Sets the schema of a tracked kind. Returns whether it changed.
    pub fn set(&mut self, api_version: &str, kind: &str, schemas: &Arc<Schemas>) -> bool {
        let Some(entry) = self.0.get_mut(&TypeMeta::new(api_version, kind).into_owned()) else {
            return false;
        };
        let has_changed = entry.as_ref() != Some(schemas);
        *entry = Some(schemas.clone());
        has_changed
    }

    /// Replaces a pending schema by an empty one; keeps one that was read before. Returns whether it changed.
    pub fn mark_unavailable(&mut self, api_version: &str, kind: &str) -> bool {
        let entry = self.0.get_mut(&TypeMeta::new(api_version, kind).into_owned());
        entry.is_some_and(|entry| entry.is_none() && entry.replace(Arc::default()).is_none())
    }

    /// The tracked kinds whose schema is not the one in `before`.
    pub fn changed_since(&self, before: &Self) -> BTreeSet<TypeMeta> {
        let has_changed =
            |(kind, schemas): &(&TypeMeta, &Option<Arc<Schemas>>)| before.0.get(*kind) != Some(*schemas);
        self.0.iter().filter(has_changed).map(|(kind, _)| kind.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{ClusterSchemas, Schemas, TypeMeta};

    fn kind(name: &str) -> TypeMeta {
        TypeMeta::new("example.com/v1", name).into_owned()
    }

    #[test]
    fn tracked_kind_is_pending_until_its_schema_is_set_or_unavailable() {
        let mut schemas = ClusterSchemas::default();
        assert_eq!(schemas.of("example.com/v1", "A"), Some(&Schemas::default()), "not tracked");
        assert!(
            schemas.track(&[kind("A"), kind("B")].into()) && !schemas.track(&[kind("A"), kind("B")].into())
        );
        assert!(schemas.of("example.com/v1", "A").is_none() && schemas.any_pending());
        let before = schemas.clone();
        let schema = Arc::new(Schemas { has_defaults: true, ..Schemas::default() });
        assert!(schemas.set("example.com/v1", "A", &schema) && !schemas.set("example.com/v1", "A", &schema));
        assert!(
            schemas.mark_unavailable("example.com/v1", "B")
                && !schemas.mark_unavailable("example.com/v1", "B")
        );
        assert!(
            !schemas.mark_unavailable("example.com/v1", "A") && !schemas.any_pending(),
            "a schema that was read is kept"
        );
        assert_eq!(schemas.of("example.com/v1", "A"), Some(&*schema));
        assert_eq!(schemas.of("example.com/v1", "B"), Some(&Schemas::default()));
        assert_eq!(schemas.changed_since(&before), [kind("A"), kind("B")].into());
        assert!(schemas.changed_since(&schemas.clone()).is_empty());
        assert!(schemas.track(&[kind("B")].into()), "A is dropped");
        assert!(!schemas.set("example.com/v1", "A", &schema) && !schemas.tracks("example.com/v1", "A"));
    }
}
