//! What commands share at the process's edges: pipes, signals, runtimes, settings files and text for terminals.

use std::{
    fmt::Display,
    io::{self, Write},
    path::Path,
};

use futures_util::future::select_all;
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Outcome, error::CliError};
use crate::{
    app::AppError,
    config::{ConfigProblem, LoadedSettings, Overrides, Settings, load, read_small_file},
    types::{Clock, is_control},
};

/// The streams of a command. A command fails if it cannot write to them.
pub(super) struct Console {
    pub(super) stdout: PipeWriter<io::Stdout>,
    pub(super) stderr: PipeWriter<io::Stderr>,
}

impl Console {
    pub(super) fn new() -> Self {
        Self { stdout: PipeWriter::new(io::stdout()), stderr: PipeWriter::new(io::stderr()) }
    }

    /// Prints a part of the result, without a line break.
    pub(super) fn print(&mut self, text: impl Display) -> Result<(), CliError> {
        write!(self.stdout, "{text}").map_err(CliError::Output)
    }

    /// Prints a line to `stderr`.
    pub(super) fn note(&mut self, line: impl Display) -> Result<(), CliError> {
        writeln!(self.stderr, "{line}").map_err(CliError::Output)
    }

    /// Prints a line to `stderr` that begins with the name of the program.
    pub(super) fn report(&mut self, message: impl Display) -> Result<(), CliError> {
        self.note(format_args!("drift-exporter: {message}"))
    }
}

/// Discards output once the reader has closed the pipe, as `head` does. That is not an error.
pub(super) struct PipeWriter<W> {
    inner: W,
    is_closed: bool,
}

impl<W: Write> PipeWriter<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, is_closed: false }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn ignore_broken_pipe<T>(&mut self, result: io::Result<T>, discarded: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(discarded)
            }
            result => result,
        }
    }
}

impl<W: Write> Write for PipeWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = if self.is_closed { Ok(bytes.len()) } else { self.inner.write(bytes) };
        self.ignore_broken_pipe(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = if self.is_closed { Ok(()) } else { self.inner.flush() };
        self.ignore_broken_pipe(flushed, ())
    }
}

/// Escapes characters that change how a terminal shows the text around them. Names and values come from the cluster.
pub(super) fn escape_control(text: &str) -> String {
    let escape = |c: char| {
        if is_control(c) && !"\n\t".contains(c) { c.escape_default().collect() } else { c.to_string() }
    };
    text.chars().map(escape).collect()
}

/// Like `escape_control`, for text within a line or a column.
pub(super) fn escape_line(text: &str) -> String {
    escape_control(text).replace(['\n', '\t'], " ")
}

/// Like `escape_control`; the result is the same JSON value.
pub(super) fn escape_control_in_json(text: &str) -> String {
    // Outside of string literals JSON has no control characters but line breaks.
    let escape = |c: char| {
        if is_control(c) && c != '\n' { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }
    };
    text.chars().map(escape).collect()
}

pub(super) fn block_on<T>(command: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(CliError::Runtime)?.block_on(command)
}

