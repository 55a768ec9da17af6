//! The kinds of a cluster's own, from what its API server says about them.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::schema::{Field, FieldType, Key, Mark, Name, Order, Schemas, Shape, key};

/// Types that hold others are followed as deep as this.
const DEEPEST: usize = 64;

/// Members of a custom resource that its schema has nothing of its own to say about, or that nobody declares.
const NOT_CONTENT: &[&str] = &["apiVersion", "kind", "metadata", "status"];

impl Schemas {
    /// The wanted kinds in an OpenAPI document of one group and version: what an API server answers to
    /// `/openapi/v3/apis/GROUP/VERSION`. Nothing else in it is taken apart. `is_wanted` is asked with API version and kind.
    ///
    /// Custom resources are kept as they are, so of them only lists say anything, and amounts. Other kinds are types of some
    /// program, which reads them and leaves out what is empty. A kind whose content is not described is not among the shapes.
    pub fn of_openapi(
        document: &[u8],
        is_wanted: impl Fn(&str, &str) -> bool,
    ) -> Result<Self, serde_json::Error> {
        let Document { components: Components { schemas } } = serde_json::from_slice(document)?;
        let mut reader = Reader { schemas: &schemas, numbers: HashMap::new(), depth: 0, shapes: Vec::new() };
        let mut kinds = HashMap::new();
        for (name, text) in &schemas {
            let Some((api_version, kind)) = own_kind(text) else { continue };
            if !is_wanted(&api_version, &kind) {
                continue;
            }
            let schema: Value = serde_json::from_str(text.get())?;
            let is_list = kind.ends_with("List") && schema["properties"].get("items").is_some();
            if !is_list && is_described(&schema) {
                kinds.insert(key(&api_version, &kind).into(), reader.kind(name, &schema));
            }
        }
        Ok(Self { kinds, all: reader.shapes, knows_defaults: false })
    }
}

/// A document whose schemas are left as they are written.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    components: Components<'a>,
}

#[derive(Deserialize)]
struct Components<'a> {
    #[serde(borrow)]
    schemas: SchemaMap<'a>,
}

type SchemaMap<'a> = HashMap<String, &'a RawValue>;

/// API version and kind, where a schema is that of exactly one kind.
fn own_kind(schema: &RawValue) -> Option<(String, String)> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "x-kubernetes-group-version-kind")]
        kinds: [CustomKind; 1],
    }
    #[derive(Deserialize)]
    struct CustomKind {
        group: String,
        version: String,
        kind: String,
    }
    let Named { kinds: [CustomKind { group, version, kind }] } = serde_json::from_str(schema.get()).ok()?;
    Some((format!("{group}/{version}").trim_start_matches('/').to_owned(), kind))
}

/// Whether a schema says anything about what people declare in an object.
fn is_described(schema: &Value) -> bool {
    let says_nothing = |member: &Value| {
        member["x-kubernetes-preserve-unknown-fields"] == true && member.get("properties").is_none()
    };
    let members = schema["properties"].as_object().into_iter().flatten();
    let mut content = members.filter(|(name, _)| !NOT_CONTENT.contains(&name.as_str()));
    content.any(|(_, member)| !says_nothing(member))
}

struct Reader<'a> {
    schemas: &'a SchemaMap<'a>,
    /// The shapes of definitions that were read, or are being read.
    numbers: HashMap<String, usize>,
    /// How many definitions are being read.
    depth: usize,
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

