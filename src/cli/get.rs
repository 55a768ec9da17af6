//! `drift-exporter get`.

use std::{collections::BTreeSet, io::Write};

use serde_json::{Value, json};

use super::{
    Outcome,
    args::{GetArgs, Output},
    asked::{Asked, Place, Sought},
    follow::follow,
    heard::Stdout,
    news::News,
    resources::{Resource, Row, fetch, harmless, harmless_json},
    runtime::block_on,
    table::Table,
    unseen::Status,
};
use crate::types::{Clock, WatchMode};

/// Lists what is off.
pub(super) fn run(
    arguments: &GetArgs,
    stdout: &mut Stdout,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    block_on(get(arguments, stdout, stderr))
}

async fn get(arguments: &GetArgs, stdout: &mut Stdout, stderr: &mut dyn Write) -> Result<Outcome, String> {
    let place = Place::of(&arguments.place, &arguments.ask).await;
    let look = if arguments.watch { WatchMode::Continuous } else { WatchMode::Once };
    let wishes = arguments.wish()?.into_iter().collect();
    let selector = arguments.selector.as_ref();
    let Some(mut asked) = Asked::open(&arguments.ask, place, wishes, selector, look, stderr).await? else {
        return Ok(Outcome::CouldNotRun);
    };
    // Whoever listens before asking misses nothing.
    let news = if arguments.watch { Some(News::of(&asked.exporter).await?) } else { None };
    let (all, unseen) = fetch(&mut asked).await?;
    let status = Status::of(&asked, unseen).await?;
    let outcome = judge(&asked, &all, &status)?;
    let shown: Vec<&Row> = all.iter().filter(|row| is_shown(&row.resource, arguments)).collect();
    let mut teller = Publisher::new(arguments, &asked);
    teller.tell_all(&shown, stdout)?;
    let unwritable = |error| format!("cannot write: {error}");
    writeln!(stderr, "{}", summary(&all)).map_err(unwritable)?;
    if let Some(unseen) = status.unseen() {
        writeln!(stderr, "{unseen}").map_err(unwritable)?;
    }
    if let Some(news) = news {
        follow(&mut asked, arguments, news, all, &mut teller, stdout, stderr).await?;
    }
    Ok(outcome)
}

/// What the command ends with. The error says that nothing could be seen, or that there is no such thing.
pub(super) fn judge(asked: &Asked, rows: &[Row], status: &Status) -> Result<Outcome, String> {
    if let Some(why) = status.sees_nothing().filter(|_| rows.is_empty() && asked.exporter.is_here()) {
        let hint = match (status.is_forbidden(), &asked.place) {
            (false, _) => "",
            (true, Place::Everywhere) => "; -n NAMESPACE looks in one that you may read",
            (true, _) => "; `kubectl auth can-i --list` shows what you may do",
        };
        return Err(format!("nothing can be seen: {why}{hint}"));
    }
    let whose = if asked.exporter.is_here() { "the settings watch" } else { "the exporter watches" };
    let missed = || asked.sought.iter().filter(|sought| !sought.is_found);
    for Sought { wish, .. } in missed() {
        if let Some(wrong) = status.unknown_kind(whose, wish).filter(|_| asked.kinds_are_given) {
            return Err(wrong);
        }
        // What was found of the others is shown; then this is told beside it.
        if let Some(why) = status.cannot_see(wish).filter(|_| rows.is_empty()) {
            return Err(format!("{} cannot be seen: {why}", wish.kind.trim_end_matches('.')));
        }
    }
    // Labels may leave out an object that was named and is there.
    let named = asked.sought.iter().any(|sought| sought.wish.name.is_some());
    let lacking = missed().any(|sought| sought.wish.name.is_some()) || (named && rows.is_empty());
    let drifted = rows.iter().any(|row| row.resource.is_drifted());
    Ok(if drifted || lacking { Outcome::Negative } else { Outcome::Fine })
}

/// Whether a claim is shown: what is off, what was asked for by name, and all that is declared where people want that.
pub(super) fn is_shown(resource: &Resource, arguments: &GetArgs) -> bool {
    arguments.names_one() || resource.is_off() || (arguments.all && resource.is_declared())
}

/// `3 of 57 objects drifted (1 critical, 2 warning), 1 unknown, 2 in flight`.
fn summary(rows: &[Row]) -> String {
    summary_of(&rows.iter().map(|row| &row.resource).collect::<Vec<_>>())
}

