//! `drift-exporter run`.

use std::{
    io::{self, Write},
    path::Path,
};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Outcome, args::RunArgs, settings_file::told, signals, values::ListenAddress, web_args::Web};
use crate::{
    app::{
        self, ExporterDeps, SettingsSource,
        telemetry::{self, LogHandle},
    },
    config::{FileWatch, LoadedSettings, Overrides, Settings, load},
    server::listen,
    sources::terraform::random_key,
    types::Clock,
    watch::{WatcherConfig, client_from},
};

/// Runs the exporter until a signal ends it.
pub(super) fn run(arguments: RunArgs, stderr: &mut dyn Write) -> Result<Outcome, String> {
    let overrides = arguments.overrides();
    let (settings, source) = if let Some(path) = &arguments.config.config_file {
        let Some((settings, source)) = open(path, overrides, stderr)? else {
            return Ok(Outcome::CouldNotRun);
        };
        (settings, Some(source))
    } else {
        let loaded = load("", &overrides).map_err(|problems| problems[0].to_string())?;
        (loaded.settings, None)
    };
    let Some(web) = arguments.reach.web.open(stderr)? else { return Ok(Outcome::CouldNotRun) };
    let log = telemetry::start(settings.log_level, arguments.log.format)?;
    let runtime = signals::http_runtime()?;
    let ended = runtime.block_on(serve(arguments, settings, source, web, log));
    runtime.shutdown_background();
    ended
}

/// Reads the settings file that is then followed. None where it is wrong; what is wrong was told.
fn open(
    path: &Path,
    overrides: Overrides,
    stderr: &mut dyn Write,
) -> Result<Option<(Settings, SettingsSource)>, String> {
    let mut file = FileWatch::new(path.to_owned());
    let content =
        file.read_now().ok_or_else(|| format!("somebody writes to {} right now", path.display()))?;
    let text = content.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let Some(LoadedSettings { settings, warnings }) = told(path, load(&text, &overrides), stderr)? else {
        return Ok(None);
    };
    Ok(Some((settings, SettingsSource { file, overrides, warnings })))
}

async fn serve(
    arguments: RunArgs,
    settings: Settings,
    settings_source: Option<SettingsSource>,
    web: Web,
    log: LogHandle,
) -> Result<Outcome, String> {
    let client = client_from(&arguments.cluster.connection()).await.map_err(|error| error.to_string())?;
    let listener = bind(&arguments.listen)?;
    let stop = CancellationToken::new();
    let parts = ExporterDeps {
        auth: web.auth(&client),
        client,
        settings,
        settings_source,
        log,
        redaction_key: random_key()
            .map_err(|error| format!("the system gives no random numbers: {error}"))?,
        clock: Clock::system(),
        timing: WatcherConfig::default(),
        events: arguments.reach.events,
        history_file: arguments.history_file,
        stop: stop.clone(),
    };
    signals::until_signal(app::run(parts, listener), &stop, signals::Hangup::IsNotOurs).await
}

pub(super) fn bind(address: &ListenAddress) -> Result<TcpListener, String> {
    let mut wrong = "the name has no address".to_owned();
    for candidate in &address.candidates {
        match listen(*candidate) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(format!(
                    "{candidate} is in use; choose another address with --web.listen-address"
                ));
            }
            Err(error) => wrong = format!("{candidate}: {error}"),
        }
    }
    Err(format!("cannot listen on {wrong}; choose another address with --web.listen-address"))
}
