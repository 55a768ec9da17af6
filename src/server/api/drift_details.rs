//! Describes differences in sentences: `Replica count mismatch: desired=1, actual=3`.

use std::{borrow::Cow, collections::HashMap};

use super::view::DifferenceView;
use crate::{
    rules::{EffectSpec, Rule, RuleSet},
    types::{Difference, Expectation, FieldClass, FieldPath, FieldValue, Segment},
};

/// In characters.
const MAX_VALUE_LENGTH: usize = 200;

/// The labels of fields. Thousands of objects differ in the same few fields, so each label is built once.
#[derive(Debug, Default)]
pub(super) struct FieldLabelCache(HashMap<Box<str>, (FieldClass, FieldLabel)>);

const MAX_LABELS: usize = 1024;

impl FieldLabelCache {
    /// A path may have different classes in different kinds, so a label of another class is replaced.
    fn get(&mut self, path: &FieldPath, class: FieldClass) -> &FieldLabel {
        let Self(labels) = self;
        if labels.get(path.as_str()).is_none_or(|(cached, _)| *cached != class) {
            if labels.len() == MAX_LABELS {
                labels.clear();
            }
            labels.insert(path.as_str().into(), (class, FieldLabel::new(path, class)));
        }
        &labels[path.as_str()].1
    }
}

/// One sentence for each difference, then one for each rule that expects some of them. `views` are those of `differences`.
pub(super) fn drift_details(
    differences: &[Difference],
    views: &[DifferenceView<'_>],
    rules: &RuleSet,
    labels: &mut FieldLabelCache,
) -> Vec<String> {
    let pairs = differences.iter().zip(views);
    let mut details: Vec<String> =
        pairs.map(|(difference, view)| difference_sentence(difference, view, labels)).collect();
    let mut expected: Vec<(&Rule, Vec<&str>)> = Vec::new();
    for difference in differences {
        let Some(rule) = expecting_rule(difference, rules) else { continue };
        let path = difference.finding.path.as_str();
        match expected.iter_mut().find(|(other, _)| other.name() == rule.name()) {
            Some((_, paths)) => paths.push(path),
            None => expected.push((rule, vec![path])),
        }
    }
    details.extend(expected.into_iter().map(|(rule, paths)| {
        let subject = match paths.as_slice() {
            all if all.len() == views.len() => "This is".to_owned(),
            [path] => format!("{path} is"),
            paths => format!("{} are", paths.join(", ")),
        };
        let reason = rule.spec().reason.as_deref().map(|reason| format!(", {reason}")).unwrap_or_default();
        format!("{subject} expected: rule {}{reason}", rule.name())
    }));
    details
}

/// The last matching rule with the effect `expected`, if the difference is expected.
fn expecting_rule<'r>(difference: &Difference, rules: &'r RuleSet) -> Option<&'r Rule> {
    if difference.expectation != Expectation::Expected {
        return None;
    }
    let expects = |rule: &&Rule| rule.spec().effect.0.contains(&EffectSpec::Word("expected".to_owned()));
    let matched = difference.matched.iter().rev().filter_map(|matched| rules.position(matched.rule()?));
    matched.map(|at| &rules.rules()[at]).find(expects)
}

fn difference_sentence(
    difference: &Difference,
    view: &DifferenceView<'_>,
    labels: &mut FieldLabelCache,
) -> String {
    let class = difference.finding.class;
    if let omitted @ FieldValue::Omitted { .. } = &difference.finding.actual {
        return omitted.text().into_owned();
    }
    let [expected, actual] = view.notations();
    let (expected, actual) = (truncate(&expected), truncate(&actual));
    if class == FieldClass::Existence {
        return match &*actual {
            "" => "Object is missing".to_owned(),
            _ => format!("Object was replaced: desired uid={expected}, actual uid={actual}"),
        };
    }
    let FieldLabel { name, container } = labels.get(&difference.finding.path, class);
    // One allocation each: a list has thousands of these.
    match (&*expected, &*actual) {
        ("", actual) => [name, " added", container, ": actual=", actual].concat(),
        (expected, "") => [name, " removed", container, ": desired=", expected].concat(),
        (expected, actual) => {
            [name, " mismatch", container, ": desired=", expected, ", actual=", actual].concat()
        }
    }
}

