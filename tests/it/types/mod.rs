//! The domain types.

mod difference;
mod field_path;
mod hash;
mod hash_baseline;
mod kind;
mod redaction;
mod selector;
mod status;
mod watch;
