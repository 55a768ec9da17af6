//! `drift-exporter demo`.

use tokio_util::sync::CancellationToken;

use super::{Outcome, args::DemoArgs, run::bind, signals};
use crate::{
    app::{
        demo::{self, Demo},
        telemetry,
    },
    model::Clock,
    settings::LogLevel,
};

/// Runs the demo until a signal ends it.
pub(super) fn run(arguments: &DemoArgs) -> Result<Outcome, String> {
    telemetry::start(arguments.log.level.unwrap_or(LogLevel::Warn), arguments.log.format)?;
    let runtime = signals::http_runtime()?;
    let ended = runtime.block_on(async {
        let page = bind(&arguments.listen).await?;
        let stop = CancellationToken::new();
        let speed = (!arguments.no_story).then_some(arguments.speed);
        let demo = Demo { page, speed, clock: Clock::system(), stop: stop.clone() };
        signals::until_signal(demo::run(demo, std::io::stdout()), &stop).await
    });
    runtime.shutdown_background();
    ended
}
