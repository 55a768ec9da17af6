//! Limits on inputs that tenants write, so that one input cannot affect another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::yaml::ConfigProblem;

/// Real text compresses less than this; a decompression bomb compresses more.
pub const MAX_INFLATE_RATIO: u64 = 100;
/// Parsers recurse, and a thread has a stack of 2 MiB.
const MAX_DEPTH: usize = 64;

/// Limits on what inputs may cost. The exporter does not read an input that exceeds a limit; its objects are `unknown`
/// (`too_large`). Other inputs are not affected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "LimitsEntry")]
pub struct Limits {
    /// The limits of each baseline: a Terraform state, a Helm release, or the manifests of one path.
    pub baseline: BaselineLimits,
    /// The limits of each namespace that stores baselines and rules. Files have no namespace.
    pub namespace: NamespaceLimits,
}

/// The limits of each baseline: a Terraform state, a Helm release, or the manifests of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "BaselineLimitsEntry")]
pub struct BaselineLimits {
    /// The inflated bytes of a baseline. States are decoded while they are inflated, one resource at a time. Without it:
    /// 134217728 (128 MiB).
    #[schemars(range(min = 1))]
    pub inflated_bytes: usize,
    /// The bytes of a text that is decoded as a whole: a release, one resource of a state, or a file of manifests. Without it:
    /// 33554432 (32 MiB).
    #[schemars(range(min = 1))]
    pub text_bytes: usize,
    /// The values in one document or resource, after alias expansion. A map counts as eight values, because of its memory. Without
    /// it: 500000.
    #[schemars(range(min = 1))]
    pub nodes: usize,
    /// The number of YAML and JSON documents. Without it: 50000.
    #[schemars(range(min = 1))]
    pub documents: usize,
    /// The number of declared objects and of documents that cannot be compared. Without it: 20000.
    #[schemars(range(min = 1))]
    pub objects: usize,
    /// The nesting levels of values. Without it: 64.
    #[schemars(range(min = 1, max = 64))]
    pub depth: usize,
    /// The values in all documents and resources, plus the work to expand aliases. It bounds the time to decode a baseline. Without
    /// it: 2000000.
    #[schemars(range(min = 1))]
    pub work: usize,
}

/// The limits of each namespace that stores baselines and rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "NamespaceLimitsEntry")]
pub struct NamespaceLimits {
    /// The objects that all baselines of one source in the namespace declare, and the documents in them that cannot be compared.
    /// Without it: 10000.
    #[schemars(range(min = 1))]
    pub claims: usize,
    /// The same for the trusted namespaces of the source, unless `claims` is larger. Without it: 40000.
    #[schemars(range(min = 1))]
    pub trusted_claims: usize,
    /// The differences of all objects that baselines of one source in the namespace declare, unless the settings trust the namespace.
    /// Beyond it, a difference that counts the others represents those of an object. Without it: 100000.
    #[schemars(range(min = 1))]
    pub findings: usize,
    /// The series about single objects in the namespace, in addition to `metrics.max_series`. Without it: 100000.
    #[schemars(range(min = 1))]
    pub series: usize,
    /// The number of team rules. A ConfigMap without rules counts as one. Without it: 200.
    #[schemars(range(min = 1))]
    pub rules: usize,
    /// The bytes of all ConfigMaps with team rules. Without it: 262144 (256 KiB).
    #[schemars(range(min = 1))]
    pub rule_bytes: usize,
    /// The number of baselines of one source. Without it: 2000.
    #[schemars(range(min = 1))]
    pub baselines: usize,
}

impl Default for BaselineLimits {
    fn default() -> Self {
        Self {
            inflated_bytes: 128 << 20,
            text_bytes: 32 << 20,
            nodes: 500_000,
            documents: 50_000,
            objects: 20_000,
            depth: MAX_DEPTH,
            work: 2_000_000,
        }
    }
}

impl Default for NamespaceLimits {
    fn default() -> Self {
        Self {
            claims: 10_000,
            trusted_claims: 40_000,
            findings: 100_000,
            series: 100_000,
            rules: 200,
            rule_bytes: 256 << 10,
            baselines: 2_000,
        }
    }
}

/// An input exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    #[error("it has more than {max} {unit}; make it smaller, or raise {setting}")]
    Baseline { max: usize, unit: &'static str, setting: &'static str },
    #[error("with it, its namespace has more than {max} {unit}; delete some, or raise {setting}")]
    Namespace { max: usize, unit: &'static str, setting: &'static str },
    #[error(
        "it inflates to more than {MAX_INFLATE_RATIO} times its size, as a decompression bomb does; check who wrote it"
    )]
    InflateRatio,
}

