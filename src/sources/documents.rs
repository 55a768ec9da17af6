//! Kubernetes objects in YAML or JSON texts with several documents and Lists, parsed as Helm and kubectl do.

use std::{borrow::Cow, cell::Cell, fmt, rc::Rc};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::budget::{Budget, MAP_NODES};
use crate::{
    config::{BaselineLimits, LimitExceeded, describe_yaml_error},
    types::ObjectRef,
};

/// The longest name of any object that the API server accepts.
const MAX_NAME: usize = 253;
/// The longest path of a template.
const MAX_PATH: usize = 1024;

/// A document that is neither valid YAML nor valid JSON.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column}")]
pub struct DocumentError {
    /// Line in the text, from 1.
    pub line: usize,
    /// Column in that line, from 1.
    pub column: usize,
    /// May quote the document, and so a secret.
    pub message: String,
}

/// The text between two `---` lines: YAML, or one or several JSON documents.
#[derive(Debug)]
pub(super) struct Document<'a> {
    first_line: usize,
    /// The column in that line at which the text starts: after a `---`.
    first_column: usize,
    text: Cow<'a, str>,
}

type ParsedDocument = Result<Value, DocumentError>;

/// Parses all objects. An invalid document does not affect the others.
pub fn read_objects(text: &str, limits: &BaselineLimits) -> Result<Vec<ParsedDocument>, LimitExceeded> {
    let (mut budget, mut objects) = (Budget::new(limits), Vec::new());
    for document in documents(text) {
        budget.add_document()?;
        objects.extend(document.objects(&mut budget)?);
    }
    Ok(objects)
}

/// Splits a text at lines that begin with `---`, so that each document can be parsed on its own.
pub(super) fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut next = Some((1, 1, text));
    std::iter::from_fn(move || {
        let (first_line, first_column, text) = next.take()?;
        let mut end = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            // The first line may follow a marker.
            let is_whole = index > 0 || first_column == 1;
            if let Some(rest) = line.strip_prefix("---").filter(|_| is_whole)
                && (rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
            {
                next = Some((first_line + index, 4, &text[end + 3..]));
                break;
            }
            end += line.len();
        }
        Some(Document { first_line, first_column, text: with_line_ends(&text[..end]) })
    })
}

/// Ends every line with a line feed, without a carriage return, as kubectl does.
fn with_line_ends(text: &str) -> Cow<'_, str> {
    if text.is_empty() || text.ends_with('\n') && !text.contains('\r') {
        return text.into();
    }
    text.lines().flat_map(|line| [line, "\n"]).collect()
}

/// Identifies the object of a document; `None` if a part of its name is missing or invalid.
/// `text_at` returns the text at a JSON Pointer.
pub(super) fn object_of_document<'a>(text_at: impl Fn(&str) -> Option<&'a str>) -> Option<ObjectRef> {
    let (group, version) = split_version(text_at("/apiVersion").filter(|text| is_api_version(text))?);
    let name = |pointer: &str| Some(text_at(pointer).unwrap_or_default()).filter(|text| is_name(text));
    let is_set = |text: &&str| !text.is_empty();
    let (kind, namespace) = (name("/kind").filter(is_set)?, name("/metadata/namespace")?);
    Some(ObjectRef::new(group, version, kind, namespace, name("/metadata/name").filter(is_set)?))
}

/// Whether a text is a valid group and version. It becomes part of the path of a request.
fn is_api_version(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ['.', '-'].contains(&c);
    text.len() <= MAX_NAME
        && text.matches('/').count() <= 1
        && text
            .split('/')
            .all(|part| part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(is_plain))
}

/// Whether a text may be a name. Rejects template expressions that were not rendered, and long texts.
fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME && !text.contains(['{', '}', '/', ' ']) && !text.contains(char::is_control)
}

