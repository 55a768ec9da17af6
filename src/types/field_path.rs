//! Paths of fields, patterns of paths, and the one parser of both.

use std::{fmt, str::FromStr};

use super::Glob;

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

/// One part of a written path, before it is known whether it is a path or a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where it begins, counted in characters from 1.
    pub(super) column: usize,
    /// What it says.
    pub(super) kind: PartKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// `image` or `["app.kubernetes.io/name"]`.
    Field(Word),
    /// `[3]`.
    Index(usize),
    /// `[*]`.
    AnyElement,
    /// `[=value]`.
    Value(Word),
    /// `[name=web]` or `[containerPort=80,protocol=TCP]`.
    Element(Vec<(Word, Word)>),
}

/// A piece of text; only where it is not quoted does a star mean anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: Box<str>,
    pub(super) quoted: bool,
}

impl Word {
    /// Whether it has a star that means something.
    pub(super) fn has_star(&self) -> bool {
        !self.quoted && self.text.contains('*')
    }
}

/// What is wrong with a written path, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// The character at which it goes wrong, counted from 1.
    pub column: usize,
    /// What is wrong.
    pub message: Box<str>,
}

impl PathError {
    pub(super) fn new(column: usize, message: impl Into<Box<str>>) -> Self {
        Self { column, message: message.into() }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (at character {})", self.message, self.column)
    }
}

impl std::error::Error for PathError {}

/// Splits a written path into its parts.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, PathError> {
    let mut cursor = Cursor { left: text, column: 1 };
    let mut parts = Vec::new();
    loop {
        let column = cursor.column;
        let kind = match cursor.peek() {
            Some('[') => {
                cursor.take();
                cursor.brackets()?
            }
            Some(_) | None => PartKind::Field(cursor.bare("a field's name is missing")?),
        };
        parts.push(Part { column, kind });
        match cursor.peek() {
            None => return Ok(parts),
            Some('[') => {}
            Some('.') => {
                cursor.take();
                if cursor.peek() == Some('[') {
                    return Err(PathError::new(cursor.column, "no dot stands before a bracket"));
                }
            }
            Some(other) => return Err(cursor.unexpected(other)),
        }
    }
}

/// Writes a field's name: bare where that can be read back, else quoted in brackets.
pub(super) fn write_field(formatter: &mut fmt::Formatter<'_>, name: &str, is_first: bool) -> fmt::Result {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    if name.is_empty() || !name.chars().all(is_plain) {
        formatter.write_str("[")?;
        write_quoted(formatter, name)?;
        return formatter.write_str("]");
    }
    if !is_first {
        formatter.write_str(".")?;
    }
    formatter.write_str(name)
}

/// Writes a text within brackets: bare where that can be read back, else quoted.
pub(super) fn write_word(formatter: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '@' | '$');
    if text.is_empty() || !text.chars().all(is_plain) {
        return write_quoted(formatter, text);
    }
    formatter.write_str(text)
}

fn write_quoted(formatter: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(formatter, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

struct Cursor<'a> {
    left: &'a str,
    column: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<char> {
        self.left.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let mut characters = self.left.chars();
        let taken = characters.next()?;
        self.left = characters.as_str();
        self.column += 1;
        Some(taken)
    }

    fn unexpected(&self, found: char) -> PathError {
        PathError::new(self.column, format!("unexpected `{found}`"))
    }

    /// What follows an opening bracket, up to and with the closing one.
    fn brackets(&mut self) -> Result<PartKind, PathError> {
        let column = self.column;
        if self.peek() == Some('=') {
            self.take();
            let value = self.word()?;
            self.close()?;
            return Ok(PartKind::Value(value));
        }
        let first = self.word()?;
        if self.peek() == Some(']') {
            self.take();
            return match first.text.parse() {
                _ if first.quoted => Ok(PartKind::Field(first)),
                Ok(index) if first.text.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Ok(PartKind::Index(index))
                }
                _ if &*first.text == "*" => Ok(PartKind::AnyElement),
                _ => {
                    let message = format!(
                        "`[{0}]` is no index and no `[key=value]`; a field's name is quoted: `[\"{0}\"]`",
                        first.text
                    );
                    Err(PathError::new(column, message))
                }
            };
        }
        self.equals()?;
        let mut keys = vec![(first, self.word()?)];
        while self.peek() == Some(',') {
            self.take();
            let key = self.word()?;
            self.equals()?;
            keys.push((key, self.word()?));
        }
        self.close()?;
        Ok(PartKind::Element(keys))
    }

    fn equals(&mut self) -> Result<(), PathError> {
        match self.peek() {
            Some('=') => {
                self.take();
                Ok(())
            }
            Some(other) => Err(self.unexpected(other)),
            None => Err(PathError::new(self.column, "the bracket is not closed")),
        }
    }

    fn close(&mut self) -> Result<(), PathError> {
        match self.peek() {
            Some(']') => {
                self.take();
                Ok(())
            }
            Some(other) => Err(self.unexpected(other)),
            None => Err(PathError::new(self.column, "the bracket is not closed")),
        }
    }

    /// A text within brackets, quoted or bare; dots need no quotes here.
    fn word(&mut self) -> Result<Word, PathError> {
        if self.peek() == Some('"') {
            return self.quoted();
        }
        let ends = |c: char| matches!(c, '[' | ']' | ',' | '=' | '"') || c.is_whitespace() || c.is_control();
        self.until(ends, "something is missing here")
    }

    fn bare(&mut self, missing: &str) -> Result<Word, PathError> {
        let ends =
            |c: char| matches!(c, '.' | '[' | ']' | ',' | '=' | '"') || c.is_whitespace() || c.is_control();
        self.until(ends, missing)
    }

    fn until(&mut self, ends: impl Fn(char) -> bool, missing: &str) -> Result<Word, PathError> {
        let column = self.column;
        let mut text = String::new();
        while let Some(c) = self.peek().filter(|c| !ends(*c)) {
            text.push(c);
            self.take();
        }
        if text.is_empty() {
            return Err(PathError::new(column, missing));
        }
        Ok(Word { text: text.into(), quoted: false })
    }

    fn quoted(&mut self) -> Result<Word, PathError> {
        let column = self.column;
        self.take();
        let mut text = String::new();
        loop {
            match self.take() {
                None => return Err(PathError::new(column, "the quote is not closed")),
                Some('"') => return Ok(Word { text: text.into(), quoted: true }),
                Some('\\') => {
                    let Some(escaped @ ('"' | '\\')) = self.take() else {
                        let message = "a backslash stands before a quote or another backslash only";
                        return Err(PathError::new(self.column - 1, message));
                    };
                    text.push(escaped);
                }
                Some(c) => text.push(c),
            }
        }
    }
}