fn truncate(text: &str) -> Cow<'_, str> {
    // Most values are short enough in bytes, and counting characters is slow.
    if text.len() <= MAX_VALUE_LENGTH {
        return text.into();
    }
    match text.char_indices().nth(MAX_VALUE_LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

#[derive(Debug)]
struct FieldLabel {
    name: String,
    /// ` in container web` for fields of a container, else empty.
    container: String,
}

impl FieldLabel {
    fn new(path: &FieldPath, class: FieldClass) -> Self {
        let outside_containers = |name: String| Self { name, container: String::new() };
        if class == FieldClass::Hash {
            return outside_containers(format!("Hash of {path}"));
        }
        let segments = path.segments();
        let is_list = |segment: &Segment| {
            let lists = ["containers", "initContainers", "ephemeralContainers"];
            field_name(segment).is_some_and(|name| lists.contains(&name))
        };
        let list = segments.iter().position(is_list);
        let container = list.and_then(|list| segments.get(list + 1)).map(element_name);
        let is_container = list.is_some_and(|list| segments.len() == list + 2);
        match container {
            Some(container) if is_container => outside_containers(format!("Container {container}")),
            container => Self {
                name: field_label(path, class),
                container: container.map(|name| format!(" in container {name}")).unwrap_or_default(),
            },
        }
    }
}

fn field_name(segment: &Segment) -> Option<&str> {
    if let Segment::Field(name) = segment { Some(name) } else { None }
}

/// The name of a list element: its keys, or its position counted from 1.
fn element_name(segment: &Segment) -> String {
    match segment {
        Segment::Field(name) | Segment::Value(name) => name.to_string(),
        Segment::Index(at) => format!("{}", at + 1),
        Segment::Element(keys) => keys.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("/"),
    }
}

fn field_label(path: &FieldPath, class: FieldClass) -> String {
    let segments = path.segments();
    let fields: Vec<&str> = path.field_names().collect();
    let last = fields.last().copied().unwrap_or(path.as_str());
    // The segment after a field: the key of a label, the name of an element.
    let after = |name: &str| {
        let at = segments.iter().position(|segment| *segment == Segment::Field(name.into()))?;
        segments.get(at + 1).map(element_name)
    };
    let labelled = |label: &str, name: Option<String>| name.map(|name| format!("{label} {name}"));
    let label = match class {
        FieldClass::Replicas => match last {
            "replicas" => Some("Replica count".to_owned()),
            "minReplicas" => Some("Minimum replica count".to_owned()),
            "maxReplicas" => Some("Maximum replica count".to_owned()),
            _ => None,
        },
        FieldClass::Image if last == "image" => Some("Image".to_owned()),
        FieldClass::Image if last == "imagePullPolicy" => Some("Image pull policy".to_owned()),
        FieldClass::Env => labelled("Environment variable", after("env")),
        FieldClass::Resources => quantity_label(&fields),
        FieldClass::Ports => match (after("ports"), last) {
            (Some(port), "ports" | "port" | "containerPort") => Some(format!("Port {port}")),
            (Some(port), other) => Some(format!("Port {port} {other}")),
            (None, _) => Some("Ports".to_owned()),
        },
        FieldClass::Labels => labelled("Label", after("labels")),
        FieldClass::Annotations => labelled("Annotation", after("annotations")),
        FieldClass::Data => {
            labelled("Data", ["data", "binaryData", "stringData"].iter().find_map(|name| after(name)))
        }
        FieldClass::Volumes => labelled("Volume", after("volumes")).filter(|_| last == "volumes"),
        _ => None,
    };
    label.unwrap_or_else(|| format!("Field {path}"))
}

/// `CPU limit`, `Memory request`.
fn quantity_label(fields: &[&str]) -> Option<String> {
    let [.., kind @ ("limits" | "requests"), resource] = fields else { return None };
    let resource = match *resource {
        "cpu" => "CPU",
        "memory" => "Memory",
        "storage" => "Storage",
        other => other,
    };
    Some(format!("{resource} {}", kind.trim_end_matches('s')))
}

#[cfg(test)]
mod tests {
    use super::{FieldClass, FieldLabelCache, MAX_LABELS};

    #[test]
    fn cached_label_is_replaced_for_another_class() {
        let mut labels = FieldLabelCache::default();
        let mut name = |path: &str, class| labels.get(&path.parse().unwrap(), class).name.clone();
        assert_eq!(name("spec.replicas", FieldClass::Replicas), "Replica count");
        assert_eq!(
            name("spec.replicas", FieldClass::Other),
            "Field spec.replicas",
            "another class in another kind"
        );
        assert_eq!(name("spec.replicas", FieldClass::Replicas), "Replica count");
        assert_eq!(name("spec.template.spec.containers[name=web]", FieldClass::Other), "Container web");
        for number in 0..=MAX_LABELS {
            assert_eq!(name(&format!("data.k{number}"), FieldClass::Data), format!("Data k{number}"));
        }
        assert!(labels.0.len() <= MAX_LABELS, "{}", labels.0.len());
    }
}
