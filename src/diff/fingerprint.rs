//! Hashes of objects: what is recorded, and what the object has now.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    canonical::canonical_document,
    go_json::GoJson,
    opr8r::opr8r,
    pod_view::Container,
    quantity::{Quantity, QuantityError},
    views::{Amount, DeploymentView, IntOrText, Pairs, ServiceView, SpecView, Strategy, Text},
};
use crate::types::{Algorithm, Digest, Kind, RecordSpec, UnknownReason};

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
