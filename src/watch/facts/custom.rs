//! Any kind, as far as it follows the conventions of conditions, phases and references.

use serde::Deserialize;

use super::{
    Parts,
    wellness::{Conditions, Wellness, is_behind, read},
};
use crate::{
    compare::Text,
    model::{Facts, Health},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    observed_generation: Option<i64>,
    #[serde(borrow, default)]
    conditions: Conditions<'a>,
    #[serde(borrow)]
    health: Option<ArgoHealth<'a>>,
    #[serde(borrow, default)]
    phase: Word<'a>,
    #[serde(borrow, default)]
    state: Word<'a>,
    #[serde(borrow)]
    binding: Option<Named<'a>>,
}

/// How an Application of Argo CD is, and what others borrowed from it.
#[derive(Deserialize)]
struct ArgoHealth<'a> {
    #[serde(borrow, default)]
    status: Word<'a>,
    #[serde(borrow, default)]
    message: Word<'a>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
}

/// A text where there is one: others put objects under the same names.
#[derive(Default)]
struct Word<'a>(Text<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Word<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Any<'a> {
            Text(#[serde(borrow)] std::borrow::Cow<'a, str>),
            Other(serde::de::IgnoredAny),
        }
        Ok(match Any::deserialize(deserializer)? {
            Any::Text(text) => Self(Text(text)),
            Any::Other(_) => Self::default(),
        })
    }
}

/// Facts about an object of any kind.
pub(super) fn of_custom(parts: Parts<'_>) -> Facts {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        replicas: Option<i32>,
        #[serde(borrow)]
        write_connection_secret_to_ref: Option<Named<'a>>,
        #[serde(borrow, default)]
        secret_name: Word<'a>,
    }
    let spec = read::<Spec<'_>>(parts.spec).unwrap_or_default();
    let status = read::<Status<'_>>(parts.status);
    let written = spec.write_connection_secret_to_ref.map(|own| own.name);
    let bound = status.as_ref().and_then(|status| status.binding.as_ref()).map(|own| own.name.clone());
    let names = [written, bound, Some(spec.secret_name.0)].into_iter().flatten();
    let connection_secret = names.map(|name| name.0).find(|name| !name.is_empty()).map(Into::into);
    let wellness = match &status {
        None => Wellness::no_status(),
        Some(status) if is_behind(status.observed_generation, parts.generation) => Wellness::unseen(),
        Some(status) => wellness(status),
    };
    Facts { replicas: spec.replicas, connection_secret, ..wellness.into_facts() }
}

fn wellness(status: &Status<'_>) -> Wellness {
    let conditions = &status.conditions;
    // Whoever gives up says so, whatever else is said.
    if let Some(stalled) = conditions.when("Stalled", "True") {
        return Wellness::new(Health::Unhealthy, stalled.words());
    }
    let named = ["Ready", "Available", "Healthy", "Succeeded"].iter().find_map(|name| conditions.get(name));
    let busy = conditions.when("Reconciling", "True").or_else(|| conditions.when("Progressing", "True"));
    let works = match named {
        None => return by_words(status, busy.map(super::wellness::Condition::words)),
        Some(condition) => match &*condition.status.0 {
            "True" => Wellness::healthy(),
            "False" => Wellness::new(Health::Unhealthy, condition.words()),
            _ => Wellness::new(Health::Unknown, condition.words()),
        },
    };
    // It works, and not as it should: what is declared could not be applied, or it says itself that something is wrong.
    let flawed = conditions.when("Synced", "False").or_else(|| conditions.when("Degraded", "True"));
    match (works.health, flawed, busy) {
        (Health::Healthy, Some(flaw), _) => Wellness::new(Health::Degraded, flaw.words()),
        (Health::Healthy, None, Some(busy)) if busy.r#type.0 == "Reconciling" => {
            Wellness::progressing(Health::Healthy, busy.words())
        }
        (Health::Unhealthy | Health::Unknown, _, Some(_)) => {
            Wellness::progressing(works.health, works.message)
        }
        (_, _, _) => works,
    }
}

