//! Releases of Helm: from the Secrets and `ConfigMaps` that Helm keeps them in to declared objects.
//!
//! A release holds the values that it was made with, the whole chart, and what is run before and after. Of these nothing is
//! kept: only the rendered manifest says what is declared, and what may not be told of it becomes digests.

mod release;
mod revisions;
mod source;

pub use self::{
    release::{Release, decode},
    source::{ReleaseSources, follow},
};
