//! `drift-exporter check`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use schemars::schema_for;

use super::{
    Outcome,
    args::CheckArgs,
    error::CliError,
    output::{Console, block_on, load_settings},
};
use crate::{
    config::{Settings, SettingsFile},
    types::{Kind, Scope, Source},
    watch::{PermissionCheck, PermissionStatus, RequiredPermission, check_permissions, client_from},
};

pub(super) fn run(arguments: &CheckArgs, console: &mut Console) -> Result<Outcome, CliError> {
    if arguments.schema {
        console.print(serde_json::to_string_pretty(&schema_for!(SettingsFile))? + "\n")?;
        return Ok(Outcome::Success);
    }
    let overrides = arguments.permissions.overrides();
    let settings = load_settings(arguments.config.config_file.as_deref(), &overrides, console)?;
    arguments.permissions.web.open()?;
    let (kinds, rules) = (settings.wanted_kinds().len(), settings.rules.rules().len());
    console.print(format_args!(
        "settings: fine; {kinds} kinds wanted, {rules} rules with the built-in ones\n"
    ))?;
    if arguments.pre {
        return Ok(Outcome::Success);
    }
    let access = block_on(query_permissions(arguments, &settings))?;
    let mut outcome = Outcome::Success;
    for PermissionCheck { resource, scope, status } in &access {
        let result = match status {
            PermissionStatus::Granted => "allowed".to_owned(),
            PermissionStatus::Denied { required, missing } if required.optional => {
                format!("not allowed, and all else works without it: may not {}", missing.join(", "))
            }
            PermissionStatus::Denied { missing, .. } => format!("FORBIDDEN: may not {}", missing.join(", ")),
            PermissionStatus::NotServed(why) => format!("NOT THERE: {why}"),
            PermissionStatus::Refused(why) => format!("REFUSED: {why}"),
            PermissionStatus::Unknown(why) => format!("UNKNOWN: {why}"),
        };
        console.print(format_args!("{resource} in {}: {result}\n", describe_scope(scope)))?;
        let is_optional = matches!(status, PermissionStatus::Denied { required, .. } if required.optional);
        if *status != PermissionStatus::Granted && !is_optional {
            outcome = Outcome::Negative;
        }
    }
    console.print(missing_rbac_rules(&access))?;
    Ok(outcome)
}

async fn query_permissions(
    arguments: &CheckArgs,
    settings: &Settings,
) -> Result<Vec<PermissionCheck>, CliError> {
    let client = client_from(&arguments.cluster.connection()).await?;
    let team_rules = settings.team_rules.as_ref().map(|from| {
        RequiredPermission::new("", "configmaps", &["list"], from.scope.within(&settings.scope()))
    });
    let events = arguments
        .permissions
        .events
        .then(|| RequiredPermission::new("events.k8s.io", "events", &["create", "patch"], settings.scope()));
    let sources = terraform_permissions(settings).into_iter().chain(helm_permissions(settings));
    let permissions: Vec<RequiredPermission> = team_rules
        .into_iter()
        .chain(events)
        .chain(sources)
        .chain(arguments.permissions.web.required_permissions())
        .collect();
    Ok(check_permissions(&client, &settings.wanted_kinds(), &permissions).await?)
}

/// Without the kinds that states declare: these are known only after reading the states.
fn terraform_permissions(settings: &Settings) -> Vec<RequiredPermission> {
    if !settings.sources.contains(&Source::Terraform) {
        return Vec::new();
    }
    let read = |group: &str, resource: &str| {
        RequiredPermission::new(group, resource, &["list", "watch"], settings.terraform.scope.clone())
    };
    let Kind { group, plural, .. } = Kind::autoscaler();
    let autoscalers = RequiredPermission { scope: settings.scope(), optional: true, ..read(&group, &plural) };
    vec![read("", "secrets"), read("coordination.k8s.io", "leases"), autoscalers]
}

/// Without the kinds that releases declare: these are known only after reading the releases.
fn helm_permissions(settings: &Settings) -> Vec<RequiredPermission> {
    if !settings.sources.contains(&Source::Helm) {
        return Vec::new();
    }
    let read = |resource| {
        RequiredPermission::new("", resource, &["get", "list", "watch"], settings.helm.scope.clone())
    };
    vec![read("secrets"), read("configmaps")]
}

fn describe_scope(scope: &Scope) -> String {
    let list = |names: &BTreeSet<Box<str>>| names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
    match scope {
        Scope::AllExcept(names) if names.is_empty() => "all namespaces".to_owned(),
        Scope::AllExcept(names) => format!("all namespaces but {}", list(names)),
        Scope::In(names) if names.is_empty() => "no namespace".to_owned(),
        Scope::In(names) if names.len() == 1 => format!("namespace {}", list(names)),
        Scope::In(names) => format!("namespaces {}", list(names)),
    }
}

type Verbs = BTreeSet<&'static str>;
/// API group and plural name.
type GroupResource<'a> = (&'a str, &'a str);

