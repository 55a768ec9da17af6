//! Which paths are meant.

use std::str::FromStr;

use super::{
    FieldPath, Glob, Segment,
    path_syntax::{Part, PartKind, PathError, Word, parse},
};

/// A path with stars in it, or a JSON Pointer. It matches what it names and everything below.
///
/// `*` stands for one segment and `**` for any number of them; `[*]` for any element of a list, and `[name=web-*]` for those
/// whose key looks so. What is quoted is meant literally. A pointer (`/spec/replicas`) is taken literally as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// `**`
    AnyNumber,
    /// `*`
    AnySegment,
    /// `[*]`
    AnyElement,
    /// A field, an index or a member of a set.
    Is(Segment),
    /// An element that has at least these keys.
    Element(Vec<(Box<str>, Glob)>),
    /// A token of a JSON Pointer, which does not tell fields from places in lists.
    Token(Box<str>),
}

impl PathPattern {
    /// `**`: every path.
    pub fn anything() -> Self {
        Self(vec![Step::AnyNumber])
    }

    /// Whether this path is named by the pattern, or lies below what is.
    pub fn matches(&self, path: &FieldPath) -> bool {
        let (steps, segments) = (&self.0, path.segments());
        let (mut step, mut at) = (0, 0);
        // Where to go on when a step fails: behind the last `**`, which then stands for one segment more.
        let mut retry = None;
        loop {
            match steps.get(step) {
                None => return true,
                Some(Step::AnyNumber) => {
                    step += 1;
                    retry = Some((step, at));
                }
                Some(wanted) => match segments.get(at) {
                    None => return false,
                    Some(segment) if wanted.matches(segment) => {
                        step += 1;
                        at += 1;
                    }
                    Some(_) => {
                        let Some((after, from)) = retry else { return false };
                        retry = Some((after, from + 1));
                        (step, at) = (after, from + 1);
                    }
                },
            }
        }
    }
}

impl Step {
    fn matches(&self, segment: &Segment) -> bool {
        match (self, segment) {
            (Self::AnyNumber | Self::AnySegment, _) => true,
            (Self::AnyElement, segment) => !matches!(segment, Segment::Field(_)),
            (Self::Is(wanted), segment) => wanted == segment,
            (Self::Element(wanted), Segment::Element(keys)) => {
                wanted.iter().all(|(key, value)| keys.iter().any(|(own, is)| own == key && value.matches(is)))
            }
            (Self::Token(token), Segment::Field(name)) => token == name,
            (Self::Token(token), Segment::Index(index)) => **token == *index.to_string(),
            (Self::Element(_) | Self::Token(_), _) => false,
        }
    }
}

impl FromStr for PathPattern {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.starts_with('/') {
            return pointer(text).map(Self);
        }
        parse(text)?.into_iter().map(step).collect::<Result<_, _>>().map(Self)
    }
}

/// The tokens of a JSON Pointer (RFC 6901), where `~1` is a slash and `~0` a tilde.
fn pointer(text: &str) -> Result<Vec<Step>, PathError> {
    let mut column = 1;
    let mut steps = Vec::new();
    for token in text.split('/').skip(1) {
        column += 1;
        let wrong = token
            .match_indices('~')
            .find(|(at, _)| !matches!(token.as_bytes().get(at + 1), Some(b'0' | b'1')));
        if let Some((at, _)) = wrong {
            let column = column + token[..at].chars().count();
            return Err(PathError::new(
                column,
                "in a JSON Pointer, `~` is written `~0` and `/` within a name `~1`",
            ));
        }
        if token.is_empty() {
            return Err(PathError::new(column, "a field's name is missing"));
        }
        column += token.chars().count();
        steps.push(Step::Token(token.replace("~1", "/").replace("~0", "~").into()));
    }
    Ok(steps)
}

