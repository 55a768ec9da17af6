//! `drift-exporter completions`, `drift-exporter man` and the completion of `kubectl drift`.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
};

use clap::{Command, ValueHint};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};

use super::{
    Outcome,
    args::{CompletionsArgs, ManArgs},
    error::CliError,
    output::Console,
    plugin::{self, with_default_command},
};

pub(super) fn print_completions(
    arguments: &CompletionsArgs,
    mut command: Command,
    console: &mut Console,
) -> Result<Outcome, CliError> {
    // `generate` panics if it cannot write.
    let mut script = Vec::new();
    // Also as a plugin: the shell completes the executable, kubectl completes `kubectl drift`.
    clap_complete::generate(arguments.shell, &mut command, "drift-exporter", &mut script);
    console.stdout.write_all(&script).map_err(CliError::Output)?;
    Ok(Outcome::Success)
}

pub(super) fn print_man_pages(
    arguments: &ManArgs,
    mut command: Command,
    console: &mut Console,
) -> Result<Outcome, CliError> {
    if let Some(folder) = &arguments.dir {
        let write_error = |source| CliError::ManPages { folder: folder.clone(), source };
        std::fs::create_dir_all(folder).map_err(write_error)?;
        clap_mangen::generate_to(command, folder).map_err(write_error)?;
        return Ok(Outcome::Success);
    }
    command.build();
    let page = match &arguments.command {
        Some(name) => {
            let found = command.find_subcommand(name).cloned();
            found.ok_or_else(|| CliError::UnknownCommand(name.clone()))?
        }
        None => command,
    };
    clap_mangen::Man::new(page).render(&mut console.stdout).map_err(CliError::Output)?;
    Ok(Outcome::Success)
}

/// The executable that kubectl runs to complete `kubectl drift`. Its arguments are the words so far, the last one
/// unfinished. It prints one candidate a line, its help after a tab, and then a directive of cobra.
pub(super) const KUBECTL_COMPLETION: &str = "kubectl_complete-drift";
/// `ShellCompDirectiveNoFileComp` and `ShellCompDirectiveDefault`.
const NO_FILES: &str = ":4";
const FILES: &str = ":0";

pub(super) fn complete_for_kubectl(words: Vec<OsString>, stdout: &mut dyn Write) -> io::Result<()> {
    let mut directive = NO_FILES;
    for candidate in kubectl_candidates(words)? {
        if asks_for_files(&candidate) {
            directive = FILES;
            continue;
        }
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        writeln!(stdout, "{}\t{}", candidate.get_value().display(), help.lines().next().unwrap_or_default())?;
    }
    writeln!(stdout, "{directive}")
}

/// The engine puts the option in front of its value: `--kubeconfig=:0`.
fn asks_for_files(candidate: &CompletionCandidate) -> bool {
    candidate.get_value().as_encoded_bytes().ends_with(FILES.as_bytes())
}

fn kubectl_candidates(mut words: Vec<OsString>) -> io::Result<Vec<CompletionCandidate>> {
    let mut command = complete_files_in_shell(plugin::command(true));
    if words.len() < 2 {
        words.push(OsString::new());
    }
    let last = words.last_mut().filter(|word| *word == "-");
    if let Some(word) = last {
        // Completes `-` to long options.
        *word = "--".into();
    }
    let is_option = words.last().is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
    let is_command = words.len() == 2 && !is_option;
    if !is_command {
        words = with_default_command(words, &command);
    }
    let last = words.len() - 1;
    let mut candidates = complete(&mut command, words, last, None)?;
    candidates.retain(|candidate| {
        let value = candidate.get_value().as_encoded_bytes();
        // Options are offered only after a dash, and short ones never: they are complete when they can be distinguished.
        asks_for_files(candidate)
            || if is_option { value.starts_with(b"--") } else { !value.starts_with(b"-") }
    });
    Ok(candidates)
}

/// The engine would list files itself; shells know better how to complete them.
fn complete_files_in_shell(command: Command) -> Command {
    let with_files = |argument: clap::Arg| match argument.get_value_hint() {
        ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath => {
            argument.add(ArgValueCompleter::new(|_: &OsStr| vec![CompletionCandidate::new(FILES)]))
        }
        _ => argument,
    };
    command.mut_args(with_files).mut_subcommands(complete_files_in_shell)
}