/// The missing RBAC rules as YAML: for a `ClusterRole` those that apply to all namespaces, for Roles the others. Empty if
/// all permissions are granted.
fn missing_rbac_rules(checks: &[PermissionCheck]) -> String {
    let mut cluster_wide: BTreeMap<GroupResource<'_>, Verbs> = BTreeMap::new();
    let mut namespaced: BTreeMap<GroupResource<'_>, BTreeMap<&str, Verbs>> = BTreeMap::new();
    for RequiredPermission { group, resource, verbs, scope, .. } in checks.iter().filter_map(missing) {
        let resource = (&**group, &**resource);
        match scope {
            Scope::AllExcept(_) => cluster_wide.entry(resource).or_default().extend(*verbs),
            Scope::In(names) => {
                for name in names {
                    namespaced.entry(resource).or_default().entry(name).or_default().extend(*verbs);
                }
            }
        }
    }
    let mut text = String::new();
    if !cluster_wide.is_empty() {
        text += "\nAdd to the ClusterRole of the exporter's account:\n\n";
        text += &rules_yaml(cluster_wide);
    }
    let mut roles: BTreeMap<BTreeSet<&str>, BTreeMap<GroupResource<'_>, Verbs>> = BTreeMap::new();
    for (resource, namespaces) in namespaced {
        let mut by_verbs: BTreeMap<Verbs, BTreeSet<&str>> = BTreeMap::new();
        for (namespace, verbs) in namespaces {
            by_verbs.entry(verbs).or_default().insert(namespace);
        }
        for (verbs, namespaces) in by_verbs {
            roles.entry(namespaces).or_default().insert(resource, verbs);
        }
    }
    for (namespaces, resources) in roles {
        let names: Vec<&str> = namespaces.into_iter().collect();
        let namespaces = match &*names {
            [one] => format!("namespace {one}"),
            several => format!("each of the namespaces {}", several.join(", ")),
        };
        let _ = write!(text, "\nAdd to its Role in {namespaces}:\n\n");
        text += &rules_yaml(resources);
    }
    text
}

fn missing(access: &PermissionCheck) -> Option<&RequiredPermission> {
    let PermissionStatus::Denied { required, .. } = &access.status else { return None };
    Some(required)
}

/// Resources of one API group with the same verbs share a rule.
fn rules_yaml(resources: BTreeMap<GroupResource<'_>, Verbs>) -> String {
    let mut shared: BTreeMap<(&str, Verbs), Vec<&str>> = BTreeMap::new();
    for ((group, resource), verbs) in resources {
        shared.entry((group, verbs)).or_default().push(resource);
    }
    let mut text = String::new();
    for ((group, verbs), resources) in shared {
        let (resources, verbs) = (resources.join(", "), verbs.into_iter().collect::<Vec<_>>().join(", "));
        let _ = write!(text, "- apiGroups: [\"{group}\"]\n  resources: [{resources}]\n  verbs: [{verbs}]\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{PermissionCheck, PermissionStatus, RequiredPermission, Scope, missing_rbac_rules};

    fn forbidden(
        group: &str,
        resource: &str,
        verbs: &'static [&'static str],
        namespace: Option<&str>,
    ) -> PermissionCheck {
        let scope = Scope::new(namespace, None);
        let required = RequiredPermission::new(group, resource, verbs, scope.clone());
        PermissionCheck {
            resource: resource.to_owned(),
            scope,
            status: PermissionStatus::Denied { required, missing: verbs.to_vec() },
        }
    }

    #[test]
    fn missing_rules_are_grouped_by_role_and_verbs() {
        const LIST_WATCH: &[&str] = &["list", "watch"];
        let checks = [
            forbidden("", "services", LIST_WATCH, Some("shop")),
            forbidden("", "services", LIST_WATCH, Some("ops")),
            forbidden("", "secrets", LIST_WATCH, Some("shop")),
            forbidden("", "configmaps", LIST_WATCH, Some("shop")),
            forbidden("", "configmaps", &["list"], Some("shop")),
            forbidden("apps", "deployments", LIST_WATCH, None),
            forbidden("apps", "daemonsets", LIST_WATCH, None),
            forbidden("events.k8s.io", "events", &["create", "patch"], None),
        ];
        let expected = r#"
Add to the ClusterRole of the exporter's account:

- apiGroups: ["apps"]
  resources: [daemonsets, deployments]
  verbs: [list, watch]
- apiGroups: ["events.k8s.io"]
  resources: [events]
  verbs: [create, patch]

Add to its Role in each of the namespaces ops, shop:

- apiGroups: [""]
  resources: [services]
  verbs: [list, watch]

Add to its Role in namespace shop:

- apiGroups: [""]
  resources: [configmaps, secrets]
  verbs: [list, watch]
"#;
        assert_eq!(missing_rbac_rules(&checks), expected);
        let granted = PermissionCheck {
            resource: "x".to_owned(),
            scope: Scope::default(),
            status: PermissionStatus::Granted,
        };
        assert_eq!(missing_rbac_rules(&[granted]), "");
    }
}
