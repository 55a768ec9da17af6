//! Fields that differ, put back into the shape of the object that they are of.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::types::{FieldPath, Segment};

/// What tells an element of a list from the others: names of fields and their values.
type Keys = Vec<(Box<str>, Box<str>)>;

/// A part of an object.
#[derive(Default)]
struct Node {
    /// What stands here, if nothing stands below.
    value: Option<Value>,
    fields: BTreeMap<String, Self>,
    /// Elements of a list, by what tells them apart.
    elements: Vec<(Keys, Self)>,
}

/// Two objects as YAML, of which these fields are known by path and values that differ. An empty value is a field that is not there.
pub(super) fn as_yamls(fields: &[(&str, [&str; 2])]) -> Result<[String; 2], String> {
    let side = |at: usize, read: fn(&[Segment]) -> Read| {
        as_yaml(fields.iter().map(|(path, values)| (*path, values[at])), read)
    };
    let [one, other] = [side(0, reading_of)?, side(1, reading_of)?];
    if one != other {
        return Ok([one, other]);
    }
    // Texts that mean the same by the letter are still two texts.
    Ok([side(0, |_| as_text)?, side(1, |_| as_text)?])
}

fn as_yaml<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    reading_of: fn(&[Segment]) -> Read,
) -> Result<String, String> {
    let mut whole = Node::default();
    for (path, value) in fields {
        match path.parse::<FieldPath>() {
            Ok(parsed) => whole.put(parsed.segments(), value, reading_of(parsed.segments())),
            Err(_) => whole.put(&[Segment::Field(path.into())], value, reading_of(&[])),
        }
    }
    match whole.into_value() {
        Some(value) => serde_saphyr::to_string(&value).map_err(|error| error.to_string()),
        None => Ok(String::new()),
    }
}

impl Node {
    fn put(&mut self, path: &[Segment], value: &str, read: Read) {
        let Some((first, rest)) = path.split_first() else {
            // What was there before may stand in the place of what was not.
            if !value.is_empty() {
                self.value = Some(read(value));
            }
            return;
        };
        match first {
            Segment::Field(name) => self.fields.entry(name.to_string()).or_default().put(rest, value, read),
            // Where the others are not shown, a place in a list has to be told.
            Segment::Index(index) => {
                self.fields.entry(format!("[{index}]")).or_default().put(rest, value, read);
            }
            Segment::Value(member) => {
                let member = if value.is_empty() { "" } else { member };
                self.element(&[("".into(), member.into())]).put(&[], member, read);
            }
            Segment::Element(keys) => self.element(keys).put(rest, value, read),
        }
    }

    fn element(&mut self, keys: &[(Box<str>, Box<str>)]) -> &mut Self {
        let at = self.elements.iter().position(|(own, _)| own == keys).unwrap_or_else(|| {
            self.elements.push((keys.to_vec(), Self::default()));
            self.elements.len() - 1
        });
        &mut self.elements[at].1
    }

    /// None where nothing is there.
    fn into_value(self) -> Option<Value> {
        if !self.elements.is_empty() {
            let elements = self.elements.into_iter().filter_map(|(keys, node)| node.into_element(&keys));
            let elements: Vec<Value> = elements.collect();
            return (!elements.is_empty()).then_some(Value::Array(elements));
        }
        let fields = self.fields.into_iter().filter_map(|(name, node)| Some((name, node.into_value()?)));
        let fields: Map<String, Value> = fields.collect();
        if fields.is_empty() { self.value } else { Some(Value::Object(fields)) }
    }

    /// An element of a list with what tells it from the others, where fields of it are known on either side.
    fn into_element(self, keys: &[(Box<str>, Box<str>)]) -> Option<Value> {
        let has_fields = !self.fields.is_empty();
        let own = match self.into_value() {
            Some(Value::Object(fields)) => fields,
            Some(other) => return Some(other),
            None if has_fields => Map::new(),
            None => return None,
        };
        let mut whole: Map<String, Value> =
            keys.iter().map(|(key, value)| (key.to_string(), typed(value))).collect();
        whole.extend(own);
        Some(Value::Object(whole))
    }
}

/// How the text of a value is read.
type Read = fn(&str) -> Value;

/// How the value at a path is read.
fn reading_of(path: &[Segment]) -> Read {
    let is = |segment: &Segment, names: &[&str]| matches!(segment, Segment::Field(name) if names.contains(&&**name));
    let is_text = match path {
        [map, Segment::Field(_)] if is(map, &["data", "binaryData", "stringData"]) => true,
        [.., map, Segment::Field(_)]
            if is(map, &["labels", "annotations", "matchLabels", "nodeSelector"]) =>
        {
            true
        }
        [.., list, Segment::Element(_), value] => is(list, &["env"]) && is(value, &["value"]),
        _ => false,
    };
    if is_text { as_text } else { typed }
}

