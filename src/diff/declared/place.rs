//! One place in an object, and what is known about it.

use serde_json::Value;

use super::shapes::{FieldType, Mark, Order, Schemas};
use crate::diff::{encoded::decode, findings::text, quantity::Quantity};

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
