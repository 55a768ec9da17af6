//! `drift-exporter diff`.

use std::{
    env,
    ffi::OsString,
    io::{IsTerminal as _, Write},
};

use clap::ColorChoice;
use similar::TextDiff;

use super::{
    Outcome,
    args::DiffArgs,
    asked::{Asked, Place},
    external_diff::{self, PROGRAM},
    fields::as_yamls,
    get::judge,
    resources::{Resource, Row, fetch, harmless},
    runtime::block_on,
    unseen::Status,
};
use crate::types::WatchMode;

/// A claim that drifted: what is declared, and what is there.
pub(super) struct Sides {
    /// `apps.v1.Deployment.shop.web`, as kubectl calls files of objects.
    pub(super) file: String,
    /// Who declares it.
    by: String,
    /// Who changed it, and when.
    changed: String,
    pub(super) declared: String,
    pub(super) live: String,
}

/// Shows what is declared beside what is there.
pub(super) fn run(
    arguments: &DiffArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    let Some((rows, outcome)) = block_on(look(arguments, stderr))? else {
        return Ok(Outcome::CouldNotRun);
    };
    let drifted = rows.iter().map(|row| &row.resource).filter(|own| own.is_drifted());
    let sides = drifted.map(Sides::of).collect::<Result<Vec<Sides>, String>>()?;
    let unwritable = |error| format!("cannot write: {error}");
    match env::var(PROGRAM).ok().filter(|program| !program.is_empty()) {
        Some(program) if !sides.is_empty() => external_diff::run(&program, &sides, stdout),
        Some(_) | None => {
            let terminal = std::io::stdout().is_terminal();
            let colour = wants_colour(arguments.color, |name| env::var_os(name), terminal);
            for side in &sides {
                stdout.write_all(side.unified(colour).as_bytes()).map_err(unwritable)?;
            }
            Ok(outcome)
        }
    }
}

async fn look(arguments: &DiffArgs, stderr: &mut dyn Write) -> Result<Option<(Vec<Row>, Outcome)>, String> {
    let place = Place::of(&arguments.place, &arguments.ask).await;
    let wishes = arguments.wishes.clone();
    let selector = arguments.selector.as_ref();
    let asked = Asked::open(&arguments.ask, place, wishes, selector, WatchMode::Once, stderr).await?;
    let Some(mut asked) = asked else { return Ok(None) };
    let (rows, unseen) = fetch(&mut asked).await?;
    let status = Status::of(&asked, unseen).await?;
    let outcome = judge(&asked, &rows, &status)?;
    for line in lacking(&asked, &rows, &status).into_iter().chain(status.unseen()) {
        writeln!(stderr, "{line}").map_err(|error| format!("cannot write: {error}"))?;
    }
    Ok(Some((rows, outcome)))
}

/// What a difference cannot show: what is not there, and what could not be compared.
fn lacking(asked: &Asked, rows: &[Row], status: &Status) -> Vec<String> {
    let missed = asked.sought.iter().filter(|sought| !sought.is_found);
    // What cannot be seen may be there.
    let missed = missed.map(|sought| &sought.wish).filter(|wish| status.cannot_see(wish).is_none());
    let named = missed.filter_map(|wish| Some((wish.kind.trim_end_matches('.'), wish.name.as_ref()?)));
    let mut lines: Vec<String> = named
        .map(|(kind, name)| format!("there is no such object, or nothing declares it: {kind}/{name}"))
        .collect();
    if rows.is_empty() && lines.is_empty() {
        lines.push("nothing found".to_owned());
    }
    let unknown = rows.iter().map(|row| &row.resource).filter(|own| own.verdict == "unknown");
    lines.extend(unknown.map(|own| {
        let place = if own.namespace.is_empty() { String::new() } else { format!(" in {}", own.namespace) };
        let why = own.why().unwrap_or_else(|| "nobody says why".to_owned());
        harmless(&format!("{}{place} cannot be compared: {why}", own.kubectl_name()))
    }));
    lines
}

