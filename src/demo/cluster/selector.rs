//! Label and field selectors.

use serde_json::Value;

use super::refusal::Refusal;
use crate::types;

/// Which objects a list or watch is about.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    namespace: Option<String>,
    labels: Option<types::Selector>,
    fields: Vec<FieldRequirement>,
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
        let labels = types::Selector::parse(labels)
            .map_err(|why| Refusal::bad_request(format!("unable to parse requirement: {why}")))?;
        Ok(Self {
            namespace,
            labels: Some(labels).filter(|labels| !labels.is_empty()),
            fields: parse_fields(fields)?,
        })
    }

    /// Whether it leaves out anything but other namespaces.
    pub(super) fn narrows(&self) -> bool {
        self.labels.is_some() || !self.fields.is_empty()
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or("");
        self.namespace.as_deref().is_none_or(|wanted| wanted == text("namespace"))
            && self
                .labels
                .as_ref()
                .is_none_or(|labels| labels.matches(|key| metadata["labels"][key].as_str()))
            && self.fields.iter().all(|wanted| (text(wanted.field) == wanted.value) == wanted.equal)
    }
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
    fn labels_and_fields_both_have_to_match() {
        check("app=web", "", true);
        check("!app", "", false);
        check("app in (x, web),a/b=1", "metadata.namespace!=default", true);
        check("app", "metadata.namespace!=shop", false);
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
