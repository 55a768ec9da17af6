//! Hash baselines: the hash of an object by each algorithm, the hash that was recorded, and the judgement on both.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, Serializer};

use super::{
    canonical::{canonical_document, declared_members},
    json_part::JsonPart,
    spec_view::{
        Container, DeploymentView, Pairs, ServiceView, SpecView, Strategy, TemplateMetadata, Text,
        or_default, read_or_default,
    },
    tree::{Members, Node},
};
use crate::types::{
    Algorithm, ControllerStatus, Digest, FieldClass, FieldManager, FieldPath, FieldValue, Finding, GroupKind,
    HashBaseline, Judgement, Kind, LiveObject, ObservedState, Progress, StatusHashSpec, UnknownReason,
};

/// A hash in an annotation or a status, with the algorithm that its prefix names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedHash {
    pub algorithm: Algorithm,
    pub digest: Digest,
}

#[derive(Debug, thiserror::Error)]
pub enum FingerprintError {
    #[error("{algorithm} has no definition for {kind}; use jcs-v1")]
    NoDefinition { algorithm: &'static str, kind: String },
    #[error("not a valid {kind}: {source}")]
    Invalid { kind: String, source: serde_json::Error },
    #[error("{0}")]
    Quantity(serde_json::Error),
    /// tfdrift-operator sorts these elements in an undefined order.
    #[error(
        "two {what} sort alike in a list of more than {MAX_STABLE_SORT}, so tfdrift-v1 gives no fixed hash"
    )]
    Ambiguous { what: &'static str },
}

/// Go's `sort.Slice` is stable up to this length.
const MAX_STABLE_SORT: usize = 12;

impl Algorithm {
    /// `tfdrift-v1` for the kinds that it defines, else `jcs-v1`.
    pub fn default_for(kind: &Kind) -> Self {
        match kind.group_kind() {
            GroupKind::DEPLOYMENT | GroupKind::SERVICE => Self::TfdriftV1,
            _ => Self::JcsV1,
        }
    }
}

impl RecordedHash {
    /// Parses `<algorithm>:<hex>`, or the bare hex digits of `tfdrift-v1`. Ignores surrounding white space, which shells and
    /// templates add.
    pub fn parse(text: &str) -> Result<Self, UnknownReason> {
        let text = text.trim();
        let (algorithm, hex) = match text.split_once(':') {
            None => (Algorithm::TfdriftV1, text),
            Some((name, hex)) => (Algorithm::parse(name).ok_or(UnknownReason::UnknownAlgorithm)?, hex),
        };
        let digest = Digest::parse(hex).ok_or(UnknownReason::BadHash)?;
        Ok(Self { algorithm, digest })
    }

    /// Parses a hash of a known algorithm: bare hex digits, or with the prefix `sha256` or the name of the algorithm.
    pub fn parse_as(algorithm: Algorithm, text: &str) -> Result<Self, UnknownReason> {
        let text = text.trim();
        let hex = match text.split_once(':') {
            None => text,
            Some((name, hex)) if name == algorithm.as_str() || name == "sha256" => hex,
            Some(_) => return Err(UnknownReason::UnknownAlgorithm),
        };
        let digest = Digest::parse(hex).ok_or(UnknownReason::BadHash)?;
        Ok(Self { algorithm, digest })
    }
}

/// Hashes the JSON text of an object. Annotations with `prefix`, which record hashes, are not part of it.
pub fn fingerprint(
    algorithm: Algorithm,
    kind: &Kind,
    object: &str,
    prefix: &str,
) -> Result<Digest, FingerprintError> {
    hash_object(algorithm, kind, JsonPart::Text(object), prefix)
}