/// Runs a command with an HTTP server, and does not wait for blocking tasks in the end. The watches run on a thread of
/// their own.
pub(super) fn serve_on_runtime(
    command: impl Future<Output = Result<Outcome, CliError>>,
) -> Result<Outcome, CliError> {
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("http").enable_all().build();
    let runtime = runtime.map_err(CliError::Runtime)?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnHangup {
    /// SIGHUP is a closed terminal and stops the process.
    Stop,
    /// SIGHUP reloads the settings file, for which another task listens.
    Reload,
}

/// Runs `app` until it ends. The first signal cancels `stop` and waits for `app`; a second one does not wait.
pub(super) async fn until_signal(
    app: impl Future<Output = Result<(), AppError>>,
    stop: &CancellationToken,
    on_hangup: OnHangup,
) -> Result<Outcome, CliError> {
    let mut signals = listen(on_hangup).map_err(CliError::Runtime)?;
    tokio::pin!(app);
    tokio::select! {
        result = &mut app => return Ok(result.map(|()| Outcome::Success)?),
        name = next_signal(&mut signals) => info!(signal = name, "stopping; waiting for open requests"),
    }
    stop.cancel();
    tokio::select! {
        result = &mut app => Ok(result.map(|()| Outcome::Success)?),
        name = next_signal(&mut signals) => Err(CliError::SecondSignal(name)),
    }
}

type NamedSignal = (&'static str, Signal);

fn listen(on_hangup: OnHangup) -> io::Result<Vec<NamedSignal>> {
    let mut kinds = vec![("SIGTERM", SignalKind::terminate()), ("SIGINT", SignalKind::interrupt())];
    match on_hangup {
        OnHangup::Stop => kinds.push(("SIGHUP", SignalKind::hangup())),
        // The first listener disables the default action permanently, even without a settings file.
        OnHangup::Reload => drop(signal(SignalKind::hangup())?),
    }
    kinds.into_iter().map(|(name, kind)| Ok((name, signal(kind)?))).collect()
}

async fn next_signal(signals: &mut [NamedSignal]) -> &'static str {
    let received = signals.iter_mut().map(|(name, signal)| {
        Box::pin(async {
            signal.recv().await;
            *name
        })
    });
    select_all(received).await.0
}

/// Loads a settings file, or the defaults if there is no path.
pub(super) fn load_settings(
    path: Option<&Path>,
    overrides: &Overrides,
    console: &mut Console,
) -> Result<Settings, CliError> {
    let Some(path) = path else { return default_settings(overrides) };
    let text = read_small_file(path).map_err(|source| read_error(path, source))?;
    Ok(parse_settings(path, &text, overrides, console)?.settings)
}

/// Without a file, only options can be invalid.
pub(super) fn default_settings(overrides: &Overrides) -> Result<Settings, CliError> {
    let loaded = load("", overrides, Clock::system().now());
    Ok(loaded.map_err(|mut problems| CliError::InvalidOption(Box::new(problems.swap_remove(0))))?.settings)
}

/// Prints the warnings of a settings file.
pub(super) fn parse_settings(
    path: &Path,
    text: &str,
    overrides: &Overrides,
    console: &mut Console,
) -> Result<LoadedSettings, CliError> {
    let loaded = load(text, overrides, Clock::system().now());
    let loaded = loaded.map_err(|problems| CliError::InvalidFile { path: path.to_owned(), problems })?;
    print_problems(path, "warning: ", &loaded.warnings, console)?;
    Ok(loaded)
}

pub(super) fn read_error(path: &Path, source: io::Error) -> CliError {
    CliError::Read { name: path.display().to_string(), source }
}

/// `FILE:LINE:COLUMN: …`, the format of compilers, which editors parse.
pub(super) fn print_problems(
    path: &Path,
    level: &str,
    problems: &[ConfigProblem],
    console: &mut Console,
) -> Result<(), CliError> {
    for problem in problems {
        let position =
            problem.position.map(|place| format!(":{}:{}", place.line, place.column)).unwrap_or_default();
        let problem = ConfigProblem { position: None, ..problem.clone() }.to_string();
        console.note(format_args!("{}{position}: {level}{}", path.display(), escape_control(&problem)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use serde_json::{Value, json};

    use super::{PipeWriter, escape_control, escape_control_in_json, escape_line};

    /// Accepts two bytes, then fails with the given error.
    struct LimitedWriter(Vec<u8>, io::ErrorKind);

    impl Write for LimitedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(2 - self.0.len());
            self.0.extend(&bytes[..count]);
            if count == 0 { Err(self.1.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn broken_pipe_is_the_only_ignored_error() {
        let mut pipe = PipeWriter::new(LimitedWriter(Vec::new(), io::ErrorKind::BrokenPipe));
        assert!(pipe.write_all(b"ab").is_ok() && !pipe.is_closed());
        assert!(pipe.write_all(b"cd").is_ok() && pipe.is_closed());
        assert!(pipe.write_all(b"ef").and_then(|()| pipe.flush()).is_ok());
        assert_eq!(pipe.inner.0, b"ab");
        let mut full = PipeWriter::new(LimitedWriter(Vec::new(), io::ErrorKind::StorageFull));
        assert!(full.write_all(b"abcd").is_err() && !full.is_closed());
    }

    #[test]
    fn control_characters_are_escaped_in_text_and_json() {
        let name = "a\u{1b}[31m\u{9b}2J\u{7f}";
        assert_eq!(escape_control(name), "a\\u{1b}[31m\\u{9b}2J\\u{7f}");
        // A terminal or an editor may break the line at U+2028.
        assert_eq!(escape_line("web\n+++\t\u{2028}\u{202e}"), "web +++ \\u{2028}\\u{202e}");
        let value = json!({"name": name, "two": "lines\n\tand ü"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = escape_control_in_json(&text);
        assert!(
            text.contains('\u{9b}') && !escaped.chars().any(|c| c.is_control() && c != '\n'),
            "{escaped}"
        );
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
        let yaml = serde_saphyr::to_string(&value).unwrap();
        assert!(!yaml.chars().any(|c| c.is_control() && !"\n\t".contains(c)), "{yaml:?}");
    }
}
