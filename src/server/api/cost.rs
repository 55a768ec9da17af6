//! Resource requests of objects, their monthly cost, and the cost of drift.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::view::AsString;
use crate::{
    config::Prices,
    diff::Quantity,
    engine::ClaimEntry,
    types::{Difference, FieldClass, FieldPath, FieldValue, ObjectFacts, Segment},
};

/// What an object asks for, all replicas together.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ResourceUsage")]
pub(super) struct UsageView {
    /// `250m`.
    cpu_usage: Option<AsString<MilliCpu>>,
    /// `512Mi`.
    memory_usage: Option<AsString<Bytes>>,
    /// `5Gi`.
    storage_usage: Option<AsString<Bytes>>,
    replicas: Option<i32>,
    /// `requests`: what is requested, not what is used.
    basis: &'static str,
}

/// Formatted as a Kubernetes quantity: `250m`.
#[derive(Debug)]
struct MilliCpu(u64);

/// Formatted as a Kubernetes quantity with the largest binary suffix that keeps it a whole number: `512Mi`.
#[derive(Debug)]
struct Bytes(u64);

/// The resource requests of one replica, and the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Requests {
    replicas: u64,
    /// Millicores.
    cpu: u64,
    /// Bytes.
    memory: u64,
    /// Bytes.
    storage: u64,
    load_balancers: u32,
}

/// `None` for objects that have neither replicas nor requests.
pub(super) fn usage(facts: &ObjectFacts) -> Option<UsageView> {
    if facts.replicas.is_none() && !has_requests(facts) {
        return None;
    }
    let all = replicas(facts);
    let total = |request: Option<u64>| request.map(|request| request.saturating_mul(all));
    Some(UsageView {
        cpu_usage: total(facts.cpu_request).map(|total| AsString(MilliCpu(total))),
        memory_usage: total(facts.memory_request).map(|total| AsString(Bytes(total))),
        storage_usage: total(facts.storage_request).map(|total| AsString(Bytes(total))),
        replicas: facts.replicas,
        basis: "requests",
    })
}

/// `None` for objects without requests, whose cost is zero or unknown.
pub(super) fn monthly_cost(facts: &ObjectFacts, prices: &Prices) -> Option<f64> {
    (has_requests(facts) || facts.load_balancer).then(|| round_to_cents(Requests::new(facts).monthly(prices)))
}

fn has_requests(facts: &ObjectFacts) -> bool {
    [facts.cpu_request, facts.memory_request, facts.storage_request].iter().any(Option::is_some)
}

/// The monthly cost of the live object minus that of the declared one. `None` if the differences do not say what is
/// declared.
pub(super) fn drift_cost(entry: &ClaimEntry, prices: &Prices) -> Option<f64> {
    if entry.claim.verdict.drifted_value()? {
        let actual = Requests::new(entry.object.facts());
        let differences = &entry.claim.verdict.episode()?.differences;
        let declared = actual.as_declared(differences)?;
        if declared.replicas != actual.replicas && !has_requests(entry.object.facts()) {
            return None;
        }
        Some(round_to_cents(actual.monthly(prices) - declared.monthly(prices)))
    } else {
        Some(0.0)
    }
}

/// A Pod or a `PersistentVolumeClaim` counts as one replica.
fn replicas(facts: &ObjectFacts) -> u64 {
    facts.replicas.map_or(1, |replicas| u64::try_from(replicas).unwrap_or(0))
}

const HOURS_PER_MONTH: f64 = 730.0;
const GIB: f64 = 1_073_741_824.0;

impl Requests {
    fn new(facts: &ObjectFacts) -> Self {
        Self {
            replicas: replicas(facts),
            cpu: facts.cpu_request.unwrap_or(0),
            memory: facts.memory_request.unwrap_or(0),
            storage: facts.storage_request.unwrap_or(0),
            load_balancers: u32::from(facts.load_balancer),
        }
    }

    fn monthly(self, prices: &Prices) -> f64 {
        let price = |price: Option<f64>| price.unwrap_or(0.0);
        let each = to_f64(self.cpu) / 1000.0 * price(prices.cpu_core_hour) * HOURS_PER_MONTH
            + to_f64(self.memory) / GIB * price(prices.memory_gib_hour) * HOURS_PER_MONTH
            + to_f64(self.storage) / GIB * price(prices.storage_gib_month);
        to_f64(self.replicas) * each
            + f64::from(self.load_balancers) * price(prices.load_balancer_hour) * HOURS_PER_MONTH
    }

