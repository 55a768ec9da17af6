//! `drift-exporter check`.

use std::io::Write;

use schemars::schema_for;

use super::{Outcome, args::CheckArgs, settings_file::load_settings};
use crate::{
    model::WantedKind,
    settings::{Settings, SettingsFile},
    watch::{Access, Allowed, access, client_from},
};

/// Checks settings, and what the cluster allows for them.
pub(super) fn run(
    arguments: &CheckArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    let unwritable = |error| format!("cannot write: {error}");
    if arguments.schema {
        let schema = serde_json::to_string_pretty(&schema_for!(SettingsFile));
        let schema = schema.map_err(|error| format!("cannot write the schema: {error}"))?;
        writeln!(stdout, "{schema}").map_err(unwritable)?;
        return Ok(Outcome::Fine);
    }
    let Some(settings) = load_settings(arguments.config_file.as_deref(), stderr)? else {
        return Ok(Outcome::Negative);
    };
    let (kinds, rules) = (settings.wanted_kinds().len(), settings.rules.rules().len());
    writeln!(stdout, "settings: fine; {kinds} kinds wanted, {rules} rules with the built-in ones")
        .map_err(unwritable)?;
    if arguments.pre {
        return Ok(Outcome::Fine);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let access = runtime.block_on(ask(arguments, &settings))?;
    let mut outcome = Outcome::Fine;
    for Access { what, place, allowed } in &access {
        let word = match allowed {
            Allowed::Yes => "allowed".to_owned(),
            Allowed::No { missing, .. } => format!("FORBIDDEN: may not {}", missing.join(", ")),
            Allowed::NotServed(why) => format!("NOT THERE: {why}"),
        };
        writeln!(stdout, "{what} in {place}: {word}").map_err(unwritable)?;
        if *allowed != Allowed::Yes {
            outcome = Outcome::Negative;
        }
    }
    let rules: Vec<String> = access.iter().filter_map(Access::rule_to_add).collect();
    if !rules.is_empty() {
        let rules = rules.join("");
        writeln!(stdout, "\nAdd to the Role or ClusterRole of the exporter's account:\n\n{rules}")
            .map_err(unwritable)?;
    }
    Ok(outcome)
}

async fn ask(arguments: &CheckArgs, settings: &Settings) -> Result<Vec<Access>, String> {
    let client = client_from(&arguments.cluster.connection()).await.map_err(|error| error.to_string())?;
    let mut wanted = settings.wanted_kinds();
    if let Some(from) = &settings.team_rules {
        let maps = WantedKind::parse("v1", "ConfigMap").expect("it is a kind");
        wanted.push(WantedKind { scope: from.scope.within(&settings.scope()), ..maps });
    }
    access(&client, &wanted).await
}
