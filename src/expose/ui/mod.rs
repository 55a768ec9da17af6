//! What people see in a browser: readable without scripts, and live with them.

mod assets;
mod commands;
mod filter;
mod history;
mod layout;
mod links;
mod not_found;
mod object;
mod overview;
mod reports;
mod rows;
mod settings;
mod states;
mod streams;
mod words;

pub(super) use assets::asset;
pub(super) use not_found::not_found;
pub(super) use object::object;
pub(super) use overview::overview;
