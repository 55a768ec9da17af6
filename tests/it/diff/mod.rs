//! The parts of a diff.

mod document;
mod fields;
mod last_applied;
mod ownership;
mod quantity;
mod sensitive;