fn summary_of(rows: &[&Resource]) -> String {
    let declared = || rows.iter().copied().filter(|own| own.is_declared());
    let all: BTreeSet<_> = declared().map(Resource::object).collect();
    let drifted: BTreeSet<_> = declared().filter(|own| own.is_drifted()).map(Resource::object).collect();
    if all.is_empty() {
        return match rows.len() {
            0 => "nothing found".to_owned(),
            count => format!("nothing declares any of the {count} objects that were found"),
        };
    }
    let mut parts = Vec::new();
    let mut counted: BTreeSet<_> = BTreeSet::new();
    for severity in ["critical", "warning", "info"] {
        let of_it: BTreeSet<_> = declared()
            .filter(|own| own.is_drifted() && own.severity.as_deref() == Some(severity))
            .map(Resource::object)
            .filter(|object| !counted.contains(object))
            .collect();
        if !of_it.is_empty() {
            parts.push(format!("{} {severity}", of_it.len()));
        }
        counted.extend(of_it);
    }
    let how = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    // Nothing was compared of these, or not to its end.
    let rest = ["unknown", "in_flight"].map(|verdict| {
        let of_it: BTreeSet<_> =
            declared().filter(|own| own.verdict == verdict).map(Resource::object).collect();
        let word = verdict.replace('_', " ");
        if of_it.is_empty() { String::new() } else { format!(", {} {word}", of_it.len()) }
    });
    let rest = rest.concat();
    let word = if all.len() == 1 { "object" } else { "objects" };
    match drifted.len() {
        0 => format!("none of {} declared {word} drifted{rest}", all.len()),
        count => format!("{count} of {} declared {word} drifted{how}{rest}", all.len()),
    }
}

/// Tells claims in one of the formats.
pub(super) struct Publisher {
    output: Output,
    table: Table,
    clock: Clock,
    namespace: String,
}

impl Publisher {
    fn new(arguments: &GetArgs, asked: &Asked) -> Self {
        let clock = Clock::system();
        let everywhere = asked.place == Place::Everywhere;
        let table = Table::new(everywhere, arguments.output == Output::Wide, clock.now());
        let namespace = asked.place.namespace().unwrap_or("*").to_owned();
        Self { output: arguments.output, table, clock, namespace }
    }

    /// All at once.
    fn tell_all(&mut self, rows: &[&Row], stdout: &mut dyn Write) -> Result<(), String> {
        let text = match self.output {
            Output::Table | Output::Wide if rows.is_empty() => String::new(),
            Output::Table | Output::Wide => {
                self.table.fit(rows.iter().map(|row| &row.resource));
                let head = self.table.head();
                let now = self.clock.now();
                let lines = rows.iter().map(|row| self.table.row(&row.resource, now) + "\n");
                format!("{head}\n{}", lines.collect::<String>())
            }
            Output::Name => rows.iter().map(|row| name_line(row)).collect(),
            Output::Json | Output::Yaml => {
                let resources: Vec<&Value> = rows.iter().map(|row| &row.json).collect();
                let total = rows.len();
                self.write(&json!({"resources": resources, "total": total, "namespace": self.namespace}))?
            }
        };
        stdout.write_all(text.as_bytes()).map_err(|error| format!("cannot write: {error}"))
    }

    /// One that has changed.
    pub(super) fn tell(&mut self, row: &Row, stdout: &mut dyn Write) -> Result<(), String> {
        let text = match self.output {
            Output::Table | Output::Wide => {
                self.table.fit([&row.resource]);
                self.table.row(&row.resource, self.clock.now()) + "\n"
            }
            Output::Name => name_line(row),
            Output::Yaml => format!("---\n{}", self.write(&row.json)?),
            Output::Json => self.write(&row.json)?,
        };
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        written.map_err(|error| format!("cannot write: {error}"))
    }

    fn write(&self, value: &Value) -> Result<String, String> {
        if self.output == Output::Yaml {
            return serde_saphyr::to_string(value).map_err(|error| error.to_string());
        }
        let text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
        Ok(harmless_json(&text) + "\n")
    }
}

fn name_line(row: &Row) -> String {
    harmless(&row.resource.kubectl_name()).replace(['\n', '\t'], " ") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Resource, summary_of};

    fn claim(name: &str, verdict: &str) -> Resource {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "resourceName": name, "source": "helm",
            "verdict": verdict, "reason": null, "driftDetected": verdict == "drifted", "onset": null, "severity": null,
            "expectation": null, "advice": null, "actor": null, "manager": null, "declaredBy": [], "differences": [],
            "ignored": [], "blindFields": [],
        }))
        .unwrap()
    }

    #[test]
    fn what_was_not_compared_is_counted_apart() {
        let all = [("a", "in_sync"), ("b", "in_flight"), ("c", "in_flight"), ("d", "unknown")];
        let all = all.map(|(name, verdict)| claim(name, verdict));
        let told = summary_of(&all.iter().collect::<Vec<_>>());
        assert_eq!(told, "none of 4 declared objects drifted, 1 unknown, 2 in flight");
        assert_eq!(summary_of(&[&all[0], &claim("e", "drifted")]), "1 of 2 declared objects drifted");
        assert_eq!(summary_of(&[]), "nothing found");
    }
}
