//! Kubernetes objects as people write them down: YAML or JSON, several documents, Lists.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::types::ObjectName;

/// The API server takes no longer name for any object.
const LONGEST_NAME: usize = 253;
/// A template's path is no longer.
const LONGEST_PATH: usize = 1024;

/// A document that could not be read.
#[derive(Debug, PartialEq, Eq)]
pub struct BadDocument {
    /// Where in the text, counted from 1.
    pub line: usize,
    /// Where in that line, counted from 1.
    pub column: usize,
    /// What is wrong. It may quote what stands there.
    pub message: String,
}

/// The text between two `---` lines: YAML, or one or several JSON documents.
#[derive(Debug)]
pub struct Document {
    first_line: usize,
    text: String,
}

/// Reads all objects; one bad document leaves the others alone.
pub fn read_objects(text: &str) -> Vec<Result<Value, BadDocument>> {
    documents(text).iter().flat_map(Document::objects).collect()
}

/// Takes a text apart. A line that begins with `---` always begins a document, so each can be read on its own.
pub fn documents(text: &str) -> Vec<Document> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parts = vec![Document { first_line: 1, text: String::new() }];
    for (index, line) in text.lines().enumerate() {
        let marker = line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if let Some(rest) = marker {
            parts.push(Document { first_line: index + 1, text: format!("   {rest}\n") });
        } else if let Some(part) = parts.last_mut() {
            part.text.push_str(line);
            part.text.push('\n');
        }
    }
    parts
}

/// The object that a document is; none where it does not say which.
pub(super) fn object_of_document(document: &Value) -> Option<ObjectName> {
    let (group, version) = split_version(document["apiVersion"].as_str().filter(|own| is_version(own))?);
    let metadata = &document["metadata"];
    let word = |value: &'_ Value| value.as_str().filter(|own| !own.is_empty()).map(str::to_owned);
    Some(ObjectName {
        group: group.into(),
        version: version.into(),
        kind: word(&document["kind"]).filter(|kind| is_name(kind))?.into(),
        namespace: Some(metadata["namespace"].as_str().unwrap_or("")).filter(|name| is_name(name))?.into(),
        name: word(&metadata["name"]).filter(|name| is_name(name))?.into(),
    })
}

/// Whether it could be a group and a version: it becomes part of a path that the server is asked for.
fn is_version(text: &str) -> bool {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || ['.', '-'].contains(&sign);
    text.len() <= LONGEST_NAME
        && text.matches('/').count() <= 1
        && text.split('/').all(|part| {
            part.starts_with(|sign: char| sign.is_ascii_alphanumeric()) && part.chars().all(is_plain)
        })
}

/// Whether an object could be called so. What a template left behind is no name, and neither is a page of text.
fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME && !text.contains(['{', '}', '/', ' ']) && !text.contains(char::is_control)
}

