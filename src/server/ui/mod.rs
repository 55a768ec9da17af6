//! The web pages. They are complete without scripts; with scripts they follow `/v1/events`.

mod commands;
mod diff;
mod format;
mod history;
mod layout;
mod log;
mod object;
mod overview;
mod rules;
mod sources;

pub(super) use layout::{asset, not_found};
pub(super) use log::log;
pub(super) use object::object;
pub(super) use overview::overview;
pub(super) use rules::rules;
pub(super) use sources::sources;
