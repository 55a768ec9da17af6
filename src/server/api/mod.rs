//! The JSON API: one file for each endpoint, and the types that they share.

mod cost;
mod drift_details;
mod events;
mod gate;
mod history;
mod object;
mod openapi;
mod parallel_body;
mod params;
mod resources;
mod response;
mod rules;
mod service_endpoints;
mod status;
mod view;

pub use events::EventStreamLimit;
pub(super) use events::events;
pub(super) use gate::gate;
pub(super) use history::history;
pub(crate) use object::ObjectView;
pub(super) use object::object;
pub(super) use openapi::openapi;
pub(super) use resources::{post_resources, resources};
pub(crate) use response::ProblemView;
pub(super) use response::{Problem, method_not_allowed, not_found};
pub(super) use rules::rules;
pub(super) use status::status;
pub(crate) use status::{HealthView, StatusView, StreamView};
pub(crate) use view::{DeclaredByView, DifferenceView, ListView, ResourceView, Word};
