//! The JSON API.

mod answer;
mod baselines;
mod events;
mod gate;
mod history;
mod object;
mod openapi;
mod operations;
mod pieces;
mod problem;
mod query;
mod resources;
mod rules;
mod schema;
mod status;
mod view;
mod words;

pub use events::Listeners;
pub(super) use events::events;
pub(super) use gate::gate;
pub(super) use history::history;
pub(super) use object::object;
pub(super) use openapi::openapi;
pub(super) use problem::{Problem, method_not_allowed, not_found};
pub(super) use resources::{post_resources, resources};
pub(super) use rules::rules;
pub(super) use status::status;
