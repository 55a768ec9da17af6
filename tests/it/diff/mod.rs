//! The parts of a diff.

mod fields;
mod last_applied;
mod ownership;
mod quantity;
