//! `drift-exporter demo`.

use tokio_util::sync::CancellationToken;

use super::{
    Outcome,
    args::DemoArgs,
    error::CliError,
    output::{OnHangup, serve_on_runtime, until_signal},
    run::{LISTEN_FLAG, bind},
};
use crate::{
    app::{
        demo::{self, Demo},
        telemetry,
    },
    config::LogLevel,
    types::Clock,
};

const OPEN_FILES: u64 = 4096 + RESERVED_FILES;
/// Files that are not connections to the demo's API server: connections to the web page, and a few others.
const RESERVED_FILES: u64 = 640;

/// The number of connections that the demo's API server accepts at a time. A process at its limit of open files cannot
/// do anything else.
fn max_connections(open_files: u64) -> usize {
    usize::try_from(open_files.saturating_sub(RESERVED_FILES)).map_or(usize::MAX, |count| count.max(64))
}

pub(super) fn run(arguments: &DemoArgs) -> Result<Outcome, CliError> {
    let log = telemetry::start(arguments.log.level.unwrap_or(LogLevel::Warn), arguments.log.format)?;
    serve_on_runtime(async {
        let page = bind(&arguments.listen, LISTEN_FLAG)?;
        let stop = CancellationToken::new();
        let speed = (!arguments.no_story).then_some(arguments.speed);
        let connections = max_connections(rlimit::increase_nofile_limit(OPEN_FILES).unwrap_or(0));
        let demo = Demo { page, connections, speed, log, clock: Clock::system(), stop: stop.clone() };
        until_signal(demo::run(demo, std::io::stdout()), &stop, OnHangup::Stop).await
    })
}
