//! What has to be watched for what states declare.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{KindName, ObjectName, Scope, WantedKind};

/// More namespaces than this are watched as all of them: each is a stream of its own.
const MOST_NAMESPACES: usize = 10;

/// How many objects of a kind are declared in each version, and in which namespaces.
#[derive(Default)]
struct Named<'a> {
    versions: BTreeMap<&'a str, usize>,
    namespaces: BTreeSet<Box<str>>,
}

/// The kinds that these objects are of, in an order of their own.
pub(in crate::baseline) fn wanted_kinds<'a>(
    objects: impl IntoIterator<Item = &'a ObjectName>,
) -> Vec<WantedKind> {
    let mut kinds: BTreeMap<(&str, &str), Named<'a>> = BTreeMap::new();
    let mut singles: BTreeSet<WantedKind> = BTreeSet::new();
    for object in objects {
        let ObjectName { group, version, kind, namespace, name } = object;
        if object.is_guarded() {
            if !namespace.is_empty() {
                let scope = Scope::In([namespace.clone()].into());
                singles
                    .insert(WantedKind { name: Some(name.clone()), ..wanted(group, version, kind, scope) });
            }
            continue;
        }
        let Named { versions, namespaces } = kinds.entry((group, kind)).or_default();
        *versions.entry(version).or_default() += 1;
        namespaces.insert(namespace.clone());
    }
    let whole = kinds.into_iter().map(|((group, kind), Named { versions, namespaces })| {
        // A kind is watched in one version: the one that most are declared in.
        let version = versions.iter().max_by_key(|(_, count)| **count).map_or("v1", |(version, _)| *version);
        let everywhere = namespaces.contains("") || namespaces.len() > MOST_NAMESPACES;
        let scope = if everywhere { Scope::default() } else { Scope::In(namespaces) };
        wanted(group, version, kind, scope)
    });
    whole.chain(singles.iter().cloned()).collect()
}

fn wanted(group: &str, version: &str, kind: &str, scope: Scope) -> WantedKind {
    WantedKind {
        group: group.into(),
        version: Some(version.into()),
        kind: KindName::Named(kind.into()),
        scope,
        selector: None,
        name: None,
    }
}

#[cfg(test)]
mod tests {
    use super::{ObjectName, Scope, wanted_kinds};

    fn object(group: &str, version: &str, kind: &str, namespace: &str, name: &str) -> ObjectName {
        ObjectName {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    #[test]
    fn kinds_are_watched_where_they_are_declared_and_secrets_one_by_one() {
        let mut objects = vec![
            object("apps", "v1", "Deployment", "shop", "web"),
            object("apps", "v1", "Deployment", "shop", "api"),
            object("apps", "v1beta1", "Deployment", "ops", "web"),
            object("", "v1", "Namespace", "", "shop"),
            object("", "v1", "Secret", "shop", "b"),
            object("", "v1", "Secret", "shop", "a"),
            object("", "v1", "Secret", "", "nowhere"),
        ];
        objects.extend((0..11).map(|at| object("", "v1", "ConfigMap", &format!("n{at}"), "c")));
        let wanted = wanted_kinds(&objects);
        let told: Vec<_> = wanted
            .iter()
            .map(|wanted| (wanted.to_string(), wanted.scope.clone(), wanted.name.as_deref()))
            .collect();
        let within = |names: &[&str]| Scope::new(names.iter().copied(), []);
        assert_eq!(
            told,
            [
                ("v1 ConfigMap".to_owned(), Scope::default(), None),
                ("v1 Namespace".to_owned(), Scope::default(), None),
                ("apps/v1 Deployment".to_owned(), within(&["ops", "shop"]), None),
                ("v1 Secret".to_owned(), within(&["shop"]), Some("a")),
                ("v1 Secret".to_owned(), within(&["shop"]), Some("b")),
            ]
        );
        objects.reverse();
        assert_eq!(wanted_kinds(&objects), wanted);
    }
}
