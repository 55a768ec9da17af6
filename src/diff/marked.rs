//! What one declaration marks as sensitive, in what others say about the same object.

use crate::types::{FieldClass, FieldPath, Finding, RedactionKey, Segment, is_within};

/// Replaces the values of findings by digests where they are at one of these fields, within one, or around one. Fields are
/// written without indices; the empty one is the whole object.
///
/// The live object is sealed there already. What another source declares is not, and shows where nothing is left of it.
pub fn seal_findings(findings: &mut [Finding], fields: &[Box<str>], key: &RedactionKey) {
    // A hash is told as one, whatever it is of.
    for finding in findings.iter_mut().filter(|finding| finding.class != FieldClass::Hash) {
        let field = without_indices(&finding.path);
        if fields.iter().any(|marked| is_within(&field, marked) || is_within(marked, &field)) {
            for text in [&mut finding.expected, &mut finding.actual] {
                if !text.is_empty() && !RedactionKey::is_digest(text) {
                    *text = key.digest(text.as_bytes()).into();
                }
            }
        }
    }
}

/// The names on the way to a field; none on the way to what is no path, which is then around everything.
fn without_indices(path: &str) -> String {
    let Ok(path) = path.parse::<FieldPath>() else { return String::new() };
    let names = path.segments().iter().filter_map(|segment| match segment {
        Segment::Field(name) => Some(&**name),
        Segment::Element(_) | Segment::Index(_) | Segment::Value(_) => None,
    });
    names.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::{FieldClass, Finding, RedactionKey, seal_findings};

    fn is_told(path: &str, fields: &[&str]) -> bool {
        is_told_of(FieldClass::Env, path, fields)
    }

    fn is_told_of(class: FieldClass, path: &str, fields: &[&str]) -> bool {
        let (expected, actual) = ("canary".into(), Box::default());
        let mut found = [Finding { path: path.into(), class, expected, actual, writer: None }];
        let fields: Vec<Box<str>> = fields.iter().map(|field| (*field).into()).collect();
        seal_findings(&mut found, &fields, &RedactionKey::new([1; 32]));
        let [Finding { expected, actual, .. }] = found;
        assert!(actual.is_empty(), "nothing has no digest");
        assert!(&*expected == "canary" || RedactionKey::is_digest(&expected), "{expected}");
        &*expected == "canary"
    }

    #[test]
    fn what_is_at_within_or_around_a_marked_field_is_a_digest() {
        let value = "spec.template.spec.containers[name=web].env[name=GONE].value";
        assert!(is_told(value, &[]));
        assert!(is_told(value, &["data", "spec.template.spec.containers.env.val"]));
        for field in ["spec.template.spec.containers.env.value", "spec.template.spec.containers.env", ""] {
            assert!(!is_told(value, &["data", field]), "{field}");
        }
        assert!(!is_told("spec.template", &["spec.template.spec.containers.env.value"]));
        assert!(!is_told("metadata.annotations[\"example.com/a\"]", &["metadata.annotations.example.com/a"]));
        assert!(is_told_of(FieldClass::Hash, "spec", &["spec.template.spec.containers.env.value"]));
        assert!(is_told("spec.replicas", &["spec.template.spec.containers.env.value"]));
    }
}
