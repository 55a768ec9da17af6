//! Keeps the last lines of the log for the page.

use std::fmt::{Debug, Write as _};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use crate::{config::LogLevel, server::LogLines, types::Clock};

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
