//! What differs, in sentences.

use std::{borrow::Cow, collections::HashMap};

use super::view::DifferenceView;
use crate::{
    rules::{EffectSpec, Rule, RuleSet},
    types::{Difference, Expectation, FieldClass, FieldPath, Segment},
};

/// Longest value in a sentence, in characters.
const LONGEST_VALUE: usize = 200;

/// What fields are called. Thousands of objects differ in the same few fields: what was worked out for one is known for the next.
#[derive(Debug, Default)]
pub(super) struct Phrases(HashMap<Box<str>, (FieldClass, Place)>);

/// How many fields are remembered at a time.
const MOST_PHRASES: usize = 1024;

impl Phrases {
    fn of(&mut self, path: &str, class: FieldClass) -> &Place {
        let Self(known) = self;
        if known.get(path).is_none_or(|(own, _)| *own != class) {
            if known.len() == MOST_PHRASES {
                known.clear();
            }
            known.insert(path.into(), (class, Place::of(path, class)));
        }
        &known[path].1
    }
}

/// A sentence for each difference, and one for every rule that says that some of them are expected.
pub(super) fn sentences(views: &[DifferenceView<'_>], rules: &RuleSet, phrases: &mut Phrases) -> Vec<String> {
    let mut sentences: Vec<String> = views.iter().map(|own| sentence(own, phrases)).collect();
    let mut told: Vec<&str> = Vec::new();
    let expected = |own: &&Difference| own.expectation == Expectation::Expected;
    let differences = views.iter().map(|view| view.difference);
    for difference in differences.clone().filter(expected) {
        let Some(rule) = rule_that_expects(difference, rules).filter(|own| !told.contains(&&**own.name()))
        else {
            continue;
        };
        told.push(rule.name());
        let own = |other: &&Difference| {
            rule_that_expects(other, rules).is_some_and(|other| other.name() == rule.name())
        };
        let paths: Vec<&str> =
            differences.clone().filter(expected).filter(own).map(|own| &*own.finding.path).collect();
        let subject = match paths.as_slice() {
            all if all.len() == views.len() => "This is".to_owned(),
            [one] => format!("{one} is"),
            several => format!("{} are", several.join(", ")),
        };
        let reason = rule.spec().reason.as_deref().map(|reason| format!(", {reason}")).unwrap_or_default();
        sentences.push(format!("{subject} expected: rule {}{reason}", rule.name()));
    }
    sentences
}

/// The rule that has the last word on whether a difference is expected.
fn rule_that_expects<'r>(difference: &Difference, rules: &'r RuleSet) -> Option<&'r Rule> {
    let says = |rule: &&Rule| rule.spec().effect.0.contains(&EffectSpec::Word("expected".to_owned()));
    let matched = difference.matched.iter().rev().filter_map(|name| rules.position(name));
    matched
        .map(|at| &rules.rules()[at])
        .find(says)
        .filter(|_| difference.expectation == Expectation::Expected)
}

fn sentence(view: &DifferenceView<'_>, phrases: &mut Phrases) -> String {
    let class = view.difference.finding.class;
    let (expected, actual) = (cut(&view.expected), cut(&view.actual));
    if class == FieldClass::Existence {
        return match &*actual {
            "" => "Object is missing".to_owned(),
            _ => format!("Object was replaced: desired uid={expected}, actual uid={actual}"),
        };
    }
    let Place { what, within } = phrases.of(view.path, class);
    // Put together at once: there are many of them in a list.
    match (&*expected, &*actual) {
        ("", actual) => [what, " added", within, ": actual=", actual].concat(),
        (expected, "") => [what, " removed", within, ": desired=", expected].concat(),
        (expected, actual) => {
            [what, " mismatch", within, ": desired=", expected, ", actual=", actual].concat()
        }
    }
}

