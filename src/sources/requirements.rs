//! The kinds that have to be watched, and the fields that have to be redacted, for the declarations of all sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    diff::{is_secret, terraform::sensitive_fields},
    types::{
        DeclaredObject, GroupKind, Kind, NameSet, ObjectRef, RedactionKey, RedactionPolicy, Scope, WantedKind,
    },
};

/// A kind in more namespaces than this is watched in all of them, since each namespace needs a watch of its own.
const MAX_NAMESPACES: usize = 10;

/// Kinds whose replicas an autoscaler may set.
const SCALABLE: [GroupKind<&str>; 4] = [
    GroupKind::new("apps", "Deployment"),
    GroupKind::new("apps", "ReplicaSet"),
    GroupKind::new("apps", "StatefulSet"),
    GroupKind::new("", "ReplicationController"),
];

/// The declared objects of all baselines of one source.
#[derive(Clone, Debug, Default)]
pub struct SourceDeclarations(Vec<BaselineDeclarations>);

/// The objects of one baseline, and the key that it brings along.
type BaselineDeclarations = (Option<RedactionKey>, Vec<Arc<DeclaredObject>>);

impl SourceDeclarations {
    pub(super) fn new<'a>(
        baselines: impl Iterator<Item = (Option<&'a RedactionKey>, &'a [Arc<DeclaredObject>])>,
    ) -> Self {
        Self(baselines.map(|(key, objects)| (key.cloned(), objects.to_vec())).collect())
    }
}

/// The live state that is necessary to compare declared objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindRequirements {
    /// Declared kinds, and single objects of kinds that are never listed as a whole.
    pub kinds: Vec<WantedKind>,
    /// Kinds whose objects are cached completely, and how they are redacted.
    pub documents: BTreeMap<GroupKind, Arc<RedactionPolicy>>,
}

impl KindRequirements {
    /// Merges the requirements of all sources. `key` is the key of this process.
    pub fn from_declarations<'a>(
        key: &RedactionKey,
        sources: impl Iterator<Item = &'a SourceDeclarations>,
    ) -> Self {
        let baselines: Vec<&BaselineDeclarations> = sources.flat_map(|source| &source.0).collect();
        let objects = baselines.iter().flat_map(|(_, objects)| objects);
        let kinds = required_kinds(objects.map(|object| &**object));
        let declarations = baselines.iter().map(|(key, objects)| (key.as_ref(), &**objects));
        Self { kinds, documents: redaction_policies(key, declarations) }
    }
}

/// The declarations of one kind.
#[derive(Default)]
struct DeclaredKind<'a> {
    /// The number of declarations in each version.
    versions: BTreeMap<&'a str, usize>,
    /// By namespace and name.
    objects: BTreeMap<(&'a str, &'a str), Vec<Declaration<'a>>>,
}

/// One of several declarations of an object.
struct Declaration<'a> {
    is_partial: bool,
    version: &'a str,
}

/// The kinds of these objects, in an order that does not depend on theirs.
fn required_kinds<'a>(objects: impl IntoIterator<Item = &'a DeclaredObject>) -> Vec<WantedKind> {
    let mut kinds: BTreeMap<GroupKind<&str>, DeclaredKind<'a>> = BTreeMap::new();
    let mut guarded: BTreeMap<GroupKind<&str>, DeclaredKind<'a>> = BTreeMap::new();
    for object in objects {
        let ObjectRef { version, namespace, name, .. } = &object.object;
        let requires_selector = object.object.requires_selector();
        if requires_selector && namespace.is_empty() {
            continue;
        }
        let by_kind = if requires_selector { &mut guarded } else { &mut kinds };
        let DeclaredKind { versions, objects } = by_kind.entry(object.object.group_kind()).or_default();
        *versions.entry(version).or_default() += 1;
        let declaration = Declaration { is_partial: object.is_partial(), version };
        objects.entry((namespace, name)).or_default().push(declaration);
    }
    let scalable = kinds.iter().filter(|(kind, _)| SCALABLE.contains(kind));
    let scaled_in: BTreeSet<&str> = scalable.flat_map(|(_, declared)| declared.namespaces()).collect();
    // Autoscalers explain changed replicas, declared or not.
    let autoscalers = (!scaled_in.is_empty()).then(|| WantedKind {
        scope: scope_of(scaled_in),
        implicit: true,
        ..WantedKind::exactly(&Kind::autoscaler())
    });
    let whole = kinds.iter().map(|(kind, declared)| declared.whole_kind(*kind));
    let single = guarded.iter().flat_map(|(kind, declared)| declared.single_objects(*kind));
    whole.chain(autoscalers).chain(single).collect()
}

