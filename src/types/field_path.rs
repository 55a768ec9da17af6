//! Paths of fields, patterns of paths, and the one parser of both.

use std::{
    fmt::{self, Write as _},
    str::FromStr,
};

use super::{Glob, ShortText};

/// The path of a field in an object: `spec.template.spec.containers[name=web].image`.
///
/// A name with dots or other special characters is quoted: `metadata.annotations["example.com/owner"]`. An element of a list is
/// identified by its keys (`ports[containerPort=80,protocol=TCP]`), by its value if the list is a set
/// (`finalizers[=example.com/hold]`), or by its index (`args[0]`). Within quotes, a backslash escapes a quote or a backslash.
///
/// A path has its text beside its segments, so that writing it costs nothing. Different paths have different texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    text: Box<str>,
    segments: Box<[Segment]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment<V = ShortText> {
    Field(ShortText),
    /// The list element with these keys and values; at least one.
    Element(Box<[(ShortText, V)]>),
    Index(usize),
    /// The set element with this value.
    Value(V),
}

impl<V> Segment<V> {
    /// The same segment with its values converted.
    pub fn map_values<T>(&self, convert: impl Fn(&V) -> T) -> Segment<T> {
        match self {
            Self::Field(name) => Segment::Field(name.clone()),
            Self::Index(at) => Segment::Index(*at),
            Self::Element(keys) => {
                Segment::Element(keys.iter().map(|(name, value)| (name.clone(), convert(value))).collect())
            }
            Self::Value(value) => Segment::Value(convert(value)),
        }
    }
}

impl FieldPath {
    pub fn new(segments: Vec<Segment>) -> Self {
        Self { text: text_of(&segments), segments: segments.into() }
    }

    /// The path of a field that is not in a list.
    pub fn of_fields<const N: usize>(names: [&str; N]) -> Self {
        Self::new(names.map(|name| Segment::Field(name.into())).into())
    }

    /// Parses back to the same path.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// From the root of the object to the field.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The names of all segments that are fields.
    pub fn field_names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Field(name) => Some(name.as_str()),
            Segment::Element(_) | Segment::Index(_) | Segment::Value(_) => None,
        })
    }

    /// Parses kubectl's `JSONPath`, limited to expressions that select a single field: `.status.lastAppliedHash`,
    /// `{.status.phase}`, `.status.conditions[?(@.type=="Ready")].reason`, `.metadata.annotations['example.com/hash']`.
    pub fn from_json_path(text: &str) -> Result<Self, JsonPathError> {
        let invalid = |problem: JsonPathProblem| JsonPathError { path: text.into(), problem };
        let inner = text.trim();
        let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner).trim();
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        if inner.contains('\\') {
            return Err(invalid(JsonPathProblem::EscapedName));
        }
        let inner = inner.strip_prefix('.').unwrap_or(inner);
        let plain = without_filters(inner).map_err(&invalid)?;
        plain.parse().map_err(|error: PathError| invalid(JsonPathProblem::Path(error.problem)))
    }
}

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        parse_tokens(text)?.into_iter().map(segment).collect::<Result<_, _>>().map(Self::new)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

fn text_of(segments: &[Segment]) -> Box<str> {
    let mut text = String::with_capacity(64);
    for (at, segment) in segments.iter().enumerate() {
        match segment {
            Segment::Field(name) => push_field(&mut text, name, at == 0),
            // Writing to a string does not fail.
            Segment::Index(index) => drop(write!(text, "[{index}]")),
            Segment::Value(value) => {
                text.push_str("[=");
                push_word(&mut text, value);
                text.push(']');
            }
            Segment::Element(keys) => {
                for (at, (key, value)) in keys.iter().enumerate() {
                    text.push(if at == 0 { '[' } else { ',' });
                    push_word(&mut text, key);
                    text.push('=');
                    push_word(&mut text, value);
                }
                text.push(']');
            }
        }
    }
    text.into()
}

fn segment(token: PathToken) -> Result<Segment, PathError> {
    let column = token.column;
    let text = |word: Word| word.literal(column, PathProblem::StarOutsidePattern);
    Ok(match token.kind {
        TokenKind::Field(name) => Segment::Field(text(name)?),
        TokenKind::Index(index) => Segment::Index(index),
        TokenKind::Value(value) => Segment::Value(text(value)?),
        TokenKind::Element(keys) => {
            let keys = keys.into_iter().map(|(key, value)| Ok((text(key)?, text(value)?)));
            Segment::Element(keys.collect::<Result<_, _>>()?)
        }
        TokenKind::AnyElement => {
            return Err(PathError { column, problem: PathProblem::StarOutsidePattern });
        }
    })
}