/// The [fingerprint] of an object that may be parsed already.
pub fn hash_object(
    algorithm: Algorithm,
    kind: &Kind,
    object: JsonPart<'_>,
    prefix: &str,
) -> Result<Digest, FingerprintError> {
    let invalid = |source| FingerprintError::Invalid { kind: kind.kind.to_string(), source };
    let no_definition =
        || FingerprintError::NoDefinition { algorithm: algorithm.as_str(), kind: kind.kind.to_string() };
    match algorithm {
        Algorithm::JcsV1 => {
            let document = match object {
                JsonPart::Text(_) => object.read().map_err(invalid)?,
                JsonPart::Tree(object) => declared_members(object),
            };
            sha256_jcs(&canonical_document(document, kind, prefix)).map_err(invalid)
        }
        Algorithm::Opr8rV1 if *kind.kind != *StatusHashSpec::SIMPLE_RESOURCE.kind => Err(no_definition()),
        Algorithm::Opr8rV1 => spec_of(object).and_then(opr8r).map_err(invalid),
        Algorithm::Sha256Jcs => {
            let digest = |spec: Option<JsonPart<'_>>| match spec {
                None => sha256_jcs(&Node::Object(Members::new())),
                Some(spec @ JsonPart::Text(_)) => spec.read().and_then(|spec| sha256_jcs(&spec)),
                Some(JsonPart::Tree(spec)) => sha256_jcs(spec),
            };
            spec_of(object).and_then(digest).map_err(invalid)
        }
        Algorithm::TfdriftV1 => {
            let mut view = spec_of(object).and_then(|spec| SpecView::read(kind, spec)).map_err(invalid)?;
            tfdrift(&mut view).ok_or_else(no_definition)?
        }
    }
}

fn spec_of(object: JsonPart<'_>) -> Result<Option<JsonPart<'_>>, serde_json::Error> {
    #[derive(Deserialize)]
    struct WithSpec<'a> {
        #[serde(borrow)]
        spec: Option<JsonPart<'a>>,
    }
    match object {
        JsonPart::Text(_) => object.read().map(|WithSpec { spec }| spec),
        JsonPart::Tree(object) => Ok(object.get("spec").filter(|spec| !spec.is_null()).map(JsonPart::Tree)),
    }
}

/// The SHA-256 of a value in the JSON Canonicalization Scheme (RFC 8785).
pub fn sha256_jcs(value: &Node) -> Result<Digest, serde_json::Error> {
    serde_json_canonicalizer::to_vec(&value.plain()).map(|text| Digest::of(&text))
}

/// The `tfdrift-v1` hash of a spec, whose lists are sorted in place; [`None`] for kinds that it does not define.
pub fn tfdrift(spec: &mut SpecView<'_>) -> Option<Result<Digest, FingerprintError>> {
    match spec {
        SpecView::Deployment(spec) => Some(tfdrift_deployment(spec)),
        SpecView::Service(spec) => Some(tfdrift_service(spec)),
        SpecView::Other => None,
    }
}

/// The parts of a Deployment that are hashed, in the order of their members.
#[derive(Serialize)]
struct HashedDeployment<'v, 'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<i32>,
    strategy: &'v Strategy<'a>,
    template: HashedTemplate<'v, 'a>,
}

#[derive(Serialize)]
struct HashedTemplate<'v, 'a> {
    #[serde(flatten)]
    metadata: Option<&'v TemplateMetadata<'a>>,
    containers: &'v [Container<'a>],
}

fn tfdrift_deployment(spec: &mut DeploymentView<'_>) -> Result<Digest, FingerprintError> {
    let mut template = HashedTemplate { metadata: None, containers: &[] };
    if let Some(view) = &mut spec.template {
        template.metadata = view.metadata.as_ref();
        if let Some(pod) = &mut view.spec {
            sort_like_go(&mut pod.containers, "containers", |a, b| a.name.cmp(&b.name))?;
            for container in &mut pod.containers {
                sort_like_go(&mut container.env, "variables", |a, b| a.name.cmp(&b.name))?;
                sort_like_go(&mut container.ports, "ports", |a, b| {
                    a.number.cmp(&b.number).then_with(|| a.name.cmp(&b.name))
                })?;
            }
            template.containers = &pod.containers;
        }
    }
    let no_strategy = Strategy::default();
    let strategy = spec.strategy.as_ref().unwrap_or(&no_strategy);
    go_digest(&HashedDeployment { replicas: spec.replicas, strategy, template })
}

