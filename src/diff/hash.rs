//! Hashes of objects: what is recorded, and what the object has now.
//!
//! The hash that opr8r records of what it has applied.
//!
//! JSON exactly as Go's `encoding/json` writes it.
//!
//! The judgement on one object by the hash it carries.

use std::io::Write as _;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    canonical::canonical_document,
    quantity::{Quantity, QuantityError},
    spec_view::{
        Amount, Container, DeploymentView, IntOrText, Pairs, ServiceView, SpecView, Strategy, Text,
        or_default,
    },
};
use crate::types::{
    Algorithm, Digest, FieldClass, FieldManager, Finding, HashBaseline, Judgement, Kind, LiveObject,
    ObservedState, Progress, Record, RecordSpec, UnknownReason,
};

/// A recorded hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// How it was made.
    pub algorithm: Algorithm,
    /// The hash.
    pub digest: Digest,
}

/// An object could not be hashed.
#[derive(Debug, thiserror::Error)]
pub enum FingerprintError {
    /// The algorithm covers other kinds only.
    #[error("{algorithm} has no definition for {kind}; use jcs-v1")]
    NoDefinition {
        /// The algorithm.
        algorithm: &'static str,
        /// The kind that it does not cover.
        kind: String,
    },
    /// The object is not what its kind should look like.
    #[error("not a valid {kind}: {source}")]
    Shape {
        /// The kind it should be.
        kind: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A resource amount cannot be read.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// tfdrift-operator's own order of these elements is not defined.
    #[error("two {what} sort alike in a list of more than {GO_STABLE}, so tfdrift-v1 gives no fixed hash")]
    Ambiguous {
        /// The elements in question.
        what: &'static str,
    },
}

/// Up to this length Go's `sort.Slice` keeps equal elements in order; beyond it does not.
const GO_STABLE: usize = 12;

impl Algorithm {
    /// The one that people expect for a kind: `tfdrift-v1` where it has a definition.
    pub fn usual_for(kind: &Kind) -> Self {
        match (&*kind.group, &*kind.kind) {
            SpecView::DEPLOYMENT | SpecView::SERVICE => Self::TfdriftV1,
            _ => Self::JcsV1,
        }
    }
}

impl Recorded {
    /// Reads a recorded hash; white space around it, which shells and templates leave, does not count.
    pub fn parse(text: &str) -> Result<Self, UnknownReason> {
        let text = text.trim();
        let (algorithm, hex) = match text.split_once(':') {
            None => (Algorithm::TfdriftV1, text),
            Some((name, hex)) => {
                let named = Algorithm::ALL.iter().find(|algorithm| algorithm.name() == name);
                (*named.ok_or(UnknownReason::UnknownAlgorithm)?, hex)
            }
        };
        let digest = Digest::parse(hex).ok_or(UnknownReason::BadHash)?;
        Ok(Self { algorithm, digest })
    }