/// Splits `apps/v1` into group and version.
pub(super) fn split_version(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

impl Document<'_> {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The template that Helm rendered it from, from the comment in the first line.
    pub(super) fn template(&self) -> Option<&str> {
        let line = self.text.lines().map(str::trim).find(|line| !line.is_empty())?;
        line.strip_prefix("# Source:")
            .map(str::trim)
            .filter(|path| !path.is_empty() && path.len() <= MAX_PATH)
    }

    /// Parses the document, and replaces Lists by their items.
    pub(super) fn objects(&self, budget: &mut Budget) -> Result<Vec<ParsedDocument>, LimitExceeded> {
        Ok(self.parse(budget)?.into_iter().flat_map(expand_list).collect())
    }

    fn parse(&self, budget: &mut Budget) -> Result<Vec<ParsedDocument>, LimitExceeded> {
        // Only directives and comments.
        if self.text.lines().all(|line| line.trim().is_empty() || line.starts_with(['%', '#'])) {
            return Ok(Vec::new());
        }
        let mut json_error = None;
        if self.text.trim_start().starts_with(['{', '[']) {
            budget.add_json(&self.text)?;
            let json: Result<Vec<Value>, serde_json::Error> =
                serde_json::Deserializer::from_str(&self.text).into_iter().collect();
            match json {
                Ok(documents) => return Ok(documents.into_iter().map(Ok).collect()),
                Err(error) => json_error = Some(error),
            }
        }
        Ok(match (parse_yaml(&self.text, budget)?, json_error) {
            (Ok(Value::Null), _) => Vec::new(),
            (Ok(document), _) => vec![Ok(document)],
            (Err(_), Some(json)) => self.json_before(&json),
            (Err(yaml), None) => vec![Err(self.yaml_error(&yaml))],
        })
    }

    /// The JSON documents before the first invalid one, and its error.
    fn json_before(&self, error: &serde_json::Error) -> Vec<ParsedDocument> {
        let stream = serde_json::Deserializer::from_str(&self.text).into_iter::<Value>();
        let valid = stream.map_while(Result::ok).map(Ok);
        // serde_json repeats the position in its message.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        valid.chain([Err(self.error_at(error.line(), error.column(), message))]).collect()
    }

    fn yaml_error(&self, error: &serde_saphyr::Error) -> DocumentError {
        let location = error.location();
        let number =
            |position: Option<u64>| position.and_then(|number| usize::try_from(number).ok()).unwrap_or(1);
        self.error_at(
            number(location.map(|location| location.line())),
            number(location.map(|location| location.column())),
            describe_yaml_error(error.without_snippet()),
        )
    }

    /// An error at this position in the document.
    fn error_at(&self, line: usize, column: usize, message: String) -> DocumentError {
        let column = if line == 1 { column + self.first_column - 1 } else { column };
        DocumentError { line: line + self.first_line - 1, column, message }
    }
}

/// Replaces a List by its items, recursively. Items without a kind inherit it from the List.
fn expand_list(document: ParsedDocument) -> Vec<ParsedDocument> {
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
    let inherit = |mut item: Value| {
        if let Value::Object(members) = &mut item
            && !kind.is_empty()
        {
            members.entry("kind").or_insert_with(|| kind.clone().into());
            members.entry("apiVersion").or_insert_with(|| api_version.clone());
        }
        Ok(item)
    };
    items.into_iter().map(inherit).flat_map(expand_list).collect()
}

/// Parses one document as YAML 1.1. The inner error is an error in the document.
fn parse_yaml(text: &str, budget: &mut Budget) -> Result<Result<Value, serde_saphyr::Error>, LimitExceeded> {
    let work = Rc::new(Cell::new(0));
    let total = work.clone();
    let options = options(text, budget)
        .with_budget_report(move |report| total.set(report.events + report.recorded_anchor_events));
    let limits = *budget.limits();
    let nodes = Cell::new(limits.nodes);
    let seed = NodeSeed { remaining: &nodes };
    let parsed = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        seed.deserialize(deserializer)
    });
    let exceeded = match &parsed {
        Err(_) if nodes.get() == 0 => Some(limits.nodes_exceeded()),
        Err(error) => limit_of(error, &limits),
        Ok(_) => None,
    };
    budget.add_work(work.get()).and(exceeded.map_or(Ok(()), Err))?;
    Ok(parsed)
}

