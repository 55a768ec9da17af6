//! Label and field selectors.

use serde_json::Value;

use super::refusal::Refusal;

/// Which objects a list or watch is about.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    namespace: Option<String>,
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
}

#[derive(Clone, Debug)]
struct FieldRequirement {
    /// `name` or `namespace` within the metadata.
    field: &'static str,
    value: String,
    equal: bool,
}

impl Selector {
    pub(super) fn parse(namespace: Option<&str>, labels: &str, fields: &str) -> Result<Self, Refusal> {
        let namespace = namespace.map(str::to_owned);
        Ok(Self { namespace, labels: parse_labels(labels)?, fields: parse_fields(fields)? })
    }

    /// Whether it leaves out anything but other namespaces.
    pub(super) fn narrows(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or("");
        self.namespace.as_deref().is_none_or(|wanted| wanted == text("namespace"))
            && self
                .labels
                .iter()
                .all(|requirement| requirement.matches(metadata["labels"][&requirement.key].as_str()))
            && self.fields.iter().all(|wanted| (text(wanted.field) == wanted.value) == wanted.equal)
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
            Test::In(values) => value.is_some_and(|value| values.iter().any(|own| own == value)),
            Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|own| own != value)),
        }
    }
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, Refusal> {
    let parts = split_outside_brackets(text);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).map(parse_requirement).collect()
}

fn parse_requirement(text: &str) -> Result<Requirement, Refusal> {
    let wrong = |why: &str| Refusal::bad_request(format!("unable to parse requirement: {why}"));
    let (key, condition) = if let Some((key, value)) = text.split_once("!=") {
        (key, Test::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (key, Test::In(vec![value.trim().to_owned()]))
    } else if let Some(key) = text.strip_prefix('!') {
        (key, Test::Missing)
    } else if let Some((key, rest)) = text.split_once(char::is_whitespace) {
        let (word, values) = rest.trim().split_once('(').unwrap_or((rest, ""));
        let values = values
            .strip_suffix(')')
            .map(|values| values.split(',').map(|value| value.trim().to_owned()).collect());
        match (word.trim(), values) {
            ("in", Some(values)) => (key, Test::In(values)),
            ("notin", Some(values)) => (key, Test::NotIn(values)),
            (other, _) => {
                return Err(wrong(&format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")));
            }
        }
    } else {
        (text, Test::Exists)
    };
    let key = key.trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if key.is_empty() || !key.chars().all(allowed) {
        return Err(wrong(&format!("`{key}` is no label")));
    }
    Ok(Requirement { key: key.to_owned(), test: condition })
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_fields(text: &str) -> Result<Vec<FieldRequirement>, Refusal> {
    let parse = |part: &str| {
        let (field, value, equal) = if let Some((field, value)) = part.split_once("!=") {
            (field, value, false)
        } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (field, value, true)
        } else {
            return Err(Refusal::bad_request(format!(
                "invalid selector: '{part}'; can't understand '{part}'"
            )));
        };
        let field = match field {
            "metadata.name" => "name",
            "metadata.namespace" => "namespace",
            _ => {
                return Err(Refusal::bad_request(format!(
                    "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                )));
            }
        };
        Ok(FieldRequirement { field, value: value.to_owned(), equal })
    };
    text.split(',').filter(|part| !part.is_empty()).map(parse).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Selector;

    #[track_caller]
    fn check(labels: &str, fields: &str, wanted: bool) {
        let object =
            json!({"metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web", "a/b": "1"}}});
        let selector = Selector::parse(None, labels, fields).unwrap();
        assert_eq!(selector.matches(&object), wanted, "{labels} {fields}");
    }

    #[test]
    fn every_form_of_a_selector_is_understood() {
        for (labels, wanted) in [
            ("app=web", true),
            ("app==web", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app in (x, web)", true),
            ("app notin (x,web)", false),
            ("app in (web),a/b=1", true),
            ("app=web,a/b=2", false),
            ("", true),
        ] {
            check(labels, "", wanted);
        }
        check("", "metadata.name=web,metadata.namespace!=default", true);
        check("", "metadata.name!=web", false);
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for (labels, fields) in
            [("a b", ""), ("app in web", ""), ("=x", ""), ("", "spec.x=1"), ("", "metadata.name")]
        {
            assert!(Selector::parse(None, labels, fields).is_err(), "{labels} {fields}");
        }
    }
}