    /// Reads a hash that was recorded where this algorithm is known to be used: bare, or with its name or `sha256` in front.
    pub fn parse_as(algorithm: Algorithm, text: &str) -> Result<Self, UnknownReason> {
        let text = text.trim();
        let hex = match text.split_once(':') {
            None => text,
            Some((name, hex)) if name == algorithm.name() || name == "sha256" => hex,
            Some(_) => return Err(UnknownReason::UnknownAlgorithm),
        };
        let digest = Digest::parse(hex).ok_or(UnknownReason::BadHash)?;
        Ok(Self { algorithm, digest })
    }
}

/// Hashes a whole object given as JSON text. `prefix` is the one of our own annotations, which are left out.
pub fn fingerprint(
    algorithm: Algorithm,
    kind: &Kind,
    object: &str,
    prefix: &str,
) -> Result<Digest, FingerprintError> {
    #[derive(Deserialize)]
    struct Whole<'a> {
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    let shape = |source| FingerprintError::Shape { kind: kind.kind.to_string(), source };
    let no_definition =
        || FingerprintError::NoDefinition { algorithm: algorithm.name(), kind: kind.kind.to_string() };
    let spec = || {
        let whole: Whole<'_> = serde_json::from_str(object)?;
        Ok(whole.spec.map_or("{}", RawValue::get))
    };
    match algorithm {
        Algorithm::JcsV1 => {
            let document: Value = serde_json::from_str(object).map_err(shape)?;
            sha256_jcs(&canonical_document(document, kind, prefix)).map_err(shape)
        }
        Algorithm::Opr8rV1 if *kind.kind != *RecordSpec::SIMPLE_RESOURCE.1 => Err(no_definition()),
        Algorithm::Opr8rV1 => spec().and_then(opr8r).map_err(shape),
        Algorithm::Sha256Jcs => {
            spec().and_then(serde_json::from_str).and_then(|spec: Value| sha256_jcs(&spec)).map_err(shape)
        }
        Algorithm::TfdriftV1 => {
            let mut view = spec().and_then(|spec| SpecView::read(kind, spec)).map_err(shape)?;
            tfdrift(&mut view).ok_or_else(no_definition)?
        }
    }
}

/// The digest of the RFC 8785 text of a value.
pub fn sha256_jcs(value: &Value) -> Result<Digest, serde_json::Error> {
    serde_json_canonicalizer::to_vec(value).map(|text| Digest::of(&text))
}

/// `tfdrift-v1` of a spec, whose lists are put in order on the way; none for kinds that it does not define.
pub fn tfdrift(spec: &mut SpecView<'_>) -> Option<Result<Digest, FingerprintError>> {
    match spec {
        SpecView::Deployment(spec) => Some(tfdrift_deployment(spec)),
        SpecView::Service(spec) => Some(tfdrift_service(spec)),
        SpecView::Other => None,
    }
}

fn tfdrift_deployment(spec: &mut DeploymentView<'_>) -> Result<Digest, FingerprintError> {
    let mut containers = Vec::new();
    let mut metadata = None;
    if let Some(template) = &mut spec.template {
        metadata = template.metadata.as_ref();
        if let Some(pod) = &mut template.spec {
            order(&mut pod.containers, "containers", |a, b| a.name.cmp(&b.name))?;
            for container in &mut pod.containers {
                order(&mut container.env, "variables", |a, b| a.name.cmp(&b.name))?;
                order(&mut container.ports, "ports", |a, b| {
                    a.number.cmp(&b.number).then_with(|| a.name.cmp(&b.name))
                })?;
                containers.push(ContainerAmounts::read(container)?);
            }
        }
    }
    let mut json = GoJson::default();
    json.object(|json| {
        if let Some(replicas) = spec.replicas {
            json.key("replicas").number(replicas);
        }
        write_strategy(json.key("strategy"), spec.strategy.as_ref());
        json.key("template").object(|json| {
            if let Some(metadata) = metadata {
                write_trimmed(json, "labels", &metadata.labels);
                write_trimmed(json, "annotations", &metadata.annotations);
            }
            json.key("containers").list(containers, write_container);
        });
    });
    Ok(Digest::of(&json.finish()))
}

fn tfdrift_service(spec: &mut ServiceView<'_>) -> Result<Digest, FingerprintError> {
    order(&mut spec.ports, "ports", |a, b| a.port.cmp(&b.port).then_with(|| a.name.cmp(&b.name)))?;
    let mut json = GoJson::default();
    json.object(|json| {
        json.key("type").string(&spec.service_type.0);
        write_trimmed(json, "selector", &spec.selector);
        json.key("ports").list(&spec.ports, |json, port| {
            json.object(|json| {
                json.text_unless_empty("name", &port.name.0);
                json.text_unless_empty("protocol", &port.protocol.0);
                json.key("port").number(port.port);
                match &port.target_port {
                    None => json.key("targetPort").string("0"),
                    Some(IntOrText::Int(number)) => json.key("targetPort").string(&number.to_string()),
                    Some(IntOrText::Text(name)) => json.key("targetPort").string(name),
                }
                if port.node_port != 0 {
                    json.key("nodePort").number(port.node_port);
                }
            });
        });
    });
    Ok(Digest::of(&json.finish()))
}

/// Sorts as the operator does, where what it does is defined.
fn order<T: PartialEq>(
    list: &mut [T],
    what: &'static str,
    compare: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> Result<(), FingerprintError> {
    list.sort_by(&compare);
    let ambiguous = list.len() > GO_STABLE
        && list.windows(2).any(|pair| compare(&pair[0], &pair[1]).is_eq() && pair[0] != pair[1]);
    if ambiguous { Err(FingerprintError::Ambiguous { what }) } else { Ok(()) }
}

/// A container with its resource amounts in canonical form.
struct ContainerAmounts<'v, 'a> {
    container: &'v Container<'a>,
    limits: Vec<(&'v str, Quantity)>,
    requests: Vec<(&'v str, Quantity)>,
}

impl<'v, 'a> ContainerAmounts<'v, 'a> {
    fn read(container: &'v Container<'a>) -> Result<Self, QuantityError> {
        let Some(resources) = &container.resources else {
            return Ok(Self { container, limits: Vec::new(), requests: Vec::new() });
        };
        Ok(Self {
            container,
            limits: read_amounts(&resources.limits)?,
            requests: read_amounts(&resources.requests)?,
        })
    }
}

fn read_amounts<'v>(pairs: &'v Pairs<'_, Amount<'_>>) -> Result<Vec<(&'v str, Quantity)>, QuantityError> {
    pairs.0.iter().map(|(name, amount)| Ok((&*name.0, Quantity::parse(&amount.text())?))).collect()
}

fn write_container(json: &mut GoJson, amounts: ContainerAmounts<'_, '_>) {
    let container = amounts.container;
    json.object(|json| {
        json.key("name").string(&container.name.0);
        json.key("image").string(&container.image.0);
        if !container.env.is_empty() {
            json.key("env").list(&container.env, |json, variable| {
                json.object(|json| {
                    json.key("name").string(&variable.name.0);
                    json.text_unless_empty("value", &variable.value.0);
                });
            });
        }
        if !container.ports.is_empty() {
            json.key("ports").list(&container.ports, |json, port| {
                json.object(|json| {
                    json.text_unless_empty("name", &port.name.0);
                    json.key("containerPort").number(port.number);
                    json.text_unless_empty("protocol", &port.protocol.0);
                });
            });
        }
        json.key("resources").object(|json| {
            write_amounts(json, "limits", amounts.limits);
            write_amounts(json, "requests", amounts.requests);
            let claims = container.resources.as_ref().map_or(&[][..], |resources| &resources.claims);
            if !claims.is_empty() {
                json.key("claims").list(claims, |json, claim| {
                    json.object(|json| {
                        json.key("name").string(&claim.name.0);
                        json.text_unless_empty("request", &claim.request.0);
                    });
                });
            }
        });
    });
}

fn write_amounts(json: &mut GoJson, name: &str, amounts: Vec<(&str, Quantity)>) {
    if !amounts.is_empty() {
        json.key(name).object(|json| {
            for (resource, amount) in amounts {
                json.key(resource).string(&amount.to_string());
            }
        });
    }
}

fn write_trimmed(json: &mut GoJson, name: &str, pairs: &Pairs<'_, Text<'_>>) {
    if !pairs.0.is_empty() {
        json.key(name).object(|json| {
            for (key, value) in &pairs.0 {
                json.key(&key.0).string(value.0.trim());
            }
        });
    }
}

fn write_strategy(json: &mut GoJson, strategy: Option<&Strategy<'_>>) {
    let write_bound = |json: &mut GoJson, name: &str, bound: Option<&IntOrText<'_>>| match bound {
        None => {}
        Some(IntOrText::Int(number)) => json.key(name).number(*number),
        Some(IntOrText::Text(text)) => json.key(name).string(text),
    };
    json.object(|json| {
        let Some(strategy) = strategy else { return };
        json.text_unless_empty("type", &strategy.kind.0);
        if let Some(rolling) = &strategy.rolling_update {
            json.key("rollingUpdate").object(|json| {
                write_bound(json, "maxUnavailable", rolling.max_unavailable.as_ref());
                write_bound(json, "maxSurge", rolling.max_surge.as_ref());
            });
        }
    });
}

/// `spec` of a `SimpleResource`, as opr8r's typed client reads it.
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

/// `opr8r-v1` of the JSON text of a spec: `<length>:<prefix>`, then `<key>=<value>` by keys, with nothing between them.
pub(super) fn opr8r(spec: &str) -> Result<Digest, serde_json::Error> {
    let spec: Option<SimpleResource<'_>> = serde_json::from_str(spec)?;
    let SimpleResource { length, prefix, vars } = spec.unwrap_or_default();
    let mut text = format!("{length}:{}", prefix.0);
    for (key, value) in &vars.0 {
        text.extend([&*key.0, "=", &*value.0]);
    }
    Ok(Digest::of(text.as_bytes()))
}

/// Writes one JSON text; commas are set by what stands before.
#[derive(Debug, Default)]
pub(super) struct GoJson {
    out: Vec<u8>,
}

impl GoJson {
    /// The finished text.
    pub(super) fn finish(self) -> Vec<u8> {
        self.out
    }

    /// An object whose members `members` writes.
    pub(super) fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.out.push(b'{');
        members(self);
        self.out.push(b'}');
    }

    /// A list with one element per item.
    pub(super) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut element: impl FnMut(&mut Self, T),
    ) {
        self.out.push(b'[');
        for item in items {
            self.separate(b'[');
            element(self, item);
        }
        self.out.push(b']');
    }

