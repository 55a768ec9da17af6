//! How a recorded hash was made.

use super::Digest;

/// A way to hash an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The fingerprint that tfdrift-operator stamps: some fields of Deployments and Services.
    TfdriftV1,
    /// SHA-256 of the RFC 8785 text of the canonical document: any kind.
    JcsV1,
}

impl Algorithm {
    /// Its name, as it stands before a recorded hash.
    pub fn name(self) -> &'static str {
        match self {
            Self::TfdriftV1 => "tfdrift-v1",
            Self::JcsV1 => "jcs-v1",
        }
    }

    /// A hash as it is recorded: bare for `tfdrift-v1`, else with the name in front.
    pub fn record(self, digest: Digest) -> String {
        match self {
            Self::TfdriftV1 => digest.to_string(),
            Self::JcsV1 => format!("{}:{digest}", self.name()),
        }
    }
}
