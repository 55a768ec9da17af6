//! What the API says about objects, as commands read it.

use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use super::{
    asked::{Asked, Place, Sought},
    unanswered::Unanswered,
    unseen::Unseen,
    values::Wish,
};
use crate::types::UnknownReason;

/// One claim.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resource {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    #[serde(rename = "resourceName")]
    pub(super) name: String,
    pub(super) source: String,
    pub(super) verdict: String,
    pub(super) reason: Option<String>,
    pub(super) drift_detected: bool,
    pub(super) onset: Option<Timestamp>,
    pub(super) severity: Option<String>,
    pub(super) expectation: Option<String>,
    pub(super) advice: Option<String>,
    pub(super) actor: Option<String>,
    pub(super) manager: Option<String>,
    pub(super) declared_by: Vec<DeclaredBy>,
    pub(super) differences: Vec<Difference>,
    pub(super) ignored: Vec<Difference>,
    pub(super) blind_fields: Vec<String>,
}

/// One declaration of an object.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct DeclaredBy {
    pub(super) address: String,
    pub(super) state: String,
}

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Difference {
    pub(super) path: String,
    pub(super) expected: String,
    pub(super) actual: String,
    pub(super) actor: String,
    pub(super) manager: Option<String>,
    pub(super) onset: Option<Timestamp>,
    pub(super) rules: Vec<String>,
    pub(super) ignored_by: Option<String>,
}

/// A claim, and all that the API said about it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) resource: Resource,
    pub(super) json: Value,
}

#[derive(Deserialize)]
struct List {
    resources: Vec<Value>,
}

impl Resource {
    /// Why it could not be judged, in words and with the API's own.
    pub(super) fn why(&self) -> Option<String> {
        let reason = self.reason.as_deref()?;
        // An exporter that is newer than we are may have others.
        let words = UnknownReason::parse(reason)
            .map_or("for a reason that is not known here", UnknownReason::description);
        Some(format!("{words} ({reason})"))
    }

    /// Whether it is known to be off now. What cannot be compared may have been so before.
    pub(super) fn is_drifted(&self) -> bool {
        matches!(&*self.verdict, "drifted" | "missing" | "replaced")
    }

    /// Whether people have to look at it.
    pub(super) fn is_off(&self) -> bool {
        self.drift_detected || self.is_drifted() || self.verdict == "unknown"
    }

    /// Whether anything declares it.
    pub(super) fn is_declared(&self) -> bool {
        self.source != "none" && self.verdict != "no_baseline"
    }

    /// Its API group; empty for the core group.
    pub(super) fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// `deployment.apps/web`, as kubectl writes a name.
    pub(super) fn kubectl_name(&self) -> String {
        let dot = if self.group().is_empty() { "" } else { "." };
        format!("{}{dot}{}/{}", self.kind.to_lowercase(), self.group(), self.name)
    }

    /// What tells one object from another.
    pub(super) fn object(&self) -> (&str, &str, &str, &str) {
        (self.group(), &self.kind, &self.namespace, &self.name)
    }
}

/// Text that a terminal shows as it is, whatever somebody has put into a name or a value.
pub(super) fn harmless(text: &str) -> String {
    let shown = |c: char| {
        if is_odd(c) && !"\n\t".contains(c) { c.escape_default().collect() } else { c.to_string() }
    };
    text.chars().map(shown).collect()
}

/// Whether a sign does something to the others around it, such as turning their order.
fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON that means the same and that a terminal shows as it is.
pub(super) fn harmless_json(text: &str) -> String {
    // Only in texts can there be such a sign, and there JSON has another way to write it.
    let shown = |c: char| {
        if is_odd(c) && c != '\n' { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }
    };
    text.chars().map(shown).collect()
}