    /// The declared requests: these, with the differences reverted. `None` if a difference does not contain its amounts.
    fn as_declared(self, differences: &[Difference]) -> Option<Self> {
        let mut declared = self;
        for difference in differences {
            let finding = &difference.finding;
            if matches!(finding.class, FieldClass::Hash | FieldClass::Existence) {
                return None;
            }
            match CostField::new(&finding.path) {
                Some(CostField::Replicas) => {
                    declared.replicas = match &finding.expected {
                        FieldValue::Absent | FieldValue::Null => 1,
                        expected => expected.text().parse().ok()?,
                    }
                }
                Some(CostField::ServiceType) => {
                    declared.load_balancers = u32::from(finding.expected.text() == "LoadBalancer");
                }
                Some(CostField::Parent) => return None,
                Some(CostField::Requests(rest)) => {
                    let live = requested_amounts(rest, &finding.actual)?;
                    let declared_amounts = requested_amounts(rest, &finding.expected)?;
                    let revert = |amount: u64, at: usize| {
                        amount.saturating_sub(live[at]).saturating_add(declared_amounts[at])
                    };
                    (declared.cpu, declared.memory) = (revert(declared.cpu, 0), revert(declared.memory, 1));
                    declared.storage = revert(declared.storage, 2);
                }
                None => {}
            }
        }
        Some(declared)
    }
}

enum CostField<'a> {
    Replicas,
    ServiceType,
    /// A parent of several such fields, whose value is not analyzed.
    Parent,
    /// The path below a container or a volume claim template.
    Requests(&'a [Segment]),
}

impl<'a> CostField<'a> {
    fn new(path: &'a FieldPath) -> Option<Self> {
        let segments = path.segments();
        let is = |at: usize, name: &str| {
            segments.get(at).is_some_and(|segment| *segment == Segment::Field(name.into()))
        };
        if is(0, "spec") && segments.len() == 2 {
            if is(1, "replicas") {
                return Some(Self::Replicas);
            }
            if is(1, "type") {
                return Some(Self::ServiceType);
            }
        }
        if is(0, "spec") && is(1, "resources") {
            return Some(Self::Requests(&segments[1..]));
        }
        // The list, and then the element, come before the path within the element.
        let list = (0..segments.len()).find(|at| is(*at, "containers") || is(*at, "volumeClaimTemplates"));
        let Some(list) = list else {
            let is_parent = |spec: &&[&str]| {
                segments.len() <= spec.len() && (0..segments.len()).all(|at| is(at, spec[at]))
            };
            return POD_SPECS.iter().any(is_parent).then_some(Self::Parent);
        };
        let Some(rest) = segments.get(list + 2..) else { return Some(Self::Parent) };
        let rest = if is(list, "volumeClaimTemplates") && !rest.is_empty() { &rest[1..] } else { rest };
        Some(Self::Requests(rest))
    }
}

const POD_SPECS: &[&[&str]] =
    &[&["spec", "template", "spec"], &["spec", "jobTemplate", "spec", "template", "spec"]];

/// The CPU, memory and storage requests in a value. `path` is its path below a container. `None` if the value is redacted or omitted.
fn requested_amounts(path: &[Segment], value: &FieldValue) -> Option<[u64; 3]> {
    // Other fields of a container cost nothing.
    let is =
        |at: usize, name: &str| path.get(at).is_none_or(|segment| *segment == Segment::Field(name.into()));
    if !(is(0, "resources") && is(1, "requests")) {
        return Some([0; 3]);
    }
    let mut whole = match value {
        FieldValue::Redacted(_) | FieldValue::PartlyRedacted(_) | FieldValue::Omitted { .. } => return None,
        FieldValue::Absent | FieldValue::Null => Value::Null,
        FieldValue::Text(text) => Value::from(&**text),
        FieldValue::Json(json) => serde_json::from_str(json).unwrap_or_default(),
    };
    for segment in path.iter().rev() {
        let Segment::Field(name) = segment else { return Some([0; 3]) };
        whole = Value::Object(Map::from_iter([(name.to_string(), whole)]));
    }
    let requests = |of: &Value| of["resources"]["requests"].clone();
    let requests = match requests(&whole) {
        Value::Null => requests(&whole["spec"]),
        requests => requests,
    };
    let amount = |name: &str, unit: fn(&Quantity) -> u64| {
        let request = &requests[name];
        let text = request.as_str().map_or_else(|| request.to_string(), str::to_owned);
        Quantity::parse(&text).map_or(0, |quantity| unit(&quantity))
    };
    Some([
        amount("cpu", Quantity::millis),
        amount("memory", Quantity::units),
        amount("storage", Quantity::units),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "an estimate in money does not need the last bits")]
fn to_f64(value: u64) -> f64 {
    value as f64
}

fn round_to_cents(amount: f64) -> f64 {
    // Adding 0 turns -0 into 0, which JSON would show.
    (amount * 100.0).round() / 100.0 + 0.0
}

impl fmt::Display for MilliCpu {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}m", self.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
        let fits = |size: u64| self.0 >= size && self.0.is_multiple_of(size);
        let (suffix, size) = UNITS.into_iter().find(|(_, size)| fits(*size)).unwrap_or(("", 1));
        write!(formatter, "{}{suffix}", self.0 / size)
    }
}

#[cfg(test)]
mod tests {
    use super::{Difference, FieldClass, FieldValue, ObjectFacts, Prices, Requests};
    use crate::{server::query::difference_fixture, types::RedactionKey};

