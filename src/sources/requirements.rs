//! The kinds that have to be watched, and the fields that have to be redacted, for the declarations of all sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    diff::{is_secret, terraform::sensitive_fields},
    types::{
        Authority, DeclaredObject, GroupKind, Kind, NameSet, NamespacedName, ObjectRef, RedactionKey,
        RedactionPolicy, Scope, WantedKind,
    },
};

/// A kind in more namespaces than this is watched in all of them, since each namespace needs a watch of its own.
const MAX_NAMESPACES: usize = 10;
/// The maximum number of watches that the baselines of one namespace may request in it: of a kind, or of a single object.
const MAX_OWN_WATCHES: usize = 200;
/// The same for untrusted declarations: of a kind in another namespace, of a cluster-scoped kind, or of a single object.
const MAX_UNTRUSTED_WATCHES: usize = 50;

/// Kinds whose replicas an autoscaler may set.
const SCALABLE: [GroupKind<&str>; 4] = [
    GroupKind::new("apps", "Deployment"),
    GroupKind::new("apps", "ReplicaSet"),
    GroupKind::new("apps", "StatefulSet"),
    GroupKind::new("", "ReplicationController"),
];

/// The declared objects of all baselines of one source.
#[derive(Clone, Debug, Default)]
pub struct SourceDeclarations(pub(super) Vec<BaselineDeclarations>);

/// The objects of one baseline, and the key that it brings along.
#[derive(Clone, Debug)]
pub(super) struct BaselineDeclarations {
    pub(super) authority: Authority,
    pub(super) key: Option<RedactionKey>,
    pub(super) objects: Vec<Arc<DeclaredObject>>,
}

impl BaselineDeclarations {
    /// Its declarations. Each has a flag: whether it may decide how the object is read and redacted.
    ///
    /// Excludes Secrets that the baseline has no authority over. A Helm release may have authority if the annotations of the Secret
    /// name it.
    fn read(&self) -> impl Iterator<Item = RequiredObject<'_>> {
        let objects = self.objects.iter().map(|declared| {
            let is_covered = self.authority.covers(&declared.object.namespace);
            let author = self.authority.namespace();
            RequiredObject { declared, is_covered, author, key: self.key.as_ref().filter(|_| is_covered) }
        });
        objects.filter(|object| {
            let kind = object.declared.object.group_kind();
            object.is_covered || self.authority.release().is_some() || !is_secret(kind)
        })
    }
}

/// A declared object that has to be read.
#[derive(Clone, Copy)]
struct RequiredObject<'a> {
    declared: &'a DeclaredObject,
    /// Whether the authority of the baseline covers its namespace.
    is_covered: bool,
    /// The namespace of the baseline, unless it is trusted.
    author: Option<&'a str>,
    key: Option<&'a RedactionKey>,
}

/// What has to be watched for a declaration: a kind in a namespace, or one object of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RequestedWatch<'a> {
    /// Empty for cluster-scoped kinds.
    namespace: &'a str,
    kind: GroupKind<&'a str>,
    object: Option<&'a str>,
}

/// Whose limit a watch counts for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Requester<'a> {
    namespace: &'a str,
    /// Whether it has authority over the objects.
    is_covered: bool,
}

impl<'a> RequiredObject<'a> {
    /// The watch, and who requests it. None if it counts for no limit.
    fn requested_watch(&self) -> Option<(Requester<'a>, RequestedWatch<'a>)> {
        let requester = Requester { namespace: self.author?, is_covered: self.is_covered };
        let ObjectRef { namespace, name, .. } = &self.declared.object;
        let object = self.declared.object.requires_selector().then_some(&**name);
        Some((requester, RequestedWatch { namespace, kind: self.declared.object.group_kind(), object }))
    }
}

