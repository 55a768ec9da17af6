//! Reads the schemas of custom resources and aggregated APIs from the OpenAPI documents of the cluster.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::schema::{
    FieldRule, FieldSchema, FieldType, ListKey, ListType, Name, ObjectSchema, Schemas, TypeMeta,
};
use crate::types::api_version;

/// References are followed to this depth; deeper types are unknown.
const MAX_DEPTH: usize = 64;

/// Members that are the same in all kinds, or not declared.
const NOT_CONTENT: &[&str] = &["apiVersion", "kind", "metadata", "status"];

impl Schemas {
    /// Reads the wanted kinds from the OpenAPI document of one group and version (`/openapi/v3/apis/GROUP/VERSION`) and skips
    /// all others unparsed.
    ///
    /// The API server stores custom resources unchanged, so only their lists and quantities need a schema. Aggregated API
    /// servers decode objects into Go types and drop empty values. A kind without a schema for its content is left out.
    pub fn from_openapi(
        document: &[u8],
        is_wanted: impl Fn(TypeMeta<&str>) -> bool,
    ) -> Result<Self, serde_json::Error> {
        let OpenApiDocument { components: Components { schemas } } = serde_json::from_slice(document)?;
        let mut reader =
            SchemaReader { definitions: &schemas, indices: HashMap::new(), depth: 0, objects: Vec::new() };
        let mut kinds: HashMap<Name, HashMap<Name, FieldType>> = HashMap::new();
        for (name, text) in &schemas {
            let Some(TypeMeta { api_version, kind }) = type_meta(text) else { continue };
            if !is_wanted(TypeMeta::new(&api_version, &kind)) {
                continue;
            }
            let schema: Value = serde_json::from_str(text.get())?;
            let is_list = kind.ends_with("List") && schema["properties"].get("items").is_some();
            if !is_list && has_content(&schema) {
                let field_type = reader.kind(name, &schema);
                kinds.entry(api_version.into()).or_default().insert(kind.into(), field_type);
            }
        }
        Ok(Self { kinds, objects: reader.objects, has_defaults: false })
    }
}

#[derive(Deserialize)]
struct OpenApiDocument<'a> {
    #[serde(borrow)]
    components: Components<'a>,
}

#[derive(Deserialize)]
struct Components<'a> {
    #[serde(borrow)]
    schemas: Definitions<'a>,
}

/// The schemas of a document by name, unparsed.
type Definitions<'a> = HashMap<String, &'a RawValue>;

/// The kind of a schema that belongs to exactly one kind.
fn type_meta(schema: &RawValue) -> Option<TypeMeta<String>> {
    #[derive(Deserialize)]
    struct KindSchema {
        #[serde(rename = "x-kubernetes-group-version-kind")]
        kinds: [GroupVersionKind; 1],
    }
    #[derive(Deserialize)]
    struct GroupVersionKind {
        group: String,
        version: String,
        kind: String,
    }
    let KindSchema { kinds: [GroupVersionKind { group, version, kind }] } =
        serde_json::from_str(schema.get()).ok()?;
    Some(TypeMeta { api_version: api_version(&group, &version), kind })
}

fn has_content(schema: &Value) -> bool {
    let is_free_form = |member: &Value| {
        member["x-kubernetes-preserve-unknown-fields"] == true && member.get("properties").is_none()
    };
    let members = schema["properties"].as_object().into_iter().flatten();
    let mut content = members.filter(|(name, _)| !NOT_CONTENT.contains(&name.as_str()));
    content.any(|(_, member)| !is_free_form(member))
}

struct SchemaReader<'a> {
    definitions: &'a Definitions<'a>,
    /// The indices of definitions that were read, or are being read.
    indices: HashMap<String, usize>,
    /// The index of definitions that are being read.
    depth: usize,
    objects: Vec<ObjectSchema>,
}

/// The server that stores the objects of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Storage {
    /// An aggregated API server, which decodes objects into Go types.
    Typed,
    /// The API server, which stores custom resources unchanged.
    Unchanged,
}

