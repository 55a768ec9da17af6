//! What is known about the fields of objects: what they hold, and what the API server makes of what is declared there.
//!
//! One place in an object, and what is known about it.
//!
//! The table of what the API server makes of declared fields, for the kinds of Kubernetes itself.
//!
//! `table/shapes` is derived from what an API server says about itself and answers (see `table/derive`), together with what it
//! tells nobody (`table/exceptions`).
//!
//! What is known about the kinds of a cluster's own.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

use serde_json::Value;

use crate::diff::{findings::text, quantity::Quantity, redacted_text::decode};

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

/// What is known about one place in an object.
#[derive(Clone, Copy, Debug)]
pub(in crate::diff) struct Place<'a> {
    shapes: &'a Schemas,
    /// The name of the innermost field.
    pub(in crate::diff) name: &'a str,
    pub(super) holds: &'a FieldType,
    marks: &'a [Mark],
    /// Whether it is within a list that is one value, so that what is not declared counts too.
    pub(super) is_whole: bool,
}

impl<'a> Place<'a> {
    /// A whole object.
    pub(super) fn new(shapes: &'a Schemas, holds: &'a FieldType) -> Self {
        Self { shapes, name: "", holds, marks: &[], is_whole: false }
    }

    /// The member of this name.
    pub(in crate::diff) fn member(self, name: &'a str) -> Self {
        let (holds, marks): (&FieldType, &[Mark]) = match self.holds {
            FieldType::Fields(shape) => self.shapes.field(*shape, name),
            FieldType::Map(values) => (values, &[Mark::Kept]),
            FieldType::Any => (&FieldType::Any, &[]),
            _ => (&FieldType::Unknown, &[]),
        };
        let place = Self { name, holds, marks, ..self };
        // What fills a map or a list is not known one by one.
        let is_filled = place.is_filled() && !matches!(holds, FieldType::Fields(_));
        Self { is_whole: self.is_whole && !is_filled || marks.contains(&Mark::Whole), ..place }
    }

    /// An element of the list.
    pub(in crate::diff) fn element(self) -> Self {
        let (holds, is_one_value): (&FieldType, bool) = match self.holds {
            FieldType::List(elements, order) => (elements, matches!(order, Order::Place | Order::Loose)),
            FieldType::Any => (&FieldType::Any, false),
            _ => (&FieldType::Unknown, false),
        };
        let is_whole = self.is_whole || is_one_value && self.shapes.knows_defaults;
        Self { holds, marks: &[], is_whole, ..self }
    }

    /// Whether it is in an object of a kind that Kubernetes itself has.
    pub(super) fn is_built_in(self) -> bool {
        self.shapes.knows_defaults
    }

    /// Whether somebody fills what is not declared, or declared empty.
    pub(super) fn is_filled(self) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::Filled(_)))
    }

    /// Whether a value may be there without anybody having declared it.
    pub(super) fn fills_in(self, live: &Value) -> bool {
        self.marks.iter().any(|mark| match mark {
            Mark::Filled(Some(default)) => text(live) == **default,
            Mark::Filled(None) => true,
            _ => false,
        })
    }

    /// Whether an empty value is not the same as none.
    pub(super) fn keeps_empty(self) -> bool {
        *self.holds == FieldType::Any || self.marks.contains(&Mark::Kept)
    }

    /// Whether it is not compared because another field of the same object is declared.
    pub(super) fn gives_way(self, is_declared: impl Fn(&str) -> bool) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::Unless(other) if is_declared(other)))
    }

    /// Whether the system adds such an element to the list.
    pub(super) fn adds(self, element: &Value) -> bool {
        self.marks.iter().any(|mark| match mark {
            Mark::Adds(field, start) if field.is_empty() => text(element).starts_with(&**start),
            Mark::Adds(field, start) => text(&element[&**field]).starts_with(&**start),
            _ => false,
        })
    }

    /// Whether a value says nothing here.
    pub(super) fn is_empty(self, value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Bool(set) => !set,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty() || self.is_nothing(text),
            Value::Array(elements) => elements.is_empty(),
            Value::Object(members) => {
                let is_map = matches!(self.holds, FieldType::Map(_));
                members.is_empty() && (is_map || self.marks.contains(&Mark::Dropped))
            }
        }
    }

    fn is_nothing(self, text: &str) -> bool {
        match self.holds {
            FieldType::Quantity => Quantity::are_same(text, "0"),
            FieldType::Bytes if self.marks.contains(&Mark::Blank) => {
                decode(text).is_some_and(|bytes| bytes.trim_ascii().is_empty())
            }
            _ => false,
        }
    }
}

