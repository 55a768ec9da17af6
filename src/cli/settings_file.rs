//! The settings file as commands read it once.

use std::{io::Write, path::Path};

use crate::config::{LoadedSettings, Overrides, Problem, Settings, load, read_settings};

/// The settings of a file, or those without one, under what stands above it. What is wrong is told on `stderr`; none if anything is.
pub(super) fn load_settings(
    path: Option<&Path>,
    overrides: &Overrides,
    stderr: &mut dyn Write,
) -> Result<Option<Settings>, String> {
    let Some(path) = path else {
        let loaded = load("", overrides).map_err(|problems| problems[0].to_string())?;
        return Ok(Some(loaded.settings));
    };
    let text = read_settings(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(told(path, load(&text, overrides), stderr)?.map(|loaded| loaded.settings))
}

/// What was loaded from a file. What is wrong is told on `stderr`; none if anything is.
pub(super) fn told(
    path: &Path,
    loaded: Result<LoadedSettings, Vec<Problem>>,
    stderr: &mut dyn Write,
) -> Result<Option<LoadedSettings>, String> {
    match loaded {
        Ok(loaded) => {
            tell(path, "warning: ", &loaded.warnings, stderr)?;
            Ok(Some(loaded))
        }
        Err(problems) => {
            tell(path, "", &problems, stderr)?;
            Ok(None)
        }
    }
}

/// `FILE:LINE:COLUMN: …`, as compilers write it and editors understand it.
pub(super) fn tell(
    path: &Path,
    word: &str,
    problems: &[Problem],
    stderr: &mut dyn Write,
) -> Result<(), String> {
    for problem in problems {
        let place =
            problem.position.map(|place| format!(":{}:{}", place.line, place.column)).unwrap_or_default();
        let problem = Problem { position: None, ..problem.clone() };
        writeln!(stderr, "{}{place}: {word}{problem}", path.display())
            .map_err(|error| format!("cannot write: {error}"))?;
    }
    Ok(())
}