impl FieldPath {
    /// Reads `.status.lastAppliedHash`, `{.status.phase}`, `.status.conditions[?(@.type=="Ready")].reason` and
    /// `.metadata.annotations['example.com/hash']`. What names several fields, or needs more than that, is refused: the
    /// error says what is wrong.
    pub fn from_json_path(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}` is no path to a single field: {why}");
        let inner = text.trim();
        let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner).trim();
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        if inner.contains('\\') {
            return Err(wrong("a name with dots in it is quoted, as in `['example.com/hash']`"));
        }
        let inner = inner.strip_prefix('.').unwrap_or(inner);
        let plain = without_filters(inner).map_err(&wrong)?;
        plain.parse().map_err(|error: PathError| wrong(&error.message))
    }
}

/// The same in our own way of writing: `[?(@.type=="Ready")]` is `[type="Ready"]`, `['a']` is `["a"]`.
fn without_filters(text: &str) -> Result<String, &'static str> {
    let mut plain = String::with_capacity(text.len());
    let mut left = text;
    while let Some(at) = left.find('[') {
        let (before, bracket) = left.split_at(at);
        plain.push_str(before);
        let (inside, rest) = match bracket.strip_prefix("[?(") {
            Some(filter) => filter.split_once(")]").ok_or("the filter is not closed")?,
            None => bracket[1..].split_once(']').ok_or("the bracket is not closed")?,
        };
        plain.push('[');
        if bracket.starts_with("[?(") {
            let (key, value) = inside.split_once("==").ok_or("a filter compares with `==`")?;
            let key =
                key.trim().strip_prefix("@.").ok_or("a filter compares a field of the element, `@.type`")?;
            plain.extend([key, "=", &with_double_quotes(value.trim())]);
        } else {
            plain.push_str(&with_double_quotes(inside));
        }
        plain.push(']');
        left = rest;
    }
    plain.push_str(left);
    Ok(plain)
}

fn with_double_quotes(text: &str) -> String {
    let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    quoted.map_or_else(|| text.to_owned(), |text| format!("\"{text}\""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{FieldPath, PathPattern, Segment};

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
    fn pattern_errors_have_a_column() {
        for (text, column) in
            [("spec.temp*", 6), ("spec[na*e=web]", 5), ("/spec/a~2", 8), ("/", 2), ("//a", 2), ("spec.", 6)]
        {
            assert_eq!(text.parse::<PathPattern>().unwrap_err().column, column, "{text}");
        }
    }

    #[test]
    fn what_kubectl_takes_for_a_single_field_is_understood() {
        for (text, wanted) in [
            (".status.lastAppliedHash", "status.lastAppliedHash"),
            ("status.phase", "status.phase"),
            ("{.status.phase}", "status.phase"),
            ("{ $.status.phase }", "status.phase"),
            (".status.conditions[?(@.type==\"Ready\")].message", "status.conditions[type=Ready].message"),
            (".status.conditions[?(@.type == 'Ready')].reason", "status.conditions[type=Ready].reason"),
            (".metadata.annotations['example.com/hash']", "metadata.annotations[\"example.com/hash\"]"),
            (".status.history[0].hash", "status.history[0].hash"),
        ] {
            assert_eq!(FieldPath::from_json_path(text).unwrap().to_string(), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_more_than_that_is_refused_and_why() {
        for (text, why) in [
            ("", "a field's name is missing"),
            (".", "a field's name is missing"),
            ("..phase", "a field's name is missing"),
            (".status.*", "a star"),
            (".status.conditions[*].type", "a star"),
            (".status.conditions[0:2]", "no index"),
            (".status.conditions[?(@.type!=\"Ready\")].x", "`==`"),
            (".status.conditions[?(type==\"Ready\")].x", "`@.type`"),
            (".status.conditions[?(@.type==\"Ready\"", "not closed"),
            (".metadata.annotations.example\\.com/hash", "quoted"),
        ] {
            let error = FieldPath::from_json_path(text).unwrap_err();
            assert!(error.contains(why) && error.contains(text), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_json_path_makes_the_parser_panic(text in "[a-z.*\\[\\]\"'=,\\\\?(@)0-9 {}$]{0,24}") {
            let _ = FieldPath::from_json_path(&text);
        }
    }
}
