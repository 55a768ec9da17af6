//! The table of what the API server makes of declared fields, for the kinds of Kubernetes itself.
//!
//! `table/shapes` is derived from what an API server says about itself and answers (see `table/derive`), together with what it
//! tells nobody (`table/exceptions`).

use std::{borrow::Cow, sync::LazyLock};

use super::shapes::{Field, FieldType, Key, Mark, Order, Schemas, Shape, key};

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
