//! How rules are written. The comments on fields become the descriptions in the JSON Schema.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::EffectsSpec;
use crate::types::{Actor, ChangeKind, ClosedSet, FieldClass, Severity, Source};

/// One rule: which differences it is about, and what it says about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// What the rule is called: lower-case words with dashes. It is the label `rule` of `drift_rule_matches`. A rule with the
    /// name of a built-in one takes its place.
    pub name: String,
    /// Which differences the rule is about. A list matches if any of its members does; all keys that are given have to
    /// match. Without any key: every difference.
    #[serde(default, rename = "match")]
    pub matches: MatchSpec,
    /// What the rule says: `ignore`, `expected`, `unexpected`, `off`, `{severity: …}`, `{advice: …}`, or a list of these.
    pub effect: EffectsSpec,
    /// Who answers for the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Why it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Until when it applies: a date, whose whole day in UTC counts, or an RFC 3339 time.
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
    /// Labels that the object has to have, all of them. In a value, `*` stands for any characters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Where the baseline is written.
    #[schemars(schema_with = "words::<Source>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Paths of fields: `spec.template.spec.containers[name=web].image`, with everything below. `*` stands for one segment, `**` for
    /// any number, `[*]` for any element of a list. A name with dots is quoted: `metadata.annotations["example.com/owner"]`.
    /// JSON Pointers (`/spec/replicas`) are taken too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// What kind of field differs.
    #[schemars(schema_with = "words::<FieldClass>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// The class of tool that last set the field.
    #[schemars(schema_with = "words::<Actor>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<String>,
    /// Values that the live field has: as they stand, or `sha256:` and a digest, so that no value has to be written here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ValueSpec>,
    /// What sort of change it is.
    #[schemars(schema_with = "words::<ChangeKind>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// How bad differences in some classes of fields are. Stands above the built-in rules and below those of the settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeveritySpec {
    /// How bad.
    #[schemars(schema_with = "word::<Severity>")]
    pub severity: String,
    /// In which classes of fields.
    #[schemars(schema_with = "words::<FieldClass>")]
    pub fields: Vec<String>,
}

/// Which field managers belong to which class of tools. Asked before the built-in table.
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

/// Everything that rules are made from, beside the built-in ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleInput {
    /// The rules of the settings.
    pub rules: Vec<RuleSpec>,
    /// The severities of the settings.
    pub severities: Vec<SeveritySpec>,
    /// The actors of the settings.
    pub actors: Vec<ActorSpec>,
    /// The rules of those who own a namespace.
    pub teams: Vec<TeamRules>,
}

/// The rules that the owners of one namespace wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamRules {
    /// The only namespace in which they apply.
    pub namespace: Box<str>,
    /// The rules.
    pub rules: Vec<RuleSpec>,
}

/// A value as it stands in a list of values. Whole numbers and truth values need no quotes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValueSpec(pub String);

impl<'de> Deserialize<'de> for ValueSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl de::Visitor<'_> for Scalar {
            type Value = ValueSpec;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text, a whole number, true or false; anything else has to be quoted")
            }
            fn visit_str<E>(self, value: &str) -> Result<ValueSpec, E> {
                Ok(ValueSpec(value.to_owned()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<ValueSpec, E> {
                Ok(ValueSpec(value.to_string()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<ValueSpec, E> {
                Ok(ValueSpec(value.to_string()))
            }
            fn visit_bool<E>(self, value: bool) -> Result<ValueSpec, E> {
                Ok(ValueSpec(value.to_string()))
            }
        }
        deserializer.deserialize_any(Scalar)
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

/// One word of a closed set.
pub(super) fn word<T: ClosedSet>(_: &mut SchemaGenerator) -> Schema {
    let members: Vec<&str> = T::members().iter().map(|member| member.word()).collect();
    json_schema!({"type": "string", "enum": members})
}

/// Some words of a closed set.
fn words<T: ClosedSet>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": word::<T>(generator)})
}
