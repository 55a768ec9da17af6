//! What an object asks for, what that costs, and what drift costs.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::view::Text;
use crate::{
    config::Prices,
    diff::Quantity,
    engine::Entry,
    types::{Difference, Facts, FieldClass, FieldPath, RedactionKey, Segment},
};

/// What an object asks for, all replicas together.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ResourceUsage")]
pub(super) struct UsageView {
    /// `250m`.
    cpu_usage: Option<Text<Millis>>,
    /// `512Mi`.
    memory_usage: Option<Text<Size>>,
    /// `5Gi`.
    storage_usage: Option<Text<Size>>,
    replicas: Option<i32>,
    /// `requests`: what is requested, not what is used.
    basis: &'static str,
}

/// Thousandths of a core, as Kubernetes writes them.
#[derive(Debug)]
struct Millis(u64);

/// Bytes, as Kubernetes writes them, in the largest unit in which they are a whole number.
#[derive(Debug)]
struct Size(u64);

/// What an object asks for: so much for each of so many replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Demand {
    replicas: u64,
    /// Thousandths of a core.
    cpu: u64,
    /// Bytes.
    memory: u64,
    /// Bytes.
    storage: u64,
    load_balancers: u32,
}

/// What an object asks for; none for what runs nothing and stores nothing.
pub(super) fn usage(facts: &Facts) -> Option<UsageView> {
    if facts.replicas.is_none() && !asks(facts) {
        return None;
    }
    let all = replicas(facts);
    let total = |own: Option<u64>| own.map(|own| own.saturating_mul(all));
    Some(UsageView {
        cpu_usage: total(facts.cpu_request).map(|own| Text(Millis(own))),
        memory_usage: total(facts.memory_request).map(|own| Text(Size(own))),
        storage_usage: total(facts.storage_request).map(|own| Text(Size(own))),
        replicas: facts.replicas,
        basis: "requests",
    })
}

/// What an object costs in a month; none for what costs nothing by nature, or does not tell what it asks for.
pub(super) fn monthly_cost(facts: &Facts, prices: &Prices) -> Option<f64> {
    (asks(facts) || facts.load_balancer).then(|| cents(Demand::of(facts).monthly(prices)))
}

/// Whether it tells what one of its replicas asks for.
fn asks(facts: &Facts) -> bool {
    [facts.cpu_request, facts.memory_request, facts.storage_request].iter().any(Option::is_some)
}

/// What the differences of a claim cost in a month, more or less than what is declared; none where that is not known.
pub(super) fn drift_cost(entry: &Entry, prices: &Prices) -> Option<f64> {
    if entry.claim.verdict.drifted()? {
        let actual = Demand::of(&entry.object.facts);
        let differences = &entry.claim.verdict.episode()?.differences;
        let declared = actual.as_declared(differences)?;
        if declared.replicas != actual.replicas && !asks(&entry.object.facts) {
            return None;
        }
        Some(cents(actual.monthly(prices) - declared.monthly(prices)))
    } else {
        Some(0.0)
    }
}

/// A Pod or a claim on a volume is one.
fn replicas(facts: &Facts) -> u64 {
    facts.replicas.map_or(1, |replicas| u64::try_from(replicas).unwrap_or(0))
}

const HOURS: f64 = 730.0;
const GIB: f64 = 1_073_741_824.0;

impl Demand {
    fn of(facts: &Facts) -> Self {
        Self {
            replicas: replicas(facts),
            cpu: facts.cpu_request.unwrap_or(0),
            memory: facts.memory_request.unwrap_or(0),
            storage: facts.storage_request.unwrap_or(0),
            load_balancers: u32::from(facts.load_balancer),
        }
    }

    fn monthly(self, prices: &Prices) -> f64 {
        let each = number(self.cpu) / 1000.0 * prices.cpu_core_hour * HOURS
            + number(self.memory) / GIB * prices.memory_gib_hour * HOURS
            + number(self.storage) / GIB * prices.storage_gib_month;
        number(self.replicas) * each + f64::from(self.load_balancers) * prices.load_balancer_hour * HOURS
    }