/// Without a condition that tells, there may be a word for it.
fn by_words(status: &Status<'_>, busy: Option<String>) -> Wellness {
    let (argo, message) =
        status.health.as_ref().map_or(("", ""), |own| (&*own.status.0.0, &*own.message.0.0));
    let words = [argo, &*status.phase.0.0, &*status.state.0.0];
    let Some(word) = words.into_iter().find(|word| !word.is_empty()) else {
        return match busy {
            Some(message) => Wellness::progressing(Health::Unknown, message),
            None => Wellness::new(Health::Unknown, "its status has no condition Ready or Available"),
        };
    };
    match word.to_ascii_lowercase().as_str() {
        "healthy" | "ready" | "available" | "active" | "running" | "bound" | "established" => {
            Wellness::healthy()
        }
        "succeeded" | "completed" | "complete" => Wellness::completed(),
        "progressing" | "pending" | "creating" | "provisioning" | "updating" | "reconciling"
        | "inprogress" => Wellness::progressing(Health::Degraded, message),
        "suspended" | "paused" => Wellness::suspended(message),
        "degraded" => Wellness::new(Health::Degraded, message),
        "failed" | "error" | "failure" | "lost" | "unhealthy" => Wellness::new(Health::Unhealthy, message),
        _ => Wellness::new(Health::Unknown, format!("nobody knows what its phase {word} means")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{check_of, facts_of};
    use crate::model::{Health, Phase};

    fn condition(name: &str, status: &str) -> Value {
        json!({"type": name, "status": status, "message": format!("{name} is {status}")})
    }

    #[track_caller]
    fn check(conditions: &[(&str, &str)], health: Health, phase: Option<Phase>, message: &str) {
        let conditions: Vec<Value> =
            conditions.iter().map(|(name, status)| condition(name, status)).collect();
        let check = check_of("example.com", "Database");
        check(
            &json!({}),
            &json!({"observedGeneration": 2, "conditions": conditions}),
            health,
            phase,
            message,
        );
    }

    #[test]
    fn any_kind_is_as_well_as_its_conditions_say() {
        check(&[("Available", "True")], Health::Healthy, None, "");
        check(&[("Available", "True"), ("Ready", "False")], Health::Unhealthy, None, "Ready is False");
        check(&[("Ready", "Unknown")], Health::Unknown, None, "Ready is Unknown");
        check(&[("Ready", "True"), ("Synced", "False")], Health::Degraded, None, "Synced is False");
        check(&[("Ready", "True"), ("Degraded", "True")], Health::Degraded, None, "Degraded is True");
        check(&[("Ready", "True"), ("Stalled", "True")], Health::Unhealthy, None, "Stalled is True");
        let progressing = Some(Phase::Progressing);
        check(
            &[("Ready", "False"), ("Reconciling", "True")],
            Health::Unhealthy,
            progressing,
            "Ready is False",
        );
        check(
            &[("Ready", "True"), ("Reconciling", "True")],
            Health::Healthy,
            progressing,
            "Reconciling is True",
        );
        check(&[("Ready", "True"), ("Progressing", "True")], Health::Healthy, None, "");
        check(&[("Reconciling", "True")], Health::Unknown, progressing, "Reconciling is True");
        check(&[("Ready", "True"), ("Stalled", "False"), ("Degraded", "False")], Health::Healthy, None, "");
    }

    #[test]
    fn without_conditions_a_word_tells() {
        let check = check_of("example.com", "Database");
        let spec = json!({});
        check(&spec, &json!({"phase": "Ready"}), Health::Healthy, None, "");
        check(&spec, &json!({"state": "creating"}), Health::Degraded, Some(Phase::Progressing), "");
        check(&spec, &json!({"phase": "Succeeded"}), Health::Healthy, Some(Phase::Completed), "");
        check(
            &spec,
            &json!({"phase": "Blue"}),
            Health::Unknown,
            None,
            "nobody knows what its phase Blue means",
        );
        check(
            &spec,
            &json!({"state": {"web": {}}}),
            Health::Unknown,
            None,
            "its status has no condition Ready or Available",
        );
        let argo = json!({"health": {"status": "Degraded", "message": "web is down"}, "phase": "Running"});
        check(&spec, &argo, Health::Degraded, None, "web is down");
        check(
            &spec,
            &json!({"observedGeneration": 1, "phase": "Ready"}),
            Health::Unknown,
            Some(Phase::Progressing),
            "its controller has not seen this version yet",
        );
        check(&spec, &json!([]), Health::Unknown, None, "no status");
    }

    #[test]
    fn the_secret_that_tells_how_to_connect_is_named() {
        let secret = |spec: Value, status: Value| {
            facts_of("example.com", "Database", &spec, &status).connection_secret.map(String::from)
        };
        let written = json!({"writeConnectionSecretToRef": {"name": "a"}, "secretName": "c"});
        assert_eq!(secret(written, json!({"binding": {"name": "b"}})).as_deref(), Some("a"));
        assert_eq!(
            secret(json!({"secretName": "c"}), json!({"binding": {"name": "b"}})).as_deref(),
            Some("b")
        );
        assert_eq!(secret(json!({"secretName": "c"}), json!({})).as_deref(), Some("c"));
        assert_eq!(secret(json!({"secretName": {"odd": true}}), json!({})), None);
    }
}
