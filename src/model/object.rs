//! What we keep of a live object.

use super::{Digest, Health, ObjectKey, UnknownReason, Writer};

/// One live object, reduced to what is compared and shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveObject {
    /// Its identity.
    pub key: ObjectKey,
    /// Tells apart two objects that had the same name one after the other.
    pub uid: Box<str>,
    /// The version of the object that was read.
    pub resource_version: Box<str>,
    /// Those of its labels that rules ask for or that its series have, by name.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Paths whose differences the object itself asks to ignore, with commas between them; empty where settings do not
    /// allow it to.
    pub mutes: Box<str>,
    /// What the annotation source found on it.
    pub stamp: Stamp,
    /// The small facts that the API shows.
    pub facts: Facts,
}

/// The hash baseline that an object carries itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// No hash is recorded.
    Absent,
    /// A hash is recorded, or the object is there, but nothing can be compared.
    Unusable(UnknownReason),
    /// The recorded hash is the hash of the object.
    Match(Digest),
    /// The recorded hash is another one.
    Mismatch(Box<Mismatch>),
}

/// Two hashes that differ, and who wrote last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The recorded hash.
    pub expected: Digest,
    /// The object's hash.
    pub actual: Digest,
    /// The newest owner of the hashed part, where anybody owns it.
    pub writer: Option<Writer>,
}

/// Small facts about an object, taken from its spec and status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How well it works.
    pub health: Health,
    /// Why it is not healthy; empty when it is.
    pub message: Box<str>,
    /// Declared replicas, for kinds that have them.
    pub replicas: Option<i32>,
    /// CPU requested by one replica, in thousandths of a core.
    pub cpu_request: Option<u64>,
    /// Memory requested by one replica, in bytes.
    pub memory_request: Option<u64>,
    /// Where it can be reached, when that does not follow from its name.
    pub endpoint: Option<Box<str>>,
    /// The first port it serves on.
    pub port: Option<u16>,
    /// The value of its label `app.kubernetes.io/instance`.
    pub instance: Option<Box<str>>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            health: Health::Unknown,
            message: Box::default(),
            replicas: None,
            cpu_request: None,
            memory_request: None,
            endpoint: None,
            port: None,
            instance: None,
        }
    }
}