/// A path with wildcards, or a JSON Pointer. It matches the named field and everything below it.
///
/// `*` matches one segment, `**` any number of segments, `[*]` any element of a list, `[name=web-*]` the elements whose key
/// matches the glob. Quoted text and JSON Pointers (`/spec/replicas`) are literal.
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
    /// A field, an index or a set element.
    Exactly(Segment),
    /// An element with at least these keys.
    Element(Vec<(ShortText, Glob)>),
    /// A token of a JSON Pointer, which does not distinguish fields from indices.
    Token(ShortText),
}

impl PathPattern {
    /// `**`.
    pub fn anything() -> Self {
        Self(vec![Step::AnyNumber])
    }

    /// The patterns of a list that commas separate, without blanks around them. A comma within brackets belongs to its pattern.
    pub fn split_list(list: &str) -> impl Iterator<Item = &str> {
        let mut left = Some(list);
        let patterns = std::iter::from_fn(move || {
            let list = left.take()?;
            let (pattern, rest) = list.split_at(end_of_pattern(list));
            left = rest.strip_prefix(',');
            Some(pattern.trim())
        });
        patterns.filter(|pattern| !pattern.is_empty())
    }

    /// Whether the pattern names this path or a parent of it.
    pub fn matches(&self, path: &FieldPath) -> bool {
        let (steps, segments) = (&self.0, path.segments());
        let (mut step, mut at) = (0, 0);
        // Backtracking: if a step fails, the last `**` matches one more segment.
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
            (Self::Exactly(wanted), segment) => wanted == segment,
            (Self::Element(wanted), Segment::Element(keys)) => wanted
                .iter()
                .all(|(key, value)| keys.iter().any(|(name, is)| name == key && value.matches(is))),
            (Self::Token(token), Segment::Field(name)) => token == name,
            (Self::Token(token), Segment::Index(index)) => *token == *index.to_string(),
            (Self::Element(_) | Self::Token(_), _) => false,
        }
    }
}

impl FromStr for PathPattern {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.starts_with('/') {
            return parse_pointer(text).map(Self);
        }
        parse_tokens(text)?.into_iter().map(step).collect::<Result<_, _>>().map(Self)
    }
}

/// The length of the first pattern of a list. A bracket that is not closed does not hide the rest of the list, and those of a
/// JSON Pointer are literal.
fn end_of_pattern(list: &str) -> usize {
    let first_comma = list.find(',').unwrap_or(list.len());
    if list.trim_start().starts_with('/') {
        return first_comma;
    }
    let (mut in_brackets, mut in_quotes, mut is_escaped) = (false, false, false);
    for (at, c) in list.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if in_quotes => is_escaped = true,
            '"' if in_brackets => in_quotes = !in_quotes,
            _ if in_quotes => {}
            '[' if in_brackets => return first_comma,
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            ',' if !in_brackets => return at,
            _ => {}
        }
    }
    if in_brackets { first_comma } else { list.len() }
}

/// Parses a JSON Pointer (RFC 6901), in which `~1` is a slash and `~0` a tilde.
fn parse_pointer(text: &str) -> Result<Vec<Step>, PathError> {
    let mut column = 1;
    let mut steps = Vec::new();
    for token in text.split('/').skip(1) {
        column += 1;
        let invalid = token
            .match_indices('~')
            .find(|(at, _)| !matches!(token.as_bytes().get(at + 1), Some(b'0' | b'1')));
        if let Some((at, _)) = invalid {
            let column = column + token[..at].chars().count();
            return Err(PathError { column, problem: PathProblem::PointerEscape });
        }
        if token.is_empty() {
            return Err(PathError { column, problem: PathProblem::NoFieldName });
        }
        column += token.chars().count();
        steps.push(Step::Token(token.replace("~1", "/").replace("~0", "~").into()));
    }
    Ok(steps)
}

fn step(token: PathToken) -> Result<Step, PathError> {
    let column = token.column;
    let glob = |word: Word| {
        // A quoted star would be literal, and no key of a list contains one.
        if word.quoted && word.text.contains('*') {
            return Err(PathError { column, problem: PathProblem::QuotedStar });
        }
        Ok(Glob::new(&word.text))
    };
    Ok(match token.kind {
        TokenKind::Field(name) if !name.quoted && name.text == "*" => Step::AnySegment,
        TokenKind::Field(name) if !name.quoted && name.text == "**" => Step::AnyNumber,
        TokenKind::Field(name) => {
            Step::Exactly(Segment::Field(name.literal(column, PathProblem::StarInName)?))
        }
        TokenKind::Index(index) => Step::Exactly(Segment::Index(index)),
        TokenKind::AnyElement => Step::AnyElement,
        TokenKind::Value(value) => {
            Step::Exactly(Segment::Value(value.literal(column, PathProblem::StarInSetElement)?))
        }
        TokenKind::Element(keys) => {
            let keys = keys
                .into_iter()
                .map(|(key, value)| Ok((key.literal(column, PathProblem::StarInKey)?, glob(value)?)));
            Step::Element(keys.collect::<Result<_, _>>()?)
        }
    })
}

