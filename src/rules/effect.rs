//! What a rule says about the differences it matches.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{problem::Reporter, spec::word};
use crate::types::{Advice, Expectation, Severity};

/// The effects of a rule as they are written: one, or a list of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectsSpec(pub Vec<EffectSpec>);

/// One effect as it is written: a word, or a key with a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectSpec {
    /// `ignore`, `expected`, `unexpected` or `off`.
    Word(String),
    /// `{severity: critical}`.
    Severity(String),
    /// `{advice: alert_only}`.
    Advice(String),
}

/// The effects of a rule, understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    pub(super) off: bool,
    pub(super) ignore: bool,
    pub(super) severity: Option<Severity>,
    pub(super) expectation: Option<Expectation>,
    pub(super) advice: Option<Advice>,
}

const WORDS: [&str; 4] = ["ignore", "expected", "unexpected", "off"];

impl Effects {
    /// Reads what was written.
    pub(super) fn read(spec: &EffectsSpec, report: &mut Reporter<'_>) -> Self {
        let mut effects = Self::default();
        if spec.0.is_empty() {
            report.problem("effect", "a rule without an effect does nothing; write `off` if that is meant");
        }
        for (at, effect) in spec.0.iter().enumerate() {
            let key = if spec.0.len() == 1 { "effect".to_owned() } else { format!("effect[{at}]") };
            effects.add(effect, &key, report);
        }
        if effects.off && spec.0.len() > 1 {
            report.problem("effect", "`off` stands alone");
        }
        effects
    }

    fn add(&mut self, effect: &EffectSpec, key: &str, report: &mut Reporter<'_>) {
        let is_news = match effect {
            EffectSpec::Word(word) => match word.as_str() {
                "ignore" => !std::mem::replace(&mut self.ignore, true),
                "off" => !std::mem::replace(&mut self.off, true),
                "expected" => self.expectation.replace(Expectation::Expected).is_none(),
                "unexpected" => self.expectation.replace(Expectation::Unexpected).is_none(),
                other => return report.no_such_word(key, other, &WORDS),
            },
            EffectSpec::Severity(severity) => match report.word(&format!("{key}.severity"), severity) {
                Some(severity) => self.severity.replace(severity).is_none(),
                None => return,
            },
            EffectSpec::Advice(advice) => match report.word(&format!("{key}.advice"), advice) {
                Some(advice) => self.advice.replace(advice).is_none(),
                None => return,
            },
        };
        if !is_news {
            report.problem(key, "another effect of the same rule has said something about this already");
        }
    }
}

impl<'de> Deserialize<'de> for EffectsSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> de::Visitor<'de> for Reader {
    type Value = EffectsSpec;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .write_str("ignore, expected, unexpected, off, {severity: …}, {advice: …}, or a list of these")
    }

    fn visit_str<E>(self, word: &str) -> Result<EffectsSpec, E> {
        Ok(EffectsSpec(vec![EffectSpec::Word(word.to_owned())]))
    }

    /// YAML 1.1 took a bare `off` for a truth value, and some readers still do.
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<EffectsSpec, E> {
        if value {
            return Err(E::invalid_value(de::Unexpected::Bool(value), &self));
        }
        self.visit_str("off")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<EffectsSpec, A::Error> {
        let mut effects = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            effects.push(match key.as_str() {
                "severity" => EffectSpec::Severity(map.next_value()?),
                "advice" => EffectSpec::Advice(map.next_value()?),
                other => return Err(de::Error::unknown_field(other, &["severity", "advice"])),
            });
        }
        Ok(EffectsSpec(effects))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<EffectsSpec, A::Error> {
        let mut effects = Vec::new();
        while let Some(EffectsSpec(more)) = list.next_element()? {
            effects.extend(more);
        }
        Ok(EffectsSpec(effects))
    }
}

/// `ignore`, or `severity critical, advice alert_only`, for people.
impl fmt::Display for EffectsSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, effect) in self.0.iter().enumerate() {
            formatter.write_str(if at == 0 { "" } else { ", " })?;
            match effect {
                EffectSpec::Word(word) => formatter.write_str(word)?,
                EffectSpec::Severity(severity) => write!(formatter, "severity {severity}")?,
                EffectSpec::Advice(advice) => write!(formatter, "advice {advice}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for EffectsSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(serializer),
            many => many.serialize(serializer),
        }
    }
}

impl Serialize for EffectSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Word(word) => serializer.serialize_str(word),
            Self::Severity(severity) => serializer.collect_map([("severity", severity)]),
            Self::Advice(advice) => serializer.collect_map([("advice", advice)]),
        }
    }
}

impl JsonSchema for EffectsSpec {
    fn schema_name() -> Cow<'static, str> {
        "Effect".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = json_schema!({"anyOf": [
            {"type": "string", "enum": WORDS},
            {
                "type": "object",
                "properties": {
                    "severity": word::<Severity>(generator),
                    "advice": word::<Advice>(generator)
                },
                "additionalProperties": false,
                "minProperties": 1
            }
        ]});
        json_schema!({"anyOf": [one.clone(), {"type": "array", "items": one, "minItems": 1}]})
    }
}
