//! `drift-exporter run`.

use std::{io, path::Path};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    Outcome,
    args::{ListenAddress, RunArgs, WebOptions},
    error::CliError,
    output::{
        Console, OnHangup, default_settings, parse_settings, read_error, serve_on_runtime, until_signal,
    },
};
use crate::{
    app::{
        self, ExporterDeps, Listeners, SettingsSource,
        telemetry::{self, LogHandle},
    },
    config::{FileWatch, LoadedSettings, Overrides, Settings},
    server::listen,
    sources::terraform::random_key,
    types::{Clock, RedactionKey},
    watch::{WatcherConfig, client_from},
};

/// The flag of the address to serve on.
pub(super) const LISTEN_FLAG: &str = "--web.listen-address";

pub(super) fn run(arguments: RunArgs, console: &mut Console) -> Result<Outcome, CliError> {
    let overrides = arguments.overrides();
    let (settings, source) = match &arguments.config.config_file {
        Some(path) => {
            let (settings, source) = open_settings(path, overrides, console)?;
            (settings, Some(source))
        }
        None => (default_settings(&overrides)?, None),
    };
    let web = arguments.permissions.web.open()?;
    let log = telemetry::start(settings.log_level, arguments.log.format)?;
    serve_on_runtime(serve(arguments, settings, source, web, log))
}

/// Reads the settings file, which `SettingsSource` then watches.
fn open_settings(
    path: &Path,
    overrides: Overrides,
    console: &mut Console,
) -> Result<(Settings, SettingsSource), CliError> {
    let mut file = FileWatch::new(path.to_owned());
    let unstable = || Err(io::Error::other("it changes while it is read; try again"));
    let text = file.read_now().unwrap_or_else(unstable).map_err(|source| read_error(path, source))?;
    let LoadedSettings { settings, warnings } = parse_settings(path, &text, &overrides, console)?;
    Ok((settings, SettingsSource { file, overrides, warnings }))
}

async fn serve(
    arguments: RunArgs,
    settings: Settings,
    settings_source: Option<SettingsSource>,
    web: WebOptions,
    log: LogHandle,
) -> Result<Outcome, CliError> {
    let client = client_from(&arguments.cluster.connection()).await?;
    let bind_health = |address| bind(address, "--web.health-address");
    let listeners = Listeners {
        web: bind(&arguments.listen, LISTEN_FLAG)?,
        health: arguments.health_address.as_ref().map(bind_health).transpose()?,
    };
    let stop = CancellationToken::new();
    let parts = ExporterDeps {
        auth: web.auth(&client),
        client,
        settings,
        settings_source,
        log,
        redaction_key: random_key().map(RedactionKey::of_process).map_err(CliError::RedactionKey)?,
        clock: Clock::system(),
        timing: WatcherConfig::default(),
        events: arguments.permissions.events,
        history_file: arguments.history_file,
        stop: stop.clone(),
    };
    until_signal(app::run(parts, listeners), &stop, OnHangup::Reload).await
}

/// `flag` is the one that chooses another address.
pub(super) fn bind(address: &ListenAddress, flag: &'static str) -> Result<TcpListener, CliError> {
    let mut failure = CliError::NoAddress;
    for candidate in &address.candidates {
        match listen(*candidate) {
            Ok(listener) => return Ok(listener),
            Err(source) => {
                let is_in_use = source.kind() == io::ErrorKind::AddrInUse;
                failure = CliError::Listen { flag, address: *candidate, source };
                if is_in_use {
                    break;
                }
            }
        }
    }
    Err(failure)
}