fn tfdrift_service(spec: &mut ServiceView<'_>) -> Result<Digest, FingerprintError> {
    sort_like_go(&mut spec.ports, "ports", |a, b| a.port.cmp(&b.port).then_with(|| a.name.cmp(&b.name)))?;
    go_digest(spec)
}

/// Sorts like tfdrift-operator; fails if the order is undefined.
fn sort_like_go<T: PartialEq>(
    list: &mut [T],
    what: &'static str,
    compare: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> Result<(), FingerprintError> {
    list.sort_by(&compare);
    let ambiguous = list.len() > MAX_STABLE_SORT
        && list.windows(2).any(|pair| compare(&pair[0], &pair[1]).is_eq() && pair[0] != pair[1]);
    if ambiguous { Err(FingerprintError::Ambiguous { what }) } else { Ok(()) }
}

/// The `spec` of a `SimpleResource`, as the typed client of opr8r decodes it.
#[derive(Default, Deserialize)]
#[serde(expecting = "spec must be an object")]
struct SimpleResource<'a> {
    #[serde(default, deserialize_with = "or_default")]
    length: i64,
    #[serde(borrow, default)]
    prefix: Text<'a>,
    #[serde(borrow, default)]
    vars: Pairs<'a, Text<'a>>,
}

/// The `opr8r-v1` hash of a spec: SHA-256 of `<length>:<prefix>`, then `<key>=<value>` sorted by key, without separators.
fn opr8r(spec: Option<JsonPart<'_>>) -> Result<Digest, serde_json::Error> {
    let spec: Option<SimpleResource<'_>> = read_or_default(spec)?;
    let SimpleResource { length, prefix, vars } = spec.unwrap_or_default();
    let mut text = format!("{length}:{}", prefix.0);
    for (key, value) in &vars.0 {
        text.extend([&*key.0, "=", &*value.0]);
    }
    Ok(Digest::of(text.as_bytes()))
}

fn go_digest(spec: &impl Serialize) -> Result<Digest, FingerprintError> {
    go_json(spec).map(|text| Digest::of(&text)).map_err(FingerprintError::Quantity)
}

/// Writes JSON exactly as Go's `encoding/json`.
fn go_json(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = Vec::with_capacity(1024);
    value.serialize(&mut Serializer::with_formatter(&mut text, GoFormatter))?;
    Ok(text)
}

struct GoFormatter;

impl Formatter for GoFormatter {
    /// Escapes HTML too, as Go does by default.
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        // 0xe2 is the first byte of U+2028 and U+2029. Most strings contain none of these bytes.
        if fragment.bytes().any(|byte| matches!(byte, b'<' | b'>' | b'&' | 0xe2)) {
            while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
                let (plain, escaped) = rest.split_at(at);
                let mut escaped = escaped.chars();
                let code = escaped.next().map_or(0, u32::from);
                write!(writer, "{plain}\\u{code:04x}")?;
                rest = escaped.as_str();
            }
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Judges an object against the hash in its annotation.
pub fn judge(object: &LiveObject) -> Judgement {
    judge_baseline(&object.hash_baseline)
}

/// Judges an object against the hash or generation in its status. `in_grace_period`: its controller may still be reconciling.
pub fn judge_record(record: &ControllerStatus, in_grace_period: bool) -> Judgement {
    if record.progress == Progress::Failed {
        return Judgement::Unknown(UnknownReason::PhaseError);
    }
    if in_grace_period {
        return Judgement::InFlight;
    }
    match &record.observed_state {
        // A missing status is no proof that the object has no baseline.
        ObservedState::Hash(HashBaseline::NotRequested | HashBaseline::Absent)
        | ObservedState::Generation { observed: None, .. } => Judgement::Unknown(UnknownReason::NoStatus),
        ObservedState::Hash(baseline) => judge_baseline(baseline),
        ObservedState::Generation { observed: Some(observed), current, .. } if observed >= current => {
            Judgement::InSync
        }
        ObservedState::Generation { observed: Some(observed), current, owner } => {
            let generation = |number: i64| FieldValue::Text(format!("generation {number}").into());
            drifted(generation(*observed), generation(*current), owner.as_ref())
        }
    }
}

fn judge_baseline(baseline: &HashBaseline) -> Judgement {
    match baseline {
        HashBaseline::NotRequested | HashBaseline::Absent => Judgement::NoBaseline,
        HashBaseline::Unusable(reason) => Judgement::Unknown(*reason),
        HashBaseline::Match(_) => Judgement::InSync,
        HashBaseline::Mismatch(mismatch) => drifted(
            hash_value(&mismatch.expected),
            hash_value(&mismatch.actual),
            mismatch.responsible_manager(),
        ),
    }
}

fn hash_value(digest: &Digest) -> FieldValue {
    FieldValue::Text(digest.to_string().into())
}

/// A hash does not reveal which field differs: the finding is on the whole `spec`.
fn drifted(expected: FieldValue, actual: FieldValue, owner: Option<&FieldManager>) -> Judgement {
    let finding = Finding::new(FieldPath::of_fields(["spec"]), FieldClass::Hash, expected, actual);
    Judgement::Drifted(vec![Finding { owner: owner.cloned(), ..finding }])
}

#[cfg(test)]
mod tests {
    use super::{Digest, JsonPart, go_json, opr8r};