/// Drops declarations that need more watches than their namespace may request. Cluster-scoped kinds come first.
fn drop_excess(objects: &mut Vec<RequiredObject<'_>>) {
    let mut watches: BTreeMap<Requester<'_>, BTreeSet<RequestedWatch<'_>>> = BTreeMap::new();
    for (requester, watch) in objects.iter().filter_map(RequiredObject::requested_watch) {
        watches.entry(requester).or_default().insert(watch);
    }
    let first_excess: BTreeMap<Requester<'_>, RequestedWatch<'_>> = watches
        .into_iter()
        .filter_map(|(requester, watches)| {
            let limit = if requester.is_covered { MAX_OWN_WATCHES } else { MAX_UNTRUSTED_WATCHES };
            Some((requester, watches.into_iter().nth(limit)?))
        })
        .collect();
    objects.retain(|object| {
        let requested = object.requested_watch();
        requested.is_none_or(|(requester, watch)| {
            first_excess.get(&requester).is_none_or(|excess| watch < *excess)
        })
    });
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
        let mut objects: Vec<RequiredObject<'_>> =
            sources.flat_map(|source| &source.0).flat_map(BaselineDeclarations::read).collect();
        drop_excess(&mut objects);
        Self::of_objects(key, &objects)
    }

    /// The requirements of trusted baselines alone.
    pub fn from_trusted<'a>(
        key: &RedactionKey,
        sources: impl Iterator<Item = &'a SourceDeclarations>,
    ) -> Self {
        let trusted =
            sources.flat_map(|source| &source.0).filter(|source| source.authority == Authority::Cluster);
        Self::of_objects(key, &trusted.flat_map(BaselineDeclarations::read).collect::<Vec<_>>())
    }

    fn of_objects(key: &RedactionKey, objects: &[RequiredObject<'_>]) -> Self {
        Self { kinds: required_kinds(objects), documents: redaction_policies(key, objects) }
    }
}

/// The declarations of one kind.
#[derive(Default)]
struct DeclaredKind<'a> {
    /// The number of declarations in each version: those that cover the object, and all.
    versions: BTreeMap<&'a str, (usize, usize)>,
    objects: BTreeMap<NamespacedName<&'a str>, Vec<Declaration<'a>>>,
}

/// One of several declarations of an object.
struct Declaration<'a> {
    is_covered: bool,
    is_partial: bool,
    version: &'a str,
}

/// The kinds of these objects, in an order that does not depend on theirs.
fn required_kinds<'a>(objects: &[RequiredObject<'a>]) -> Vec<WantedKind> {
    let mut kinds: BTreeMap<GroupKind<&str>, DeclaredKind<'a>> = BTreeMap::new();
    let mut guarded: BTreeMap<GroupKind<&str>, DeclaredKind<'a>> = BTreeMap::new();
    for RequiredObject { declared: object, is_covered, .. } in objects {
        let ObjectRef { version, namespace, name, .. } = &object.object;
        let requires_selector = object.object.requires_selector();
        if requires_selector && namespace.is_empty() {
            continue;
        }
        let by_kind = if requires_selector { &mut guarded } else { &mut kinds };
        let DeclaredKind { versions, objects } = by_kind.entry(object.object.group_kind()).or_default();
        let (covered, all) = versions.entry(version).or_default();
        (*covered, *all) = (*covered + usize::from(*is_covered), *all + 1);
        let declaration = Declaration { is_covered: *is_covered, is_partial: object.is_partial(), version };
        objects
            .entry(NamespacedName { namespace: &**namespace, name: &**name })
            .or_default()
            .push(declaration);
    }
    let scalable = kinds.iter().filter(|(kind, _)| SCALABLE.contains(kind));
    let scaled_in: BTreeSet<(&str, bool)> =
        scalable.flat_map(|(_, declared)| declared.namespaces()).collect();
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
    /// The kind in the version that most declarations use. Objects that are declared in another version are read in that version,
    /// unless no declaration covers their namespace: claims of other sources may need the usual version.
    fn whole_kind(&self, kind: GroupKind<&str>) -> WantedKind {
        let version = self.versions.iter().max_by_key(|(_, count)| **count).map(|(version, _)| *version);
        let mut versions: BTreeMap<Box<str>, NameSet> = BTreeMap::new();
        for (NamespacedName { namespace, name }, declarations) in &self.objects {
            let is_covered = declarations.iter().any(|declaration| declaration.is_covered);
            if !is_covered && !namespace.is_empty() {
                continue;
            }
            if let Some(version) = self.preferred_version(declarations) {
                versions.entry(version.into()).or_default().insert(namespace, name);
            }
        }
        let scope = scope_of(self.namespaces());
        WantedKind { versions: Arc::new(versions), ..requirement(kind, version, scope) }
    }

    /// The namespaces of its objects, each with a flag: whether a declaration covers an object in it.
    fn namespaces(&self) -> impl Iterator<Item = (&str, bool)> {
        self.objects.iter().map(|(object, declarations)| {
            (object.namespace, declarations.iter().any(|declaration| declaration.is_covered))
        })
    }

    fn single_objects(&self, kind: GroupKind<&str>) -> Vec<WantedKind> {
        let single = |(object, declarations): (&NamespacedName<&str>, &Vec<Declaration<'_>>)| {
            let scope = Scope::new([object.namespace], []);
            let kind = requirement(kind, self.preferred_version(declarations), scope);
            WantedKind { name: Some(object.name.into()), ..kind }
        };
        self.objects.iter().map(single).collect()
    }

    /// The version to read an object in: a claim on an object that is read in another version is unknown. Declarations that cover
    /// the namespace win over others, then those of the whole object over those of parts, then the version with more declarations.
    fn preferred_version<'a>(&self, declarations: &[Declaration<'a>]) -> Option<&'a str> {
        let rank = |declaration: &&Declaration<'a>| {
            let count = self.versions.get(declaration.version);
            (declaration.is_covered, !declaration.is_partial, count, declaration.version)
        };
        declarations.iter().max_by_key(rank).map(|declaration| declaration.version)
    }
}