    /// The same as it would be without these differences; none where one of them does not tell.
    fn as_declared(self, differences: &[Difference]) -> Option<Self> {
        let mut declared = self;
        for difference in differences {
            let finding = &difference.finding;
            if matches!(finding.class, FieldClass::Hash | FieldClass::Existence) {
                return None;
            }
            let path: FieldPath = finding.path.parse().ok()?;
            let expected = &*finding.expected;
            match Part::of(&path) {
                Some(Part::Replicas) => {
                    declared.replicas = if expected.is_empty() { 1 } else { expected.parse().ok()? }
                }
                Some(Part::ServiceType) => declared.load_balancers = u32::from(expected == "LoadBalancer"),
                Some(Part::Whole) => return None,
                Some(Part::Amounts(rest)) => {
                    let (there, wanted) = (amounts(rest, &finding.actual)?, amounts(rest, expected)?);
                    let put = |own: u64, at: usize| own.saturating_sub(there[at]).saturating_add(wanted[at]);
                    (declared.cpu, declared.memory) = (put(declared.cpu, 0), put(declared.memory, 1));
                    declared.storage = put(declared.storage, 2);
                }
                None => {}
            }
        }
        Some(declared)
    }
}

/// A part of an object that costs something.
enum Part<'a> {
    Replicas,
    ServiceType,
    /// Several of them at once, of which nobody has counted the single ones.
    Whole,
    /// The way from a container or a claim to what differs.
    Amounts(&'a [Segment]),
}

impl<'a> Part<'a> {
    fn of(path: &'a FieldPath) -> Option<Self> {
        let segments = path.segments();
        let is =
            |at: usize, name: &str| segments.get(at).is_some_and(|own| *own == Segment::Field(name.into()));
        if is(0, "spec") && segments.len() == 2 {
            if is(1, "replicas") {
                return Some(Self::Replicas);
            }
            if is(1, "type") {
                return Some(Self::ServiceType);
            }
        }
        if is(0, "spec") && is(1, "resources") {
            return Some(Self::Amounts(&segments[1..]));
        }
        // Elements of these lists cost something; what stands after them is the way within one.
        let list = (0..segments.len()).find(|at| is(*at, "containers") || is(*at, "volumeClaimTemplates"));
        let Some(list) = list else {
            let holds_pods =
                |way: &[&str]| segments.len() <= way.len() && (0..segments.len()).all(|at| is(at, way[at]));
            return TEMPLATES.iter().any(|way| holds_pods(way)).then_some(Self::Whole);
        };
        let Some(rest) = segments.get(list + 2..) else { return Some(Self::Whole) };
        let rest = if is(list, "volumeClaimTemplates") && !rest.is_empty() { &rest[1..] } else { rest };
        Some(Self::Amounts(rest))
    }
}

/// The ways to where containers are described.
const TEMPLATES: &[&[&str]] =
    &[&["spec", "template", "spec"], &["spec", "jobTemplate", "spec", "template", "spec"]];

