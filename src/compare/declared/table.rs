//! The table of what the API server makes of declared fields, for the kinds of Kubernetes itself.
//!
//! `table/shapes` is derived from what an API server says about itself and answers (see `table/derive`), together with what it
//! tells nobody (`table/exceptions`).

use std::{borrow::Cow, sync::LazyLock};

use super::shapes::{Field, Holds, Key, Mark, Order, Shape, Shapes, key};

impl Shapes {
    /// The kinds of Kubernetes itself.
    pub fn built_in() -> &'static Self {
        static TABLE: LazyLock<Shapes> = LazyLock::new(|| read(include_str!("table/shapes")));
        &TABLE
    }

    /// What the metadata of all objects holds.
    pub(super) fn metadata() -> &'static Holds {
        match Self::built_in().kind("v1", "ConfigMap") {
            Some(Holds::Fields(shape)) => Self::built_in().field(*shape, "metadata").0,
            _ => &Holds::Unknown,
        }
    }
}

fn read(text: &'static str) -> Shapes {
    let mut shapes = Shapes { knows_defaults: true, ..Shapes::default() };
    let (heads, bodies) = text.split_once("\nshape ").unwrap_or((text, ""));
    for line in heads.lines() {
        if let ["kind", api_version, kind, shape] = *line.split(' ').collect::<Vec<_>>() {
            shapes.kinds.insert(key(api_version, kind).into(), holds(&mut [shape].into_iter()));
        }
    }
    for body in bodies.split("\nshape ") {
        let fields = body.lines().skip(1).flat_map(fields).collect();
        shapes.all.push(Shape::new(fields, Holds::Unknown));
    }
    shapes
}

/// The fields of a line: several plain ones, or one with all that there is to say about it.
fn fields(line: &'static str) -> Vec<Field> {
    let mut words = line.split(' ');
    match words.next() {
        Some("-") => words
            .map(|name| Field { name: Cow::Borrowed(name), holds: Holds::Plain, marks: Vec::new() })
            .collect(),
        Some(name) => {
            let holds = holds(&mut words);
            vec![Field { name: Cow::Borrowed(name), holds, marks: words.filter_map(mark).collect() }]
        }
        None => Vec::new(),
    }
}

fn holds(words: &mut impl Iterator<Item = &'static str>) -> Holds {
    match words.next().unwrap_or_default() {
        "-" => Holds::Plain,
        "quantity" => Holds::Quantity,
        "amount" => Holds::Amount,
        "bytes" => Holds::Bytes,
        "time" => Holds::Time,
        "any" => Holds::Any,
        "none" => Holds::Nothing,
        "{}" => Holds::Map(Box::new(holds(words))),
        "[]" => Holds::List(Box::new(holds(words)), Order::Place),
        "[*]" => Holds::List(Box::new(holds(words)), Order::Loose),
        "[=]" => Holds::List(Box::new(holds(words)), Order::Set),
        word => match (word.strip_prefix('@'), word.strip_prefix('[')) {
            (Some(shape), _) => shape.parse().map_or(Holds::Unknown, Holds::Fields),
            (_, Some(keys)) => {
                let keys = keys.trim_end_matches(']').split(',').map(|key| {
                    let (field, default) = key.split_once('=').unwrap_or((key, ""));
                    Key { field: Cow::Borrowed(field), default: Cow::Borrowed(default) }
                });
                Holds::List(Box::new(holds(words)), Order::Keys(keys.collect()))
            }
            (None, None) => Holds::Unknown,
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
