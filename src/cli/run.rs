//! `drift-exporter run`.

use std::{io, path::Path};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    Outcome,
    args::{ListenAddress, RunArgs, WebOptions},
    output::{Console, OnHangup, print_load_problems, serve_on_runtime, until_signal},
};
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

pub(super) fn run(arguments: RunArgs, console: &mut Console) -> Result<Outcome, String> {
    let overrides = arguments.overrides();
    let (settings, source) = if let Some(path) = &arguments.config.config_file {
        let Some((settings, source)) = open_settings(path, overrides, console)? else {
            return Ok(Outcome::Error);
        };
        (settings, Some(source))
    } else {
        let loaded = load("", &overrides).map_err(|problems| problems[0].to_string())?;
        (loaded.settings, None)
    };
    let Some(web) = arguments.permissions.web.open(console)? else { return Ok(Outcome::Error) };
    let log = telemetry::start(settings.log_level, arguments.log.format)?;
    serve_on_runtime(serve(arguments, settings, source, web, log))
}

/// Reads the settings file, which `SettingsSource` then watches. `None` if it is invalid; its problems are then printed
/// to `stderr`.
fn open_settings(
    path: &Path,
    overrides: Overrides,
    console: &mut Console,
) -> Result<Option<(Settings, SettingsSource)>, String> {
    let mut file = FileWatch::new(path.to_owned());
    let content = file
        .read_now()
        .ok_or_else(|| format!("cannot read {}: it changes while it is read; try again", path.display()))?;
    let text = content.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let Some(LoadedSettings { settings, warnings }) =
        print_load_problems(path, load(&text, &overrides), console)?
    else {
        return Ok(None);
    };
    Ok(Some((settings, SettingsSource { file, overrides, warnings })))
}

async fn serve(
    arguments: RunArgs,
    settings: Settings,
    settings_source: Option<SettingsSource>,
    web: WebOptions,
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
        redaction_key: random_key().map_err(|error| format!("cannot generate a redaction key: {error}"))?,
        clock: Clock::system(),
        timing: WatcherConfig::default(),
        events: arguments.permissions.events,
        history_file: arguments.history_file,
        stop: stop.clone(),
    };
    until_signal(app::run(parts, listener), &stop, OnHangup::Reload).await
}

pub(super) fn bind(address: &ListenAddress) -> Result<TcpListener, String> {
    let mut failure = "the host name has no address".to_owned();
    for candidate in &address.candidates {
        match listen(*candidate) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(format!(
                    "cannot listen on {candidate}: it is in use; choose another address with --web.listen-address"
                ));
            }
            Err(error) => failure = format!("{candidate}: {error}"),
        }
    }
    Err(format!("cannot listen on {failure}; choose another address with --web.listen-address"))
}
