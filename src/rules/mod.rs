//! What people think of a difference: who made it, how bad it is, whether it was to be expected. Pure.

mod actors;
mod rate;

pub use actors::classify;
pub use rate::rate;