/// `apps/v1` as group and version.
pub(super) fn split_version(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

impl Document {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The template that Helm made it from, as Helm writes it down in the first line.
    pub fn template(&self) -> Option<&str> {
        let line = self.text.lines().map(str::trim).find(|line| !line.is_empty())?;
        line.strip_prefix("# Source:")
            .map(str::trim)
            .filter(|path| !path.is_empty() && path.len() <= LONGEST_PATH)
    }

    /// The objects in it.
    pub fn objects(&self) -> Vec<Result<Value, BadDocument>> {
        self.read().into_iter().flat_map(expand_list).collect()
    }

    fn read(&self) -> Vec<Result<Value, BadDocument>> {
        // Directives and comments alone make no document.
        if self.text.lines().all(|line| line.trim().is_empty() || line.starts_with(['%', '#'])) {
            return Vec::new();
        }
        let json: Result<Vec<Value>, serde_json::Error> =
            serde_json::Deserializer::from_str(&self.text).into_iter().collect();
        let json = match json {
            Ok(documents) => return documents.into_iter().map(Ok).collect(),
            Err(error) => error,
        };
        match read_yaml(&self.text) {
            Ok(Value::Null) => Vec::new(),
            Ok(document) => vec![Ok(document)],
            Err(_) if self.text.trim_start().starts_with(['{', '[']) => self.good_json(&json),
            Err(yaml) => vec![Err(self.bad_yaml(&yaml))],
        }
    }

    /// The JSON documents before the first bad one, and what is wrong with that one.
    fn good_json(&self, wrong: &serde_json::Error) -> Vec<Result<Value, BadDocument>> {
        let stream = serde_json::Deserializer::from_str(&self.text).into_iter::<Value>();
        let good = stream.map_while(Result::ok).map(Ok);
        // serde_json names the place in its message too.
        let message = wrong.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        let line = wrong.line() + self.first_line - 1;
        good.chain([Err(BadDocument { line, column: wrong.column(), message })]).collect()
    }

    fn bad_yaml(&self, error: &serde_saphyr::Error) -> BadDocument {
        let location = error.location();
        let number = |place: Option<u64>| place.and_then(|number| usize::try_from(number).ok()).unwrap_or(1);
        BadDocument {
            line: number(location.map(|location| location.line())) + self.first_line - 1,
            column: number(location.map(|location| location.column())),
            message: error
                .without_snippet()
                .to_string()
                .lines()
                .next()
                .unwrap_or("not valid YAML")
                .to_owned(),
        }
    }
}

/// A List stands for its items, Lists among them too, which take their kind from it where they have none.
fn expand_list(document: Result<Value, BadDocument>) -> Vec<Result<Value, BadDocument>> {
    let Ok(Value::Object(mut list)) = document else {
        return vec![document];
    };
    let kind = list
        .get("kind")
        .and_then(Value::as_str)
        .and_then(|kind| kind.strip_suffix("List"))
        .map(str::to_owned);
    let (Some(kind), Some(Value::Array(items))) = (kind, list.remove("items")) else {
        return vec![Ok(Value::Object(list))];
    };
    let api_version = list.remove("apiVersion").unwrap_or(Value::Null);
    let adopt = |mut item: Value| {
        if let Value::Object(members) = &mut item
            && !kind.is_empty()
        {
            members.entry("kind").or_insert_with(|| kind.clone().into());
            members.entry("apiVersion").or_insert_with(|| api_version.clone());
        }
        Ok(item)
    };
    items.into_iter().map(adopt).flat_map(expand_list).collect()
}

/// Reads one document.
fn read_yaml(text: &str) -> Result<Value, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options::<Node>(text, options()).map(|node| node.0)
}

/// `0644` is octal, of two members of one name the last counts, and one anchor may be meant often. Large lists are ordinary;
/// anchors that multiply are not, and stay bounded as the library sees fit.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        budget: serde_saphyr::budget! {
            max_nodes: 50_000_000,
            max_events: 100_000_000,
            enforce_alias_anchor_ratio: false,
        },
    }
}

/// A value whose maps have their names from whatever stands there: `yes` is `true` there too.
struct Node(Value);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor).map(Self)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, set: bool) -> Result<Value, E> {
        Ok(set.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(Node(element)) = sequence.next_element()? {
            elements.push(element);
        }
        Ok(elements.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(Node(name)) = map.next_key()? {
            let name = match name {
                Value::String(name) => name,
                Value::Bool(_) | Value::Number(_) => name.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(A::Error::custom("only a text, a number or a truth value can be a name"));
                }
            };
            members.insert(name, map.next_value::<Node>()?.0);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{documents, object_of_document, read_objects, read_yaml as read};

    #[test]
    fn documents_and_lists_are_taken_apart() {
        let yaml = "# comment\n---\nkind: A\n--- # second\nkind: List\nitems:\n- kind: B\n- kind: C\n---\n---\n{kind: D}\n";
        let kinds: Vec<_> =
            read_objects(yaml).into_iter().map(|object| object.unwrap()["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B", "C", "D"]);
        let json =
            r#"{"kind":"A"} {"kind":"DeploymentList","apiVersion":"apps/v1","items":[{"metadata":{}}]}"#;
        let objects: Vec<_> = read_objects(json).into_iter().map(Result::unwrap).collect();
        assert_eq!(objects[1], json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {}}));
    }