    /// The name of the next member.
    pub(super) fn key(&mut self, name: &str) -> &mut Self {
        self.separate(b'{');
        self.string(name);
        self.out.push(b':');
        self
    }

    /// A member that is left out when it is empty.
    pub(super) fn text_unless_empty(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.key(name).string(text);
        }
    }

    /// A whole number.
    pub(super) fn number(&mut self, number: impl Into<i64>) {
        write!(self.out, "{}", number.into()).expect("writing to memory cannot fail");
    }

    /// A string with Go's escapes, those for HTML included.
    pub(super) fn string(&mut self, text: &str) {
        self.out.push(b'"');
        if text.bytes().all(is_plain) {
            self.out.extend_from_slice(text.as_bytes());
            self.out.push(b'"');
            return;
        }
        let mut utf8 = [0; 4];
        for c in text.chars() {
            match c {
                '"' => self.out.extend(br#"\""#),
                '\\' => self.out.extend(br"\\"),
                '\n' => self.out.extend(br"\n"),
                '\r' => self.out.extend(br"\r"),
                '\t' => self.out.extend(br"\t"),
                '\u{8}' => self.out.extend(br"\b"),
                '\u{c}' => self.out.extend(br"\f"),
                '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    write!(self.out, "\\u{:04x}", u32::from(c)).expect("writing to memory cannot fail");
                }
                _ => self.out.extend(c.encode_utf8(&mut utf8).as_bytes()),
            }
        }
        self.out.push(b'"');
    }

    fn separate(&mut self, opening: u8) {
        if self.out.last() != Some(&opening) {
            self.out.push(b',');
        }
    }
}

