//! The edits, read from files with one edit per line.

use std::collections::BTreeMap;

use serde_json::Value;

/// An edit of one object.
pub(super) struct Edit {
    /// `kubernetes_service_v1.web`.
    pub(super) resource: &'static str,
    pub(super) patch: Value,
}

/// Every edit in a text.
///
/// A line is a JSON patch or a merge patch; `= RESOURCE PATH` begins the edits of a resource, whose JSON patches start at that
/// path.
pub(super) fn read(text: &'static str) -> Vec<Edit> {
    let (mut resource, mut start, mut edits) = ("", "", Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(head) = line.strip_prefix("= ") {
            (resource, start) = head.split_once(' ').unwrap_or((head, ""));
            continue;
        }
        let patch = if line.starts_with('{') {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
        } else {
            Value::Array(line.split(" ; ").map(|step| operation(start, step)).collect())
        };
        edits.push(Edit { resource, patch });
    }
    edits
}

/// `PATH VALUE` sets, `+PATH VALUE` adds, `-PATH` removes.
fn operation(start: &str, line: &str) -> Value {
    let (path, value) = line.split_once(' ').unwrap_or((line, "null"));
    let (kind, path) = match path.split_at(1) {
        ("+", path) => ("add", path),
        ("-", path) => ("remove", path),
        _ => ("replace", path),
    };
    let value: Value = serde_json::from_str(value).unwrap_or_else(|error| panic!("{line}: {error}"));
    let path =
        if let Some(path) = path.strip_prefix('^') { path.to_owned() } else { format!("{start}{path}") };
    match kind {
        "remove" => serde_json::json!({"op": kind, "path": path}),
        _ => serde_json::json!({"op": kind, "path": path, "value": value}),
    }
}

/// The number of copies of each resource, so that this number of plans suffices for all edits.
pub(super) fn copies(edits: &[Edit], plans: usize) -> BTreeMap<&'static str, usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for edit in edits {
        *counts.entry(edit.resource).or_default() += 1;
    }
    counts.values_mut().for_each(|count| *count = count.div_ceil(plans));
    counts
}

/// Batches of edits with the address of the edited object: at most one edit per object.
pub(super) fn batches(edits: &[Edit], plans: usize) -> Vec<Vec<(String, &Edit)>> {
    let copies = copies(edits, plans);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut batches: Vec<Vec<(String, &Edit)>> = Vec::new();
    batches.resize_with(plans, Vec::new);
    for edit in edits {
        let count = counts.entry(edit.resource).or_default();
        let (batch, copy) = (*count / copies[edit.resource], *count % copies[edit.resource]);
        *count += 1;
        batches[batch].push((format!("{}[{copy}]", edit.resource), edit));
    }
    batches
}
