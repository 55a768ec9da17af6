//! Kubernetes objects from files: YAML or JSON, several documents, Lists.

use serde_json::Value;

/// A document that could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadDocument {
    /// Where in the file, counted from 1.
    pub(super) line: usize,
    pub(super) column: usize,
    /// What is wrong.
    pub(super) message: String,
}

/// Reads all objects; one bad document leaves the others alone.
pub(super) fn read_objects(text: &str) -> Vec<Result<Value, BadDocument>> {
    let documents = match text.trim_start().as_bytes().first() {
        Some(b'{' | b'[') => read_json(text),
        Some(_) => read_yaml(text),
        None => Vec::new(),
    };
    documents.into_iter().flat_map(expand_list).collect()
}

fn read_json(text: &str) -> Vec<Result<Value, BadDocument>> {
    let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    stream
        .map(|document| {
            document.map_err(|error| BadDocument {
                line: error.line(),
                column: error.column(),
                message: without_place(&error.to_string()).to_owned(),
            })
        })
        .collect()
}

/// `serde_json` names the place in its message too.
fn without_place(message: &str) -> &str {
    message.split(" at line ").next().unwrap_or(message)
}

/// A line that begins with `---` always begins a document, so each can be read on its own.
fn read_yaml(text: &str) -> Vec<Result<Value, BadDocument>> {
    let mut documents: Vec<(usize, String)> = vec![(1, String::new())];
    for (index, line) in text.lines().enumerate() {
        let marker = line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if let Some(rest) = marker {
            documents.push((index + 1, format!("   {rest}\n")));
        } else if let Some((_, document)) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    documents
        .into_iter()
        .filter_map(|(first_line, document)| match serde_saphyr::from_str::<Value>(&document) {
            Ok(Value::Null) => None,
            Ok(value) => Some(Ok(value)),
            Err(error) => Some(Err(place(&error, first_line))),
        })
        .collect()
}

fn place(error: &serde_saphyr::Error, first_line: usize) -> BadDocument {
    let location = error.location();
    let number = |place: Option<u64>| place.and_then(|number| usize::try_from(number).ok()).unwrap_or(1);
    BadDocument {
        line: number(location.map(|location| location.line())) + first_line - 1,
        column: number(location.map(|location| location.column())),
        message: error.without_snippet().to_string().lines().next().unwrap_or("not valid YAML").to_owned(),
    }
}

/// A List stands for its items, which take their kind from it where they have none.
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
    items.into_iter().map(adopt).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read_objects;

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
        let bad = read_objects("{\"kind\": \"A\",\n  oops}").remove(0).unwrap_err();
        assert_eq!((bad.line, bad.column), (2, 3));
        assert!(!bad.message.contains("line"), "{}", bad.message);
    }

    #[test]
    fn an_empty_file_has_no_objects() {
        assert!(read_objects("").is_empty());
        assert!(read_objects("---\n# nothing\n---\n").is_empty());
    }
}