/// Whether a byte stands for itself: most strings hold no other, and are copied at once.
fn is_plain(byte: u8) -> bool {
    // 0xe2 begins the two line separators that Go escapes.
    byte >= 0x20 && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2)
}

/// Judges an object against its own stamp.
pub fn judge(object: &LiveObject) -> Judgement {
    judge_stamp(&object.stamp)
}

/// Judges an object by what its controller recorded. `rests`: it is at work, or behind, and that does not count yet.
pub fn judge_record(record: &Record, rests: bool) -> Judgement {
    if record.progress == Progress::Failed {
        return Judgement::Unknown(UnknownReason::PhaseError);
    }
    if rests {
        return Judgement::InFlight;
    }
    match &record.standing {
        // Whoever is to record something has not: that is no proof that nothing is declared.
        ObservedState::Hash(HashBaseline::Unasked | HashBaseline::Absent)
        | ObservedState::Generation { observed: None, .. } => Judgement::Unknown(UnknownReason::NoStatus),
        ObservedState::Hash(stamp) => judge_stamp(stamp),
        ObservedState::Generation { observed: Some(observed), current, .. } if observed >= current => {
            Judgement::InSync
        }
        ObservedState::Generation { observed: Some(observed), current, writer } => {
            drifted(generation_text(*observed), generation_text(*current), writer.as_ref())
        }
    }
}

/// A generation as a value that is shown.
fn generation_text(generation: i64) -> String {
    format!("generation {generation}")
}

/// A hash that differs is one finding on the path `spec`.
fn judge_stamp(stamp: &HashBaseline) -> Judgement {
    match stamp {
        HashBaseline::Unasked | HashBaseline::Absent => Judgement::NoBaseline,
        HashBaseline::Unusable(reason) => Judgement::Unknown(*reason),
        HashBaseline::Match(_) => Judgement::InSync,
        HashBaseline::Mismatch(mismatch) => {
            drifted(mismatch.expected.to_string(), mismatch.actual.to_string(), mismatch.culprit())
        }
    }
}

fn drifted(expected: String, actual: String, writer: Option<&FieldManager>) -> Judgement {
    Judgement::Drifted(vec![Finding {
        path: "spec".into(),
        class: FieldClass::Hash,
        expected: expected.into(),
        actual: actual.into(),
        writer: writer.cloned(),
    }])
}

#[cfg(test)]
mod tests {
    use super::{GoJson, opr8r};

    /// The digests are those of the texts on the right, by `printf %s TEXT | sha256sum`.
    #[test]
    fn the_hash_is_that_of_a_text_that_can_be_written_by_hand() {
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
            assert_eq!(opr8r(spec).unwrap().to_string(), digest, "{spec}");
        }
    }

    #[test]
    fn what_opr8r_itself_could_not_read_has_no_hash() {
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
            assert!(opr8r(spec).is_err(), "{spec}");
        }
    }

    #[test]
    fn strings_are_escaped_as_go_escapes_them() {
        let mut json = GoJson::default();
        json.string("a<b>&\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}\u{2028}é");
        assert_eq!(
            String::from_utf8(json.finish()).unwrap(),
            "\"a\\u003cb\\u003e\\u0026\\\"\\\\\\n\\r\\t\\b\\f\\u0001\u{7f}\\u2028é\""
        );
    }

    #[test]
    fn commas_stand_between_members_and_elements_only() {
        let mut json = GoJson::default();
        json.object(|json| {
            json.key("a").list([1, 2], super::GoJson::number);
            json.key("b").object(|_| ());
            json.text_unless_empty("c", "");
        });
        assert_eq!(json.finish(), br#"{"a":[1,2],"b":{}}"#);
    }
}
