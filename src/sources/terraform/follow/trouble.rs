//! What is said when something cannot be read: what, where, what to do.

use super::place::Place;
use crate::types::{BaselineFault, BaselineTrouble};

/// A file cannot be opened.
pub(super) fn not_opened(place: &Place, why: &str) -> BaselineTrouble {
    let message = format!("{place} cannot be opened: {why}; check the path and the rights").into();
    BaselineTrouble { fault: BaselineFault::Unreadable, message }
}

/// A fault, and what people are told about it.
pub(super) fn explain(fault: BaselineFault, place: &Place) -> BaselineTrouble {
    let published = matches!(place, Place::Published(_));
    let again = match place {
        Place::State(_) | Place::File(_) => "write it again (terraform apply -refresh-only)",
        Place::Published(_) => "publish it again (drift-exporter baseline)",
    };
    let message = match fault {
        BaselineFault::Torn => {
            format!(
                "{place}: a part of it is missing or of another version; if nobody writes it now, {again}"
            )
        }
        BaselineFault::Truncated => format!("{place} ends too early; {again}"),
        BaselineFault::TooLarge => {
            format!("{place} is larger than anything that is read; split the state, or publish a part of it")
        }
        BaselineFault::Encrypted => {
            format!("{place} is encrypted; publish what is in it (tofu state pull | drift-exporter baseline)")
        }
        BaselineFault::UnsupportedVersion if published => {
            format!("{place} was made by another version of drift-exporter; {again} with this one")
        }
        BaselineFault::UnsupportedVersion => {
            format!(
                "{place} is a state of a version that is not known; Terraform from 0.12 on writes version 4"
            )
        }
        BaselineFault::Unreadable | BaselineFault::Foreign | BaselineFault::NotDeployed if published => {
            format!("{place} is no published baseline; {again}")
        }
        BaselineFault::Unreadable | BaselineFault::Foreign | BaselineFault::NotDeployed => {
            format!("{place} is no Terraform state, or a broken one; {again}")
        }
    };
    BaselineTrouble { fault, message: message.into() }
}
