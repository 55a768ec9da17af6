//! The demo: an embedded API server, a sample application on it, and a story of changes to that application.

mod cluster;
mod helm;
mod shop;
mod story;
mod terraform;

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};

pub use cluster::{Cluster, StatusError, router};
pub use shop::Shop;
pub use story::{StoryEvent, play_story, run_deployment_controller};
pub use terraform::NAMESPACE as STATE_NAMESPACE;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("writing to memory cannot fail");
    encoder.finish().expect("writing to memory cannot fail")
}