impl DeclaredKind<'_> {
    /// The kind in the version of most declarations. Objects that are declared in another version are read in that one.
    fn whole_kind(&self, kind: GroupKind<&str>) -> WantedKind {
        let version = self.versions.iter().max_by_key(|(_, count)| **count).map(|(version, _)| *version);
        let mut versions: BTreeMap<Box<str>, NameSet> = BTreeMap::new();
        for ((namespace, name), declarations) in &self.objects {
            if let Some(version) = self.preferred_version(declarations) {
                versions.entry(version.into()).or_default().insert(namespace, name);
            }
        }
        let scope = scope_of(self.namespaces().collect());
        WantedKind { versions: Arc::new(versions), ..requirement(kind, version, scope) }
    }

    fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(|(namespace, _)| *namespace)
    }

    fn single_objects(&self, kind: GroupKind<&str>) -> Vec<WantedKind> {
        let single = |((namespace, name), declarations): (&(&str, &str), &Vec<Declaration<'_>>)| {
            let scope = Scope::new([*namespace], []);
            let kind = requirement(kind, self.preferred_version(declarations), scope);
            WantedKind { name: Some((*name).into()), ..kind }
        };
        self.objects.iter().map(single).collect()
    }

    /// The version to read an object in. Declarations of the whole object win over those of parts, then the version with
    /// more declarations.
    fn preferred_version<'a>(&self, declarations: &[Declaration<'a>]) -> Option<&'a str> {
        let rank = |declaration: &&Declaration<'a>| {
            (!declaration.is_partial, self.versions.get(declaration.version), declaration.version)
        };
        declarations.iter().max_by_key(rank).map(|declaration| declaration.version)
    }
}

fn scope_of(namespaces: BTreeSet<&str>) -> Scope {
    let everywhere = namespaces.contains("") || namespaces.len() > MAX_NAMESPACES;
    if everywhere { Scope::default() } else { Scope::new(namespaces, []) }
}

fn requirement(kind: GroupKind<&str>, version: Option<&str>, scope: Scope) -> WantedKind {
    let kind = WantedKind::exactly(&Kind::undiscovered(kind.group, "", kind.kind));
    WantedKind { version: version.map(Into::into), scope, ..kind }
}