fn as_text(text: &str) -> Value {
    text.into()
}

/// A value as it would stand in a manifest: values are told as text, and as JSON where they are more than that.
fn typed(text: &str) -> Value {
    // What is written in another way is another text: `1.10` is no 1.1, and a list with blanks in it is a text that somebody wrote. A text
    // is told without marks around it, so one that has some is no other text.
    let is_meant = |value: &Value| {
        let written = value.to_string();
        match value {
            // Members may stand in any order.
            Value::Object(_) | Value::Array(_) => written.len() == text.len(),
            Value::String(_) => false,
            Value::Null | Value::Bool(_) | Value::Number(_) => written == text,
        }
    };
    serde_json::from_str(text).ok().filter(is_meant).unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::{as_yaml as as_read, as_yamls, reading_of};

    fn as_yaml<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<String, String> {
        as_read(fields, reading_of)
    }

    #[test]
    fn fields_stand_where_they_stand_in_the_object() {
        let yaml = as_yaml([
            ("spec.replicas", "3"),
            ("spec.template.spec.containers[name=web].image", "web:1"),
            ("spec.template.spec.containers[name=web].env[name=A].value", "x"),
            ("metadata.annotations[\"example.com/owner\"]", "me"),
            ("metadata.finalizers[=example.com/hold]", "example.com/hold"),
            ("spec.args[2]", "-v"),
        ]);
        let wanted = "\
metadata:
  annotations:
    example.com/owner: me
  finalizers:
  - example.com/hold
spec:
  args:
    '[2]': -v
  replicas: 3
  template:
    spec:
      containers:
      - env:
        - name: A
          value: x
        image: web:1
        name: web
";
        assert_eq!(yaml.unwrap().replace("\"[2]\"", "'[2]'"), wanted);
    }

    #[test]
    fn what_is_not_there_leaves_what_it_would_stand_in() {
        assert_eq!(as_yaml([("spec.replicas", "")]).unwrap(), "");
        assert_eq!(as_yaml([("metadata.finalizers[=a]", "")]).unwrap(), "");
        assert_eq!(as_yaml([("c[name=web].image", "")]).unwrap(), "c:\n- name: web\n");
        assert_eq!(as_yaml([("c[name=web]", "")]).unwrap(), "");
        assert_eq!(
            as_yaml([("c[name=web]", "{\"name\":\"web\",\"a\":1}")]).unwrap(),
            "c:\n- a: 1\n  name: web\n"
        );
    }

    #[test]
    fn what_is_gone_and_what_came_may_have_the_same_place() {
        for fields in [[("tags[0]", "a"), ("tags[0]", "")], [("tags[0]", ""), ("tags[0]", "a")]] {
            assert_eq!(as_yaml(fields).unwrap().replace('"', "'"), "tags:\n  '[0]': a\n");
        }
    }

    #[test]
    fn no_two_values_look_the_same() {
        for (path, one, other) in [
            ("data.b", "x", "\"x\""),
            ("data.c", r#"{"a":1,"b":[1,2]}"#, r#"{"b": [1, 2], "a": 1}"#),
            ("spec.s", "{}", "{ }"),
            ("spec.s", "a", "\"a\""),
            ("spec.s", r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
            ("c[name=web].env[name=A].value", "[\"a\"]", "[ \"a\" ]"),
            ("data.n", "1", "1 "),
        ] {
            let [one, other] = as_yamls(&[(path, [one, other])]).unwrap();
            assert_ne!(one, other, "{path}");
        }
    }

    #[test]
    fn what_is_always_a_text_is_written_as_one() {
        let yaml = as_yaml([
            ("data.a", "1"),
            ("metadata.labels.b", "true"),
            ("spec.template.metadata.annotations[\"example.com/c\"]", "null"),
            ("spec.containers[name=web].env[name=A].value", "10"),
            ("spec.containers[name=web].env[name=B]", "{\"name\":\"B\",\"value\":\"1\"}"),
            ("spec.data.d", "1"),
        ]);
        let yaml = yaml.unwrap();
        for line in [
            "  a: \"1\"\n",
            "    b: \"true\"\n",
            "example.com/c: \"null\"\n",
            "value: \"10\"\n",
            "value: \"1\"\n",
            "    d: 1\n",
        ] {
            assert!(yaml.contains(line), "{line} is not in\n{yaml}");
        }
    }

    #[test]
    fn what_looks_like_a_number_stays_as_it_is_written() {
        let yaml = as_yaml([("a", "1.10"), ("b", "4e10"), ("c", "3"), ("d", "true")]);
        assert_eq!(yaml.unwrap(), "a: \"1.10\"\nb: \"4e10\"\nc: 3\nd: true\n");
    }
}
