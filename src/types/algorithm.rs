//! How a recorded hash was made.

use super::Digest;

/// A way to hash an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The fingerprint that tfdrift-operator stamps: some fields of Deployments and Services.
    TfdriftV1,
    /// SHA-256 of the RFC 8785 text of the canonical document: any kind.
    JcsV1,
    /// The hash that opr8r records of the spec of a `SimpleResource`.
    Opr8rV1,
    /// SHA-256 of the RFC 8785 text of a part of the object as it is, usually its spec.
    Sha256Jcs,
}

impl Algorithm {
    /// All there are.
    pub const ALL: &'static [Self] = &[Self::TfdriftV1, Self::JcsV1, Self::Opr8rV1, Self::Sha256Jcs];

    /// Its name, as it stands before a recorded hash.
    pub fn name(self) -> &'static str {
        match self {
            Self::TfdriftV1 => "tfdrift-v1",
            Self::JcsV1 => "jcs-v1",
            Self::Opr8rV1 => "opr8r-v1",
            Self::Sha256Jcs => "sha256-jcs",
        }
    }

    /// A hash as it is recorded: bare for `tfdrift-v1`, else with the name in front.
    pub fn record(self, digest: Digest) -> String {
        match self {
            Self::TfdriftV1 => digest.to_string(),
            Self::JcsV1 | Self::Opr8rV1 | Self::Sha256Jcs => format!("{}:{digest}", self.name()),
        }
    }
}
