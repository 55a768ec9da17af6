//! The place of a field in an object.

use std::{fmt, str::FromStr};

use super::path_syntax::{Part, PartKind, PathError, Word, parse, write_field, write_word};

/// The place of a field in an object: `spec.template.spec.containers[name=web].image`.
///
/// A field whose name has dots or other signs in it is quoted: `metadata.annotations["example.com/owner"]`. An element
/// of a list is named by its keys (`ports[containerPort=80,protocol=TCP]`), by its value where the list is a set
/// (`finalizers[=example.com/hold]`), or by its place (`args[0]`). Quotes and backslashes within quotes have a backslash in
/// front.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<Segment>);

/// One step from an object towards a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// The field of this name.
    Field(Box<str>),
    /// The element of a list that has these keys; at least one.
    Element(Vec<(Box<str>, Box<str>)>),
    /// The element of a list at this place.
    Index(usize),
    /// The element of a set.
    Value(Box<str>),
}

impl FieldPath {
    /// A path of these segments.
    pub fn new(segments: Vec<Segment>) -> Self {
        Self(segments)
    }

    /// Its segments, from the object towards the field.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The name of the innermost field.
    pub fn last_field(&self) -> Option<&str> {
        self.0.iter().rev().find_map(|segment| match segment {
            Segment::Field(name) => Some(&**name),
            Segment::Element(_) | Segment::Index(_) | Segment::Value(_) => None,
        })
    }
}

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        parse(text)?.into_iter().map(segment).collect::<Result<_, _>>().map(Self)
    }
}

/// Reads back as the same path.
impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Field(name) => write_field(formatter, name, at == 0)?,
                Segment::Index(index) => write!(formatter, "[{index}]")?,
                Segment::Value(value) => {
                    formatter.write_str("[=")?;
                    write_word(formatter, value)?;
                    formatter.write_str("]")?;
                }
                Segment::Element(keys) => {
                    for (at, (key, value)) in keys.iter().enumerate() {
                        formatter.write_str(if at == 0 { "[" } else { "," })?;
                        write_word(formatter, key)?;
                        formatter.write_str("=")?;
                        write_word(formatter, value)?;
                    }
                    formatter.write_str("]")?;
                }
            }
        }
        Ok(())
    }
}

fn segment(part: Part) -> Result<Segment, PathError> {
    let column = part.column;
    let text = |word: Word| {
        if word.has_star() {
            return Err(PathError::new(column, "a star stands in patterns only"));
        }
        Ok(word.text)
    };
    Ok(match part.kind {
        PartKind::Field(name) => Segment::Field(text(name)?),
        PartKind::Index(index) => Segment::Index(index),
        PartKind::Value(value) => Segment::Value(text(value)?),
        PartKind::Element(keys) => {
            let keys = keys.into_iter().map(|(key, value)| Ok((text(key)?, text(value)?)));
            Segment::Element(keys.collect::<Result<_, _>>()?)
        }
        PartKind::AnyElement => return Err(PathError::new(column, "a star stands in patterns only")),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{FieldPath, Segment};

    fn word() -> impl Strategy<Value = Box<str>> {
        prop_oneof![4 => "[a-zA-Z][a-zA-Z0-9]{0,8}", 2 => "[-a-z./*]{0,8}", 1 => any::<String>()]
            .prop_map(Into::into)
    }

    fn segment() -> impl Strategy<Value = Segment> {
        prop_oneof![
            4 => word().prop_map(Segment::Field),
            1 => prop::collection::vec((word(), word()), 1..3).prop_map(Segment::Element),
            1 => (0..20_usize).prop_map(Segment::Index),
            1 => word().prop_map(Segment::Value),
        ]
    }

    proptest! {
        #[test]
        fn a_path_is_read_back_from_its_own_text(segments in prop::collection::vec(segment(), 1..6)) {
            let path = FieldPath::new(segments);
            prop_assert_eq!(path.to_string().parse::<FieldPath>(), Ok(path));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-z.*\\[\\]\"=,\\\\0-9 /]{0,20}") {
            if let Ok(path) = text.parse::<FieldPath>() {
                prop_assert_eq!(path.to_string().parse::<FieldPath>(), Ok(path));
            }
        }
    }

    #[test]
    fn paths_are_written_as_people_write_them() {
        for text in [
            "spec.template.spec.containers[name=web].image",
            "metadata.annotations[\"kubectl.kubernetes.io/restartedAt\"]",
            "spec.ports[port=80,protocol=TCP].nodePort",
            "spec.args[0]",
            "metadata.finalizers[=example.com/hold]",
            "data[\"a \\\"quote\\\"\"]",
        ] {
            assert_eq!(text.parse::<FieldPath>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_error_says_what_is_wrong_and_where() {
        for (text, column, message) in [
            ("", 1, "a field's name is missing"),
            ("spec..replicas", 6, "a field's name is missing"),
            ("spec.containers[web].image", 17, "a field's name is quoted"),
            ("spec.containers[name=web", 25, "the bracket is not closed"),
            ("spec.containers.[name=web]", 17, "no dot stands before a bracket"),
            ("metadata.annotations[\"a", 22, "the quote is not closed"),
            ("spec.re plicas", 8, "unexpected ` `"),
            ("spec.*", 6, "a star stands in patterns only"),
        ] {
            let error = text.parse::<FieldPath>().unwrap_err();
            assert_eq!(error.column, column, "{text}: {error}");
            assert!(error.message.contains(message), "{text}: {error}");
        }
    }
}