impl SchemaReader<'_> {
    fn kind(&mut self, name: &str, schema: &Value) -> FieldType {
        // The schema of a custom resource refers to no other, except for the metadata.
        let members = schema["properties"].as_object().into_iter().flatten();
        let is_custom =
            members.filter(|(name, _)| *name != "metadata").all(|(_, member)| reference(member).is_none());
        if is_custom { self.field_type(schema, Storage::Unchanged) } else { self.definition(name) }
    }

    fn field_type(&mut self, schema: &Value, storage: Storage) -> FieldType {
        if let Some(name) = reference(schema) {
            return self.definition(name);
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return if is_quantity(schema) { FieldType::Quantity } else { FieldType::Plain };
        }
        match schema["type"].as_str() {
            Some("array") => {
                let list_type = self.list_type(schema);
                FieldType::List(Box::new(self.field_type(&schema["items"], storage)), list_type)
            }
            Some("object") => self.object(schema, storage),
            _ if storage == Storage::Unchanged => FieldType::Any,
            Some("string") if schema["format"] == "byte" => FieldType::Bytes,
            Some(_) => FieldType::Plain,
            None => FieldType::Any,
        }
    }

    fn object(&mut self, schema: &Value, storage: Storage) -> FieldType {
        if let Some(properties) = schema["properties"].as_object() {
            let fields = self.fields(properties, storage);
            // No field needs a schema, so the object does not either.
            if fields.is_empty() && storage == Storage::Unchanged {
                return FieldType::Any;
            }
            let additional = if storage == Storage::Unchanged { FieldType::Any } else { FieldType::Unknown };
            self.objects.push(ObjectSchema::new(fields, additional));
            return FieldType::Object(self.objects.len() - 1);
        }
        match &schema["additionalProperties"] {
            values @ Value::Object(_) => match self.field_type(values, storage) {
                FieldType::Any => FieldType::Any,
                FieldType::Quantity => FieldType::Map(Box::new(FieldType::ResourceQuantity)),
                values => FieldType::Map(Box::new(values)),
            },
            _ => FieldType::Any,
        }
    }

    fn fields(&mut self, properties: &Map<String, Value>, storage: Storage) -> Vec<FieldSchema> {
        let fields = properties.iter().map(|(name, schema)| {
            let rules = if storage == Storage::Unchanged { vec![FieldRule::KeepsEmpty] } else { Vec::new() };
            FieldSchema {
                name: Name::Owned(name.clone()),
                field_type: self.field_type(schema, storage),
                rules,
            }
        });
        fields.filter(|field| storage == Storage::Typed || field.field_type != FieldType::Any).collect()
    }

    fn definition(&mut self, name: &str) -> FieldType {
        match name.rsplit('.').next().unwrap_or(name) {
            "Quantity" => return FieldType::Quantity,
            "IntOrString" => return FieldType::Plain,
            "Time" | "MicroTime" => return FieldType::Time,
            _ => {}
        }
        if let Some(index) = self.indices.get(name) {
            return FieldType::Object(*index);
        }
        if self.depth == MAX_DEPTH {
            return FieldType::Unknown;
        }
        let Value::Object(properties) = self.schema(name)["properties"].take() else {
            return FieldType::Any;
        };
        // A type may contain itself, so it has an index before its fields are read.
        let index = self.objects.len();
        self.objects.push(ObjectSchema::new(Vec::new(), FieldType::Unknown));
        self.indices.insert(name.to_owned(), index);
        self.depth += 1;
        self.objects[index] = ObjectSchema::new(self.fields(&properties, Storage::Typed), FieldType::Unknown);
        self.depth -= 1;
        FieldType::Object(index)
    }

    /// The definition of this name; null if it does not exist.
    fn schema(&self, name: &str) -> Value {
        let text = self.definitions.get(name);
        text.and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default()
    }

    fn list_type(&self, list: &Value) -> ListType {
        match list["x-kubernetes-list-type"].as_str() {
            Some("set") => ListType::Set,
            Some("map") => {
                let named = reference(&list["items"]).map(|name| self.schema(name));
                let elements = named.as_ref().unwrap_or(&list["items"]);
                let default = |field: &str| match &elements["properties"][field]["default"] {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let keys = list["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                let keys = keys.filter_map(Value::as_str).map(|field| ListKey {
                    default: Name::Owned(default(field)),
                    field: Name::Owned(field.to_owned()),
                });
                let keys: Vec<ListKey> = keys.collect();
                if keys.is_empty() { ListType::Atomic } else { ListType::Map(keys) }
            }
            _ => ListType::Atomic,
        }
    }
}

/// The name of the definition that a schema refers to.
fn reference(schema: &Value) -> Option<&str> {
    let parts = schema["allOf"].as_array().map_or(&[][..], Vec::as_slice);
    let reference = std::iter::once(schema).chain(parts).find_map(|part| part["$ref"].as_str())?;
    reference.rsplit('/').next()
}

