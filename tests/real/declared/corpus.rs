//! The documents that are applied, each of them as many times as there are names for it.

use serde_json::Value;

/// How the corpus is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// With kubectl, which remembers what it applied.
    Applied,
    /// With kubectl, which lets the server remember.
    Merged,
    /// With kubectl, which forgets it.
    Created,
}

impl Pass {
    /// What names end in.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Applied => "",
            Self::Merged => "-s",
            Self::Created => "-c",
        }
    }

    /// How kubectl is called to send, and to judge.
    pub(super) fn arguments(self) -> [&'static [&'static str]; 2] {
        match self {
            Self::Applied => [&["apply"], &[]],
            Self::Merged => [&["apply", "--server-side"], &["--server-side"]],
            Self::Created => [&["create"], &[]],
        }
    }
}

/// A document of the corpus, in which `@` and `~` stand for what makes a copy its own.
#[derive(Clone, Copy)]
pub(super) struct Document {
    text: &'static str,
}

const FILES: &[&str] = &[
    include_str!("corpus/kinds.yaml"),
    include_str!("corpus/config.yaml"),
    include_str!("corpus/storage.yaml"),
    include_str!("corpus/services.yaml"),
    include_str!("corpus/workloads.yaml"),
    // Limits would bound Pods that come after them.
    include_str!("corpus/pods.yaml"),
    include_str!("corpus/policy.yaml"),
    include_str!("corpus/widgets.yaml"),
];

/// Every document.
pub(super) fn read() -> Vec<Document> {
    FILES.iter().flat_map(|file| file.split("\n---\n")).map(|text| Document { text }).collect()
}

impl Document {
    /// A copy as YAML. Names end in what the pass and the copy are called, and so do groups of kinds.
    pub(super) fn yaml(self, pass: &str, copy: &str) -> String {
        let own = format!("{pass}{copy}");
        let group = if self.text.contains("kind: CustomResourceDefinition") { &own } else { pass };
        self.text.replace('@', &own).replace('~', group)
    }

    /// A copy as sources read it.
    pub(super) fn value(self, pass: &str, copy: &str) -> Value {
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        serde_saphyr::from_str_with_options(&self.yaml(pass, copy), options)
            .unwrap_or_else(|error| panic!("{}: {error}", self.text))
    }

    /// Whether there can be only one of it.
    pub(super) fn is_only_one(self) -> bool {
        self.text.contains("# once")
    }

    /// Whether it can be sent this way.
    pub(super) fn is_sent(self, pass: Pass) -> bool {
        match pass {
            Pass::Applied => true,
            Pass::Merged => !self.is_only_one() && !self.text.contains("# no merge"),
            Pass::Created => !self.is_only_one(),
        }
    }

    /// Whether kubectl can say anything about it.
    pub(super) fn is_judged(self, pass: Pass) -> bool {
        // What it does not remember to have applied as null, it takes away.
        let forgets = pass == Pass::Created && self.text.contains("# nulls");
        !forgets && !self.text.contains("# unjudged")
    }

    /// Whether it declares a kind.
    pub(super) fn is_kind(self) -> bool {
        self.text.contains("kind: CustomResourceDefinition")
    }
}
