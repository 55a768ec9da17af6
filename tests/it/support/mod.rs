//! An API server in this process, and an exporter on it.

pub(crate) mod api_server;
pub(crate) mod autoscalers;
pub(crate) mod claims;
pub(crate) mod followed;
pub(crate) mod gzip;
pub(crate) mod objects;
pub(crate) mod state_server;
pub(crate) mod world;
