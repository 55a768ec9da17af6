//! Any kind, as far as it follows the conventions of conditions, phases and references.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Conditions, Lenient, Parts, Wellness, is_behind, read};
use crate::{
    diff::Text,
    types::{Facts, Health},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    #[serde(default)]
    observed_generation: Lenient<i64>,
    #[serde(borrow, default)]
    conditions: Conditions<'a>,
    #[serde(borrow, default)]
    health: HealthWord<'a>,
    #[serde(borrow, default)]
    phase: Lenient<Text<'a>>,
    #[serde(borrow, default)]
    state: Lenient<Text<'a>>,
    #[serde(borrow, default)]
    binding: Lenient<Named<'a>>,
}

/// How an object is in its own word: a text, or an object that has it, as an Application of Argo CD and those who borrowed from it.
#[derive(Default)]
struct HealthWord<'a> {
    status: Text<'a>,
    message: Text<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for HealthWord<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct ArgoHealth<'a> {
            #[serde(borrow, default)]
            status: Lenient<Text<'a>>,
            #[serde(borrow, default)]
            message: Lenient<Text<'a>>,
        }
        let part = Some(<&RawValue>::deserialize(deserializer)?);
        let text = read::<Text<'a>>(part).map(|status| Self { status, ..Self::default() });
        let argo = || {
            let ArgoHealth { status, message } = read(part)?;
            Some(Self { status: status.0.unwrap_or_default(), message: message.0.unwrap_or_default() })
        };
        Ok(text.or_else(argo).unwrap_or_default())
    }
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
}

/// Facts about an object of any kind.
pub(super) fn of_custom(parts: Parts<'_>) -> Facts {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        #[serde(default)]
        replicas: Lenient<i32>,
        #[serde(borrow, default)]
        write_connection_secret_to_ref: Lenient<Named<'a>>,
        #[serde(borrow, default)]
        secret_name: Lenient<Text<'a>>,
    }
    let spec = read::<Spec<'_>>(parts.spec).unwrap_or_default();
    // A list would be taken for the fields in their order.
    let status = read::<Status<'_>>(parts.status.filter(|status| status.get().starts_with('{')));
    let written = spec.write_connection_secret_to_ref.0.map(|own| own.name);
    let bound = status.as_ref().and_then(|status| status.binding.0.as_ref()).map(|own| own.name.clone());
    let names = [written, bound, spec.secret_name.0].into_iter().flatten();
    let connection_secret = names.map(|name| name.0).find(|name| !name.is_empty()).map(Into::into);
    let wellness = match &status {
        None => Wellness::no_status(),
        Some(status) if is_behind(status.observed_generation.0, parts.generation) => Wellness::unseen(),
        Some(status) => wellness(status),
    };
    Facts { replicas: spec.replicas.0, connection_secret, ..wellness.into_facts() }
}

fn wellness(status: &Status<'_>) -> Wellness {
    let conditions = &status.conditions;
    // Whoever gives up says so, whatever else is said.
    if let Some(stalled) = conditions.when("Stalled", "True") {
        return Wellness::new(Health::Unhealthy, stalled.words());
    }
    let named = ["Ready", "Available", "Healthy", "Succeeded"].iter().find_map(|name| conditions.get(name));
    let busy =
        ["Reconciling", "Issuing", "Progressing"].iter().find_map(|name| conditions.when(name, "True"));
    let works = match named {
        None => return by_words(status, busy.map(super::Condition::words)),
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
        (Health::Healthy, None, Some(busy)) if busy.r#type.0 != "Progressing" => {
            Wellness::progressing(Health::Healthy, busy.words())
        }
        (Health::Unhealthy | Health::Unknown, _, Some(_)) => {
            Wellness::progressing(works.health, works.message)
        }
        // Until its controller gives up, or says that something is wrong, it is on its way.
        (Health::Unhealthy, None, None) if conditions.when("Ready", "False").is_some() => {
            Wellness::progressing(works.health, works.message)
        }
        (_, _, _) => works,
    }
}