impl BaselineLimits {
    /// The limits on the input of a command.
    pub const fn of_command() -> Self {
        Self {
            inflated_bytes: 256 << 20,
            text_bytes: 256 << 20,
            nodes: 10_000_000,
            documents: usize::MAX,
            objects: usize::MAX,
            depth: MAX_DEPTH,
            work: 10_000_000,
        }
    }

    pub const fn inflated_exceeded(&self) -> LimitExceeded {
        exceeded(self.inflated_bytes, "bytes when inflated", "limits.baseline.inflated_bytes")
    }

    pub const fn text_exceeded(&self) -> LimitExceeded {
        exceeded(self.text_bytes, "bytes in one file, release or resource", "limits.baseline.text_bytes")
    }

    pub const fn nodes_exceeded(&self) -> LimitExceeded {
        exceeded(self.nodes, "values in one document or resource", "limits.baseline.nodes")
    }

    pub const fn documents_exceeded(&self) -> LimitExceeded {
        exceeded(self.documents, "documents", "limits.baseline.documents")
    }

    pub const fn objects_exceeded(&self) -> LimitExceeded {
        exceeded(self.objects, "objects and skipped documents", "limits.baseline.objects")
    }

    pub const fn depth_exceeded(&self) -> LimitExceeded {
        exceeded(self.depth, "nesting levels", "limits.baseline.depth")
    }

    pub const fn work_exceeded(&self) -> LimitExceeded {
        exceeded(self.work, "values after alias expansion", "limits.baseline.work")
    }
}

impl NamespaceLimits {
    /// Fails if the baselines of one source in a namespace declare more objects than they may. Skipped documents count, too.
    pub fn check_claims(&self, claims: usize, is_trusted: bool) -> Result<(), LimitExceeded> {
        let (max, setting) = if is_trusted && self.trusted_claims > self.claims {
            (self.trusted_claims, "limits.namespace.trusted_claims")
        } else {
            (self.claims, "limits.namespace.claims")
        };
        let unit = "declared objects and skipped documents of this source";
        if claims > max { Err(LimitExceeded::Namespace { max, unit, setting }) } else { Ok(()) }
    }

    pub const fn baselines_exceeded(&self) -> LimitExceeded {
        let (max, unit) = (self.baselines, "baselines of this source");
        LimitExceeded::Namespace { max, unit, setting: "limits.namespace.baselines" }
    }

    pub const fn rules_exceeded(&self) -> LimitExceeded {
        let (max, unit) = (self.rules, "team rules");
        LimitExceeded::Namespace { max, unit, setting: "limits.namespace.rules" }
    }

    pub const fn rule_bytes_exceeded(&self) -> LimitExceeded {
        let (max, unit) = (self.rule_bytes, "bytes of team rules");
        LimitExceeded::Namespace { max, unit, setting: "limits.namespace.rule_bytes" }
    }
}

const fn exceeded(max: usize, unit: &'static str, setting: &'static str) -> LimitExceeded {
    LimitExceeded::Baseline { max, unit, setting }
}

impl Limits {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let Self { baseline, namespace } = self;
        for (key, limit) in [
            ("baseline.inflated_bytes", baseline.inflated_bytes),
            ("baseline.text_bytes", baseline.text_bytes),
            ("baseline.nodes", baseline.nodes),
            ("baseline.documents", baseline.documents),
            ("baseline.objects", baseline.objects),
            ("baseline.depth", baseline.depth),
            ("baseline.work", baseline.work),
            ("namespace.claims", namespace.claims),
            ("namespace.trusted_claims", namespace.trusted_claims),
            ("namespace.findings", namespace.findings),
            ("namespace.series", namespace.series),
            ("namespace.rules", namespace.rules),
            ("namespace.rule_bytes", namespace.rule_bytes),
            ("namespace.baselines", namespace.baselines),
        ] {
            if limit == 0 {
                let message = "0 would reject every input; want at least 1";
                problems.push(ConfigProblem::at(&format!("limits.{key}"), message));
            }
        }
        if baseline.depth > MAX_DEPTH {
            let message = format!("{} is too deep; want at most {MAX_DEPTH}", baseline.depth);
            problems.push(ConfigProblem::at("limits.baseline.depth", message));
        }
    }
}