impl Schemas {
    /// The kinds of Kubernetes itself.
    pub fn built_in() -> &'static Self {
        static TABLE: LazyLock<Schemas> = LazyLock::new(|| read(include_str!("table/shapes")));
        &TABLE
    }

    /// What the metadata of all objects holds.
    pub(super) fn metadata() -> &'static FieldType {
        match Self::built_in().kind("v1", "ConfigMap") {
            Some(FieldType::Fields(shape)) => Self::built_in().field(*shape, "metadata").0,
            _ => &FieldType::Unknown,
        }
    }
}

fn read(text: &'static str) -> Schemas {
    let mut shapes = Schemas { knows_defaults: true, ..Schemas::default() };
    let (heads, bodies) = text.split_once("\nshape ").unwrap_or((text, ""));
    for line in heads.lines() {
        if let ["kind", api_version, kind, shape] = *line.split(' ').collect::<Vec<_>>() {
            shapes.kinds.insert(key(api_version, kind).into(), holds(&mut [shape].into_iter()));
        }
    }
    for body in bodies.split("\nshape ") {
        let fields = body.lines().skip(1).flat_map(fields).collect();
        shapes.all.push(Shape::new(fields, FieldType::Unknown));
    }
    shapes
}

/// The fields of a line: several plain ones, or one with all that there is to say about it.
fn fields(line: &'static str) -> Vec<Field> {
    let mut words = line.split(' ');
    match words.next() {
        Some("-") => words
            .map(|name| Field { name: Cow::Borrowed(name), holds: FieldType::Plain, marks: Vec::new() })
            .collect(),
        Some(name) => {
            let holds = holds(&mut words);
            vec![Field { name: Cow::Borrowed(name), holds, marks: words.filter_map(mark).collect() }]
        }
        None => Vec::new(),
    }
}

fn holds(words: &mut impl Iterator<Item = &'static str>) -> FieldType {
    match words.next().unwrap_or_default() {
        "-" => FieldType::Plain,
        "quantity" => FieldType::Quantity,
        "amount" => FieldType::Amount,
        "bytes" => FieldType::Bytes,
        "time" => FieldType::Time,
        "any" => FieldType::Any,
        "none" => FieldType::Nothing,
        "{}" => FieldType::Map(Box::new(holds(words))),
        "[]" => FieldType::List(Box::new(holds(words)), Order::Place),
        "[*]" => FieldType::List(Box::new(holds(words)), Order::Loose),
        "[=]" => FieldType::List(Box::new(holds(words)), Order::Set),
        word => match (word.strip_prefix('@'), word.strip_prefix('[')) {
            (Some(shape), _) => shape.parse().map_or(FieldType::Unknown, FieldType::Fields),
            (_, Some(keys)) => {
                let keys = keys.trim_end_matches(']').split(',').map(|key| {
                    let (field, default) = key.split_once('=').unwrap_or((key, ""));
                    Key { field: Cow::Borrowed(field), default: Cow::Borrowed(default) }
                });
                FieldType::List(Box::new(holds(words)), Order::Keys(keys.collect()))
            }
            (None, None) => FieldType::Unknown,
        },
    }
}

fn mark(word: &'static str) -> Option<Mark> {
    match word {
        "kept" => Some(Mark::Kept),
        "dropped" => Some(Mark::Dropped),
        "filled" => Some(Mark::Filled(None)),
        "whole" => Some(Mark::Whole),
        "blank" => Some(Mark::Blank),
        _ => match word.split_once('=')? {
            ("filled", value) => Some(Mark::Filled(Some(Cow::Borrowed(value)))),
            ("unless", field) => Some(Mark::Unless(Cow::Borrowed(field))),
            ("adds", rule) => {
                let (field, start) = rule.split_once(':')?;
                Some(Mark::Adds(Cow::Borrowed(field), Cow::Borrowed(start)))
            }
            _ => None,
        },
    }
}

/// A kind by its API version and name: `example.com/v1`, `Widget`.
pub type CustomKind = (Box<str>, Box<str>);

/// What is known about the kinds of a cluster's own that are compared. Of other kinds, something is guessed.
#[derive(Clone, Debug, Default)]
pub struct ClusterSchemas(BTreeMap<CustomKind, Option<Arc<Schemas>>>);

