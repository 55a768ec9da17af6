//! Decoding of lists and of live objects.

mod facts;
mod json_items;
mod status;
