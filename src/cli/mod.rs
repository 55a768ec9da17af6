//! The command line.

mod accept;
mod args;
mod baseline;
mod check;
mod client;
mod completions;
mod demo;
mod diff;
mod error;
mod explain;
mod get;
mod hash;
mod output;
mod plugin;
mod resources;
mod rules;
mod run;

use std::{ffi::OsString, process::ExitCode};

use clap::FromArgMatches as _;

use args::{Arguments, Command};
use error::CliError;
use output::{Console, escape_control, print_problems};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success = 0,
    /// The command ran and found drift, a failed check or an invalid object.
    Negative = 1,
    Error = 2,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome as u8)
    }
}

pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Outcome {
    let mut console = Console::new();
    let mut words: Vec<OsString> = arguments.into_iter().collect();
    if plugin::runs_as(words.first(), completions::KUBECTL_COMPLETION) {
        let completed = completions::complete_for_kubectl(words, &mut console.stdout);
        return completed.map_or(Outcome::Error, |()| Outcome::Success);
    }
    let is_plugin = plugin::runs_as(words.first(), plugin::FILE_NAME);
    let command = plugin::command(is_plugin);
    if is_plugin {
        words = plugin::with_default_command(words, &command);
    }
    let parsed = command.clone().try_get_matches_from(words);
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap returns help and version as errors that belong on stdout.
            let _ = error.print();
            return if error.use_stderr() { Outcome::Error } else { Outcome::Success };
        }
    };
    // These commands judge files; the others need valid ones.
    let judges_files = matches!(arguments.command, Command::Check(_) | Command::Rules(_));
    let result = match arguments.command {
        Command::Run(run) => run::run(run, &mut console),
        Command::Demo(demo) => demo::run(&demo),
        Command::Hash(hash) => hash::run(&hash, &mut console),
        Command::Baseline(baseline) => baseline::run(&baseline, &mut console),
        Command::Check(check) => check::run(&check, &mut console),
        Command::Accept(accept) => accept::run(&accept, &mut console),
        Command::Get(get) => get::run(&get, &mut console),
        Command::Diff(diff) => diff::run(&diff, &mut console),
        Command::Explain(explain) => explain::run(&explain, &mut console),
        Command::Rules(rules) => rules::run(&rules, &mut console),
        Command::Completions(shell) => completions::print_completions(&shell, command, &mut console),
        Command::Man(pages) => completions::print_man_pages(&pages, command, &mut console),
    };
    result.unwrap_or_else(|error| {
        if let CliError::InvalidFile { path, problems } = &error {
            let _ = print_problems(path, "", problems, &mut console);
            return if judges_files { Outcome::Negative } else { Outcome::Error };
        }
        // Messages can quote a remote server.
        let _ = console.report(escape_control(&error.to_string()));
        error.outcome()
    })
}
