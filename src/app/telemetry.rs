//! What goes to the log, and how it looks; the last lines are kept for the page.

use std::{
    fmt::{Debug, Write as _},
    io::IsTerminal as _,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::dynamic_filter_fn,
    fmt,
    layer::{Context, SubscriberExt as _},
    reload,
    util::SubscriberInitExt as _,
};

use crate::{config::LogLevel, server::LogLines, types::Clock};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Changes how much is logged, and has the last lines. One that was not got from [`start`] changes nothing and has none.
#[derive(Clone, Debug, Default)]
pub struct LogHandle {
    heard: Option<reload::Handle<EnvFilter, Registry>>,
    written: Arc<Mutex<LogLevel>>,
    lines: LogLines,
}

impl LogHandle {
    /// What was logged lately.
    pub fn lines(&self) -> &LogLines {
        &self.lines
    }

    /// Logs from this level on.
    pub fn set_level(&self, level: LogLevel) {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = level;
        if let Some(handle) = &self.heard {
            // It fails only when there is no log any more.
            let _ = handle.reload(filter(LogLines::level(level)));
        }
    }
}

/// Starts logging to standard error, and keeping the last lines.
pub fn start(level: LogLevel, format: LogFormat) -> Result<LogHandle, String> {
    let (heard, handle) = reload::Layer::new(filter(LogLines::level(level)));
    let written = Arc::new(Mutex::new(level));
    let lines = LogLines::default();
    let keeper = LogKeeper { lines: lines.clone(), clock: Clock::system() };
    let registry = tracing_subscriber::registry().with(heard).with(keeper);
    let least = written.clone();
    let is_written = dynamic_filter_fn(move |metadata, _| {
        level_of(*metadata.level()) <= *least.lock().unwrap_or_else(PoisonError::into_inner)
    });
    let started = match format {
        LogFormat::Text => {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let lines = fmt::layer().with_ansi(colour).with_writer(std::io::stderr);
            registry.with(lines.with_filter(is_written)).try_init()
        }
        LogFormat::Json => {
            let lines = fmt::layer().json().flatten_event(true).with_writer(std::io::stderr);
            registry.with(lines.with_filter(is_written)).try_init()
        }
    };
    let handle = LogHandle { heard: Some(handle), written, lines };
    started.map(|()| handle).map_err(|error| format!("cannot start logging: {error}"))
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

/// Hears what is logged, and keeps it as text.
#[derive(Debug)]
pub(super) struct LogKeeper {
    pub(super) lines: LogLines,
    pub(super) clock: Clock,
}

impl<S: Subscriber> Layer<S> for LogKeeper {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        let text = format!("{}{}", words.message, words.fields);
        let metadata = event.metadata();
        self.lines.add(self.clock.now(), level_of(*metadata.level()), metadata.target(), &text);
    }
}

/// The message, and the values beside it as `name=value`.
#[derive(Debug, Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
        written.expect("writing to a string cannot fail");
    }
}

/// The level as settings call it.
pub(super) fn level_of(level: Level) -> LogLevel {
    match level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        Level::TRACE => LogLevel::Trace,
    }
}
