//! The corpus of documents. A document can be instantiated under any number of names.

use serde_json::Value;

/// How kubectl sends the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Client-side apply.
    Applied,
    /// Server-side apply.
    Merged,
    /// Create, without a last-applied annotation.
    Created,
}

impl Pass {
    /// The suffix of names.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Applied => "",
            Self::Merged => "-s",
            Self::Created => "-c",
        }
    }

    /// The arguments of kubectl to send and to diff.
    pub(super) fn arguments(self) -> [&'static [&'static str]; 2] {
        match self {
            Self::Applied => [&["apply"], &[]],
            Self::Merged => [&["apply", "--server-side"], &["--server-side"]],
            Self::Created => [&["create"], &[]],
        }
    }
}

/// A document of the corpus, in which `@` and `~` are placeholders for the suffix of a copy.
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
    // Limit ranges would constrain the Pods after them.
    include_str!("corpus/pods.yaml"),
    include_str!("corpus/policy.yaml"),
    include_str!("corpus/widgets.yaml"),
];

/// Every document.
pub(super) fn read() -> Vec<Document> {
    FILES.iter().flat_map(|file| file.split("\n---\n")).map(|text| Document { text }).collect()
}

impl Document {
    /// A copy as YAML. Names and API groups end in the suffix of the pass and the copy.
    pub(super) fn yaml(self, pass: &str, copy: &str) -> String {
        let suffix = format!("{pass}{copy}");
        let group = if self.text.contains("kind: CustomResourceDefinition") { &suffix } else { pass };
        self.text.replace('@', &suffix).replace('~', group)
    }

    /// A copy as sources decode it.
    pub(super) fn value(self, pass: &str, copy: &str) -> Value {
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        serde_saphyr::from_str_with_options(&self.yaml(pass, copy), options)
            .unwrap_or_else(|error| panic!("{}: {error}", self.text))
    }

    /// Whether only one instance can exist.
    pub(super) fn is_singleton(self) -> bool {
        self.text.contains("# once")
    }

    /// Whether the pass includes it.
    pub(super) fn is_included(self, pass: Pass) -> bool {
        match pass {
            Pass::Applied => true,
            Pass::Merged => !self.is_singleton() && !self.text.contains("# no merge"),
            Pass::Created => !self.is_singleton(),
        }
    }

    /// Whether kubectl diff can compare it.
    pub(super) fn is_comparable(self, pass: Pass) -> bool {
        // kubectl deletes null fields that are not in its last-applied annotation.
        let omits_nulls = pass == Pass::Created && self.text.contains("# nulls");
        !omits_nulls && !self.text.contains("# unjudged")
    }

    /// Whether it is a CRD.
    pub(super) fn is_crd(self) -> bool {
        self.text.contains("kind: CustomResourceDefinition")
    }
}
