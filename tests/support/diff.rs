//! Diffs as the exporter makes them: the live object is cached first, and redacted with the key of the declaration.

use drift_exporter::{
    diff::{self, Comparison, ReportLimits, manifest::Schemas, pack_live_object, unpack},
    types::{DeclaredObject, Document, FieldValue, Finding, Kind, RedactionKey, RedactionPolicy},
};
use serde_json::Value;

pub fn diff(declared: &DeclaredObject, live: &Value) -> Comparison {
    diff_with(declared, live, &Schemas::default())
}

pub fn diff_with(declared: &DeclaredObject, live: &Value, schemas: &Schemas) -> Comparison {
    compare(declared, &cached(declared, live, std::slice::from_ref(&declared.key)), schemas)
}

/// Compares with an object as it is cached.
pub fn compare(declared: &DeclaredObject, live: &Document, schemas: &Schemas) -> Comparison {
    diff::compare(declared, &unpack(&live.packed), schemas, ReportLimits::default())
}

/// The live object as it is cached with these keys.
pub fn cached(declared: &DeclaredObject, live: &Value, keys: &[RedactionKey]) -> Document {
    let mut policy = RedactionPolicy::new(keys[0].clone());
    keys.iter().for_each(|key| policy.add_key(key));
    pack_live_object(live.clone(), &kind_of(declared), &policy)
}

pub fn kind_of(declared: &DeclaredObject) -> Kind {
    let object = &declared.object;
    Kind::undiscovered(&object.group, &object.version, &object.kind)
}

/// Path, declared value and live value of each finding, as the API shows them.
pub fn texts(findings: &[Finding]) -> Vec<(String, String, String)> {
    let text = |value: &FieldValue| value.text().into_owned();
    findings
        .iter()
        .map(|found| (found.path.to_string(), text(&found.expected), text(&found.actual)))
        .collect()
}

pub fn paths(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|found| found.path.as_str()).collect()
}