/// `0644` is octal, the last of several equal keys wins, and an anchor may have many aliases.
fn options(text: &str, budget: &Budget) -> serde_saphyr::Options {
    let (limits, work) = (budget.limits(), budget.remaining_work());
    // Aliases may repeat text, up to an eighth of the limit on text.
    let scalar_bytes = text.len() + limits.text_bytes / 8;
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: work,
        },
        budget: serde_saphyr::budget! {
            max_nodes: limits.nodes,
            max_events: work,
            max_aliases: work,
            max_anchors: work,
            max_merge_keys: work,
            // Each event uses the memory of several values.
            max_recorded_anchor_events: work.min(limits.nodes / 2),
            max_recorded_anchor_bytes: scalar_bytes,
            max_total_scalar_bytes: scalar_bytes,
            max_depth: limits.depth,
            enforce_alias_anchor_ratio: false,
        },
    }
}

/// The limit that the parser reports as exceeded.
fn limit_of(error: &serde_saphyr::Error, limits: &BaselineLimits) -> Option<LimitExceeded> {
    use serde_saphyr::{Error, budget::BudgetBreach};
    match error.without_snippet() {
        Error::Budget { breach, .. } => Some(match breach {
            BudgetBreach::Depth { .. } => limits.depth_exceeded(),
            BudgetBreach::Nodes { .. } | BudgetBreach::RecordedAnchorEvents { .. } => limits.nodes_exceeded(),
            BudgetBreach::ScalarBytes { .. } | BudgetBreach::RecordedAnchorBytes { .. } => {
                limits.text_exceeded()
            }
            _ => limits.work_exceeded(),
        }),
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. } => Some(limits.work_exceeded()),
        Error::AliasReplayStackDepthExceeded { .. } => Some(limits.depth_exceeded()),
        Error::AliasError { error, .. } => limit_of(error, limits),
        _ => None,
    }
}

/// Decodes a value and counts its nodes. Converts keys as Go does: `yes` becomes `"true"`.
#[derive(Clone, Copy)]
struct NodeSeed<'a> {
    remaining: &'a Cell<usize>,
}

