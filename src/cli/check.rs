//! `drift-exporter check`.

use std::{collections::BTreeSet, io::Write};

use schemars::schema_for;

use super::{
    Outcome, args::CheckArgs, rights::rules_to_add, runtime::block_on, settings_file::load_settings,
};
use crate::{
    config::{Overrides, Settings, SettingsFile},
    types::{Kind, Scope, Source},
    watch::{PermissionCheck, PermissionStatus, RequiredPermission, check_permissions, client_from},
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
    let overrides = Overrides { namespaces: arguments.reach.namespaces(), ..Overrides::default() };
    let Some(settings) = load_settings(arguments.config.config_file.as_deref(), &overrides, stderr)? else {
        return Ok(Outcome::Negative);
    };
    if arguments.reach.web.open(stderr)?.is_none() {
        return Ok(Outcome::Negative);
    }
    let (kinds, rules) = (settings.wanted_kinds().len(), settings.rules.rules().len());
    writeln!(stdout, "settings: fine; {kinds} kinds wanted, {rules} rules with the built-in ones")
        .map_err(unwritable)?;
    if arguments.pre {
        return Ok(Outcome::Fine);
    }
    let access = block_on(ask(arguments, &settings))?;
    let mut outcome = Outcome::Fine;
    for PermissionCheck { resource, scope, status } in &access {
        let word = match status {
            PermissionStatus::Granted => "allowed".to_owned(),
            PermissionStatus::Denied { required, missing } if required.optional => {
                format!("not allowed, and all else works without it: may not {}", missing.join(", "))
            }
            PermissionStatus::Denied { missing, .. } => format!("FORBIDDEN: may not {}", missing.join(", ")),
            PermissionStatus::NotServed(why) => format!("NOT THERE: {why}"),
            PermissionStatus::Refused(why) => format!("REFUSED: {why}"),
            PermissionStatus::Unknown(why) => format!("UNKNOWN: {why}"),
        };
        writeln!(stdout, "{resource} in {}: {word}", place(scope)).map_err(unwritable)?;
        let is_optional = matches!(status, PermissionStatus::Denied { required, .. } if required.optional);
        if *status != PermissionStatus::Granted && !is_optional {
            outcome = Outcome::Negative;
        }
    }
    write!(stdout, "{}", rules_to_add(&access)).map_err(unwritable)?;
    Ok(outcome)
}

async fn ask(arguments: &CheckArgs, settings: &Settings) -> Result<Vec<PermissionCheck>, String> {
    let client = client_from(&arguments.cluster.connection()).await.map_err(|error| error.to_string())?;
    let team_rules = settings.team_rules.as_ref().map(|from| RequiredPermission {
        group: "".into(),
        resource: "configmaps".into(),
        verbs: &["list"],
        scope: from.scope.within(&settings.scope()),
        optional: false,
    });
    let events = arguments.reach.events.then(|| RequiredPermission {
        group: "events.k8s.io".into(),
        resource: "events".into(),
        verbs: &["create", "patch"],
        scope: settings.scope(),
        optional: false,
    });
    let of_sources = states(settings).into_iter().chain(releases(settings));
    let others: Vec<RequiredPermission> =
        team_rules.into_iter().chain(events).chain(of_sources).chain(arguments.reach.web.needs()).collect();
    check_permissions(&client, &settings.wanted_kinds(), &others).await
}

/// What has to be read to find states, and to tell who scales what they declare. The kinds that they name are known only then.
fn states(settings: &Settings) -> Vec<RequiredPermission> {
    if !settings.sources.contains(&Source::Terraform) {
        return Vec::new();
    }
    let read = |group: &str, resource: &str| RequiredPermission {
        group: group.into(),
        resource: resource.into(),
        verbs: &["list", "watch"],
        scope: settings.terraform.scope.clone(),
        optional: false,
    };
    let Kind { group, plural, .. } = Kind::autoscaler();
    let autoscalers = RequiredPermission { scope: settings.scope(), optional: true, ..read(&group, &plural) };
    vec![read("", "secrets"), read("coordination.k8s.io", "leases"), autoscalers]
}

/// What has to be read to find releases. The kinds that they name are known only then.
fn releases(settings: &Settings) -> Vec<RequiredPermission> {
    if !settings.sources.contains(&Source::Helm) {
        return Vec::new();
    }
    let read = |resource: &str| RequiredPermission {
        group: "".into(),
        resource: resource.into(),
        verbs: &["get", "list", "watch"],
        scope: settings.helm.scope.clone(),
        optional: false,
    };
    vec![read("secrets"), read("configmaps")]
}

fn place(scope: &Scope) -> String {
    let list = |names: &BTreeSet<Box<str>>| names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
    match scope {
        Scope::AllExcept(names) if names.is_empty() => "all namespaces".to_owned(),
        Scope::AllExcept(names) => format!("all namespaces but {}", list(names)),
        Scope::In(names) if names.is_empty() => "no namespace".to_owned(),
        Scope::In(names) if names.len() == 1 => format!("namespace {}", list(names)),
        Scope::In(names) => format!("namespaces {}", list(names)),
    }
}
