//! The RBAC rules that are missing, as YAML.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use crate::{
    types::Scope,
    watch::{PermissionCheck, PermissionStatus, RequiredPermission},
};

type Verbs = BTreeSet<&'static str>;
type Resource<'a> = (&'a str, &'a str);

/// What to add, each rule once: to a `ClusterRole` what is needed in all namespaces, to Roles what is needed in some. Empty if nothing
/// is missing.
pub(super) fn rules_to_add(answers: &[PermissionCheck]) -> String {
    let mut everywhere: BTreeMap<Resource<'_>, Verbs> = BTreeMap::new();
    let mut within: BTreeMap<Resource<'_>, BTreeMap<&str, Verbs>> = BTreeMap::new();
    for RequiredPermission { group, resource, verbs, scope, .. } in answers.iter().filter_map(missing) {
        let resource = (&**group, &**resource);
        match scope {
            Scope::AllExcept(_) => everywhere.entry(resource).or_default().extend(*verbs),
            Scope::In(names) => {
                for name in names {
                    within.entry(resource).or_default().entry(name).or_default().extend(*verbs);
                }
            }
        }
    }
    let mut text = String::new();
    if !everywhere.is_empty() {
        text += "\nAdd to the ClusterRole of the exporter's account:\n\n";
        text += &rules(everywhere);
    }
    let mut roles: BTreeMap<BTreeSet<&str>, BTreeMap<Resource<'_>, Verbs>> = BTreeMap::new();
    for (resource, namespaces) in within {
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
        let place = match &*names {
            [one] => format!("namespace {one}"),
            several => format!("each of the namespaces {}", several.join(", ")),
        };
        let _ = write!(text, "\nAdd to its Role in {place}:\n\n");
        text += &rules(resources);
    }
    text
}

fn missing(access: &PermissionCheck) -> Option<&RequiredPermission> {
    match &access.status {
        PermissionStatus::Denied { required, .. } => Some(required),
        PermissionStatus::Granted
        | PermissionStatus::NotServed(_)
        | PermissionStatus::Refused(_)
        | PermissionStatus::Unknown(_) => None,
    }
}

/// Resources of one group that need the same share a rule.
fn rules(resources: BTreeMap<Resource<'_>, Verbs>) -> String {
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
    use super::{PermissionCheck, PermissionStatus, RequiredPermission, Scope, rules_to_add};

    fn forbidden(
        group: &str,
        resource: &str,
        verbs: &'static [&'static str],
        namespace: Option<&str>,
    ) -> PermissionCheck {
        let scope = Scope::new(namespace, None);
        let required = RequiredPermission {
            group: group.into(),
            resource: resource.into(),
            verbs,
            scope: scope.clone(),
            optional: false,
        };
        PermissionCheck {
            resource: resource.to_owned(),
            scope,
            status: PermissionStatus::Denied { required, missing: verbs.to_vec() },
        }
    }

    #[test]
    fn each_rule_is_told_once_and_for_the_role_it_belongs_to() {
        const STREAM: &[&str] = &["list", "watch"];
        let answers = [
            forbidden("", "services", STREAM, Some("shop")),
            forbidden("", "services", STREAM, Some("ops")),
            forbidden("", "secrets", STREAM, Some("shop")),
            forbidden("", "configmaps", STREAM, Some("shop")),
            forbidden("", "configmaps", &["list"], Some("shop")),
            forbidden("apps", "deployments", STREAM, None),
            forbidden("apps", "daemonsets", STREAM, None),
            forbidden("events.k8s.io", "events", &["create", "patch"], None),
        ];
        let wanted = r#"
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
        assert_eq!(rules_to_add(&answers), wanted);
        let yes = PermissionCheck {
            resource: "x".to_owned(),
            scope: Scope::default(),
            status: PermissionStatus::Granted,
        };
        assert_eq!(rules_to_add(&[yes]), "");
    }
}