impl NodeSeed<'_> {
    /// Fails once no nodes remain.
    fn count<E: Error>(self, nodes: usize) -> Result<(), E> {
        self.remaining.set(self.remaining.get().saturating_sub(nodes));
        if self.remaining.get() == 0 { Err(E::custom("too many values")) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count(1)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
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
        while let Some(element) = sequence.next_element_seed(self)? {
            elements.push(element);
        }
        Ok(elements.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        self.count(MAP_NODES - 1)?;
        let mut members = Map::new();
        while let Some(name) = map.next_key_seed(self)? {
            let name = match name {
                Value::String(name) => name,
                Value::Bool(_) | Value::Number(_) => name.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(A::Error::custom("a key is neither a string, a number nor a boolean"));
                }
            };
            members.insert(name, map.next_value_seed(self)?);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        BaselineLimits, Budget, Document, DocumentError, LimitExceeded, ObjectRef, Value, object_of_document,
        parse_yaml,
    };

    fn parse(text: &str) -> Result<Value, Option<LimitExceeded>> {
        let mut budget = Budget::new(&BaselineLimits::default());
        parse_yaml(text, &mut budget).map_err(Some)?.map_err(|_| None)
    }

    fn documents(text: &str) -> Vec<Document<'_>> {
        super::documents(text).collect()
    }

    fn read_objects(text: &str) -> Vec<Result<Value, DocumentError>> {
        super::read_objects(text, &BaselineLimits::default()).unwrap()
    }

    fn object_of(document: &Value) -> Option<ObjectRef> {
        object_of_document(|pointer| document.pointer(pointer).and_then(Value::as_str))
    }

    #[test]
    fn documents_and_lists_are_split() {
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
    fn invalid_document_is_reported_with_its_position_and_affects_no_other() {
        let objects = read_objects("kind: A\n---\nkind: B\nspec: {a: [1\n---\nkind: C\n");
        assert_eq!(objects.len(), 3);
        assert!(objects[0].is_ok() && objects[2].is_ok());
        let error = objects[1].as_ref().unwrap_err();
        assert!(error.line >= 4 && error.line <= 5 && error.column >= 1, "{error:?}");
        let mut objects =
            read_objects("{\"kind\": \"A\"}\n{\"kind\": \"B\",\n  oops}\n---\n{\"kind\": \"C\"}");
        assert!(objects.len() == 3 && objects[0].is_ok() && objects[2].is_ok(), "{objects:?}");
        let error = objects.remove(1).unwrap_err();
        assert_eq!((error.line, error.column), (3, 3));
        assert!(!error.message.contains("line"), "{}", error.message);
    }

    #[test]
    fn empty_text_has_no_objects() {
        assert!(read_objects("").is_empty());
        assert!(read_objects("---\n# nothing\n---\n").is_empty());
    }

    #[test]
    fn template_and_object_of_a_document_are_found() {
        let text = "---\n# Source: shop/templates/a.yaml\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n---\nkind: A\n";
        let documents = documents(text);
        let templates: Vec<_> = documents.iter().map(Document::template).collect();
        assert_eq!(templates, [None, Some("shop/templates/a.yaml"), None]);
        let objects = documents[1].objects(&mut Budget::new(&BaselineLimits::default())).unwrap();
        let name = object_of(objects[0].as_ref().unwrap()).unwrap();
        assert_eq!(
            (&*name.group, &*name.version, &*name.kind, &*name.name),
            ("apps", "v1", "Deployment", "a")
        );
        for invalid in ["{{ .Values.group }}/v1", "../v1", "a/b/v1", "/v1", "", "v1?watch=true"] {
            let document = json!({"apiVersion": invalid, "kind": "Service", "metadata": {"name": "a"}});
            assert_eq!(object_of(&document), None, "{invalid}");
        }
        for invalid in ["{{ .Values.name }}", "", "a/b", "a\nb", "no name", &"a".repeat(254)] {
            let document = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": invalid}});
            assert_eq!(object_of(&document), None);
        }
    }

    #[test]
    fn yaml_is_parsed_like_helm_and_kubectl_parse_it() {
        let text = "a: 0644\nb: yes\nc: \"0644\"\nd: 1\nd: 2\n<<: {e: 1}\nf: ~\ng: [1.5, -1, 2026-01-01]\n";
        let object = json!({"a": 420, "b": true, "c": "0644", "d": 2, "e": 1, "f": null, "g": [1.5, -1, "2026-01-01"]});
        assert_eq!(parse(text).unwrap(), object);
    }

    #[test]
    fn keys_are_converted_like_values() {
        let object = parse("yes: a\n\"no\": b\noff: c\n5: d\n1.5: e\n010: f\nplain: {n: g}\n").unwrap();
        let names = json!({"true": "a", "no": "b", "false": "c", "5": "d", "1.5": "e", "8": "f", "plain": {"false": "g"}});
        assert_eq!(object, names);
        for text in ["~: a\n", "? [a]\n: b\n", "null: a\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("true: a\nyes: b\n").unwrap(), json!({"true": "b"}));
    }

    #[test]
    fn anchors_may_have_many_aliases_within_limits() {
        let often = format!("a: &a {{b: c}}\nlist:\n{}", "- *a\n".repeat(1000));
        assert_eq!(parse(&often).unwrap()["list"][999], json!({"b": "c"}));
        let large = format!("a: &a {}\nlist:\n{}", "x".repeat(4 << 20), "- *a\n".repeat(32));
        assert!(parse(&large).is_err(), "it would expand to 128 MiB");
    }
}
