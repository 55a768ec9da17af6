//! `drift-exporter completions` and `drift-exporter man`.

use std::io::Write;

use clap::Command;

use super::{
    Outcome,
    args::{CompletionsArgs, ManArgs},
};

/// Prints what a shell needs to complete commands and flags.
pub(super) fn complete(
    arguments: &CompletionsArgs,
    mut command: Command,
    stdout: &mut dyn Write,
) -> Result<Outcome, String> {
    // Written at once: a shell that has heard enough is no reason to panic.
    let mut script = Vec::new();
    // kubectl completes what follows its own name; the program that is called is this one.
    clap_complete::generate(arguments.shell, &mut command, "drift-exporter", &mut script);
    stdout.write_all(&script).map_err(|error| format!("cannot write: {error}"))?;
    Ok(Outcome::Fine)
}

/// Prints a manual page, or writes all of them.
pub(super) fn man(
    arguments: &ManArgs,
    mut command: Command,
    stdout: &mut dyn Write,
) -> Result<Outcome, String> {
    if let Some(folder) = &arguments.dir {
        let unwritable = |error| format!("cannot write pages into {}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(unwritable)?;
        clap_mangen::generate_to(command, folder).map_err(unwritable)?;
        return Ok(Outcome::Fine);
    }
    command.build();
    let page = match &arguments.command {
        Some(name) => {
            let found = command.find_subcommand(name).cloned();
            found.ok_or_else(|| format!("there is no command `{name}`; --help lists those that there are"))?
        }
        None => command,
    };
    let unwritable = |error| format!("cannot write: {error}");
    clap_mangen::Man::new(page).render(&mut &mut *stdout).map_err(unwritable)?;
    Ok(Outcome::Fine)
}