fn cut(text: &str) -> Cow<'_, str> {
    // Counting letters takes longer than all else; most values are short enough whatever they consist of.
    if text.len() <= LONGEST_VALUE {
        return text.into();
    }
    match text.char_indices().nth(LONGEST_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// What a path leads to, in words.
#[derive(Debug)]
struct Place {
    what: String,
    /// Where it is, for what is within a container: ` in container web`.
    within: String,
}

impl Place {
    fn of(path: &str, class: FieldClass) -> Self {
        if class == FieldClass::Hash {
            return Self { what: format!("Hash of {path}"), within: String::new() };
        }
        let Ok(parsed) = path.parse::<FieldPath>() else {
            return Self { what: format!("Field {path}"), within: String::new() };
        };
        let segments = parsed.segments();
        let list = |at: usize| match &segments[at] {
            Segment::Field(name) => Some(&**name),
            Segment::Element(_) | Segment::Index(_) | Segment::Value(_) => None,
        };
        let pods = ["containers", "initContainers", "ephemeralContainers"];
        let place = (0..segments.len()).find(|at| list(*at).is_some_and(|name| pods.contains(&name)));
        let container = place.and_then(|at| segments.get(at + 1)).map(element);
        let is_container = place.is_some_and(|at| segments.len() == at + 2);
        match (container, is_container) {
            (Some(name), true) => Self { what: format!("Container {name}"), within: String::new() },
            (container, _) => Self {
                what: words(path, segments, class),
                within: container.map(|name| format!(" in container {name}")).unwrap_or_default(),
            },
        }
    }
}

/// How an element of a list is called.
fn element(segment: &Segment) -> String {
    match segment {
        Segment::Field(name) | Segment::Value(name) => name.to_string(),
        Segment::Index(at) => format!("{}", at + 1),
        Segment::Element(keys) => keys.iter().map(|(_, value)| &**value).collect::<Vec<_>>().join("/"),
    }
}

fn words(path: &str, segments: &[Segment], class: FieldClass) -> String {
    let fields: Vec<&str> = segments
        .iter()
        .filter_map(|segment| match segment {
            Segment::Field(name) => Some(&**name),
            Segment::Element(_) | Segment::Index(_) | Segment::Value(_) => None,
        })
        .collect();
    let last = fields.last().copied().unwrap_or(path);
    // What stands right after a field: the name of a label, the key of an element.
    let after = |name: &str| {
        let at = segments.iter().position(|own| *own == Segment::Field(name.into()))?;
        segments.get(at + 1).map(element)
    };
    let named = |what: &str, name: Option<String>| name.map(|name| format!("{what} {name}"));
    let found = match class {
        FieldClass::Replicas => match last {
            "replicas" => Some("Replica count".to_owned()),
            "minReplicas" => Some("Minimum replica count".to_owned()),
            "maxReplicas" => Some("Maximum replica count".to_owned()),
            _ => None,
        },
        FieldClass::Image if last == "image" => Some("Image".to_owned()),
        FieldClass::Image if last == "imagePullPolicy" => Some("Image pull policy".to_owned()),
        FieldClass::Env => named("Environment variable", after("env")),
        FieldClass::Resources => amount(&fields),
        FieldClass::Ports => match (after("ports"), last) {
            (Some(port), "ports" | "port" | "containerPort") => Some(format!("Port {port}")),
            (Some(port), other) => Some(format!("Port {port} {other}")),
            (None, _) => Some("Ports".to_owned()),
        },
        FieldClass::Labels => named("Label", after("labels")),
        FieldClass::Annotations => named("Annotation", after("annotations")),
        FieldClass::Data => {
            named("Data", ["data", "binaryData", "stringData"].iter().find_map(|name| after(name)))
        }
        FieldClass::Volumes => named("Volume", after("volumes")).filter(|_| last == "volumes"),
        FieldClass::Image
        | FieldClass::Selector
        | FieldClass::Security
        | FieldClass::Probes
        | FieldClass::Rbac
        | FieldClass::Existence
        | FieldClass::Hash
        | FieldClass::Other => None,
    };
    found.unwrap_or_else(|| format!("Field {path}"))
}

/// `CPU limit`, `Memory request`.
fn amount(fields: &[&str]) -> Option<String> {
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
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::{
        Difference, DifferenceView, Expectation, FieldClass, MOST_PHRASES, Phrases, RuleSet, sentences,
    };
    use crate::{
        server::values::Values,
        types::{Actor, Advice, Finding, RedactionKey, Severity},
    };

    fn difference(class: FieldClass, path: &str, expected: &str, actual: &str) -> Difference {
        Difference {
            finding: Finding {
                path: path.into(),
                class,
                expected: expected.into(),
                actual: actual.into(),
                writer: None,
            },
            severity: Severity::Warning,
            expectation: Expectation::Unexpected,
            advice: Advice::AlertOnly,
            actor: Actor::Kubectl,
            onset: Timestamp::UNIX_EPOCH,
            ignored_by: None,
            matched: Arc::default(),
        }
    }

    fn told(differences: &[Difference]) -> Vec<String> {
        let values = Values::full(RedactionKey::new([3; 32]));
        let views: Vec<_> = differences.iter().map(|own| DifferenceView::new(own, &values)).collect();
        sentences(&views, &RuleSet::built_in(), &mut Phrases::default())
    }

    #[track_caller]
    fn check(class: FieldClass, path: &str, values: (&str, &str), sentence: &str) {
        let path = path.replace("POD", "spec.template.spec.containers[name=web]");
        assert_eq!(told(&[difference(class, &path, values.0, values.1)]), [sentence]);
    }

    /// The two values are 1 and 3.
    #[track_caller]
    fn check_mismatch(class: FieldClass, path: &str, what: &str, within: &str) {
        check(class, path, ("1", "3"), &format!("{what} mismatch{within}: desired=1, actual=3"));
    }

    #[test]
    fn every_sort_of_field_has_its_words() {
        use FieldClass::{Annotations, Data, Env, Hash, Image, Other, Ports, Replicas, Resources};
        let web = " in container web";
        check_mismatch(Replicas, "spec.replicas", "Replica count", "");
        check_mismatch(Replicas, "spec.maxReplicas", "Maximum replica count", "");
        check_mismatch(Image, "POD.image", "Image", web);
        check_mismatch(Resources, "POD.resources.limits.cpu", "CPU limit", web);
        check_mismatch(Resources, "POD.resources.requests.memory", "Memory request", web);
        check_mismatch(Env, "POD.env[name=LOG].value", "Environment variable LOG", web);
        check_mismatch(Ports, "spec.ports[port=80,protocol=TCP].targetPort", "Port 80/TCP targetPort", "");
        check_mismatch(Annotations, "metadata.annotations.a", "Annotation a", "");
        check_mismatch(Data, "data.key", "Data key", "");
        check_mismatch(Hash, "spec", "Hash of spec", "");
        check_mismatch(Other, "spec.rules[0].host", "Field spec.rules[0].host", "");
        check_mismatch(Other, "[[[", "Field [[[", "");
    }

    #[test]
    fn what_is_added_removed_or_missing_is_called_so() {
        let added = "Environment variable LOG added in container web: actual=x";
        check(FieldClass::Env, "POD.env[name=LOG]", ("", "x"), added);
        let label = "metadata.labels[\"example.com/team\"]";
        check(FieldClass::Labels, label, ("a", ""), "Label example.com/team removed: desired=a");
        check(FieldClass::Other, "POD", ("", "{}"), "Container web added: actual={}");
        check(FieldClass::Existence, "metadata.name", ("web", ""), "Object is missing");
        let replaced = "Object was replaced: desired uid=a, actual uid=b";
        check(FieldClass::Existence, "metadata.uid", ("a", "b"), replaced);
    }

    #[test]
    fn what_is_remembered_of_a_field_is_not_told_of_another() {
        let mut phrases = Phrases::default();
        let mut what = |path: &str, class| phrases.of(path, class).what.clone();
        assert_eq!(what("spec.replicas", FieldClass::Replicas), "Replica count");
        assert_eq!(what("spec.replicas", FieldClass::Other), "Field spec.replicas", "a kind that has others");
        assert_eq!(what("spec.replicas", FieldClass::Replicas), "Replica count");
        for number in 0..=MOST_PHRASES {
            assert_eq!(what(&format!("data.k{number}"), FieldClass::Data), format!("Data k{number}"));
        }
        assert!(phrases.0.len() <= MOST_PHRASES, "{}", phrases.0.len());
    }

    #[test]
    fn long_values_are_cut_between_letters() {
        let sentence = told(&[difference(FieldClass::Other, "spec.a", "", &"é".repeat(999))]).remove(0);
        assert!(sentence.ends_with("é…") && sentence.chars().count() < 240, "{sentence}");
    }

    #[test]
    fn what_is_expected_says_so_once() {
        let rules = RuleSet::built_in();
        let rule = rules.rules().iter().find(|rule| &**rule.name() == "patch-version").unwrap();
        let expected = |path: &str| Difference {
            expectation: Expectation::Expected,
            matched: [rule.name().clone()].into(),
            ..difference(FieldClass::Image, path, "15", "15.2")
        };
        let closing = format!("expected: rule patch-version, {}", rule.spec().reason.as_deref().unwrap());
        let both = told(&[expected("spec.a.image"), expected("spec.b.image")]);
        assert_eq!(both[2..], [format!("This is {closing}")]);
        let other = difference(FieldClass::Replicas, "spec.replicas", "1", "2");
        assert_eq!(told(&[other, expected("spec.a.image")])[2..], [format!("spec.a.image is {closing}")]);
    }
}
