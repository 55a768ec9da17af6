//! The kubectl plugin: the program under the name `kubectl-drift` is `kubectl drift`.

use std::{ffi::OsString, path::Path};

use clap::{Command, CommandFactory as _};

use super::args::Arguments;

pub(super) const FILE_NAME: &str = "kubectl-drift";
const DISPLAY_NAME: &str = "kubectl drift";

/// Whether the program runs under this file name.
pub(super) fn runs_as(program: Option<&OsString>, file_name: &str) -> bool {
    program.and_then(|program| Path::new(program).file_stem()).is_some_and(|name| name == file_name)
}

pub(super) fn command(is_plugin: bool) -> Command {
    if !is_plugin {
        return Arguments::command();
    }
    let about =
        "Shows which objects differ from what was declared, by whom and since when. Without a command: get";
    let command = Arguments::command().name(FILE_NAME).display_name(FILE_NAME).bin_name(DISPLAY_NAME);
    with_display_name(command.about(about))
}

/// Inserts `get` if there is no command: `kubectl drift -A`, `kubectl drift deploy/web`.
pub(super) fn with_default_command(mut arguments: Vec<OsString>, command: &Command) -> Vec<OsString> {
    let is_command = |word: &str| command.get_subcommands().any(|subcommand| subcommand.get_name() == word);
    let is_top_level = |word: &str| matches!(word, "help" | "-h" | "--help" | "-V" | "--version");
    let first = arguments.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    if !is_command(first) && !is_top_level(first) {
        arguments.insert(arguments.len().min(1), "get".into());
    }
    arguments
}

/// Replaces the program's name in the examples of all commands.
fn with_display_name(command: Command) -> Command {
    let examples = command.get_after_help().map(ToString::to_string);
    let command = command.mut_subcommands(with_display_name);
    match examples {
        Some(examples) => command.after_help(examples.replace("drift-exporter", DISPLAY_NAME)),
        None => command,
    }
}
