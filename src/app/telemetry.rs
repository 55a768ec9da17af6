//! Logging: to standard error as text or JSON, and the last lines in memory for the page.

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

use super::AppError;
use crate::{config::LogLevel, server::LogLines, types::Clock};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Changes the log level, and has the last lines. The default one changes nothing and has no lines.
#[derive(Clone, Debug, Default)]
pub struct LogHandle {
    filter: Option<reload::Handle<EnvFilter, Registry>>,
    stderr_level: Arc<Mutex<LogLevel>>,
    lines: LogLines,
}

impl LogHandle {
    pub fn lines(&self) -> &LogLines {
        &self.lines
    }

    pub fn set_level(&self, level: LogLevel) {
        *self.stderr_level.lock().unwrap_or_else(PoisonError::into_inner) = level;
        if let Some(filter) = &self.filter {
            // Fails only if the subscriber was dropped.
            let _ = filter.reload(env_filter(LogLines::level(level)));
        }
    }
}

/// Installs the global subscriber. The lines in memory have a level of their own, see [`LogLines::level`].
pub fn start(level: LogLevel, format: LogFormat) -> Result<LogHandle, AppError> {
    let (filter, handle) = reload::Layer::new(env_filter(LogLines::level(level)));
    let stderr_level = Arc::new(Mutex::new(level));
    let lines = LogLines::default();
    let memory = LogLinesLayer { lines: lines.clone(), clock: Clock::system() };
    let registry = tracing_subscriber::registry().with(filter).with(memory);
    let max_level = stderr_level.clone();
    let stderr_filter = dynamic_filter_fn(move |metadata, _| {
        log_level(*metadata.level()) <= *max_level.lock().unwrap_or_else(PoisonError::into_inner)
    });
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let stderr = fmt::layer().with_writer(std::io::stderr);
    let stderr = match format {
        LogFormat::Text => stderr.with_ansi(colour).boxed(),
        LogFormat::Json => stderr.json().flatten_event(true).boxed(),
    };
    registry.with(stderr.with_filter(stderr_filter)).try_init()?;
    Ok(LogHandle { filter: Some(handle), stderr_level, lines })
}

/// Restricts kube and hyper: kube logs whole response bodies on some errors, and those may contain Secrets.
fn env_filter(level: LogLevel) -> EnvFilter {
    EnvFilter::new(format!(
        "{level},kube_client=error,kube_runtime=error,hyper=warn,hyper_util=warn,rustls=warn,tower=warn"
    ))
}

/// Adds each log event to the lines in memory.
#[derive(Debug)]
struct LogLinesLayer {
    lines: LogLines,
    clock: Clock,
}

impl<S: Subscriber> Layer<S> for LogLinesLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut visitor = LineVisitor::default();
        event.record(&mut visitor);
        let text = format!("{}{}", visitor.message, visitor.fields);
        let metadata = event.metadata();
        self.lines.add(self.clock.now(), log_level(*metadata.level()), metadata.target(), &text);
    }
}

/// Collects the message, and the fields as `name=value`.
#[derive(Debug, Default)]
struct LineVisitor {
    message: String,
    fields: String,
}

impl Visit for LineVisitor {
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

fn log_level(level: Level) -> LogLevel {
    match level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        Level::TRACE => LogLevel::Trace,
    }
}