    const LIVE: Requests =
        Requests { replicas: 3, cpu: 500, memory: 1 << 30, storage: 10 << 30, load_balancers: 1 };

    fn difference(path: &str, expected: FieldValue, actual: FieldValue) -> Difference {
        let class = if path == "spec" { FieldClass::Hash } else { FieldClass::Other };
        difference_fixture(class, path, expected, actual)
    }

    fn plain(text: &str) -> FieldValue {
        match text {
            "" => FieldValue::Absent,
            json if json.starts_with(['{', '[']) => FieldValue::Json(json.into()),
            text => FieldValue::Text(text.into()),
        }
    }

    #[track_caller]
    fn check(path: &str, (expected, actual): (&str, &str), declared: Option<Requests>) {
        check_values(path, [expected, actual].map(plain), declared);
    }

    #[track_caller]
    fn check_values(path: &str, [expected, actual]: [FieldValue; 2], declared: Option<Requests>) {
        assert_eq!(LIVE.as_declared(&[difference(path, expected, actual)]), declared, "{path}");
    }

    #[test]
    fn declared_requests_are_live_requests_without_the_differences() {
        let web = "spec.template.spec.containers[name=web]";
        check("spec.replicas", ("1", "3"), Some(Requests { replicas: 1, ..LIVE }));
        check("spec.replicas", ("", "3"), Some(Requests { replicas: 1, ..LIVE }));
        check("spec.type", ("ClusterIP", "LoadBalancer"), Some(Requests { load_balancers: 0, ..LIVE }));
        check(
            &format!("{web}.resources.requests.cpu"),
            ("250m", "500m"),
            Some(Requests { cpu: 250, ..LIVE }),
        );
        check(
            &format!("{web}.resources.requests"),
            (r#"{"cpu":"1"}"#, r#"{"cpu":"500m","memory":"1Gi"}"#),
            Some(Requests { cpu: 1000, memory: 0, ..LIVE }),
        );
        check(&format!("{web}.resources.limits.cpu"), ("1", "2"), Some(LIVE));
        let side = r#"{"name":"side","resources":{"requests":{"cpu":"100m"}}}"#;
        check("spec.template.spec.containers[name=side]", ("", side), Some(Requests { cpu: 400, ..LIVE }));
        check(
            "spec.resources.requests.storage",
            ("5Gi", "10Gi"),
            Some(Requests { storage: 5 << 30, ..LIVE }),
        );
        check(
            "spec.volumeClaimTemplates[0].spec.resources.requests.storage",
            ("5Gi", "10Gi"),
            Some(Requests { storage: 5 << 30, ..LIVE }),
        );
        check("metadata.labels.team", ("a", "b"), Some(LIVE));
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
        check("spec.template.metadata", ("{}", "{}"), Some(LIVE));
        check("spec", ("aa", "bb"), None);
        let redacted = || FieldValue::Redacted(RedactionKey::new([1; 32]).digest(b"250m"));
        check_values(&format!("{web}.resources.requests.cpu"), [redacted(), plain("500m")], None);
        check_values(&format!("{web}.resources"), [redacted(), plain("{}")], None);
        check_values(web, [FieldValue::Absent, redacted()], None);
        for free in ["env[name=PASSWORD].value", "env", "resources.limits.cpu"] {
            check_values(&format!("{web}.{free}"), [redacted(), plain("x")], Some(LIVE));
        }
        let one_replica = Some(Requests { replicas: 1, ..LIVE });
        check_values("spec.replicas", [FieldValue::Null, plain("3")], one_replica);
        let half_a_core = Some(Requests { cpu: 0, ..LIVE });
        check_values(
            &format!("{web}.resources.requests.cpu"),
            [FieldValue::Null, plain("500m")],
            half_a_core,
        );
    }

    #[test]
    fn object_without_requests_has_no_cost() {
        let prices = Prices { cpu_core_hour: Some(1.0), ..Prices::default() };
        let replicas = ObjectFacts { replicas: Some(3), ..ObjectFacts::default() };
        assert_eq!(super::monthly_cost(&replicas, &prices), None);
        let asking = ObjectFacts { cpu_request: Some(0), ..replicas };
        assert_eq!(super::monthly_cost(&asking, &prices), Some(0.0));
        assert_eq!(
            super::monthly_cost(&ObjectFacts { load_balancer: true, ..ObjectFacts::default() }, &prices),
            Some(0.0)
        );
    }

    #[test]
    fn monthly_cost_covers_all_replicas() {
        let prices = Prices {
            currency: "EUR".into(),
            cpu_core_hour: Some(0.02),
            memory_gib_hour: Some(0.003),
            storage_gib_month: Some(0.1),
            load_balancer_hour: Some(0.01),
        };
        // 3 × (0.5 × 14.6 + 2.19 + 1) + 7.3
        let cost = super::round_to_cents(LIVE.monthly(&prices));
        assert!((cost - 38.77).abs() < 0.001, "{cost}");
        assert_eq!(super::round_to_cents(-0.0001).to_string(), "0");
    }
}
