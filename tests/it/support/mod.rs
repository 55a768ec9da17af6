//! Fixtures, one per layer: an engine (`claims`), a source (`followed`), an exporter (`world`), and the fake API servers below them.

pub(crate) mod api_server;
pub(crate) mod autoscalers;
pub(crate) mod claims;
pub(crate) mod followed;
pub(crate) mod gzip;
pub(crate) mod objects;
pub(crate) mod state_server;
pub(crate) mod world;
