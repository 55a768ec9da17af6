//! Properties of the manifest diff, checked with random manifests that follow the schemas of their kinds.

use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestRng},
};
use serde_json::{Map, Value, json};

use super::{
    Schemas, declared_object, root_node,
    schema::{FieldType, ListType, SchemaNode},
};
use crate::{
    diff::{Node, ReportLimits, compare, pack_live_object, unpack},
    types::{FieldPath, Finding, Kind, ObjectRef, RedactionKey, RedactionPolicy, Segment},
};

/// Kinds with various field types, and one without a schema.
const KINDS: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "CronJob"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "LimitRange"),
    ("v1", "PersistentVolume"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("networking.k8s.io/v1", "Ingress"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("coordination.k8s.io/v1", "Lease"),
    ("example.com/v1", "Unknown"),
];

/// Quantities, each in two notations.
const QUANTITIES: &[(&str, &str)] =
    &[("1Gi", "1024Mi"), ("500m", "0.5"), ("2", "2e0"), ("1.5", "1500m"), ("1e3", "1k"), ("100Ki", "102400")];

struct ManifestGenerator {
    random: TestRng,
    /// Makes names unique.
    names: usize,
}

impl ManifestGenerator {
    fn new(seed: [u8; 32]) -> Self {
        Self { random: TestRng::from_seed(RngAlgorithm::ChaCha, &seed), names: 0 }
    }

    fn pick(&mut self, count: usize) -> usize {
        usize::try_from(self.random.next_u32()).unwrap_or_default() % count.max(1)
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    fn document(&mut self) -> Value {
        let (api_version, kind) = KINDS[self.pick(KINDS.len())];
        let schemas = Schemas::default();
        let head = json!({"apiVersion": api_version, "kind": kind});
        let Value::Object(mut document) = self.value(root_node(&Node::from(head.clone()), &schemas), 9)
        else {
            return head;
        };
        document.insert("apiVersion".to_owned(), api_version.into());
        document.insert("kind".to_owned(), kind.into());
        document.insert(
            "metadata".to_owned(),
            json!({"labels": {"a": self.name()}, "finalizers": ["a/b", "c/d"]}),
        );
        Value::Object(document)
    }

    fn value(&mut self, node: SchemaNode<'_>, depth: usize) -> Value {
        match node.field_type {
            FieldType::Plain | FieldType::Any => match self.pick(3) {
                0 => json!(self.pick(1000) + 1),
                1 => json!(true),
                _ => json!(self.name()),
            },
            FieldType::Quantity | FieldType::ResourceQuantity => {
                json!(QUANTITIES[self.pick(QUANTITIES.len())].0)
            }
            FieldType::Bytes => json!("aHVudGVyMg=="),
            FieldType::Time => json!("2026-01-02T03:04:05Z"),
            FieldType::Ignored => json!(self.name()),
            FieldType::Unknown if depth < 6 => json!(self.name()),
            FieldType::Unknown => {
                json!({"name": self.name(), "size": self.pick(9) + 1, "list": [self.value(node, depth - 1)]})
            }
            FieldType::Map(_) => (0..self.pick(3))
                .map(|_| {
                    let name = self.name();
                    let value = self.value(node.member(&name), depth.saturating_sub(1));
                    (name, value)
                })
                .collect(),
            FieldType::List(_, list_type) => {
                let elements = (0..self.pick(4)).map(|_| self.element(node.element(), list_type, depth));
                elements.collect()
            }
            FieldType::Object(object) => self.object(node, *object, depth),
        }
    }

    fn element(&mut self, node: SchemaNode<'_>, list_type: &ListType, depth: usize) -> Value {
        let mut element = self.value(node, depth.saturating_sub(1));
        match list_type {
            ListType::Set => element = self.name().into(),
            ListType::Map(keys) => keys.iter().for_each(|key| element[&*key.field] = self.name().into()),
            ListType::Atomic | ListType::Unordered => {}
        }
        element
    }

    fn object(&mut self, node: SchemaNode<'_>, object: usize, depth: usize) -> Value {
        let mut members = Map::new();
        for name in Schemas::built_in().objects[object].fields.iter().map(|field| &*field.name) {
            let is_deep = matches!(
                node.member(name).field_type,
                FieldType::Object(_) | FieldType::List(..) | FieldType::Map(_)
            );
            let is_present = if is_deep { depth > 0 && self.pick(9) < depth } else { self.pick(3) == 0 };
            if is_present {
                members.insert(name.to_owned(), self.value(node.member(name), depth.saturating_sub(1)));
            }
        }
        Value::Object(members)
    }

    /// The value as a server might store it: in another notation and order, with undeclared fields.
    fn stored(&mut self, node: SchemaNode<'_>, value: &Value) -> Value {
        match (node.field_type, value) {
            (FieldType::Quantity | FieldType::ResourceQuantity, Value::String(text)) => {
                let other =
                    QUANTITIES.iter().find(|(one, _)| one == text).map_or(text.as_str(), |(_, other)| other);
                other.into()
            }
            (FieldType::Bytes, _) if node.name != "data" => "aHVudGVy\nMg==\n".into(),
            (FieldType::Time, _) => "2026-01-02T04:04:05+01:00".into(),
            (FieldType::Object(_) | FieldType::Map(_), Value::Object(members)) => {
                let stored =
                    members.iter().map(|(name, value)| (name.clone(), self.stored(node.member(name), value)));
                let mut stored: Map<String, Value> = stored.collect();
                let is_map = matches!(node.field_type, FieldType::Map(_));
                if !(is_map && node.is_atomic) {
                    stored.insert("zUndeclared".to_owned(), "x".into());
                }
                Value::Object(stored)
            }
            (FieldType::List(_, list_type), Value::Array(elements)) => {
                let stored = elements.iter().map(|element| self.stored(node.element(), element));
                let mut stored: Vec<Value> = stored.collect();
                if !matches!(list_type, ListType::Atomic) {
                    let by = self.pick(stored.len());
                    stored.rotate_left(by);
                }
                stored.into()
            }
            _ => value.clone(),
        }
    }
}

/// The compared scalars of a manifest, each with its field path and JSON pointer.
#[derive(Default)]
struct Leaves {
    path: Vec<Segment>,
    found: Vec<(String, String)>,
}

impl Leaves {
    fn walk(&mut self, node: SchemaNode<'_>, pointer: &str, value: &Value) {
        match (node.field_type, value) {
            (FieldType::Ignored | FieldType::List(_, ListType::Set), _) => {}
            (FieldType::Object(_) | FieldType::Map(_) | FieldType::Unknown, Value::Object(members)) => {
                for (name, value) in members {
                    let member = node.member(name);
                    if !member.is_superseded(|name| members.contains_key(name)) {
                        self.within(Segment::Field(name.as_str().into()), |leaves| {
                            leaves.walk(member, &format!("{pointer}/{name}"), value);
                        });
                    }
                }
            }
            (FieldType::List(_, list_type), Value::Array(elements)) => {
                let keys: Vec<&str> = match list_type {
                    ListType::Map(keys) => keys.iter().map(|key| &*key.field).collect(),
                    ListType::Atomic | ListType::Unordered | ListType::Set => Vec::new(),
                };
                self.elements(node, pointer, &keys, elements);
            }
            (FieldType::Unknown, Value::Array(elements)) => self.elements(node, pointer, &["name"], elements),
            (_, Value::Object(_) | Value::Array(_)) => {}
            _ => self.found.push((FieldPath::new(self.path.clone()).to_string(), pointer.to_owned())),
        }
    }

    fn elements(&mut self, node: SchemaNode<'_>, pointer: &str, keys: &[&str], elements: &[Value]) {
        for (at, element) in elements.iter().enumerate() {
            let inner = format!("{pointer}/{at}");
            if !element.is_object() {
                self.found.push((FieldPath::new(self.path.clone()).to_string(), inner));
                continue;
            }
            let name = |key: &&str| ((*key).into(), element[*key].as_str().unwrap_or_default().into());
            let segment = match keys {
                [] => Segment::Index(at),
                keys => Segment::Element(keys.iter().map(name).collect()),
            };
            let before = self.found.len();
            self.within(segment, |leaves| leaves.walk(node.element(), &inner, element));
            // A changed key is another element.
            let is_key = |pointer: &str| keys.iter().any(|key| pointer == format!("{inner}/{key}"));
            let inner_leaves = self.found.split_off(before);
            self.found.extend(inner_leaves.into_iter().filter(|(_, pointer)| !is_key(pointer)));
        }
    }

    fn within(&mut self, segment: Segment, walk: impl FnOnce(&mut Self)) {
        self.path.push(segment);
        walk(self);
        self.path.pop();
    }
}

fn changed(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_i64().unwrap_or_default() + 1),
        Value::Bool(set) => json!(!set),
        Value::String(text) if text.starts_with("aHVu") => json!("b3RoZXI="),
        Value::String(text) if text.starts_with("2026") => json!("2027-01-02T03:04:05Z"),
        Value::String(text) if QUANTITIES.iter().any(|(amount, _)| amount == text) => json!("77"),
        Value::String(text) => json!(format!("{text}x")),
        other => json!([other]),
    }
}