/// Percent-encodes a part of a path or a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// One look cannot know since when something is so that does not tell itself: such a time is that of the look.
pub(super) fn leave_out_unknown_times(json: &mut Value, looked_from: Option<Timestamp>) {
    let Some(begun) = looked_from else { return };
    let is_unknown = |text: &str| text.parse::<Timestamp>().is_ok_and(|time| time >= begun);
    match json {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "onset" && value.as_str().is_some_and(is_unknown) {
                    *value = Value::Null;
                } else {
                    leave_out_unknown_times(value, looked_from);
                }
            }
        }
        Value::Array(values) => {
            values.iter_mut().for_each(|value| leave_out_unknown_times(value, looked_from));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Asks for all that is wished for, in the order of the wishes; with what it is not known of whether it belongs to that.
pub(super) async fn fetch(asked: &mut Asked) -> Result<(Vec<Row>, Vec<Unseen>), Unanswered> {
    let mut rows = if asked.sought.is_empty() {
        fetch_from(asked, &asked.place, None).await?
    } else {
        fetch_sought(asked).await?
    };
    let unseen = match &mut asked.labels {
        Some(labels) => labels.keep(&mut rows).await?,
        None => Vec::new(),
    };
    Ok((rows, unseen))
}

async fn fetch_sought(asked: &mut Asked) -> Result<Vec<Row>, Unanswered> {
    let mut rows = Vec::new();
    for at in 0..asked.sought.len() {
        let Sought { wish, place, .. } = &asked.sought[at];
        let mut found = fetch_from(asked, place, Some(wish)).await?;
        // A running exporter is not asked which kinds have namespaces; as with kubectl, those without one are meant anywhere.
        if found.is_empty() && !asked.exporter.is_here() && place.namespace().is_some() {
            found = fetch_from(asked, &Place::Unscoped, Some(wish)).await?;
        }
        asked.sought[at].is_found = !found.is_empty();
        rows.extend(found);
    }
    Ok(rows)
}

async fn fetch_from(asked: &Asked, place: &Place, wish: Option<&Wish>) -> Result<Vec<Row>, Unanswered> {
    let namespace = place.namespace().unwrap_or("*");
    let mut path = format!("/v1/resources?namespace={}", encoded(namespace));
    if let Some(Wish { kind, name }) = wish {
        path.extend(["&resourceType=", &encoded(kind)]);
        path.extend(name.iter().map(|name| format!("&resourceName={}", encoded(name))));
    }
    let List { mut resources } = asked.exporter.get_json(&path).await?;
    resources.iter_mut().for_each(|own| leave_out_unknown_times(own, asked.looked_from));
    let strange = |error| format!("{} says something else: {error}", asked.exporter.name());
    let row = |json: Value| Ok(Row { resource: Resource::deserialize(&json).map_err(strange)?, json });
    let mut rows = resources.into_iter().map(row).collect::<Result<Vec<Row>, String>>()?;
    rows.retain(|row| *place != Place::Unscoped || row.resource.namespace.is_empty());
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{harmless, harmless_json, leave_out_unknown_times};

    #[test]
    fn one_look_tells_no_time_that_is_its_own() {
        let claim = json!({"onset": "2026-01-01T00:00:00Z", "differences": [
            {"path": "a", "onset": "2026-01-01T00:00:00Z"}, {"path": "b", "onset": "2026-01-02T00:00:00.5Z"}]});
        let begun: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let mut told = claim.clone();
        leave_out_unknown_times(&mut told, Some(begun));
        let mut wanted = claim.clone();
        wanted["differences"][1]["onset"] = Value::Null;
        assert_eq!(told, wanted);
        leave_out_unknown_times(&mut wanted, None);
        assert_eq!(told, wanted, "an exporter that goes on looking knows");
    }

    #[test]
    fn no_text_tells_a_terminal_what_to_do() {
        let name = "a\u{1b}[31m\u{9b}2J\u{7f}";
        assert_eq!(harmless(name), "a\\u{1b}[31m\\u{9b}2J\\u{7f}");
        let value = json!({"name": name, "two": "lines\n\tand ü"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = harmless_json(&text);
        assert!(text.contains('\u{9b}') && !shown.chars().any(|c| c.is_control() && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        let yaml = serde_saphyr::to_string(&value).unwrap();
        assert!(!yaml.chars().any(|c| c.is_control() && !"\n\t".contains(c)), "{yaml:?}");
    }
}