/// CPU, memory and storage that the value at this place requests; none where it may not be told.
fn amounts(way: &[Segment], text: &str) -> Option<[u64; 3]> {
    // Nothing else of a container costs anything, such as its environment.
    let is = |at: usize, name: &str| way.get(at).is_none_or(|own| *own == Segment::Field(name.into()));
    if !(is(0, "resources") && is(1, "requests")) {
        return Some([0; 3]);
    }
    if RedactionKey::is_digest(text) {
        return None;
    }
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    let mut whole = value;
    for segment in way.iter().rev() {
        let Segment::Field(name) = segment else { return Some([0; 3]) };
        whole = Value::Object(Map::from_iter([(name.to_string(), whole)]));
    }
    let requests = |of: &Value| of["resources"]["requests"].clone();
    let requests = match requests(&whole) {
        Value::Null => requests(&whole["spec"]),
        own => own,
    };
    let amount = |name: &str, unit: fn(&Quantity) -> u64| match &requests[name] {
        Value::String(text) => Quantity::parse(text).ok().map_or(0, |own| unit(&own)),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok().map_or(0, |own| unit(&own)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => 0,
    };
    Some([
        amount("cpu", Quantity::millis),
        amount("memory", Quantity::units),
        amount("storage", Quantity::units),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "an estimate in money does not need the last bits")]
fn number(value: u64) -> f64 {
    value as f64
}

fn cents(amount: f64) -> f64 {
    // Never -0, which would be written as such.
    (amount * 100.0).round() / 100.0 + 0.0
}

impl fmt::Display for Millis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}m", self.0)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
        let fits = |size: u64| self.0 >= size && self.0.is_multiple_of(size);
        let (suffix, size) = UNITS.into_iter().find(|(_, size)| fits(*size)).unwrap_or(("", 1));
        write!(formatter, "{}{suffix}", self.0 / size)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::{Demand, Difference, Facts, FieldClass, Prices};
    use crate::types::{Actor, Advice, Expectation, Finding, RedactionKey, Severity};

    const NOW: Demand =
        Demand { replicas: 3, cpu: 500, memory: 1 << 30, storage: 10 << 30, load_balancers: 1 };

    fn difference(path: &str, expected: &str, actual: &str) -> Difference {
        let class = if path == "spec" { FieldClass::Hash } else { FieldClass::Other };
        let finding = Finding {
            path: path.into(),
            class,
            expected: expected.into(),
            actual: actual.into(),
            writer: None,
        };
        Difference {
            finding,
            severity: Severity::Warning,
            expectation: Expectation::Unexpected,
            advice: Advice::AlertOnly,
            actor: Actor::Other,
            onset: Timestamp::UNIX_EPOCH,
            ignored_by: None,
            matched: Arc::default(),
        }
    }

    #[track_caller]
    fn check(path: &str, (expected, actual): (&str, &str), declared: Option<Demand>) {
        assert_eq!(NOW.as_declared(&[difference(path, expected, actual)]), declared, "{path}");
    }

    #[test]
    fn what_is_declared_follows_from_what_is_there_and_differs() {
        let web = "spec.template.spec.containers[name=web]";
        check("spec.replicas", ("1", "3"), Some(Demand { replicas: 1, ..NOW }));
        check("spec.replicas", ("", "3"), Some(Demand { replicas: 1, ..NOW }));
        check("spec.type", ("ClusterIP", "LoadBalancer"), Some(Demand { load_balancers: 0, ..NOW }));
        check(&format!("{web}.resources.requests.cpu"), ("250m", "500m"), Some(Demand { cpu: 250, ..NOW }));
        check(
            &format!("{web}.resources.requests"),
            (r#"{"cpu":"1"}"#, r#"{"cpu":"500m","memory":"1Gi"}"#),
            Some(Demand { cpu: 1000, memory: 0, ..NOW }),
        );
        check(&format!("{web}.resources.limits.cpu"), ("1", "2"), Some(NOW));
        let side = r#"{"name":"side","resources":{"requests":{"cpu":"100m"}}}"#;
        check("spec.template.spec.containers[name=side]", ("", side), Some(Demand { cpu: 400, ..NOW }));
        check("spec.resources.requests.storage", ("5Gi", "10Gi"), Some(Demand { storage: 5 << 30, ..NOW }));
        check(
            "spec.volumeClaimTemplates[0].spec.resources.requests.storage",
            ("5Gi", "10Gi"),
            Some(Demand { storage: 5 << 30, ..NOW }),
        );
        check("metadata.labels.team", ("a", "b"), Some(NOW));
        for whole in [
            "spec.template",
            "spec.template.spec",
            "spec.template.spec.containers",
            "spec.jobTemplate",
            "spec.volumeClaimTemplates",
            "spec.jobTemplate.spec.template.spec.containers",
        ] {
            check(whole, ("[]", "{}"), None);
        }
        check("spec.template.metadata", ("{}", "{}"), Some(NOW));
        check("spec", ("aa", "bb"), None);
        let sealed = RedactionKey::new([1; 32]).digest(b"250m");
        check(&format!("{web}.resources.requests.cpu"), (&sealed, "500m"), None);
        check(&format!("{web}.resources"), (&sealed, "{}"), None);
        check(web, ("", &sealed), None);
        for free in ["env[name=PASSWORD].value", "env", "resources.limits.cpu"] {
            check(&format!("{web}.{free}"), (&sealed, "x"), Some(NOW));
        }
    }

    #[test]
    fn what_is_not_told_costs_nobody_knows_how_much() {
        let prices = Prices { cpu_core_hour: 1.0, ..Prices::default() };
        let replicas = Facts { replicas: Some(3), ..Facts::default() };
        assert_eq!(super::monthly_cost(&replicas, &prices), None);
        let asking = Facts { cpu_request: Some(0), ..replicas };
        assert_eq!(super::monthly_cost(&asking, &prices), Some(0.0));
        assert_eq!(
            super::monthly_cost(&Facts { load_balancer: true, ..Facts::default() }, &prices),
            Some(0.0)
        );
    }

    #[test]
    fn a_month_costs_what_all_replicas_ask_for() {
        let prices = Prices {
            currency: "EUR".into(),
            cpu_core_hour: 0.02,
            memory_gib_hour: 0.003,
            storage_gib_month: 0.1,
            load_balancer_hour: 0.01,
        };
        // 3 × (0.5 × 14.6 + 2.19 + 1) + 7.3
        let cost = super::cents(NOW.monthly(&prices));
        assert!((cost - 38.77).abs() < 0.001, "{cost}");
        assert_eq!(super::cents(-0.0001).to_string(), "0");
    }
}
