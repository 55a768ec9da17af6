//! How rules are written. The comments on fields become the descriptions in the JSON Schema.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::problem::Reporter;
use crate::types::{Actor, Advice, ChangeKind, ClosedSet, Expectation, FieldClass, Severity, Source};

/// One rule: which differences it is about, and what it says about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// The name of the rule: lower-case words with dashes. It is the label `rule` of `drift_rule_matches`. A rule with the name
    /// of a built-in rule replaces it.
    pub name: String,
    /// The differences that the rule matches. A list matches if any of its members matches; all given keys must match. Without
    /// any key: every difference.
    #[serde(default, rename = "match")]
    pub matches: MatchSpec,
    /// The effect of the rule: `ignore`, `expected`, `unexpected`, `off`, `{severity: …}`, `{advice: …}`, or a list of these.
    pub effect: EffectsSpec,
    /// Who is responsible for the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Why the rule exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the rule expires: at the end of a date in UTC, or at an RFC 3339 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// Which differences a rule is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MatchSpec {
    /// Kinds: `Deployment`, `Deployment.apps`, `deployments.apps`, `*.apps` or `*`; upper and lower case are the same. The group
    /// without a name is called `core`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Namespaces, in which `*` stands for any characters. An empty text is an object without a namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Names of objects, in which `*` stands for any characters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Labels that the object must have, all of them. In a value, `*` stands for any characters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The source of the baseline.
    #[schemars(schema_with = "words::<Source>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Paths of fields: `spec.template.spec.containers[name=web].image`, with everything below. `*` stands for one segment, `**`
    /// for any number, `[*]` for any element of a list. A name with dots is quoted: `metadata.annotations["example.com/owner"]`.
    /// JSON Pointers (`/spec/replicas`) are accepted, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The class of the field.
    #[schemars(schema_with = "words::<FieldClass>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// The class of tool that last set the field.
    #[schemars(schema_with = "words::<Actor>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<String>,
    /// Values of the live field: in plain text, or as `sha256:` and a digest, so that the settings need not contain the value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ValueSpec>,
    /// The kind of change.
    #[schemars(schema_with = "words::<ChangeKind>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// The severity of differences in some classes of fields. It takes precedence over the built-in rules; the rules of the settings
/// take precedence over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeveritySpec {
    /// The severity.
    #[schemars(schema_with = "word::<Severity>")]
    pub severity: String,
    /// The classes of fields.
    #[schemars(schema_with = "words::<FieldClass>")]
    pub fields: Vec<String>,
}

/// The class of some field managers. It takes precedence over the built-in table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActorSpec {
    /// The class of tools.
    #[schemars(schema_with = "word::<Actor>")]
    pub actor: String,
    /// A regular expression for the manager's name, as `metadata.managedFields` has it. It matches anywhere in the name unless
    /// it has `^` and `$`.
    pub manager: String,
}

/// The input of [`super::RuleSet::compile`]: the settings, and the rules of teams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleConfig {
    pub rules: Vec<RuleSpec>,
    pub severities: Vec<SeveritySpec>,
    pub actors: Vec<ActorSpec>,
    pub teams: Vec<TeamRules>,
}

/// The rules from the ConfigMaps of one namespace. They apply in this namespace only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamRules {
    pub namespace: Box<str>,
    pub rules: Vec<RuleSpec>,
}

/// One entry of `match.values`. Integers and booleans need no quotes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ScalarSpec")]
pub struct ValueSpec(pub String);

#[derive(Deserialize)]
#[serde(untagged, expecting = "want a string, an integer or a boolean; quote any other value")]
enum ScalarSpec {
    Text(String),
    Unsigned(u64),
    Signed(i64),
    Bool(bool),
}

impl From<ScalarSpec> for ValueSpec {
    fn from(scalar: ScalarSpec) -> Self {
        Self(match scalar {
            ScalarSpec::Text(text) => text,
            ScalarSpec::Unsigned(number) => number.to_string(),
            ScalarSpec::Signed(number) => number.to_string(),
            ScalarSpec::Bool(set) => set.to_string(),
        })
    }
}

impl JsonSchema for ValueSpec {
    fn schema_name() -> Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A value as it stands, or sha256: and the SHA-256 of `drift-value-v1`, a zero byte and the value, in hex.",
            "type": ["string", "integer", "boolean"]
        })
    }
}

/// The schema of a member of a closed set.
pub(super) fn word<T: ClosedSet>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": T::spellings()})
}

/// The schema of a list of members of a closed set.
fn words<T: ClosedSet>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": word::<T>(generator)})
}

/// The key `effect`: one effect or a list of effects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectsSpec(pub Vec<EffectSpec>);

/// One effect: a word, or a map with one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectSpec {
    /// `{severity: critical}`.
    Severity(String),
    /// `{advice: alert_only}`.
    Advice(String),
    /// `ignore`, `expected`, `unexpected` or `off`.
    #[serde(untagged)]
    Word(String),
}

/// The compiled effects of a rule.
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
    pub(super) fn compile(spec: &EffectsSpec, report: &mut Reporter<'_>) -> Self {
        let mut effects = Self::default();
        if spec.0.is_empty() {
            report.problem("effect", "the effect is missing; want `off` to disable the rule");
        }
        for (at, effect) in spec.0.iter().enumerate() {
            let key = if spec.0.len() == 1 { "effect".to_owned() } else { format!("effect[{at}]") };
            effects.add(effect, &key, report);
        }
        if effects.off && spec.0.len() > 1 {
            report.problem("effect", "`off` cannot be combined with other effects");
        }
        effects
    }

    fn add(&mut self, effect: &EffectSpec, key: &str, report: &mut Reporter<'_>) {
        let is_first = match effect {
            EffectSpec::Word(word) => match word.as_str() {
                "ignore" => !std::mem::replace(&mut self.ignore, true),
                "off" => !std::mem::replace(&mut self.off, true),
                "expected" => self.expectation.replace(Expectation::Expected).is_none(),
                "unexpected" => self.expectation.replace(Expectation::Unexpected).is_none(),
                other => return report.not_one_of(key, other, &WORDS),
            },
            EffectSpec::Severity(severity) => match report.member(&format!("{key}.severity"), severity) {
                Some(severity) => self.severity.replace(severity).is_none(),
                None => return,
            },
            EffectSpec::Advice(advice) => match report.member(&format!("{key}.advice"), advice) {
                Some(advice) => self.advice.replace(advice).is_none(),
                None => return,
            },
        };
        if !is_first {
            report.problem(key, "another effect of this rule sets the same property");
        }
    }
}

impl<'de> Deserialize<'de> for EffectsSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EffectsVisitor)
    }
}

struct EffectsVisitor;

impl<'de> de::Visitor<'de> for EffectsVisitor {
    type Value = EffectsSpec;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .write_str("ignore, expected, unexpected, off, {severity: …}, {advice: …}, or a list of these")
    }

    fn visit_str<E>(self, word: &str) -> Result<EffectsSpec, E> {
        Ok(EffectsSpec(vec![EffectSpec::Word(word.to_owned())]))
    }

    /// In YAML 1.1 a bare `off` is a boolean, and some parsers still return one.
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

/// `ignore`, or `severity critical, advice alert_only`.
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