fn findings(declared: &Value, live: &Value, schemas: &Schemas) -> Vec<Finding> {
    let key = RedactionKey::new([3; 32]);
    let text = |name: &str| declared[name].as_str().unwrap_or_default();
    let (group, kind) = (text("apiVersion").split_once('/').map_or("", |(group, _)| group), text("kind"));
    let declared = declared_object(ObjectRef::new(group, "v1", kind, "", ""), declared.clone(), &key);
    let kind = Kind::undiscovered(group, "v1", kind);
    let live = pack_live_object(live.clone(), &kind, &RedactionPolicy::new(key));
    compare(&declared, &unpack(&live.packed), schemas, ReportLimits::default()).findings
}

#[track_caller]
fn paths(declared: &Value, live: &Value) -> Vec<String> {
    let findings = findings(declared, live, &Schemas::default());
    findings.into_iter().map(|finding| finding.path.to_string()).collect()
}

fn json_value() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "kind",
        "spec",
        "metadata",
        "name",
        "ports",
        "containers",
        "template",
        "a",
        "",
    ]);
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9Ki.=\u{1} ]{0,8}".prop_map(Value::from),
        prop::sample::select(KINDS).prop_map(|(_, kind)| Value::from(kind)),
    ];
    scalar.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn manifest_equals_itself(seed: [u8; 32]) {
        let document = ManifestGenerator::new(seed).document();
        prop_assert_eq!(paths(&document, &document), Vec::<String>::new());
    }

    #[test]
    fn stored_manifest_is_in_sync(seed: [u8; 32]) {
        let mut generator = ManifestGenerator::new(seed);
        let document = generator.document();
        let schemas = Schemas::default();
        let stored = generator.stored(root_node(&Node::from(document.clone()), &schemas), &document);
        prop_assert_eq!(paths(&document, &stored), Vec::<String>::new());
    }

    #[test]
    fn changed_scalar_is_found_at_its_path(seed: [u8; 32]) {
        let mut generator = ManifestGenerator::new(seed);
        let document = generator.document();
        let (schemas, mut leaves) = (Schemas::default(), Leaves::default());
        let mut content = document.clone();
        ["apiVersion", "kind", "metadata", "stringData"].iter().for_each(|name| drop(content.as_object_mut().unwrap().remove(*name)));
        leaves.walk(root_node(&Node::from(document.clone()), &schemas), "", &content);
        let at = generator.pick(leaves.found.len());
        if let Some((path, pointer)) = leaves.found.get(at) {
            let mut live = document.clone();
            let value = live.pointer_mut(pointer).unwrap();
            *value = changed(value);
            prop_assert_eq!(paths(&document, &live), vec![path.clone()], "{}", document);
        }
    }

    #[test]
    fn arbitrary_json_does_not_panic(mut declared in json_value(), live in json_value(), kind in prop::sample::select(KINDS), openapi in json_value()) {
        if let Value::Object(members) = &mut declared {
            members.insert("apiVersion".to_owned(), kind.0.into());
            members.insert("kind".to_owned(), kind.1.into());
        }
        let schema = json!({"components": {"schemas": {"a": {"properties": openapi, "type": "object",
            "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Unknown"}]}}}});
        let schemas = Schemas::from_openapi(schema.to_string().as_bytes(), |_| true).unwrap_or_default();
        for schemas in [&schemas, &Schemas::default()] {
            findings(&declared, &live, schemas);
            prop_assert_eq!(findings(&declared, &declared, schemas), vec![]);
        }
    }
}
