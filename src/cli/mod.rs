//! What people type.

mod accept;
mod args;
mod asked;
mod baseline;
mod check;
mod completions;
mod demo;
mod diff;
mod explain;
mod exporter;
mod external_diff;
mod fields;
mod follow;
mod get;
mod hash;
mod heard;
mod kinds;
mod labels;
mod live;
mod news;
mod plugin;
mod plugin_completion;
mod resources;
mod rights;
mod rule_cases;
mod rules;
mod run;
mod runtime;
mod server;
mod settings_file;
mod signals;
mod table;
mod unanswered;
mod unseen;
mod values;
mod web_args;

use std::{ffi::OsString, io::Write, process::ExitCode};

use clap::FromArgMatches as _;

use args::{Arguments, Command};
use heard::Heard;

/// How a command ended, as its exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Fine.
    Fine = 0,
    /// A negative answer: drift, a failed check, a bad object.
    Negative = 1,
    /// Could not run.
    CouldNotRun = 2,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome as u8)
    }
}

/// Parses the command line and does what it says.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Outcome {
    let mut stdout = Heard::new(std::io::stdout().lock());
    let mut stderr = Heard::new(std::io::stderr());
    let mut words: Vec<OsString> = arguments.into_iter().collect();
    if plugin_completion::is_asked(words.first()) {
        let told = plugin_completion::tell(plugin::command(true), &words, &mut stdout);
        return told.map_or(Outcome::CouldNotRun, |()| Outcome::Fine);
    }
    let is_plugin = plugin::is_plugin(words.first());
    let command = plugin::command(is_plugin);
    if is_plugin {
        words = plugin::with_command(words, &command);
    }
    let parsed = command.clone().try_get_matches_from(words);
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are answers, not errors; clap knows where each belongs.
            let _ = error.print();
            return if error.use_stderr() { Outcome::CouldNotRun } else { Outcome::Fine };
        }
    };
    let ended = match arguments.command {
        Command::Run(run) => {
            drop(stdout);
            run::run(run, &mut stderr)
        }
        Command::Demo(demo) => {
            drop(stdout);
            demo::run(&demo)
        }
        Command::Hash(hash) => hash::run(&hash, &mut stdout, &mut stderr),
        Command::Baseline(baseline) => baseline::run(&baseline, &mut stdout, &mut stderr),
        Command::Check(check) => check::run(&check, &mut stdout, &mut stderr),
        Command::Accept(accept) => accept::run(&accept, &mut stdout, &mut stderr),
        Command::Get(get) => get::run(&get, &mut stdout, &mut stderr),
        Command::Diff(diff) => diff::run(&diff, &mut stdout, &mut stderr),
        Command::Explain(explain) => explain::run(&explain, &mut stdout, &mut stderr),
        Command::Rules(rules) => rules::run(&rules, &mut stdout, &mut stderr),
        Command::Completions(shell) => completions::complete(&shell, command, &mut stdout),
        Command::Man(pages) => completions::man(&pages, command, &mut stdout),
    };
    ended.unwrap_or_else(|message| {
        // A server that was asked may have put anything into its words.
        let _ = writeln!(stderr, "drift-exporter: {}", resources::harmless(&message));
        Outcome::CouldNotRun
    })
}
