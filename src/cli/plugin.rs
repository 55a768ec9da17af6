//! The program as a plugin of kubectl: a link or a copy of it that is called `kubectl-drift` is `kubectl drift`.

use std::{ffi::OsString, path::Path};

use clap::{Command, CommandFactory as _};

use super::args::Arguments;

/// What the file is called that kubectl looks for.
const FILE: &str = "kubectl-drift";
/// What people type.
const TYPED: &str = "kubectl drift";

/// Whether it is called as a plugin of kubectl.
pub(super) fn is_plugin(program: Option<&OsString>) -> bool {
    program.and_then(|program| Path::new(program).file_stem()).is_some_and(|name| name == FILE)
}

/// The commands, under the name that people typed.
pub(super) fn command(is_plugin: bool) -> Command {
    if !is_plugin {
        return Arguments::command();
    }
    let about =
        "Shows which objects differ from what was declared, by whom and since when. Without a command: get";
    renamed(Arguments::command().name(FILE).display_name(FILE).bin_name(TYPED).about(about))
}

/// Without a command, kubectl's users mean `get`: `kubectl drift -A`, `kubectl drift deploy/web`.
pub(super) fn with_command(mut arguments: Vec<OsString>, command: &Command) -> Vec<OsString> {
    let is_command = |word: &str| command.get_subcommands().any(|own| own.get_name() == word);
    let is_whole = |word: &str| matches!(word, "help" | "-h" | "--help" | "-V" | "--version");
    let first = arguments.get(1).and_then(|word| word.to_str()).unwrap_or_default();
    if !is_command(first) && !is_whole(first) {
        arguments.insert(arguments.len().min(1), "get".into());
    }
    arguments
}

/// Examples, too, say what people typed.
fn renamed(command: Command) -> Command {
    let examples = command.get_after_help().map(ToString::to_string);
    let command = command.mut_subcommands(renamed);
    match examples {
        Some(examples) => command.after_help(examples.replace("drift-exporter", TYPED)),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{command, is_plugin, with_command};

    #[test]
    fn only_the_name_of_the_file_makes_it_a_plugin() {
        for (program, wanted) in [
            ("kubectl-drift", true),
            ("/usr/local/bin/kubectl-drift", true),
            ("kubectl-drift.exe", true),
            ("drift-exporter", false),
            ("/kubectl-drift/drift-exporter", false),
        ] {
            assert_eq!(is_plugin(Some(&OsString::from(program))), wanted, "{program}");
        }
    }

    #[test]
    fn without_a_command_it_gets() {
        let command = command(true);
        for (typed, wanted) in [
            (&[][..], &["get"][..]),
            (&["-A"], &["get", "-A"]),
            (&["deploy/web", "-n", "shop"], &["get", "deploy/web", "-n", "shop"]),
            (&["diff", "-A"], &["diff", "-A"]),
            (&["--help"], &["--help"]),
        ] {
            let words = |words: &[&str]| -> Vec<OsString> {
                ["kubectl-drift"].iter().chain(words).map(OsString::from).collect()
            };
            assert_eq!(with_command(words(typed), &command), words(wanted));
        }
    }
}