    #[test]
    fn a_bad_document_is_told_with_its_place_and_hides_no_other() {
        let objects = read_objects("kind: A\n---\nkind: B\nspec: {a: [1\n---\nkind: C\n");
        assert_eq!(objects.len(), 3);
        assert!(objects[0].is_ok() && objects[2].is_ok());
        let bad = objects[1].as_ref().unwrap_err();
        assert!(bad.line >= 4 && bad.line <= 5 && bad.column >= 1, "{bad:?}");
        let mut objects =
            read_objects("{\"kind\": \"A\"}\n{\"kind\": \"B\",\n  oops}\n---\n{\"kind\": \"C\"}");
        assert!(objects.len() == 3 && objects[0].is_ok() && objects[2].is_ok(), "{objects:?}");
        let bad = objects.remove(1).unwrap_err();
        assert_eq!((bad.line, bad.column), (3, 3));
        assert!(!bad.message.contains("line"), "{}", bad.message);
    }

    #[test]
    fn an_empty_file_has_no_objects() {
        assert!(read_objects("").is_empty());
        assert!(read_objects("---\n# nothing\n---\n").is_empty());
    }

    #[test]
    fn documents_know_their_template_and_their_object() {
        let text = "---\n# Source: shop/templates/a.yaml\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n---\nkind: A\n";
        let documents = documents(text);
        let templates: Vec<_> = documents.iter().map(super::Document::template).collect();
        assert_eq!(templates, [None, Some("shop/templates/a.yaml"), None]);
        let name = object_of_document(documents[1].objects()[0].as_ref().unwrap()).unwrap();
        assert_eq!(
            (&*name.group, &*name.version, &*name.kind, &*name.name),
            ("apps", "v1", "Deployment", "a")
        );
        for left in ["{{ .Values.group }}/v1", "../v1", "a/b/v1", "/v1", "", "v1?watch=true"] {
            let document = json!({"apiVersion": left, "kind": "Service", "metadata": {"name": "a"}});
            assert_eq!(object_of_document(&document), None, "{left}");
        }
        for left in ["{{ .Values.name }}", "", "a/b", "a\nb", "no name", &"a".repeat(254)] {
            let document = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": left}});
            assert_eq!(object_of_document(&document), None);
        }
    }

    #[test]
    fn it_is_read_as_helm_and_kubectl_read_it() {
        let text = "a: 0644\nb: yes\nc: \"0644\"\nd: 1\nd: 2\n<<: {e: 1}\nf: ~\ng: [1.5, -1, 2026-01-01]\n";
        let object = json!({"a": 420, "b": true, "c": "0644", "d": 2, "e": 1, "f": null, "g": [1.5, -1, "2026-01-01"]});
        assert_eq!(read(text).unwrap(), object);
    }

    #[test]
    fn names_are_what_their_spelling_says() {
        let object = read("yes: a\n\"no\": b\noff: c\n5: d\n1.5: e\n010: f\nplain: {n: g}\n").unwrap();
        let names = json!({"true": "a", "no": "b", "false": "c", "5": "d", "1.5": "e", "8": "f", "plain": {"false": "g"}});
        assert_eq!(object, names);
        for text in ["~: a\n", "? [a]\n: b\n", "null: a\n"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("true: a\nyes: b\n").unwrap(), json!({"true": "b"}));
    }
    #[test]
    fn an_anchor_may_be_meant_often_but_not_without_end() {
        let often = format!("a: &a {{b: c}}\nlist:\n{}", "- *a\n".repeat(1000));
        assert_eq!(read(&often).unwrap()["list"][999], json!({"b": "c"}));
        let large = format!("a: &a {}\nlist:\n{}", "x".repeat(4 << 20), "- *a\n".repeat(32));
        assert!(read(&large).is_err(), "no document becomes 128 MiB");
    }
}
