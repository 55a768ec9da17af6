//! The JSON API.

mod history;
mod problem;
mod resources;
mod view;

pub(super) use history::history;
pub(super) use problem::{method_not_allowed, not_found};
pub(super) use resources::{object, resources};
