//! Decoding of lists and of live objects.

mod decode;
mod facts;
mod json_items;
mod status;