    fn hash(spec: &str) -> Result<Digest, serde_json::Error> {
        opr8r(Some(JsonPart::Text(spec)))
    }

    /// A comment is the hashed text: `printf %s TEXT | sha256sum`.
    #[test]
    fn opr8r_hashes_length_prefix_and_sorted_variables() {
        for (spec, digest) in [
            // 16:testspecial=trueupper=true
            (
                r#"{"length": 16, "prefix": "test", "vars": {"upper": "true", "special": "true"}}"#,
                "d524c7dccfac7a9fd92f621a20c70bb526568aeb2c8df09d39443242521fe0dd",
            ),
            // 8:
            (r#"{"length": 8}"#, "077cf0b106d350cc021b33349b552f3bbbdd8aefc9f0ca17deb245db05f05f5c"),
            (
                r#"{"length": 8, "prefix": null, "vars": null}"#,
                "077cf0b106d350cc021b33349b552f3bbbdd8aefc9f0ca17deb245db05f05f5c",
            ),
            (
                r#"{"length": 8, "prefix": "", "vars": {}}"#,
                "077cf0b106d350cc021b33349b552f3bbbdd8aefc9f0ca17deb245db05f05f5c",
            ),
            // 0:
            ("{}", "ba768b331fd86cec803be04e56ab2b3d4c0e98ef4ee4fcd4e72ad7cce61a1d1f"),
            ("null", "ba768b331fd86cec803be04e56ab2b3d4c0e98ef4ee4fcd4e72ad7cce61a1d1f"),
            // 3:ümlautA=1B=a=
            (
                r#"{"length": 3, "prefix": "ümlaut", "vars": {"a": null, "B": "", "A": "1"}}"#,
                "6fd44081e273e2d77ce22f8629150c5a7db312bafc1acdcc875d547ae30b0937",
            ),
        ] {
            assert_eq!(hash(spec).unwrap().to_string(), digest, "{spec}");
        }
    }

    #[test]
    fn opr8r_rejects_specs_that_its_client_cannot_decode() {
        for spec in [
            r#"{"length": "16"}"#,
            r#"{"length": 1.5}"#,
            r#"{"length": 1e400}"#,
            r#"{"length": 99999999999999999999}"#,
            r#"{"prefix": 7}"#,
            r#"{"vars": {"a": 1}}"#,
            r#"{"vars": {"a": true}}"#,
            r#"{"vars": {"a": {"b": "c"}}}"#,
            r#"{"vars": ["a"]}"#,
            r#""text""#,
        ] {
            assert!(hash(spec).is_err(), "{spec}");
        }
    }

    #[test]
    fn go_json_escapes_strings_like_go() {
        let text = go_json(&"a<b>&\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}\u{2028}é").unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "\"a\\u003cb\\u003e\\u0026\\\"\\\\\\n\\r\\t\\b\\f\\u0001\u{7f}\\u2028é\""
        );
    }
}
