//! The kinds of a cluster's own, from what its API server says about them.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::shapes::{Field, Holds, Key, Mark, Name, Order, Shape, Shapes, key};

impl Shapes {
    /// The kinds in an OpenAPI document of one group and version: what an API server answers to `/openapi/v3/apis/GROUP/VERSION`.
    ///
    /// Custom resources are kept as they are, so of them only lists say anything, and amounts. Other kinds are types of some
    /// program, which reads them and leaves out what is empty.
    pub fn of_openapi(document: &[u8]) -> Result<Self, serde_json::Error> {
        let document: Value = serde_json::from_slice(document)?;
        let mut reader = Reader { document: &document, numbers: HashMap::new(), shapes: Vec::new() };
        let mut kinds = HashMap::new();
        for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            let Some(kind) = own_kind(schema) else { continue };
            kinds.insert(kind.into(), reader.kind(name, schema));
        }
        Ok(Self { kinds, all: reader.shapes, knows_defaults: false })
    }
}

/// What an object is found by, where the schema is that of exactly one kind, and not of lists of it.
fn own_kind(schema: &Value) -> Option<String> {
    let [kind] = schema["x-kubernetes-group-version-kind"].as_array()?.as_slice() else { return None };
    let text = |name: &str| kind[name].as_str().unwrap_or_default();
    let api_version = format!("{}/{}", text("group"), text("version"));
    let is_list = text("kind").ends_with("List") && schema["properties"].get("items").is_some();
    (!is_list).then(|| key(api_version.trim_start_matches('/'), text("kind")))
}

struct Reader<'a> {
    document: &'a Value,
    /// The shapes of definitions that were read, or are being read.
    numbers: HashMap<&'a str, usize>,
    shapes: Vec<Shape>,
}

/// Who reads the objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// A program with types of its own.
    Types,
    /// The API server, which keeps them as they are.
    Schema,
}

impl<'a> Reader<'a> {
    fn kind(&mut self, name: &'a str, schema: &'a Value) -> Holds {
        // Custom resources have all of their schema in one piece, but for the metadata.
        let members = schema["properties"].as_object().into_iter().flatten();
        let is_custom =
            members.filter(|(name, _)| *name != "metadata").all(|(_, member)| refers_to(member).is_none());
        if is_custom { self.holds(schema, Reads::Schema) } else { self.definition(name) }
    }

    fn holds(&mut self, schema: &'a Value, reads: Reads) -> Holds {
        if let Some(name) = refers_to(schema) {
            return self.definition(name);
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return if is_quantity(schema) { Holds::Quantity } else { Holds::Plain };
        }
        match schema["type"].as_str() {
            Some("array") => {
                let order = order(&schema["items"], schema, self.document);
                Holds::List(Box::new(self.holds(&schema["items"], reads)), order)
            }
            Some("object") => self.object(schema, reads),
            _ if reads == Reads::Schema => Holds::Any,
            Some("string") if schema["format"] == "byte" => Holds::Bytes,
            Some(_) => Holds::Plain,
            None => Holds::Any,
        }
    }

    fn object(&mut self, schema: &'a Value, reads: Reads) -> Holds {
        if let Some(properties) = schema["properties"].as_object() {
            let fields = self.fields(properties, reads);
            // Nothing is peculiar about its fields, so it need not be known.
            if fields.is_empty() && reads == Reads::Schema {
                return Holds::Any;
            }
            let others = if reads == Reads::Schema { Holds::Any } else { Holds::Unknown };
            self.shapes.push(Shape::new(fields, others));
            return Holds::Fields(self.shapes.len() - 1);
        }
        match &schema["additionalProperties"] {
            values @ Value::Object(_) => match self.holds(values, reads) {
                Holds::Any => Holds::Any,
                Holds::Quantity => Holds::Map(Box::new(Holds::Amount)),
                values => Holds::Map(Box::new(values)),
            },
            _ => Holds::Any,
        }
    }

    fn fields(&mut self, properties: &'a Map<String, Value>, reads: Reads) -> Vec<Field> {
        let fields = properties.iter().map(|(name, schema)| {
            let marks = if reads == Reads::Schema { vec![Mark::Kept] } else { Vec::new() };
            Field { name: Name::Owned(name.clone()), holds: self.holds(schema, reads), marks }
        });
        fields.filter(|field| reads == Reads::Types || field.holds != Holds::Any).collect()
    }

    fn definition(&mut self, name: &'a str) -> Holds {
        match name.rsplit('.').next().unwrap_or(name) {
            "Quantity" => return Holds::Quantity,
            "IntOrString" => return Holds::Plain,
            "Time" | "MicroTime" => return Holds::Time,
            _ => {}
        }
        if let Some(number) = self.numbers.get(name) {
            return Holds::Fields(*number);
        }
        let Some(properties) = self.document["components"]["schemas"][name]["properties"].as_object() else {
            return Holds::Any;
        };
        // It may hold itself, so it has a number before its fields are known.
        let number = self.shapes.len();
        self.shapes.push(Shape::new(Vec::new(), Holds::Unknown));
        self.numbers.insert(name, number);
        self.shapes[number] = Shape::new(self.fields(properties, Reads::Types), Holds::Unknown);
        Holds::Fields(number)
    }
}

/// The definition that a schema refers to.
fn refers_to(schema: &Value) -> Option<&str> {
    let parts = schema["allOf"].as_array().map_or(&[][..], Vec::as_slice);
    let reference = std::iter::once(schema).chain(parts).find_map(|part| part["$ref"].as_str())?;
    reference.rsplit('/').next()
}

/// Amounts in custom resources are numbers or texts of a certain pattern.
fn is_quantity(schema: &Value) -> bool {
    schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("[KMGTPE]i"))
}

fn order(elements: &Value, schema: &Value, document: &Value) -> Order {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Order::Set,
        Some("map") => {
            let elements =
                refers_to(elements).map_or(elements, |name| &document["components"]["schemas"][name]);
            let default = |field: &str| match &elements["properties"][field]["default"] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            let keys = keys.filter_map(Value::as_str).map(|field| Key {
                default: Name::Owned(default(field)),
                field: Name::Owned(field.to_owned()),
            });
            let keys: Vec<Key> = keys.collect();
            if keys.is_empty() { Order::Place } else { Order::Keys(keys) }
        }
        _ => Order::Place,
    }
}