impl ClusterSchemas {
    /// What is known about a kind, be it nothing; none while that is being found out.
    pub fn of(&self, api_version: &str, kind: &str) -> Option<&Schemas> {
        static NOTHING: LazyLock<Schemas> = LazyLock::new(Schemas::default);
        match self.0.get(&(api_version.into(), kind.into())) {
            Some(shapes) => shapes.as_deref(),
            None => Some(&NOTHING),
        }
    }

    /// Whether something about any kind is still being found out.
    pub fn awaits_any(&self) -> bool {
        self.0.values().any(Option::is_none)
    }

    /// Whether something about one of these kinds of an API version is still being found out.
    pub fn awaits(&self, api_version: &str, kinds: &BTreeSet<Box<str>>) -> bool {
        kinds.iter().any(|kind| self.of(api_version, kind).is_none())
    }

    /// Knows these kinds from now on and no others; those that are new are being found out about. Says whether any is new or gone.
    pub fn want(&mut self, kinds: &BTreeSet<CustomKind>) -> bool {
        let before = self.0.len();
        self.0.retain(|kind, _| kinds.contains(kind));
        let is_less = self.0.len() < before;
        let kept = self.0.len();
        for kind in kinds {
            self.0.entry(kind.clone()).or_default();
        }
        is_less || self.0.len() > kept
    }

    /// The kinds that are compared, by API version.
    pub fn wanted(&self) -> BTreeMap<Box<str>, BTreeSet<Box<str>>> {
        let mut versions: BTreeMap<Box<str>, BTreeSet<Box<str>>> = BTreeMap::new();
        for (version, kind) in self.0.keys() {
            versions.entry(version.clone()).or_default().insert(kind.clone());
        }
        versions
    }

    /// Whether a kind is among those that are compared.
    pub fn wants(&self, api_version: &str, kind: &str) -> bool {
        self.0.contains_key(&(api_version.into(), kind.into()))
    }

    /// Takes in what was read about a kind. Says whether that is news.
    pub fn learn(&mut self, api_version: &str, kind: &str, shapes: &Arc<Schemas>) -> bool {
        let Some(own) = self.0.get_mut(&(api_version.into(), kind.into())) else { return false };
        let news = own.as_ref() != Some(shapes);
        *own = Some(shapes.clone());
        news
    }

    /// Nothing can be found out about a kind: what was known stands. Says whether that is news.
    pub fn give_up(&mut self, api_version: &str, kind: &str) -> bool {
        let own = self.0.get_mut(&(api_version.into(), kind.into()));
        own.is_some_and(|own| own.is_none() && own.replace(Arc::default()).is_none())
    }

    /// The kinds about which something else is known than before.
    pub fn changes_since(&self, before: &Self) -> BTreeSet<CustomKind> {
        let is_other =
            |(kind, shapes): &(&CustomKind, &Option<Arc<Schemas>>)| before.0.get(*kind) != Some(*shapes);
        self.0.iter().filter(is_other).map(|(kind, _)| kind.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{ClusterSchemas, CustomKind, Schemas};

    fn kind(name: &str) -> CustomKind {
        ("example.com/v1".into(), name.into())
    }

    #[test]
    fn what_is_wanted_is_awaited_until_it_is_known_or_given_up() {
        let mut shapes = ClusterSchemas::default();
        assert_eq!(shapes.of("example.com/v1", "A"), Some(&Schemas::default()), "nobody asks about it");
        assert!(shapes.want(&[kind("A"), kind("B")].into()) && !shapes.want(&[kind("A"), kind("B")].into()));
        assert!(shapes.of("example.com/v1", "A").is_none() && shapes.awaits_any());
        let before = shapes.clone();
        let known = Arc::new(Schemas { knows_defaults: true, ..Schemas::default() });
        assert!(shapes.learn("example.com/v1", "A", &known) && !shapes.learn("example.com/v1", "A", &known));
        assert!(shapes.give_up("example.com/v1", "B") && !shapes.give_up("example.com/v1", "B"));
        assert!(!shapes.give_up("example.com/v1", "A") && !shapes.awaits_any(), "what is known stands");
        assert_eq!(shapes.of("example.com/v1", "A"), Some(&*known));
        assert_eq!(shapes.of("example.com/v1", "B"), Some(&Schemas::default()));
        assert_eq!(shapes.changes_since(&before), [kind("A"), kind("B")].into());
        assert!(shapes.changes_since(&shapes.clone()).is_empty());
        assert!(shapes.want(&[kind("B")].into()), "what is not wanted any more is let go of");
        assert!(!shapes.learn("example.com/v1", "A", &known) && !shapes.wants("example.com/v1", "A"));
    }
}