impl Sides {
    fn of(resource: &Resource) -> Result<Self, String> {
        let Resource { api_version, kind, namespace, name, .. } = resource;
        let parts = [&api_version.replace('/', "."), kind, namespace, name];
        let parts: Vec<&str> =
            parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        // A file of its own for each source that declares the object.
        let file = format!("{}.{}", parts.join("."), resource.source).replace('/', "_");
        let declared = resource.declared_by.first();
        let by = declared.map(|by| format!(" {} {}", by.state, by.address)).unwrap_or_default();
        // The worst difference comes first: its tool, and its time where that is known.
        let changed = resource.differences.first().map(|worst| {
            let onset = worst.onset.map(|onset| onset.strftime(" %Y-%m-%dT%H:%M:%SZ").to_string());
            format!("{}{}", worst.manager.as_ref().unwrap_or(&worst.actor), onset.unwrap_or_default())
        });
        let changed = changed.unwrap_or_default();
        let fields = resource.differences.iter().map(|own| (&*own.path, [&*own.expected, &*own.actual]));
        let [declared, live] = as_yamls(&fields.collect::<Vec<_>>())?;
        Ok(Self { file, by: format!("{}{}", resource.source, by.trim_end()), changed, declared, live })
    }

    /// As `diff -u` writes it.
    fn unified(&self, colour: bool) -> String {
        let Self { file, by, changed, declared, live } = self;
        let diff = TextDiff::from_lines(&**declared, &**live);
        let (from, to) = (format!("declared/{file}\t{by}"), format!("live/{file}\t{changed}"));
        let text = diff.unified_diff().context_radius(3).header(&from, to.trim_end()).to_string();
        let text = harmless(&text);
        if !colour {
            return text;
        }
        text.lines().map(|line| coloured(line) + "\n").collect()
    }
}

/// Whether colours are wanted: by the flag, else on a terminal, unless `NO_COLOR` says otherwise.
fn wants_colour(choice: ColorChoice, variable: impl Fn(&str) -> Option<OsString>, terminal: bool) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
            terminal && !refused && variable("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

fn coloured(line: &str) -> String {
    let code = match line.as_bytes() {
        [b'-', b'-', b'-', ..] | [b'+', b'+', b'+', ..] => "1",
        [b'@', ..] => "36",
        [b'-', ..] => "31",
        [b'+', ..] => "32",
        _ => return line.to_owned(),
    };
    format!("\u{1b}[{code}m{line}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::ColorChoice::{Always, Auto, Never};

    use super::{coloured, wants_colour};

    #[test]
    fn colours_are_for_terminals_unless_somebody_says_otherwise() {
        for (choice, variable, terminal, wanted) in [
            (Auto, None, true, true),
            (Auto, None, false, false),
            (Auto, Some(("NO_COLOR", "1")), true, false),
            (Auto, Some(("NO_COLOR", "")), true, true),
            (Auto, Some(("TERM", "dumb")), true, false),
            (Auto, Some(("TERM", "xterm")), true, true),
            (Always, Some(("NO_COLOR", "1")), false, true),
            (Never, None, true, false),
        ] {
            let value = |name: &str| variable.filter(|own| own.0 == name).map(|own| OsString::from(own.1));
            assert_eq!(wants_colour(choice, value, terminal), wanted, "{choice:?} {variable:?} {terminal}");
        }
    }

    #[test]
    fn what_is_declared_is_red_and_what_is_there_is_green() {
        assert_eq!(coloured("-a: 1"), "\u{1b}[31m-a: 1\u{1b}[0m");
        assert_eq!(coloured("+a: 2"), "\u{1b}[32m+a: 2\u{1b}[0m");
        assert_eq!(coloured("--- declared/x"), "\u{1b}[1m--- declared/x\u{1b}[0m");
        assert_eq!(coloured(" spec:"), " spec:");
    }
}
