//! `drift-exporter diff`.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    io::{self, IsTerminal as _, Write as _},
    process,
};

use clap::ColorChoice;
use serde::Serialize;
use serde_json::Value;
use serde_saphyr::{SerializeError, Tagged};
use similar::TextDiff;

use super::{
    Outcome,
    args::DiffArgs,
    client::{NamespaceScope, Query},
    error::CliError,
    get::{outcome, untrusted_note},
    output::{Console, block_on, escape_control, escape_line},
    resources::{ClaimView, ExporterStatus, FetchedClaim, fetch_claims},
};
use crate::types::{
    FieldPath, FieldValue, KeyedDigest, Segment, ShortText, ValueDigest, VerdictKind, WatchMode,
};

pub(super) fn run(arguments: &DiffArgs, console: &mut Console) -> Result<Outcome, CliError> {
    let (rows, outcome) = block_on(fetch(arguments, console))?;
    let drifted = rows.iter().map(|row| &row.claim).filter(|claim| claim.is_drifted());
    let diffs = drifted.map(ClaimDiff::new).collect::<Result<Vec<ClaimDiff>, CliError>>()?;
    match env::var(EXTERNAL_DIFF).ok().filter(|program| !program.is_empty()) {
        Some(program) if !diffs.is_empty() => run_external_diff(&program, &diffs, console),
        Some(_) | None => {
            let is_terminal = io::stdout().is_terminal();
            let color = use_color(arguments.color, |name| env::var_os(name), is_terminal);
            for diff in &diffs {
                console.print(diff.unified(color))?;
            }
            Ok(outcome)
        }
    }
}

async fn fetch(
    arguments: &DiffArgs,
    console: &mut Console,
) -> Result<(Vec<FetchedClaim>, Outcome), CliError> {
    let scope = NamespaceScope::from_args(&arguments.scope, &arguments.exporter).await;
    let resources = arguments.resources.clone();
    let selector = arguments.selector.as_ref();
    let mut query =
        Query::open(&arguments.exporter, scope, resources, selector, WatchMode::Once, console).await?;
    let (rows, gaps) = fetch_claims(&mut query).await?;
    let status = ExporterStatus::fetch(&query, gaps).await?;
    let outcome = outcome(&query, &rows, &status)?;
    let lines = incomparable(&query, &rows, &status).into_iter();
    for line in lines.chain(untrusted_note(&rows)).chain(status.gap_summary()) {
        console.note(line)?;
    }
    Ok((rows, outcome))
}

/// Lines for objects that were not found or could not be compared, which a diff cannot show.
fn incomparable(query: &Query, rows: &[FetchedClaim], status: &ExporterStatus) -> Vec<String> {
    let missing = query.targets.iter().filter(|target| !target.is_found).map(|target| &target.resource);
    // An object whose watch is down may exist.
    let missing = missing.filter(|resource| status.kind_down(resource).is_none());
    let named =
        missing.filter_map(|resource| Some((resource.kind.trim_end_matches('.'), resource.name.as_ref()?)));
    let mut lines: Vec<String> =
        named.map(|(kind, name)| format!("{kind}/{name} not found, or no source declares it")).collect();
    if rows.is_empty() && lines.is_empty() {
        lines.push("nothing found".to_owned());
    }
    let unknown =
        rows.iter().map(|row| &row.claim).filter(|claim| claim.verdict.known() == Some(VerdictKind::Unknown));
    lines.extend(unknown.map(|claim| {
        let namespace = &claim.namespace;
        let location = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
        let reason = claim.unknown_reason().unwrap_or_else(|| "the exporter reports no reason".to_owned());
        escape_control(&format!("{}{location} cannot be compared: {reason}", claim.kubectl_name()))
    }));
    lines
}

/// The fields of a claim that differ, as YAML.
struct ClaimDiff {
    /// `apps.v1.Deployment.shop.web.helm`: the file name that `kubectl diff` uses, and the source.
    file_name: String,
    declared_by: String,
    changed_by: String,
    declared: String,
    live: String,
}

