//! Logging: to standard error as text or JSON, and the last lines in memory for the page.

use std::{
    fmt::{Debug, Write},
    io::IsTerminal as _,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    field::MakeExt as _,
    filter::dynamic_filter_fn,
    fmt::{
        self,
        format::{self, FormatFields, Writer},
    },
    layer::{Context, SubscriberExt as _},
    reload,
    util::SubscriberInitExt as _,
};

use super::AppError;
use crate::{
    config::LogLevel,
    server::LogLines,
    types::{Clock, is_control},
};

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
        LogFormat::Text => stderr.with_ansi(colour).fmt_fields(escaped_fields()).boxed(),
        LogFormat::Json => stderr.json().flatten_event(true).boxed(),
    };
    registry.with(stderr.with_filter(stderr_filter)).try_init()?;
    Ok(LogHandle { filter: Some(handle), stderr_level, lines })
}

/// The fields of a line of text. Unescaped control characters could forge lines or control a terminal.
fn escaped_fields() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    let write_field = |writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| match field.name() {
        "message" => write!(Escaped(writer), "{value:?}"),
        name => {
            write!(writer, "{name}=")?;
            write!(Escaped(writer), "{value:?}")
        }
    };
    format::debug_fn(write_field).delimited(" ")
}

/// Writes control characters as escapes: `\n`, `\u{1b}`.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for part in text.split_inclusive(is_control) {
            let plain = part.trim_end_matches(is_control);
            self.0.write_str(plain)?;
            part[plain.len()..].chars().try_for_each(|c| write!(self.0, "{}", c.escape_default()))?;
        }
        Ok(())
    }
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
            "message" => write!(Escaped(&mut self.message), "{value:?}"),
            name => write!(Escaped(&mut self.fields), " {name}={value:?}"),
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

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::{escaped_fields, fmt};

    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn text_log_escapes_control_characters() {
        let output = Output::default();
        let writer = output.clone();
        let subscriber = fmt::Subscriber::builder()
            .with_ansi(false)
            .fmt_fields(escaped_fields())
            .with_writer(move || writer.clone())
            .finish();
        let forged = "refused\n2026-01-01T00:00:00Z  INFO all is well\u{1b}[2J\u{9b}1m\u{202e}";
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(reason = %forged, text = forged, "cannot list: {forged}");
        });
        let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let has_control = text.trim_end().chars().any(super::is_control);
        assert!(!has_control, "{text:?}");
        assert!(text.contains("cannot list: refused\\n2026"), "{text}");
        assert!(text.contains("reason=refused\\n2026"), "{text}");
    }
}
