//! The command line.

mod accept;
mod args;
mod baseline;
mod check;
mod client;
mod completions;
mod demo;
mod diff;
mod explain;
mod get;
mod hash;
mod output;
mod plugin;
mod resources;
mod rules;
mod run;

use std::{ffi::OsString, io::Write, process::ExitCode};

use clap::FromArgMatches as _;

use args::{Arguments, Command};
use output::{PipeWriter, escape_control};

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
    let mut stdout = PipeWriter::new(std::io::stdout().lock());
    let mut stderr = PipeWriter::new(std::io::stderr());
    let mut words: Vec<OsString> = arguments.into_iter().collect();
    if completions::is_kubectl_completion(words.first()) {
        let completed = completions::complete_for_kubectl(words, &mut stdout);
        return completed.map_or(Outcome::Error, |()| Outcome::Success);
    }
    let is_plugin = plugin::is_plugin(words.first());
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
    let result = match arguments.command {
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
        Command::Completions(shell) => completions::print_completions(&shell, command, &mut stdout),
        Command::Man(pages) => completions::print_man_pages(&pages, command, &mut stdout),
    };
    result.unwrap_or_else(|message| {
        // Messages can quote a remote server.
        let _ = writeln!(stderr, "drift-exporter: {}", escape_control(&message));
        Outcome::Error
    })
}