fn step(part: Part) -> Result<Step, PathError> {
    let column = part.column;
    let glob = |word: Word| {
        // A quoted star is a star; no key of a list has one, so it matches nothing else.
        if word.quoted && word.text.contains('*') {
            return Err(PathError::new(column, "a key's value with a star in it cannot be quoted"));
        }
        Ok(Glob::new(&word.text))
    };
    let literal = |word: Word, message: &str| {
        if word.has_star() { Err(PathError::new(column, message)) } else { Ok(word.text) }
    };
    Ok(match part.kind {
        PartKind::Field(name) if !name.quoted && &*name.text == "*" => Step::AnySegment,
        PartKind::Field(name) if !name.quoted && &*name.text == "**" => Step::AnyNumber,
        PartKind::Field(name) => {
            let message = "a star stands for a whole segment: `*` for one, `**` for any number";
            Step::Is(Segment::Field(literal(name, message)?))
        }
        PartKind::Index(index) => Step::Is(Segment::Index(index)),
        PartKind::AnyElement => Step::AnyElement,
        PartKind::Value(value) => Step::Is(Segment::Value(literal(value, "write `[*]` for any element")?)),
        PartKind::Element(keys) => {
            let keys = keys.into_iter().map(|(key, value)| {
                Ok((literal(key, "a key's name has no stars; its value may")?, glob(value)?))
            });
            Step::Element(keys.collect::<Result<_, _>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::PathPattern;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let parsed: PathPattern = pattern.parse().unwrap();
        for path in matching {
            assert!(parsed.matches(&path.parse().unwrap()), "{pattern} should match {path}");
        }
        for path in others {
            assert!(!parsed.matches(&path.parse().unwrap()), "{pattern} should not match {path}");
        }
    }

    #[test]
    fn a_pattern_matches_what_it_names_and_everything_below() {
        check("spec.template", &["spec.template", "spec.template.spec.x"], &["spec", "spec.templates"]);
    }

    #[test]
    fn stars_stand_for_segments() {
        check(
            "spec.*.image",
            &["spec.a.image", "spec[0].image", "spec.a.image.b"],
            &["spec.image", "spec.a.b.image"],
        );
        check("**.image", &["image", "spec.a[name=b].image"], &["spec.a", "spec.images"]);
        check("a.**.c.**.e", &["a.c.e", "a.b.c.d.e", "a.c.c.d.d.e.f"], &["a.e.c", "a.b.c.d"]);
        check("**", &["a", "a.b"], &[]);
        check("a.**", &["a", "a.b"], &["b.a"]);
    }

    #[test]
    fn elements_are_matched_by_their_keys() {
        let containers = "spec.containers[name=web].image";
        check(containers, &[containers], &["spec.containers[name=db].image", "spec.containers[0].image"]);
        check("spec.containers[name=w*]", &[containers], &["spec.containers[name=db]"]);
        check("spec.containers[name=*].image", &[containers], &["spec.containers[id=web].image"]);
        check(
            "spec.containers[*].image",
            &[containers, "spec.containers[3].image"],
            &["spec.containers.image"],
        );
        check("ports[port=80]", &["ports[port=80,protocol=TCP]"], &["ports[port=81,protocol=TCP]"]);
    }

    #[test]
    fn what_is_quoted_is_literal() {
        let key = "metadata.annotations[\"kubectl.kubernetes.io/restartedAt\"]";
        check(key, &[key], &["metadata.annotations.kubectl"]);
        check("data[\"*\"]", &["data[\"*\"]"], &["data.a"]);
    }

    #[test]
    fn a_json_pointer_is_taken_literally() {
        check("/spec/replicas", &["spec.replicas"], &["spec.replica"]);
        check(
            "/metadata/annotations/a.b~1c~0d",
            &["metadata.annotations[\"a.b/c~d\"]"],
            &["metadata.annotations.a"],
        );
        check("/spec/args/0", &["spec.args[0]", "spec.args[\"0\"]"], &["spec.args[1]"]);
        check("/spec/*", &["spec[\"*\"]"], &["spec.a"]);
    }

    #[test]
    fn an_error_says_what_is_wrong_and_where() {
        for (text, column) in
            [("spec.temp*", 6), ("spec[na*e=web]", 5), ("/spec/a~2", 8), ("/", 2), ("//a", 2), ("spec.", 6)]
        {
            assert_eq!(text.parse::<PathPattern>().unwrap_err().column, column, "{text}");
        }
    }
}