impl ClaimDiff {
    fn new(claim: &ClaimView) -> Result<Self, CliError> {
        let ClaimView { api_version, kind, namespace, resource_name, .. } = claim;
        let api_version = api_version.replace('/', ".");
        let parts = [&*api_version, kind, namespace, resource_name].into_iter();
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        // Several sources may declare the object.
        let file_name = format!("{}.{}", parts.join("."), claim.source).replace('/', "_");
        let declaration = claim.declared_by.first();
        let declaration = declaration.map(|first| format!(" {} {}", first.state, first.address));
        let declared_by =
            escape_line(&format!("{}{}", claim.source, declaration.unwrap_or_default().trim_end()));
        let changed_by = claim.differences.first().map(|worst| {
            let onset = worst.onset.map(|onset| onset.strftime(" %Y-%m-%dT%H:%M:%SZ").to_string());
            let tool = worst.manager.as_deref().unwrap_or(worst.actor.as_str());
            escape_line(&format!("{tool}{}", onset.unwrap_or_default()))
        });
        let changed_by = changed_by.unwrap_or_default();
        let fields = claim.differences.iter();
        let declared = as_yaml(fields.clone().map(|field| (&*field.path, field.expected_value())))?;
        let live = as_yaml(fields.map(|field| (&*field.path, field.actual_value())))?;
        Ok(Self { file_name, declared_by, changed_by, declared, live })
    }

    fn unified(&self, color: bool) -> String {
        let Self { file_name, declared_by, changed_by, declared, live } = self;
        let diff = TextDiff::from_lines(&**declared, &**live);
        let (from, to) =
            (format!("declared/{file_name}\t{declared_by}"), format!("live/{file_name}\t{changed_by}"));
        let text = diff.unified_diff().context_radius(3).header(&from, to.trim_end()).to_string();
        let text = escape_control(&text);
        if !color {
            return text;
        }
        text.lines().map(|line| colorize(line) + "\n").collect()
    }
}

/// `auto` uses colors on a terminal unless `NO_COLOR` is set or `TERM` is `dumb`.
fn use_color(choice: ColorChoice, variable: impl Fn(&str) -> Option<OsString>, is_terminal: bool) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let no_color = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
            is_terminal && !no_color && variable("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

fn colorize(line: &str) -> String {
    let code = match line.as_bytes() {
        [b'-', b'-', b'-', ..] | [b'+', b'+', b'+', ..] => "1",
        [b'@', ..] => "36",
        [b'-', ..] => "31",
        [b'+', ..] => "32",
        _ => return line.to_owned(),
    };
    format!("\u{1b}[{code}m{line}\u{1b}[0m")
}

/// The variable of `kubectl diff` that names another diff program.
const EXTERNAL_DIFF: &str = "KUBECTL_EXTERNAL_DIFF";

/// The longest file name of common file systems, in bytes.
const MAX_FILE_NAME: usize = 255;

#[derive(Debug, thiserror::Error)]
pub(super) enum ExternalDiffError {
    #[error("cannot write files for {EXTERNAL_DIFF}: {0}")]
    Files(#[source] io::Error),
    #[error("cannot run `{program}` of {EXTERNAL_DIFF}: {source}")]
    Run { program: String, source: io::Error },
    #[error("`{program}` of {EXTERNAL_DIFF} failed: {status}")]
    Failed { program: String, status: process::ExitStatus },
}

/// Runs the program like kubectl does: on two folders with a file for each object, and with this process's terminal.
fn run_external_diff(program: &str, diffs: &[ClaimDiff], console: &mut Console) -> Result<Outcome, CliError> {
    let file_error = ExternalDiffError::Files;
    let folder = |name: &str| tempfile::Builder::new().prefix(name).tempdir().map_err(file_error);
    let (declared, live) = (folder("DECLARED-")?, folder("LIVE-")?);
    for diff in diffs {
        let name = shorten_file_name(&diff.file_name);
        fs::write(declared.path().join(&name), &diff.declared).map_err(file_error)?;
        fs::write(live.path().join(&name), &diff.live).map_err(file_error)?;
    }
    let (name, arguments) = split_command(program);
    console.stdout.flush().map_err(CliError::Output)?;
    let status = process::Command::new(name).arg(declared.path()).arg(live.path()).args(arguments).status();
    let program = || name.to_owned();
    let status = status.map_err(|source| ExternalDiffError::Run { program: program(), source })?;
    match status.code() {
        Some(0) => Ok(Outcome::Success),
        Some(1) => Ok(Outcome::Negative),
        _ => Err(ExternalDiffError::Failed { program: program(), status }.into()),
    }
}

/// Like kubectl, drops arguments with other characters than letters, digits, `-` and `=`.
fn split_command(program: &str) -> (&str, Vec<&str>) {
    let mut words = program.split(' ');
    let name = words.next().unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '=');
    (name, words.filter(|word| !word.is_empty() && word.chars().all(allowed)).collect())
}

/// Replaces the end of a name that is too long by a digest of the name, so that names stay unique.
fn shorten_file_name(name: &str) -> String {
    if name.len() <= MAX_FILE_NAME {
        return name.to_owned();
    }
    let digest = ValueDigest::of(name).to_string().replace(':', "-");
    let max_prefix = MAX_FILE_NAME - digest.len() - 1;
    let end = (0..=max_prefix).rev().find(|at| name.is_char_boundary(*at)).unwrap_or_default();
    format!("{}.{digest}", &name[..end])
}

/// One side of a list of differences as YAML.
fn as_yaml<'a>(fields: impl IntoIterator<Item = (&'a str, FieldValue)>) -> Result<String, SerializeError> {
    let mut object = FieldTree::default();
    for (path, value) in fields {
        match path.parse::<FieldPath>() {
            Ok(parsed) => object.insert(parsed.segments(), &value),
            Err(_) => object.insert(&[Segment::Field(path.into())], &value),
        }
    }
    object.into_yaml().map_or_else(|| Ok(String::new()), |yaml| serde_saphyr::to_string(&yaml))
}

