//! Directories of YAML: what git-sync brings, what a volume mounts, what kustomize wrote.

mod folder;
mod follow;
mod reading;

pub use self::follow::{ManifestSources, follow};