/// One segment of the text of a path or of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PathToken {
    /// In characters, from 1.
    column: usize,
    kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TokenKind {
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

/// A name or a value. A star in quoted text is literal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: ShortText,
    quoted: bool,
}

impl Word {
    /// The text, unless it has an unquoted star.
    fn literal(self, column: usize, problem: PathProblem) -> Result<ShortText, PathError> {
        let has_star = !self.quoted && self.text.contains('*');
        if has_star { Err(PathError { column, problem }) } else { Ok(self.text) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (at character {column})")]
pub struct PathError {
    /// In characters, from 1.
    pub column: usize,
    #[source]
    pub problem: PathProblem,
}

/// Why a text is not a path or a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    #[error("a field name is missing")]
    NoFieldName,
    #[error("a name or a value is missing")]
    NoWord,
    #[error("unexpected `{0}`")]
    Unexpected(char),
    #[error("unexpected `.` before `[`")]
    DotBeforeBracket,
    #[error("`[{0}]` is neither an index nor `[key=value]`; quote a field name: `[\"{0}\"]`")]
    UnquotedName(Box<str>),
    #[error("the bracket is not closed")]
    UnclosedBracket,
    #[error("the quote is not closed")]
    UnclosedQuote,
    #[error("invalid escape; want `\\\"` or `\\\\`")]
    Escape,
    #[error("invalid escape in a JSON Pointer; want `~0` for `~` and `~1` for `/`")]
    PointerEscape,
    #[error("`*` is allowed in patterns only")]
    StarOutsidePattern,
    #[error("a star matches whole segments: `*` one, `**` any number")]
    StarInName,
    #[error("a value with a star cannot be quoted")]
    QuotedStar,
    #[error("a set element cannot contain a star; want `[*]` for any element")]
    StarInSetElement,
    #[error("the name of a key cannot contain a star; its value can")]
    StarInKey,
}

/// The text is not a `JSONPath` that selects a single field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid path `{path}`: {problem}; want the path of a single field")]
pub struct JsonPathError {
    path: Box<str>,
    #[source]
    problem: JsonPathProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum JsonPathProblem {
    #[error("a name with dots must be quoted, as in `['example.com/hash']`")]
    EscapedName,
    #[error("the filter is not closed")]
    UnclosedFilter,
    #[error("the bracket is not closed")]
    UnclosedBracket,
    #[error("a filter compares with `==`")]
    Operator,
    #[error("a filter compares a field of the element, `@.type`")]
    Operand,
    // Its column is that of the rewritten path.
    #[error(transparent)]
    Path(PathProblem),
}

/// Parses the common syntax of paths and patterns.
fn parse_tokens(text: &str) -> Result<Vec<PathToken>, PathError> {
    let mut cursor = Cursor { left: text, column: 1 };
    let mut tokens = Vec::new();
    loop {
        let column = cursor.column;
        let kind = match cursor.peek() {
            Some('[') => {
                cursor.take();
                cursor.brackets()?
            }
            Some(_) | None => TokenKind::Field(cursor.field_name()?),
        };
        tokens.push(PathToken { column, kind });
        match cursor.peek() {
            None => return Ok(tokens),
            Some('[') => {}
            Some('.') => {
                cursor.take();
                if cursor.peek() == Some('[') {
                    return Err(cursor.error(PathProblem::DotBeforeBracket));
                }
            }
            Some(other) => return Err(cursor.error(PathProblem::Unexpected(other))),
        }
    }
}

/// Appends a field name: bare if it parses back, else quoted in brackets.
fn push_field(path: &mut String, name: &str, is_first: bool) {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    if name.is_empty() || !name.chars().all(is_plain) {
        path.push('[');
        push_quoted(path, name);
        return path.push(']');
    }
    if !is_first {
        path.push('.');
    }
    path.push_str(name);
}

/// Appends a text within brackets: bare if it parses back, else quoted.
fn push_word(path: &mut String, text: &str) {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '@' | '$');
    if text.is_empty() || !text.chars().all(is_plain) {
        return push_quoted(path, text);
    }
    path.push_str(text);
}

fn push_quoted(path: &mut String, text: &str) {
    path.push('"');
    for c in text.chars() {
        if matches!(c, '\\' | '"') {
            path.push('\\');
        }
        path.push(c);
    }
    path.push('"');
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

    fn error(&self, problem: PathProblem) -> PathError {
        PathError { column: self.column, problem }
    }

    /// Parses from behind the opening bracket to the closing one.
    fn brackets(&mut self) -> Result<TokenKind, PathError> {
        let column = self.column;
        if self.peek() == Some('=') {
            self.take();
            let value = self.bracket_word()?;
            self.expect(']')?;
            return Ok(TokenKind::Value(value));
        }
        let first = self.bracket_word()?;
        if self.peek() == Some(']') {
            self.take();
            return match first.text.parse() {
                _ if first.quoted => Ok(TokenKind::Field(first)),
                Ok(index) if first.text.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Ok(TokenKind::Index(index))
                }
                _ if first.text == "*" => Ok(TokenKind::AnyElement),
                _ => {
                    let problem = PathProblem::UnquotedName(first.text.as_str().into());
                    Err(PathError { column, problem })
                }
            };
        }
        self.expect('=')?;
        let mut keys = vec![(first, self.bracket_word()?)];
        while self.peek() == Some(',') {
            self.take();
            let key = self.bracket_word()?;
            self.expect('=')?;
            keys.push((key, self.bracket_word()?));
        }
        self.expect(']')?;
        Ok(TokenKind::Element(keys))
    }

    /// Takes this character within brackets.
    fn expect(&mut self, wanted: char) -> Result<(), PathError> {
        match self.peek() {
            Some(found) if found == wanted => {
                self.take();
                Ok(())
            }
            Some(other) => Err(self.error(PathProblem::Unexpected(other))),
            None => Err(self.error(PathProblem::UnclosedBracket)),
        }
    }

    /// A text within brackets, quoted or bare. A bare text may contain dots.
    fn bracket_word(&mut self) -> Result<Word, PathError> {
        if self.peek() == Some('"') {
            return self.quoted();
        }
        let ends = |c: char| matches!(c, '[' | ']' | ',' | '=' | '"') || c.is_whitespace() || c.is_control();
        self.until(ends, PathProblem::NoWord)
    }

    fn field_name(&mut self) -> Result<Word, PathError> {
        let ends =
            |c: char| matches!(c, '.' | '[' | ']' | ',' | '=' | '"') || c.is_whitespace() || c.is_control();
        self.until(ends, PathProblem::NoFieldName)
    }

    fn until(&mut self, ends: impl Fn(char) -> bool, missing: PathProblem) -> Result<Word, PathError> {
        let column = self.column;
        let mut text = ShortText::new();
        while let Some(c) = self.peek().filter(|c| !ends(*c)) {
            text.push(c);
            self.take();
        }
        if text.is_empty() {
            return Err(PathError { column, problem: missing });
        }
        Ok(Word { text, quoted: false })
    }

    fn quoted(&mut self) -> Result<Word, PathError> {
        let column = self.column;
        self.take();
        let mut text = ShortText::new();
        loop {
            match self.take() {
                None => return Err(PathError { column, problem: PathProblem::UnclosedQuote }),
                Some('"') => return Ok(Word { text, quoted: true }),
                Some('\\') => {
                    let Some(escaped @ ('"' | '\\')) = self.take() else {
                        return Err(PathError { column: self.column - 1, problem: PathProblem::Escape });
                    };
                    text.push(escaped);
                }
                Some(c) => text.push(c),
            }
        }
    }
}

/// Rewrites `[?(@.type=="Ready")]` as `[type="Ready"]` and `['a']` as `["a"]`.
fn without_filters(text: &str) -> Result<String, JsonPathProblem> {
    let mut plain = String::with_capacity(text.len());
    let mut left = text;
    while let Some(at) = left.find('[') {
        let (before, bracket) = left.split_at(at);
        plain.push_str(before);
        let (inside, rest) = match bracket.strip_prefix("[?(") {
            Some(filter) => filter.split_once(")]").ok_or(JsonPathProblem::UnclosedFilter)?,
            None => bracket[1..].split_once(']').ok_or(JsonPathProblem::UnclosedBracket)?,
        };
        plain.push('[');
        if bracket.starts_with("[?(") {
            let (key, value) = inside.split_once("==").ok_or(JsonPathProblem::Operator)?;
            let key = key.trim().strip_prefix("@.").ok_or(JsonPathProblem::Operand)?;
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