/// Only redacted and omitted values have a tag: the serializer quotes strings that look like a tag.
#[derive(Serialize)]
#[serde(untagged)]
enum Yaml {
    Scalar(Value),
    Tagged(Tagged<String>),
    List(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

impl Yaml {
    fn new(value: &FieldValue) -> Option<Self> {
        Some(match value {
            FieldValue::Absent => return None,
            FieldValue::Null => Self::Scalar(Value::Null),
            FieldValue::Text(text) => Self::text(text),
            FieldValue::Json(json) => match serde_json::from_str(json) {
                Ok(json) => Self::from_json(json, &Self::text),
                Err(_) => Self::text(json),
            },
            FieldValue::Redacted(digest) => Self::redacted(&digest.to_string()),
            FieldValue::PartlyRedacted(json) => match serde_json::from_str(json) {
                Ok(json) => Self::from_json(json, &Self::text_or_digest),
                Err(_) => Self::redacted(json),
            },
            FieldValue::Omitted { .. } => Self::tagged("!omitted", &value.text()),
        })
    }

    fn text(text: &str) -> Self {
        Self::Scalar(text.into())
    }

    fn redacted(text: &str) -> Self {
        Self::tagged("!redacted", text)
    }

    fn tagged(tag: &str, text: &str) -> Self {
        Self::Tagged(Tagged(text.to_owned(), Some(tag.to_owned())))
    }

    /// A string in a partly redacted value, or a key in a path. No plain string looks like a digest there.
    fn text_or_digest(text: &str) -> Self {
        if KeyedDigest::parse(text).is_some() { Self::redacted(text) } else { Self::text(text) }
    }

    fn from_json(json: Value, string: &impl Fn(&str) -> Self) -> Self {
        match json {
            Value::String(text) => string(&text),
            Value::Array(list) => {
                Self::List(list.into_iter().map(|element| Self::from_json(element, string)).collect())
            }
            Value::Object(members) => {
                let member = |(name, member)| (name, Self::from_json(member, string));
                Self::Object(members.into_iter().map(member).collect())
            }
            scalar @ (Value::Null | Value::Bool(_) | Value::Number(_)) => Self::Scalar(scalar),
        }
    }
}

/// Merge keys of a list element and their values.
type ElementKeys = Box<[(ShortText, ShortText)]>;

/// A partial object, built from the paths and values of its fields.
#[derive(Default)]
struct FieldTree {
    /// Set only if there are no fields and elements.
    value: Option<Yaml>,
    fields: BTreeMap<String, Self>,
    elements: Vec<(ElementKeys, Self)>,
    /// Whether a merge key of a list element is absent: then this side does not have the element.
    lacks_key: bool,
}

impl FieldTree {
    fn insert(&mut self, path: &[Segment], value: &FieldValue) {
        let Some((first, rest)) = path.split_first() else {
            // A removed and an added element may have the same path. Keep the value that exists.
            if let Some(value) = Yaml::new(value) {
                self.value = Some(value);
            }
            return;
        };
        match first {
            Segment::Field(name) => self.fields.entry(name.to_string()).or_default().insert(rest, value),
            // A field, because the preceding elements are not shown.
            Segment::Index(index) => {
                self.fields.entry(format!("[{index}]")).or_default().insert(rest, value);
            }
            Segment::Value(member) => self.element(&[("".into(), member.clone())]).insert(rest, value),
            Segment::Element(keys) => {
                let element = self.element(keys);
                let is_key = |field: &str| keys.iter().any(|(key, _)| key == field);
                element.lacks_key |=
                    *value == FieldValue::Absent && matches!(rest, [Segment::Field(field)] if is_key(field));
                element.insert(rest, value);
            }
        }
    }

    fn element(&mut self, keys: &[(ShortText, ShortText)]) -> &mut Self {
        let index = self.elements.iter().position(|(element, _)| **element == *keys).unwrap_or_else(|| {
            self.elements.push((keys.into(), Self::default()));
            self.elements.len() - 1
        });
        &mut self.elements[index].1
    }

    fn into_yaml(self) -> Option<Yaml> {
        if !self.elements.is_empty() {
            let elements = self.elements.into_iter().filter_map(|(keys, tree)| tree.into_element(&keys));
            let elements: Vec<Yaml> = elements.collect();
            return (!elements.is_empty()).then_some(Yaml::List(elements));
        }
        let fields = self.fields.into_iter().filter_map(|(name, tree)| Some((name, tree.into_yaml()?)));
        let fields: BTreeMap<String, Yaml> = fields.collect();
        if fields.is_empty() { self.value } else { Some(Yaml::Object(fields)) }
    }

    /// Adds the merge keys to an element that this side has, even if all its other fields are absent.
    fn into_element(self, keys: &[(ShortText, ShortText)]) -> Option<Yaml> {
        let is_absent = self.lacks_key || self.fields.is_empty();
        let fields = match self.into_yaml() {
            Some(Yaml::Object(fields)) => fields,
            Some(other) => return Some(other),
            None if is_absent => return None,
            None => BTreeMap::new(),
        };
        let keys = keys.iter().map(|(key, value)| (key.to_string(), key_value(key, value)));
        let mut element: BTreeMap<String, Yaml> = keys.collect();
        element.extend(fields);
        Some(Yaml::Object(element))
    }
}

/// A merge key. A path has no types; in Kubernetes, only ports are merge keys that are numbers.
fn key_value(key: &str, value: &str) -> Yaml {
    match value.parse::<u16>() {
        Ok(port) if key.to_lowercase().ends_with("port") => Yaml::Scalar(port.into()),
        _ => Yaml::text_or_digest(value),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::ColorChoice::{Always, Auto, Never};

    use proptest::prelude::*;

    use super::{as_yaml, use_color};
    use crate::types::any_value;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn different_values_give_different_yaml(one in any_value(), other in any_value(), path in "spec\\.a|c\\[name=web\\]\\.a|f\\[=x\\]") {
            let [one_yaml, other_yaml] = [&one, &other].map(|value| as_yaml([(&*path, value.clone())]).unwrap());
            prop_assert_eq!(one_yaml == other_yaml, one == other, "{}", one_yaml);
        }
    }

    #[test]
    fn colors_depend_on_option_environment_and_terminal() {
        for (choice, variable, is_terminal, expected) in [
            (Auto, None, true, true),
            (Auto, None, false, false),
            (Auto, Some(("NO_COLOR", "1")), true, false),
            (Auto, Some(("NO_COLOR", "")), true, true),
            (Auto, Some(("TERM", "dumb")), true, false),
            (Auto, Some(("TERM", "xterm")), true, true),
            (Always, Some(("NO_COLOR", "1")), false, true),
            (Never, None, true, false),
        ] {
            let value = |name: &str| variable.filter(|set| set.0 == name).map(|set| OsString::from(set.1));
            assert_eq!(
                use_color(choice, value, is_terminal),
                expected,
                "{choice:?} {variable:?} {is_terminal}"
            );
        }
    }
}