/// The redaction policy of each declared kind.
///
/// A redacted value can be compared only under the key of the baseline that declares it. So live values get a digest for each key
/// of a baseline that declares the object, and for no other key: an additional key would make the kind be listed again.
fn redaction_policies<'a>(
    process_key: &RedactionKey,
    baselines: impl Iterator<Item = (Option<&'a RedactionKey>, &'a [Arc<DeclaredObject>])> + Clone,
) -> BTreeMap<GroupKind, Arc<RedactionPolicy>> {
    let mut policies: BTreeMap<GroupKind, RedactionPolicy> = BTreeMap::new();
    let kind_of = |declared: &DeclaredObject| declared.object.group_kind().into_owned();
    for declared in baselines.clone().flat_map(|(_, objects)| objects) {
        let policy =
            policies.entry(kind_of(declared)).or_insert_with(|| RedactionPolicy::new(process_key.clone()));
        let fields = sensitive_fields(declared);
        if !fields.is_empty() {
            policy.add_fields(&declared.object, fields);
        }
    }
    let with_key = baselines.filter_map(|(key, objects)| Some((key?, objects)));
    for (key, declared) in with_key.flat_map(|(key, objects)| objects.iter().map(move |object| (key, object)))
    {
        let object = &declared.object;
        if let Some(policy) = policies.get_mut(&kind_of(declared))
            && (is_secret(&object.group, &object.kind) || policy.redacts(object))
        {
            policy.add_key(key);
        }
    }
    policies.into_iter().map(|(kind, policy)| (kind, Arc::new(policy))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{
        DeclaredObject, GroupKind, NameSet, ObjectRef, RedactionKey, Scope, redaction_policies,
        required_kinds,
    };
    use crate::types::{DeclaredBody, PackedJson, UnknownReason};

    fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> DeclaredObject {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let object = ObjectRef::new(group, version, kind, namespace, name);
        DeclaredObject::new("", object, key(1), DeclaredBody::Opaque(UnknownReason::Unreadable))
    }

    fn names<const N: usize>(names: [(&str, &str); N]) -> NameSet {
        names.into_iter().collect()
    }

    #[test]
    fn kinds_are_watched_in_declared_namespaces_and_secrets_one_by_one() {
        let mut objects = vec![
            object("apps/v1", "Deployment", "shop", "web"),
            object("apps/v1", "Deployment", "shop", "api"),
            object("apps/v1beta1", "Deployment", "ops", "web"),
            object("v1", "Namespace", "", "shop"),
            object("v1", "Secret", "shop", "b"),
            object("v1", "Secret", "shop", "a"),
            object("v1", "Secret", "", "nowhere"),
        ];
        objects.extend((0..11).map(|at| object("v1", "ConfigMap", &format!("n{at}"), "c")));
        let kinds = required_kinds(&objects);
        let summary: Vec<_> =
            kinds.iter().map(|kind| (kind.to_string(), kind.scope.clone(), kind.name.as_deref())).collect();
        let within = |names: &[&str]| Scope::new(names.iter().copied(), []);
        assert_eq!(
            summary,
            [
                ("v1 ConfigMap".to_owned(), Scope::default(), None),
                ("v1 Namespace".to_owned(), Scope::default(), None),
                ("apps/v1 Deployment".to_owned(), within(&["ops", "shop"]), None),
                ("autoscaling/v2 HorizontalPodAutoscaler".to_owned(), within(&["ops", "shop"]), None),
                ("v1 Secret".to_owned(), within(&["shop"]), Some("a")),
                ("v1 Secret".to_owned(), within(&["shop"]), Some("b")),
            ]
        );
        objects.reverse();
        assert_eq!(required_kinds(&objects), kinds);
    }

    #[test]
    fn autoscalers_are_watched_in_namespaces_with_scalable_kinds() {
        let implicit_kinds = |objects: &[DeclaredObject]| {
            let implicit = required_kinds(objects).into_iter().filter(|kind| kind.implicit);
            implicit.map(|kind| (kind.to_string(), kind.scope)).collect::<Vec<_>>()
        };
        let autoscalers = |scope: Scope| [("autoscaling/v2 HorizontalPodAutoscaler".to_owned(), scope)];
        for (api_version, kind) in [
            ("apps/v1", "Deployment"),
            ("apps/v1", "StatefulSet"),
            ("apps/v1", "ReplicaSet"),
            ("v1", "ReplicationController"),
        ] {
            let many: Vec<_> =
                (0..11).map(|at| object(api_version, kind, &format!("n{at}"), "web")).collect();
            assert_eq!(implicit_kinds(&many[..1]), autoscalers(Scope::new(["n0"], [])), "{kind}");
            assert_eq!(implicit_kinds(&many), autoscalers(Scope::default()), "{kind}");
        }
        assert_eq!(
            implicit_kinds(&[
                object("apps/v1", "DaemonSet", "shop", "logs"),
                object("v1", "Service", "shop", "web")
            ]),
            []
        );
    }

    #[test]
    fn objects_are_read_in_the_version_of_their_declaration() {
        let autoscaler = |version: &str, namespace: &str, name: &str| {
            object(&format!("autoscaling/{version}"), "HorizontalPodAutoscaler", namespace, name)
        };
        let part = |object: DeclaredObject| DeclaredObject {
            body: DeclaredBody::Parts(PackedJson::new(Vec::new())),
            ..object
        };
        let mut objects = vec![
            autoscaler("v1", "shop", "old"),
            autoscaler("v1", "ops", "old"),
            autoscaler("v1", "ops", "older"),
            autoscaler("v2", "shop", "new"),
            // Two states disagree, and the version with more declarations wins.
            autoscaler("v2", "shop", "both"),
            autoscaler("v1", "shop", "both"),
            // A declaration of labels alone does not determine the version.
            autoscaler("v2", "shop", "marked"),
            part(autoscaler("v1", "shop", "marked")),
        ];
        let kinds = required_kinds(&objects);
        let [kind] = &*kinds else { panic!("{kinds:?}") };
        assert_eq!(kind.to_string(), "autoscaling/v1 HorizontalPodAutoscaler");
        let versions = [
            ("v1".into(), names([("ops", "old"), ("ops", "older"), ("shop", "both"), ("shop", "old")])),
            ("v2".into(), names([("shop", "marked"), ("shop", "new")])),
        ];
        assert_eq!(*kind.versions, versions.into());
        objects.reverse();
        assert_eq!(required_kinds(&objects), kinds);
    }

    #[test]
    fn single_objects_are_read_in_their_declared_version() {
        let objects = ["v1", "v1beta1"].map(|version| {
            object(&format!("coordination.k8s.io/{version}"), "Lease", "shop", &format!("in-{version}"))
        });
        let kinds: Vec<_> = required_kinds(&objects).iter().map(ToString::to_string).collect();
        assert_eq!(kinds, ["coordination.k8s.io/v1 Lease", "coordination.k8s.io/v1beta1 Lease"]);
    }

    fn key(number: u8) -> RedactionKey {
        RedactionKey::new([number; 32])
    }

    fn declared(resource_type: &str, kind: &str, name: &str, marked: &[&str]) -> Arc<DeclaredObject> {
        Arc::new(DeclaredObject {
            resource_type: resource_type.into(),
            sensitive: marked.iter().map(|path| (*path).into()).collect(),
            ..object("v1", kind, "shop", name)
        })
    }

    fn config_map(name: &str, marked: &[&str]) -> Arc<DeclaredObject> {
        declared("kubernetes_config_map", "ConfigMap", name, marked)
    }

    #[test]
    fn redacted_objects_get_the_keys_of_the_baselines_that_declare_them() {
        let secret = |name: &str| declared("kubernetes_secret", "Secret", name, &["data"]);
        let service = declared("kubernetes_service", "Service", "web", &[]);
        let without_key = [config_map("a", &["data"]), config_map("b", &[]), service, secret("s")];
        let (same, another, more) =
            ([config_map("a", &[])], [config_map("b", &[])], [secret("other"), config_map("c", &["data"])]);
        let baselines = [
            (None, &without_key[..]),
            (Some(&key(2)), &same),
            (Some(&key(3)), &another),
            (Some(&key(4)), &more),
        ];
        let policies = redaction_policies(&key(1), baselines.into_iter());
        let policy = |kind: &str| &policies[&GroupKind::new("", kind).into_owned()];
        assert_eq!(policies.len(), 3);
        assert_eq!(policy("ConfigMap").keys(), [key(1), key(2), key(4)]);
        assert_eq!(policy("Secret").keys(), [key(1), key(4)], "all data of a Secret is redacted");
        assert_eq!(policy("Service").keys(), [key(1)]);
        let fields = |kind: &str, name: &str| policy(kind).fields("v1", "shop", name).join(" ");
        assert_eq!([fields("ConfigMap", "a"), fields("ConfigMap", "c")], ["data", "data"]);
        for (kind, name) in [("ConfigMap", "b"), ("Service", "web"), ("Secret", "s")] {
            assert!(policy(kind).fields("v1", "shop", name).is_empty(), "{kind}");
        }
    }
}
