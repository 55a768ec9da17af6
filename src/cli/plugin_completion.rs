//! What kubectl is told when somebody asks for the rest of a word after `kubectl drift`.
//!
//! kubectl runs a program called `kubectl_complete-drift` with the words so far, of which the last one is not finished. It wants a line for each way to
//! go on, what that means after a tab, and how to take them at the end.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
};

use clap::{Arg, Command, ValueHint, builder::StyledStr};

/// What the file is called that kubectl looks for.
const FILE: &str = "kubectl_complete-drift";
/// How to take what was told: names of files are no way to go on, or they are.
const NO_FILES: &str = ":4";
const FILES: &str = ":0";

/// Whether kubectl asks.
pub(super) fn is_asked(program: Option<&OsString>) -> bool {
    program.and_then(|program| Path::new(program).file_stem()).is_some_and(|name| name == FILE)
}

/// Tells the ways to go on.
pub(super) fn tell(mut command: Command, words: &[OsString], stdout: &mut dyn Write) -> io::Result<()> {
    command.build();
    let words: Vec<_> = words.iter().skip(1).map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(|word| &**word).collect();
    let Ways { words, files } = ways_on(&command, &words);
    for (word, meaning) in words {
        writeln!(stdout, "{word}\t{meaning}")?;
    }
    writeln!(stdout, "{}", if files { FILES } else { NO_FILES })
}

/// The ways to go on from where somebody is.
#[derive(Debug, Default)]
struct Ways {
    /// Each with what it means.
    words: Vec<(String, String)>,
    /// Whether names of files may follow.
    files: bool,
}

fn ways_on(whole: &Command, words: &[&str]) -> Ways {
    let (unfinished, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (*last, before));
    // Commands stand in front of all else.
    let (mut chosen, mut before) = (whole, before);
    while let Some((first, rest)) = before.split_first()
        && let Some(found) = chosen.find_subcommand(first)
    {
        (chosen, before) = (found, rest);
    }
    // Without a command, it gets.
    let is_open = std::ptr::eq(chosen, whole);
    let command = if is_open { whole.find_subcommand("get").unwrap_or(whole) } else { chosen };
    // After two dashes nothing is a flag, whatever it looks like.
    let of_flags = if before.contains(&"--") { None } else { ways_of_flags(command, before, unfinished) };
    let mut ways = of_flags.unwrap_or_else(|| {
        let mut ways = command.get_positionals().next().map(values_of).unwrap_or_default();
        if before.is_empty() {
            let commands = chosen.get_subcommands().filter(|own| !own.is_hide_set());
            ways.words.extend(commands.map(|own| (own.get_name().to_owned(), in_brief(own.get_about()))));
        }
        ways
    });
    ways.words.retain(|(word, _)| word.starts_with(unfinished));
    ways
}

/// The ways to go on where a flag or the value of one is being written.
fn ways_of_flags(command: &Command, before: &[&str], unfinished: &str) -> Option<Ways> {
    if let Some((name, _)) = unfinished.split_once('=') {
        let values = waiting(command, name).map(values_of).unwrap_or_default();
        let joined = values.words.into_iter().map(|(value, meaning)| (format!("{name}={value}"), meaning));
        return Some(Ways { words: joined.collect(), ..values });
    }
    if let Some(flag) = before.last().and_then(|word| waiting(command, word)) {
        return Some(values_of(flag));
    }
    unfinished.starts_with('-').then(|| {
        let flags = command.get_arguments().filter(|own| !own.is_hide_set());
        let told = flags.filter_map(|own| Some((format!("--{}", own.get_long()?), in_brief(own.get_help()))));
        Ways { words: told.collect(), files: false }
    })
}

/// What may stand where an argument wants a value.
fn values_of(argument: &Arg) -> Ways {
    let values = argument.get_possible_values();
    let words = values.iter().map(|own| (own.get_name().to_owned(), in_brief(own.get_help()))).collect();
    let hint = argument.get_value_hint();
    Ways { words, files: matches!(hint, ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath) }
}

/// The flag that wants the next word as its value.
fn waiting<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let mut flags = command.get_arguments().filter(|own| takes_value(own));
    if let Some(long) = word.strip_prefix("--") {
        return flags.find(|own| own.get_long() == Some(long));
    }
    // Of several short ones in a word, the first that takes a value takes the rest of the word, if there is any.
    let letters = word.strip_prefix('-')?;
    let flags: Vec<&Arg> = flags.collect();
    let of_letter = |letter| flags.iter().copied().find(|own| own.get_short() == Some(letter));
    let (at, flag) = letters.char_indices().find_map(|(at, letter)| Some((at, of_letter(letter)?)))?;
    Some(flag).filter(|_| letters[at..].chars().count() == 1)
}

fn takes_value(flag: &Arg) -> bool {
    flag.get_action().takes_values()
}

fn in_brief(text: Option<&StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{super::plugin, Ways, ways_on};

    fn ways(words: &[&str]) -> Ways {
        let mut command = plugin::command(true);
        command.build();
        ways_on(&command, words)
    }

    #[track_caller]
    fn check(words: &[&str], wanted: &[&str]) {
        let told: Vec<String> = ways(words).words.into_iter().map(|(word, _)| word).collect();
        assert_eq!(told, wanted, "{words:?}");
    }

    #[test]
    fn commands_stand_in_front_and_nowhere_else() {
        check(&["ex"], &["explain"]);
        check(&["rules", ""], &["list", "test", "help"]);
        check(&["-n", "shop", "ex"], &[]);
        check(&["-n", "get", ""], &[]);
        check(&["get", "ex"], &[]);
        let all = ways(&[""]).words;
        assert!(
            ["get", "diff", "explain"].iter().all(|own| all.iter().any(|(word, _)| word == own)),
            "{all:?}"
        );
        assert!(all.iter().all(|(_, meaning)| !meaning.is_empty() && !meaning.contains('\n')), "{all:?}");
    }

    #[test]
    fn flags_and_their_values_are_told() {
        check(&["--all-"], &["--all-namespaces"]);
        check(&["get", "--all"], &["--all-namespaces", "--all"]);
        check(&["get", "-o", ""], &["table", "wide", "json", "yaml", "name"]);
        check(&["get", "-Ao", "j"], &["json"]);
        check(&["get", "-nfoo", ""], &[]);
        check(&["get", "-ojson", "-o", "y"], &["yaml"]);
        check(&["--output", "y"], &["yaml"]);
        check(&["--output=y"], &["--output=yaml"]);
        check(&["get", "-n", ""], &[]);
        check(&["get", "--", "--all"], &[]);
        check(&["get", "--", "-o", ""], &[]);
        check(&["completions", "ba"], &["bash"]);
    }

    #[test]
    fn files_may_follow_where_files_are_wanted() {
        assert!(ways(&["get", "--kubeconfig", ""]).files && ways(&["rules", "test", ""]).files);
        assert!(!ways(&["get", ""]).files && !ways(&["get", "-o", ""]).files);
    }
}