impl Reader<'_> {
    fn kind(&mut self, name: &str, schema: &Value) -> FieldType {
        // Custom resources have all of their schema in one piece, but for the metadata.
        let members = schema["properties"].as_object().into_iter().flatten();
        let is_custom =
            members.filter(|(name, _)| *name != "metadata").all(|(_, member)| refers_to(member).is_none());
        if is_custom { self.holds(schema, Reads::Schema) } else { self.definition(name) }
    }

    fn holds(&mut self, schema: &Value, reads: Reads) -> FieldType {
        if let Some(name) = refers_to(schema) {
            return self.definition(name);
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return if is_quantity(schema) { FieldType::Quantity } else { FieldType::Plain };
        }
        match schema["type"].as_str() {
            Some("array") => {
                let order = self.order(schema);
                FieldType::List(Box::new(self.holds(&schema["items"], reads)), order)
            }
            Some("object") => self.object(schema, reads),
            _ if reads == Reads::Schema => FieldType::Any,
            Some("string") if schema["format"] == "byte" => FieldType::Bytes,
            Some(_) => FieldType::Plain,
            None => FieldType::Any,
        }
    }

    fn object(&mut self, schema: &Value, reads: Reads) -> FieldType {
        if let Some(properties) = schema["properties"].as_object() {
            let fields = self.fields(properties, reads);
            // Nothing is peculiar about its fields, so it need not be known.
            if fields.is_empty() && reads == Reads::Schema {
                return FieldType::Any;
            }
            let others = if reads == Reads::Schema { FieldType::Any } else { FieldType::Unknown };
            self.shapes.push(Shape::new(fields, others));
            return FieldType::Fields(self.shapes.len() - 1);
        }
        match &schema["additionalProperties"] {
            values @ Value::Object(_) => match self.holds(values, reads) {
                FieldType::Any => FieldType::Any,
                FieldType::Quantity => FieldType::Map(Box::new(FieldType::Amount)),
                values => FieldType::Map(Box::new(values)),
            },
            _ => FieldType::Any,
        }
    }

    fn fields(&mut self, properties: &Map<String, Value>, reads: Reads) -> Vec<Field> {
        let fields = properties.iter().map(|(name, schema)| {
            let marks = if reads == Reads::Schema { vec![Mark::Kept] } else { Vec::new() };
            Field { name: Name::Owned(name.clone()), holds: self.holds(schema, reads), marks }
        });
        fields.filter(|field| reads == Reads::Types || field.holds != FieldType::Any).collect()
    }

    fn definition(&mut self, name: &str) -> FieldType {
        match name.rsplit('.').next().unwrap_or(name) {
            "Quantity" => return FieldType::Quantity,
            "IntOrString" => return FieldType::Plain,
            "Time" | "MicroTime" => return FieldType::Time,
            _ => {}
        }
        if let Some(number) = self.numbers.get(name) {
            return FieldType::Fields(*number);
        }
        if self.depth == DEEPEST {
            return FieldType::Unknown;
        }
        let Value::Object(properties) = self.schema(name)["properties"].take() else {
            return FieldType::Any;
        };
        // It may hold itself, so it has a number before its fields are known.
        let number = self.shapes.len();
        self.shapes.push(Shape::new(Vec::new(), FieldType::Unknown));
        self.numbers.insert(name.to_owned(), number);
        self.depth += 1;
        self.shapes[number] = Shape::new(self.fields(&properties, Reads::Types), FieldType::Unknown);
        self.depth -= 1;
        FieldType::Fields(number)
    }

    /// The schema of this name; null where there is none.
    fn schema(&self, name: &str) -> Value {
        let text = self.schemas.get(name);
        text.and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default()
    }

    fn order(&self, list: &Value) -> Order {
        match list["x-kubernetes-list-type"].as_str() {
            Some("set") => Order::Set,
            Some("map") => {
                let named = refers_to(&list["items"]).map(|name| self.schema(name));
                let elements = named.as_ref().unwrap_or(&list["items"]);
                let default = |field: &str| match &elements["properties"][field]["default"] {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let keys = list["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DEEPEST, Order, Schemas};
    use crate::diff::declared::{Place, schema::FieldType};

    fn schema(kind: &str, spec: &Value) -> Value {
        json!({"type": "object", "properties": {"apiVersion": {"type": "string"}, "metadata": {"type": "object"}, "spec": spec},
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": kind}]})
    }

    fn read(schemas: &Value, wanted: &[&str]) -> Schemas {
        let text = json!({"components": {"schemas": schemas}}).to_string();
        let is_wanted = |version: &str, kind: &str| version == "example.com/v1" && wanted.contains(&kind);
        Schemas::of_openapi(text.as_bytes(), is_wanted).unwrap()
    }

    fn spec(shapes: &Schemas, name: &str) -> String {
        let place = Place::new(shapes, shapes.kind("example.com/v1", "Widget").unwrap());
        format!("{:?}", place.member("spec").member(name).holds)
    }

    #[test]
    fn only_what_is_wanted_is_taken_and_a_broken_neighbour_does_no_harm() {
        let tags = json!({"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}});
        let schemas = json!({"Widget": schema("Widget", &tags), "Gadget": schema("Gadget", &tags), "odd": 7, "none": null,
        "two": {"x-kubernetes-group-version-kind": [{"kind": "a"}, {"kind": "b"}]}, "not": {"x-kubernetes-group-version-kind": "Widget"}});
        let shapes = read(&schemas, &["Widget"]);
        assert_eq!((shapes.kinds.len(), shapes.all.len()), (1, 2), "{shapes:?}");
        assert!(spec(&shapes, "tags").ends_with("Set)"), "{shapes:?}");
        assert_eq!(read(&schemas, &[]), Schemas::default());
        assert_eq!(read(&schemas, &["Widget", "Gadget"]).kinds.len(), 2);
    }

    #[test]
    fn keys_of_lists_have_their_defaults_also_where_elements_are_referred_to() {
        let port = json!({"type": "object", "properties": {"port": {"type": "integer", "default": 80}, "protocol": {"type": "string", "default": "TCP"}}});
        let list = |items: Value| {
            json!({"type": "object", "properties": {"ports": {"type": "array", "items": items,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol", "zone"]}}})
        };
        let reference = json!({"allOf": [{"$ref": "#/components/schemas/Port"}], "default": {}});
        for items in [port.clone(), reference] {
            let shapes = read(&json!({"Widget": schema("Widget", &list(items)), "Port": port}), &["Widget"]);
            let place = Place::new(&shapes, shapes.kind("example.com/v1", "Widget").unwrap());
            let FieldType::List(_, Order::Keys(keys)) = place.member("spec").member("ports").holds else {
                panic!("{shapes:?}")
            };
            let told: Vec<_> = keys.iter().map(|key| (&*key.field, &*key.default)).collect();
            assert_eq!(told, [("port", "80"), ("protocol", "TCP"), ("zone", "")]);
        }
    }

    #[test]
    fn of_a_kind_that_is_not_described_nothing_is_known() {
        let kept = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert!(
            !read(&json!({"Widget": schema("Widget", &kept)}), &["Widget"]).has("example.com/v1", "Widget")
        );
        let bare = json!({"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}]});
        assert!(!read(&json!({"Widget": bare}), &["Widget"]).has("example.com/v1", "Widget"));
        let scalars = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        assert!(
            read(&json!({"Widget": schema("Widget", &scalars)}), &["Widget"]).has("example.com/v1", "Widget")
        );
    }

    #[test]
    fn types_that_hold_others_without_end_are_followed_so_far() {
        let next = |at: usize| json!({"$ref": format!("#/components/schemas/t{at}")});
        let mut schemas = json!({"Widget": schema("Widget", &next(0))});
        for at in 0..20_000 {
            schemas[format!("t{at}")] =
                json!({"type": "object", "properties": {"next": next(at + 1), "self": next(at)}});
        }
        assert_eq!(read(&schemas, &["Widget"]).all.len(), DEEPEST);
    }
}
