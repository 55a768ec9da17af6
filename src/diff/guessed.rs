//! What is guessed about documents that nothing is known about.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{findings::text, sealed::is_sealed};

/// By what elements of lists are known, where all have it and it tells them apart.
pub(super) const KEYS: &[&[&str]] = &[
    &["name"],
    &["containerPort", "protocol"],
    &["port", "protocol"],
    &["mountPath"],
    &["devicePath"],
    &["ip"],
];

/// By which of these the elements of both lists are known. Where names are sealed, only places are left to tell elements apart by.
pub(super) fn keys_of<'a>(
    keys: &'a [&'a [&'a str]],
    one: &[Value],
    other: &[Value],
) -> Option<&'a [&'a str]> {
    let names =
        |keys: &[&str], list: &[Value]| list.iter().flat_map(|own| name_of(keys, own)).collect::<Vec<_>>();
    let is_plain = |keys: &[&str], list: &[Value]| !names(keys, list).iter().any(|name| is_sealed(name));
    keys_or_digests_of(keys, one, other).filter(|keys| is_plain(keys, one) && is_plain(keys, other))
}

/// The same for whoever knows names by their digests.
pub(super) fn keys_or_digests_of<'a>(
    keys: &'a [&'a [&'a str]],
    one: &[Value],
    other: &[Value],
) -> Option<&'a [&'a str]> {
    keys.iter().copied().find(|keys| is_known_by(keys, one) && is_known_by(keys, other))
}

/// What an element is known by.
fn name_of(keys: &[&str], element: &Value) -> Vec<String> {
    let name = |key: &&str| match (*key, text(&element[*key])) {
        // The server writes it where nobody did.
        ("protocol", absent) if absent.is_empty() => "TCP".to_owned(),
        (_, text) => text,
    };
    keys.iter().map(name).collect()
}

/// Whether a field of this name is an amount: these stand under names of their own.
pub(super) fn is_amount(name: &str) -> bool {
    const AMOUNTS: &[&str] = &[
        "cpu",
        "memory",
        "storage",
        "ephemeral-storage",
        "pods",
        "sizeLimit",
        "divisor",
        "averageValue",
        "value",
    ];
    AMOUNTS.iter().any(|amount| name == *amount || name.ends_with(&format!(".{amount}")))
}

fn is_known_by(keys: &[&str], list: &[Value]) -> bool {
    let names: BTreeSet<Vec<String>> = list.iter().map(|element| name_of(keys, element)).collect();
    names.len() == list.len() && names.iter().flatten().all(|part| !part.is_empty())
}
