//! What goes to the log, and how it looks.

use std::io::IsTerminal as _;

use tracing_subscriber::{
    EnvFilter, Registry, fmt, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _,
};

use crate::settings::LogLevel;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Changes how much is logged. One that was not got from [`start`] changes nothing.
#[derive(Clone, Debug, Default)]
pub struct LogHandle(Option<reload::Handle<EnvFilter, Registry>>);

impl LogHandle {
    /// Logs from this level on.
    pub fn set_level(&self, level: LogLevel) {
        if let Some(handle) = &self.0 {
            // It fails only when there is no log any more.
            let _ = handle.reload(filter(level));
        }
    }
}

/// Starts logging to standard error.
pub fn start(level: LogLevel, format: LogFormat) -> Result<LogHandle, String> {
    let (filter, handle) = reload::Layer::new(filter(level));
    let registry = tracing_subscriber::registry().with(filter);
    let started = match format {
        LogFormat::Text => {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            registry.with(fmt::layer().with_ansi(colour).with_writer(std::io::stderr)).try_init()
        }
        LogFormat::Json => {
            registry.with(fmt::layer().json().flatten_event(true).with_writer(std::io::stderr)).try_init()
        }
    };
    started.map(|()| LogHandle(Some(handle))).map_err(|error| format!("cannot start logging: {error}"))
}

/// kube logs whole response bodies on some errors, and those may hold Secrets.
fn filter(level: LogLevel) -> EnvFilter {
    let level = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    EnvFilter::new(format!(
        "{level},kube_client=error,kube_runtime=error,hyper=warn,hyper_util=warn,rustls=warn,tower=warn"
    ))
}
