//! The JSON API.

mod baselines;
mod events;
mod history;
mod problem;
mod resources;
mod rules;
mod status;
mod view;

pub use events::Listeners;
pub(super) use events::events;
pub(super) use history::history;
pub(super) use problem::{Problem, method_not_allowed, not_found};
pub(super) use resources::{object, resources};
pub(super) use rules::rules;
pub(super) use status::status;