/// Quantities in a CRD are int-or-string with a well-known pattern.
fn is_quantity(schema: &Value) -> bool {
    schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("[KMGTPE]i"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ListType, MAX_DEPTH, Schemas, TypeMeta};
    use crate::diff::manifest::{SchemaNode, schema::FieldType};

    const WIDGET: TypeMeta<&str> = TypeMeta::new("example.com/v1", "Widget");

    fn schema(kind: &str, spec: &Value) -> Value {
        json!({"type": "object", "properties": {"apiVersion": {"type": "string"}, "metadata": {"type": "object"}, "spec": spec},
            "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": kind}]})
    }

    fn read(definitions: &Value, wanted: &[&str]) -> Schemas {
        let text = json!({"components": {"schemas": definitions}}).to_string();
        let is_wanted =
            |kind: TypeMeta<&str>| kind.api_version == "example.com/v1" && wanted.contains(&kind.kind);
        Schemas::from_openapi(text.as_bytes(), is_wanted).unwrap()
    }

    fn spec(schemas: &Schemas, name: &str) -> String {
        let node = SchemaNode::new(schemas, schemas.kind(WIDGET).unwrap());
        format!("{:?}", node.member("spec").member(name).field_type)
    }

    #[test]
    fn only_wanted_kinds_are_read_and_invalid_schemas_are_skipped() {
        let tags = json!({"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}});
        let definitions = json!({"Widget": schema("Widget", &tags), "Gadget": schema("Gadget", &tags), "odd": 7, "none": null,
            "two": {"x-kubernetes-group-version-kind": [{"kind": "a"}, {"kind": "b"}]}, "not": {"x-kubernetes-group-version-kind": "Widget"}});
        let schemas = read(&definitions, &["Widget"]);
        assert_eq!((schemas.kinds[WIDGET.api_version].len(), schemas.objects.len()), (1, 2), "{schemas:?}");
        assert!(spec(&schemas, "tags").ends_with("Set)"), "{schemas:?}");
        assert_eq!(read(&definitions, &[]), Schemas::default());
        assert_eq!(read(&definitions, &["Widget", "Gadget"]).kinds[WIDGET.api_version].len(), 2);
    }

    #[test]
    fn list_keys_have_defaults_for_inline_and_referenced_elements() {
        let port = json!({"type": "object", "properties": {"port": {"type": "integer", "default": 80}, "protocol": {"type": "string", "default": "TCP"}}});
        let list = |items: Value| {
            json!({"type": "object", "properties": {"ports": {"type": "array", "items": items,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol", "zone"]}}})
        };
        let reference = json!({"allOf": [{"$ref": "#/components/schemas/Port"}], "default": {}});
        for items in [port.clone(), reference] {
            let schemas = read(&json!({"Widget": schema("Widget", &list(items)), "Port": port}), &["Widget"]);
            let node = SchemaNode::new(&schemas, schemas.kind(WIDGET).unwrap());
            let FieldType::List(_, ListType::Map(keys)) = node.member("spec").member("ports").field_type
            else {
                panic!("{schemas:?}")
            };
            let keys: Vec<_> = keys.iter().map(|key| (&*key.field, &*key.default)).collect();
            assert_eq!(keys, [("port", "80"), ("protocol", "TCP"), ("zone", "")]);
        }
    }

    #[test]
    fn kind_without_content_is_left_out() {
        let free_form = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert!(!read(&json!({"Widget": schema("Widget", &free_form)}), &["Widget"]).has(WIDGET));
        let bare = json!({"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}]});
        assert!(!read(&json!({"Widget": bare}), &["Widget"]).has(WIDGET));
        let scalars = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        assert!(read(&json!({"Widget": schema("Widget", &scalars)}), &["Widget"]).has(WIDGET));
    }

    #[test]
    fn references_are_followed_to_the_maximum_depth() {
        let next = |at: usize| json!({"$ref": format!("#/components/schemas/t{at}")});
        let mut definitions = json!({"Widget": schema("Widget", &next(0))});
        for at in 0..20_000 {
            definitions[format!("t{at}")] =
                json!({"type": "object", "properties": {"next": next(at + 1), "self": next(at)}});
        }
        assert_eq!(read(&definitions, &["Widget"]).objects.len(), MAX_DEPTH);
    }
}
