//! `drift-exporter demo`.

use tokio_util::sync::CancellationToken;

use super::{
    Outcome,
    args::DemoArgs,
    run::bind,
    signals::{self, Hangup},
};
use crate::{
    app::{
        demo::{self, Demo},
        telemetry,
    },
    config::LogLevel,
    types::Clock,
};

/// Enough for as many connections to the cluster as anybody could want to try.
const OPEN_FILES: u64 = 4096 + OTHER_FILES;
/// What everything else may have open: the page's connections, and a few files.
const OTHER_FILES: u64 = 640;

/// How many connections the cluster may have where so many files may be open. More wait their turn: a process that can open no
/// more files can do nothing at all.
fn connections(open_files: u64) -> usize {
    usize::try_from(open_files.saturating_sub(OTHER_FILES)).map_or(usize::MAX, |own| own.max(64))
}

/// Runs the demo until a signal ends it.
pub(super) fn run(arguments: &DemoArgs) -> Result<Outcome, String> {
    let log = telemetry::start(arguments.log.level.unwrap_or(LogLevel::Warn), arguments.log.format)?;
    let runtime = signals::http_runtime()?;
    let ended = runtime.block_on(async {
        let page = bind(&arguments.listen)?;
        let stop = CancellationToken::new();
        let speed = (!arguments.no_story).then_some(arguments.speed);
        let connections = connections(rlimit::increase_nofile_limit(OPEN_FILES).unwrap_or(0));
        let demo = Demo { page, connections, speed, log, clock: Clock::system(), stop: stop.clone() };
        signals::until_signal(demo::run(demo, std::io::stdout()), &stop, Hangup::Ends).await
    });
    runtime.shutdown_background();
    ended
}