/// Without a condition that tells, there may be a word for it.
fn by_words(status: &Status<'_>, busy: Option<String>) -> Wellness {
    let text = |own: &Lenient<Text<'_>>| own.0.as_ref().map_or_else(String::new, |own| own.0.to_string());
    let words = [status.health.status.0.to_string(), text(&status.phase), text(&status.state)];
    let words = || words.iter().filter(|word| !word.is_empty());
    let message = &*status.health.message.0;
    if let Some(wellness) = words().find_map(|word| by_word(word, message)) {
        return wellness;
    }
    match (words().next(), busy) {
        (Some(word), _) => {
            Wellness::new(Health::Unknown, format!("nobody knows what its phase {word} means"))
        }
        (None, Some(message)) => Wellness::progressing(Health::Unknown, message),
        (None, None) => Wellness::new(Health::Unknown, "its status has no condition Ready or Available"),
    }
}

/// What a word means; none where nobody knows.
fn by_word(word: &str, message: &str) -> Option<Wellness> {
    Some(match word.to_ascii_lowercase().as_str() {
        "healthy" | "ready" | "available" | "active" | "running" | "bound" | "established" | "green" => {
            Wellness::healthy()
        }
        "succeeded" | "completed" | "complete" => Wellness::completed(),
        "progressing" | "pending" | "creating" | "provisioning" | "updating" | "reconciling"
        | "inprogress" => Wellness::progressing(Health::Degraded, message),
        "suspended" | "paused" => Wellness::suspended(message),
        "degraded" | "yellow" => Wellness::new(Health::Degraded, message),
        "failed" | "error" | "failure" | "lost" | "unhealthy" | "red" => {
            Wellness::new(Health::Unhealthy, message)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{
        types::{Health, Phase},
        watch::facts::{check_of, facts_of},
    };

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
        let progressing = Some(Phase::Progressing);
        check(&[("Available", "True"), ("Ready", "False")], Health::Unhealthy, progressing, "Ready is False");
        check(&[("Ready", "False"), ("Issuing", "True")], Health::Unhealthy, progressing, "Ready is False");
        check(&[("Ready", "True"), ("Issuing", "True")], Health::Healthy, progressing, "Issuing is True");
        // It was given up, or says what is wrong.
        check(&[("Ready", "False"), ("Stalled", "True")], Health::Unhealthy, None, "Stalled is True");
        check(&[("Ready", "False"), ("Synced", "False")], Health::Unhealthy, None, "Ready is False");
        check(&[("Ready", "False"), ("Degraded", "True")], Health::Unhealthy, None, "Ready is False");
        check(&[("Available", "False")], Health::Unhealthy, None, "Available is False");
        check(&[("Ready", "Unknown")], Health::Unknown, None, "Ready is Unknown");
        check(&[("Ready", "True"), ("Synced", "False")], Health::Degraded, None, "Synced is False");
        check(&[("Ready", "True"), ("Degraded", "True")], Health::Degraded, None, "Degraded is True");
        check(&[("Ready", "True"), ("Stalled", "True")], Health::Unhealthy, None, "Stalled is True");
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
    fn what_looks_otherwise_hides_nothing_beside_it() {
        let check = check_of("example.com", "Database");
        let spec = json!({});
        check(&spec, &json!({"health": "green", "phase": "Ready"}), Health::Healthy, None, "");
        check(&spec, &json!({"health": "yellow", "phase": "Ready"}), Health::Degraded, None, "");
        check(&spec, &json!({"health": "red", "phase": "Ready"}), Health::Unhealthy, None, "");
        check(&spec, &json!({"health": "unknown", "phase": "Ready"}), Health::Healthy, None, "");
        for odd in [json!(7), json!(null), json!("text"), json!([1]), json!({"name": [], "status": {}})] {
            let mut status = json!({"phase": "Ready"});
            for name in ["health", "binding", "conditions", "state", "observedGeneration"] {
                status[name] = odd.clone();
            }
            check(&spec, &status, Health::Healthy, None, "");
        }
        let ready = condition("Ready", "True");
        let odd = json!({"conditions": [7, {"type": "Ready", "status": true}, {"type": {}}, ready]});
        check(&spec, &odd, Health::Healthy, None, "");
        let odd = json!({"replicas": "three", "writeConnectionSecretToRef": "a", "secretName": "c"});
        let facts = facts_of("example.com", "Database", &odd, &json!({"health": "green"}));
        assert_eq!((facts.replicas, facts.connection_secret.as_deref()), (None, Some("c")));
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
