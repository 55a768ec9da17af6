//! Comparing what somebody wrote down with the live object, as the API server would have stored it.
//!
//! Charts, manifests and what kubectl applied declare a subset of an object: only what they declare is compared. What the
//! server makes of that is data ([`Schemas`]): which fields are amounts, bytes or times, by what elements of lists are known, what
//! becomes of empty values. Elements that are added to declared lists are drift, fields that are added elsewhere are not.

mod cluster;
mod lists;
mod openapi;
mod place;
mod prepare;
#[cfg(test)]
mod properties;
mod scalars;
mod shapes;
mod table;
mod walk;

use serde_json::Value;

pub use self::{
    cluster::{ClusterSchemas, CustomKind},
    prepare::prepare,
    shapes::Schemas,
};
pub(super) use self::{
    lists::{guessed_keys, known_keys, name_of, segment},
    place::Place,
    prepare::NOT_DECLARED,
};
use self::{prepare::group_and_kind, shapes::FieldType, walk::compare_members};
use super::{findings::Findings, owners::Owners, secrets::sealed};
use crate::types::{Finding, RedactionKey};

/// What a declared document and a live object have to say about each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The fields that differ.
    pub findings: Vec<Finding>,
    /// Whether some values of the live object are sealed, and not with the key of what is declared. They are not in the
    /// findings: nothing can be said about them before the object is read again.
    pub other_key: bool,
}

/// Compares an object with a document that was prepared with this key.
///
/// The kinds of Kubernetes itself are known; `shapes` are those of the cluster's own kinds, as far as they were read.
pub fn compare(declared: &Value, live: &Value, shapes: &Schemas, key: &RedactionKey) -> Comparison {
    let (group, kind) = declared.as_object().map_or(("", ""), group_and_kind);
    let live = &*sealed(live, group, kind, key);
    let owners = Owners::of(live);
    let mut findings = Findings::new(&owners, key, &[]);
    compare_document(declared, live, shapes, &mut findings);
    let other_key = findings.has_other_key();
    Comparison { findings: findings.finish().0, other_key }
}

/// The same, for whoever has findings already.
pub(super) fn compare_document<'a>(
    declared: &'a Value,
    live: &'a Value,
    shapes: &'a Schemas,
    findings: &mut Findings<'a>,
) {
    let Value::Object(members) = declared else {
        return;
    };
    let place = place_of(declared, shapes);
    let is_content = |name: &str| !["apiVersion", "kind", "metadata", "status"].contains(&name);
    compare_members(place, members, live.as_object(), is_content, findings);
    if let Some(Value::Object(metadata)) = members.get("metadata") {
        let place = Place::new(Schemas::built_in(), Schemas::metadata());
        let is_declared = |name: &str| !NOT_DECLARED.contains(&name);
        findings.within("metadata", "metadata", |findings| {
            compare_members(place, metadata, live["metadata"].as_object(), is_declared, findings);
        });
    }
}

/// The whole of an object of a kind of the cluster's own. Of the kinds of Kubernetes it knows nothing.
pub(super) fn own_place<'a>(declared: &Value, shapes: &'a Schemas) -> Place<'a> {
    let text = |name: &str| declared[name].as_str().unwrap_or_default();
    Place::new(shapes, shapes.kind(text("apiVersion"), text("kind")).unwrap_or(&FieldType::Unknown))
}

fn place_of<'a>(declared: &Value, shapes: &'a Schemas) -> Place<'a> {
    let text = |name: &str| declared[name].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let known = [Schemas::built_in(), shapes]
        .into_iter()
        .find_map(|shapes| Some(Place::new(shapes, shapes.kind(api_version, kind)?)));
    known.unwrap_or_else(|| Place::new(shapes, &FieldType::Unknown))
}
