//! What a baseline declares for one object.

use std::fmt;

use super::{Packed, RedactionKey, UnknownReason, kind};

/// One object as a baseline has it. Values that may not be told are in it as digests only.
#[derive(Clone, PartialEq, Eq)]
pub struct DeclaredObject {
    /// How its tool calls it: `module.shop["eu"].kubernetes_deployment_v1.web[0]`.
    pub address: Box<str>,
    /// The type of the resource, `kubernetes_deployment_v1`.
    pub resource_type: Box<str>,
    /// Which object it is.
    pub object: ObjectName,
    /// The uid of the object that was applied, where the baseline has it.
    pub uid: Option<Box<str>>,
    /// Attributes, without indices, whose values may not be told: `data`, `spec.template.spec.container.env.value`.
    pub sensitive: Vec<Box<str>>,
    /// The key of the digests in the body.
    pub key: RedactionKey,
    /// What is declared.
    pub body: DeclaredBody,
}

/// Which object a resource is, as a baseline tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// The API version that the object is read in.
    pub version: Box<str>,
    /// `Deployment`.
    pub kind: Box<str>,
    /// Empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// The object's name.
    pub name: Box<str>,
}

impl ObjectName {
    /// Whether it is of a kind that is asked for by a name or a selector only.
    pub fn is_guarded(&self) -> bool {
        kind::is_guarded(&self.group, &self.kind)
    }
}

impl DeclaredObject {
    /// Whether others may own the rest of the object.
    pub fn is_part(&self) -> bool {
        matches!(self.body, DeclaredBody::Parts(_))
    }
}

/// What is declared, in the form in which it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredBody {
    /// Attributes of a type in the table.
    Attributes(Packed),
    /// The whole object as it was read after it was applied (`kubernetes_manifest`).
    Whole(Packed),
    /// Only what somebody wrote down (`kubectl_manifest`).
    Subset(Packed),
    /// Single keys or variables of an object that others may own the rest of.
    Parts(Packed),
    /// Something that cannot be compared.
    Opaque(UnknownReason),
}

impl DeclaredBody {
    /// The document, where there is one.
    pub fn packed(&self) -> Option<&Packed> {
        match self {
            Self::Attributes(packed) | Self::Whole(packed) | Self::Subset(packed) | Self::Parts(packed) => {
                Some(packed)
            }
            Self::Opaque(_) => None,
        }
    }

    /// The same, to be replaced by another one.
    pub fn packed_mut(&mut self) -> Option<&mut Packed> {
        match self {
            Self::Attributes(packed) | Self::Whole(packed) | Self::Subset(packed) | Self::Parts(packed) => {
                Some(packed)
            }
            Self::Opaque(_) => None,
        }
    }
}

/// Tells which object it is and nothing that is declared for it.
impl fmt::Debug for DeclaredObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DeclaredObject")
            .field("address", &self.address)
            .field("object", &self.object)
            .field("uid", &self.uid)
            .finish_non_exhaustive()
    }
}
