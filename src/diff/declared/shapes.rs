//! What is known about the fields of objects: what they hold, and what the API server makes of what is declared there.

use std::{borrow::Cow, collections::HashMap};

/// The fields of some kinds of objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Schemas {
    /// By API version and kind: `apps/v1 Deployment`.
    pub(super) kinds: HashMap<Name, FieldType>,
    /// By their numbers.
    pub(super) all: Vec<Shape>,
    /// Whether it is known what the server fills in by itself.
    pub(super) knows_defaults: bool,
}

/// A name in the table, or in a document that was read.
pub(super) type Name = Cow<'static, str>;

/// The fields of an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// In the order of their names.
    pub(super) fields: Vec<Field>,
    /// What fields hold that are not among these.
    pub(super) others: FieldType,
}

/// A field of an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: Name,
    pub(super) holds: FieldType,
    pub(super) marks: Vec<Mark>,
}

/// What a field, a value of a map or an element of a list holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    /// A scalar whose text tells all.
    Plain,
    /// An amount.
    Quantity,
    /// An amount of a resource, of which the server keeps thousandths.
    Amount,
    /// Bytes in base64.
    Bytes,
    /// A time.
    Time,
    /// Whatever it is, the server keeps it as it is.
    Any,
    /// Nobody knows.
    Unknown,
    /// Nothing that is compared.
    Nothing,
    /// An object with the fields of this shape.
    Fields(usize),
    /// Values by name.
    Map(Box<Self>),
    /// A list.
    List(Box<Self>, Order),
}

/// How elements of lists are told apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// By their place: the list is one value.
    Place,
    /// By nothing: their order says nothing.
    Loose,
    /// By what they are.
    Set,
    /// By some of their fields.
    Keys(Vec<Key>),
}

/// A field by which elements of a list are known, and what it is where it is absent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) field: Name,
    pub(super) default: Name,
}

/// What is peculiar about a field.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// An empty value is not the same as none.
    Kept,
    /// An empty object is the same as none.
    Dropped,
    /// Somebody fills it where nothing is declared, or something empty: with this, or with nobody knows what.
    Filled(Option<Name>),
    /// It is one value, so that what is not declared in it counts too.
    Whole,
    /// Bytes that are nothing but white space are empty.
    Blank,
    /// Not compared where this field of the same object is declared.
    Unless(Name),
    /// Elements whose field begins with a text are added by the system. Without a name, elements that begin with it.
    Adds(Name, Name),
}

impl Schemas {
    /// Whether a kind is among them: `apps/v1`, `Deployment`.
    pub fn has(&self, api_version: &str, kind: &str) -> bool {
        self.kinds.contains_key(&*key(api_version, kind))
    }

    /// What an object of a kind holds.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<&FieldType> {
        self.kinds.get(&*key(api_version, kind))
    }

    /// A field of the shape of this number, or what else is known about it.
    pub(super) fn field(&self, shape: usize, name: &str) -> (&FieldType, &[Mark]) {
        let Some(shape) = self.all.get(shape) else {
            return (&FieldType::Unknown, &[]);
        };
        match shape.fields.binary_search_by(|field| (*field.name).cmp(name)) {
            Ok(at) => (&shape.fields[at].holds, &shape.fields[at].marks),
            Err(_) => (&shape.others, &[]),
        }
    }
}

impl Shape {
    pub(super) fn new(mut fields: Vec<Field>, others: FieldType) -> Self {
        fields.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Self { fields, others }
    }
}

/// What a kind is found by.
pub(super) fn key(api_version: &str, kind: &str) -> String {
    format!("{api_version} {kind}")
}