/// Untrusted declarations do not widen it to all namespaces.
fn scope_of<'a>(namespaces: impl IntoIterator<Item = (&'a str, bool)>) -> Scope {
    let (mut covered, mut others) = (BTreeSet::new(), BTreeSet::new());
    for (namespace, is_covered) in namespaces {
        if is_covered { &mut covered } else { &mut others }.insert(namespace.into());
    }
    let everywhere = covered.contains("") || covered.len() > MAX_NAMESPACES;
    if everywhere { Scope::default() } else { &Scope::In(covered) | &Scope::In(others) }
}

fn requirement(kind: GroupKind<&str>, version: Option<&str>, scope: Scope) -> WantedKind {
    let kind = WantedKind::exactly(&Kind::undiscovered(kind.group, "", kind.kind));
    WantedKind { version: version.map(Into::into), scope, ..kind }
}

/// The objects of one kind that are cached whole.
#[derive(Default)]
struct CachedObjects<'a> {
    /// The namespaces with objects that a baseline covers.
    covered: BTreeSet<&'a str>,
    /// Namespace and name of the other declared objects.
    others: Vec<(&'a str, &'a str)>,
}

/// The redaction policy of each declared kind.
///
/// A redacted value can be compared only under the key of the baseline that declares it. So live values get a digest for each key
/// of a baseline that declares the object, and for no other key: an additional key would make the kind be listed again.
/// A baseline that does not cover an object adds neither keys nor fields: redaction changes how others compare and rate the object.
/// Objects that no baseline covers are cached whole only if they are declared. The others are cached by namespace, since each change
/// of the policy makes the kind be listed again.
fn redaction_policies(
    process_key: &RedactionKey,
    objects: &[RequiredObject<'_>],
) -> BTreeMap<GroupKind, Arc<RedactionPolicy>> {
    let mut policies: BTreeMap<GroupKind, RedactionPolicy> = BTreeMap::new();
    let mut cached: BTreeMap<GroupKind<&str>, CachedObjects<'_>> = BTreeMap::new();
    let kind_of = |declared: &DeclaredObject| declared.object.group_kind().into_owned();
    for RequiredObject { declared, is_covered, .. } in objects {
        let policy =
            policies.entry(kind_of(declared)).or_insert_with(|| RedactionPolicy::new(process_key.clone()));
        let fields = sensitive_fields(declared);
        if *is_covered && !fields.is_empty() {
            policy.add_fields(&declared.object, fields);
        }
        let CachedObjects { covered, others } = cached.entry(declared.object.group_kind()).or_default();
        let ObjectRef { namespace, name, .. } = &declared.object;
        if *is_covered {
            covered.insert(namespace);
        } else {
            others.push((namespace, name));
        }
    }
    for (kind, CachedObjects { covered, others }) in cached {
        let whole = scope_of(covered.into_iter().map(|namespace| (namespace, true)));
        let names = others.into_iter().filter(|(namespace, _)| !whole.has(namespace)).collect();
        if let Some(policy) = policies.get_mut(&kind.into_owned()) {
            policy.limit_to(whole, names);
        }
    }
    for (key, declared) in objects.iter().filter_map(|object| Some((object.key?, object.declared))) {
        let object = &declared.object;
        if let Some(policy) = policies.get_mut(&kind_of(declared))
            && (is_secret(object.group_kind()) || policy.redacts(object))
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
        Authority, BaselineDeclarations, DeclaredObject, GroupKind, KindRequirements, MAX_OWN_WATCHES,
        MAX_UNTRUSTED_WATCHES, NameSet, ObjectRef, RedactionKey, Scope, SourceDeclarations,
    };
    use crate::types::{DeclaredBody, HelmRelease, PackedJson, UnknownReason, WantedKind};

    fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> DeclaredObject {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let object = ObjectRef::new(group, version, kind, namespace, name);
        DeclaredObject::new("", object, key(1), DeclaredBody::Opaque(UnknownReason::Unreadable))
    }

    fn declarations(
        authority: Authority,
        key: Option<RedactionKey>,
        objects: &[Arc<DeclaredObject>],
    ) -> SourceDeclarations {
        SourceDeclarations(vec![BaselineDeclarations { authority, key, objects: objects.to_vec() }])
    }

    fn requirements(baselines: &[SourceDeclarations]) -> KindRequirements {
        KindRequirements::from_declarations(&key(1), baselines.iter())
    }

    fn required_kinds(objects: &[DeclaredObject]) -> Vec<WantedKind> {
        let objects: Vec<_> = objects.iter().cloned().map(Arc::new).collect();
        requirements(&[declarations(Authority::Cluster, None, &objects)]).kinds
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
            (Some(key(2)), &same),
            (Some(key(3)), &another),
            (Some(key(4)), &more),
        ];
        let baselines = baselines.map(|(key, objects)| declarations(Authority::Cluster, key, objects));
        let policies = requirements(&baselines).documents;
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

    fn release_in(namespace: &str) -> Authority {
        Authority::Release(HelmRelease { namespace: namespace.into(), name: "web".into() })
    }

    #[test]
    fn untrusted_declarations_neither_watch_all_namespaces_nor_cache_whole_kinds() {
        let mut objects = Vec::new();
        for kind in ["ConfigMap", "Event", "Pod"] {
            objects.push(Arc::new(object("v1", kind, "tenant", "a")));
            objects.push(Arc::new(object("v1", kind, "", "a")));
            objects.extend((0..11).map(|at| Arc::new(object("v1", kind, &format!("n{at}"), "a"))));
        }
        for authority in [release_in("tenant"), Authority::Namespace("tenant".into())] {
            let KindRequirements { kinds, documents } =
                requirements(&[declarations(authority, None, &objects)]);
            assert_eq!(kinds.len(), 3);
            for WantedKind { kind, scope, .. } in &kinds {
                let Scope::In(namespaces) = scope else { panic!("{kind:?} is watched everywhere") };
                assert_eq!(namespaces.len(), 13, "the namespaces that are declared");
            }
            for policy in documents.values() {
                assert!(
                    policy.includes("tenant", "other")
                        && policy.includes("n3", "a")
                        && policy.includes("", "a")
                );
                assert!(!policy.includes("n3", "other") && !policy.includes_all(None), "{policy:?}");
            }
        }
        // A trusted declaration of the kind in many namespaces still widens the watch.
        let trusted = declarations(Authority::Cluster, None, &objects);
        assert!(requirements(&[trusted]).kinds.iter().all(|kind| kind.scope == Scope::default()));
    }

    #[test]
    fn untrusted_declarations_of_a_namespace_need_a_limited_number_of_watches() {
        let foreign = |namespaces: usize| -> Vec<_> {
            let of =
                |at: usize| ["ConfigMap", "Secret"].map(|kind| object("v1", kind, &format!("n{at:03}"), "a"));
            let global = object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "a");
            (0..namespaces).flat_map(of).chain([global]).map(Arc::new).collect()
        };
        let hostile = declarations(release_in("tenant"), None, &foreign(400));
        let honest = declarations(release_in("ops"), None, &[Arc::new(object("v1", "Service", "web", "a"))]);
        let kinds = requirements(&[hostile, honest]).kinds;
        let watches = kinds.iter().map(|kind| match &kind.scope {
            Scope::In(namespaces) => namespaces.len(),
            Scope::AllExcept(_) => panic!("{kind:?} is watched everywhere"),
        });
        assert_eq!(watches.sum::<usize>(), MAX_UNTRUSTED_WATCHES + 1);
        for kind in ["v1 Service", "rbac.authorization.k8s.io/v1 ClusterRole"] {
            assert!(kinds.iter().any(|watched| watched.to_string() == kind), "{kind}");
        }
    }

    #[test]
    fn baselines_of_a_namespace_request_a_limited_number_of_watches_in_it() {
        let secret = |at: usize| Arc::new(object("v1", "Secret", "tenant", &format!("s{at}")));
        let kind = |at: usize| Arc::new(object("example.com/v1", &format!("Kind{at}"), "tenant", "a"));
        for of in [&secret as &dyn Fn(usize) -> Arc<DeclaredObject>, &kind] {
            let many: Vec<_> = (0..3_000).map(of).collect();
            for authority in [release_in("tenant"), Authority::Namespace("tenant".into())] {
                let kinds = requirements(&[declarations(authority, None, &many)]).kinds;
                assert_eq!(kinds.len(), MAX_OWN_WATCHES);
            }
            let trusted = declarations(Authority::Cluster, None, &many);
            assert_eq!(requirements(&[trusted]).kinds.len(), 3_000);
        }
    }

    #[test]
    fn baseline_decides_how_objects_are_read_only_where_it_covers_them() {
        let autoscaler = |version: &str| {
            let api_version = format!("autoscaling/{version}");
            Arc::new(object(&api_version, "HorizontalPodAutoscaler", "shop", "web"))
        };
        let secret = declared("kubernetes_secret", "Secret", "db", &["data"]);
        let own = declarations(
            Authority::Namespace("shop".into()),
            None,
            &[autoscaler("v2"), config_map("a", &[])],
        );
        let other = Arc::new(object("autoscaling/v1", "HorizontalPodAutoscaler", "ops", "web"));
        let foreign = [autoscaler("v1"), other, config_map("a", &["data"]), secret.clone()];
        let foreign = declarations(Authority::Namespace("tenant".into()), Some(key(7)), &foreign);
        let KindRequirements { kinds, documents } = requirements(&[own, foreign]);
        let autoscalers = kinds.iter().find(|kind| kind.to_string().ends_with("Autoscaler")).unwrap();
        assert_eq!(autoscalers.to_string(), "autoscaling/v2 HorizontalPodAutoscaler");
        assert_eq!(*autoscalers.versions, [("v2".into(), names([("shop", "web")]))].into());
        let policy = &documents[&GroupKind::new("", "ConfigMap").into_owned()];
        assert_eq!((policy.keys(), policy.fields("v1", "shop", "a")), (&[key(1)][..], Vec::new()));
        let is_secret = |kind: &&WantedKind| kind.to_string() == "v1 Secret";
        assert_eq!(kinds.iter().find(is_secret), None, "it is not read for a guess");

        let release = declarations(release_in("tenant"), None, &[secret]);
        assert!(
            requirements(&[release]).kinds.iter().any(|kind| is_secret(&kind)),
            "its annotations may name it"
        );
    }
}
