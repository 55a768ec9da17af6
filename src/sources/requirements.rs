//! What has to be watched and kept for what is declared.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    diff::{is_secret, terraform::sensitive_fields},
    types::{
        DeclaredObject, Kind, KindName, NameSet, ObjectName, RedactionKey, RedactionPolicy, Scope, WantedKind,
    },
};

/// All that a source declares: the objects of each baseline, with the key that it brings, where it does.
#[derive(Clone, Debug, Default)]
pub struct Declares(Vec<(Option<RedactionKey>, Vec<Arc<DeclaredObject>>)>);

impl Declares {
    /// These baselines.
    pub(super) fn new<'a>(
        baselines: impl Iterator<Item = (Option<&'a RedactionKey>, &'a [Arc<DeclaredObject>])>,
    ) -> Self {
        Self(baselines.map(|(key, objects)| (key.cloned(), objects.to_vec())).collect())
    }
}

/// What has to be watched for what sources declare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The kinds that they name, and single objects of kinds that nobody should read by the way.
    pub kinds: Vec<WantedKind>,
    /// These kinds by group and name: whole objects of them are kept, and this is sealed in them.
    pub documents: BTreeMap<(Box<str>, Box<str>), Arc<RedactionPolicy>>,
}

impl Wanted {
    /// What is wanted for all that these sources declare together. `key`: that of this process.
    pub fn of<'a>(key: &RedactionKey, sources: impl Iterator<Item = &'a Declares>) -> Self {
        let baselines: Vec<_> = sources.flat_map(|source| &source.0).collect();
        let kinds = wanted_kinds(baselines.iter().flat_map(|(_, objects)| objects).map(|object| &**object));
        let declared = baselines.iter().map(|(key, objects)| (key.as_ref(), &**objects));
        Self { kinds, documents: documents(key, declared) }
    }
}

/// More namespaces than this are watched as all of them: each is a stream of its own.
const MOST_NAMESPACES: usize = 10;

/// Kinds, by group and name, whose replicas an autoscaler may set.
const SCALABLE: [(&str, &str); 4] =
    [("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("", "ReplicationController")];

/// What is declared of one kind.
#[derive(Default)]
struct Named<'a> {
    /// How many declarations there are in each version.
    versions: BTreeMap<&'a str, usize>,
    /// The objects by namespace and name, each with what declares it.
    objects: BTreeMap<(&'a str, &'a str), Vec<Declaration<'a>>>,
}

/// What tells in which version an object is declared.
struct Declaration<'a> {
    is_part: bool,
    version: &'a str,
}

/// The kinds that these objects are of, in an order of their own.
pub(super) fn wanted_kinds<'a>(objects: impl IntoIterator<Item = &'a DeclaredObject>) -> Vec<WantedKind> {
    let mut kinds: BTreeMap<(&str, &str), Named<'a>> = BTreeMap::new();
    let mut guarded: BTreeMap<(&str, &str), Named<'a>> = BTreeMap::new();
    for object in objects {
        let ObjectName { group, version, kind, namespace, name } = &object.object;
        let is_guarded = object.object.is_guarded();
        if is_guarded && namespace.is_empty() {
            continue;
        }
        let of_its_sort = if is_guarded { &mut guarded } else { &mut kinds };
        let Named { versions, objects } = of_its_sort.entry((group, kind)).or_default();
        *versions.entry(version).or_default() += 1;
        let declared = Declaration { is_part: object.is_part(), version };
        objects.entry((namespace, name)).or_default().push(declared);
    }
    let scalable = kinds.iter().filter(|(kind, _)| SCALABLE.contains(kind));
    let scaled_in: BTreeSet<&str> = scalable.flat_map(|(_, named)| named.namespaces()).collect();
    // Who scales them is told by their autoscalers, whoever declares these.
    let autoscalers = (!scaled_in.is_empty()).then(|| WantedKind {
        scope: scope_of(scaled_in),
        by_the_way: true,
        ..WantedKind::exactly(&Kind::autoscaler())
    });
    let whole = kinds.iter().map(|((group, kind), named)| named.whole(group, kind));
    let singles = guarded.iter().flat_map(|((group, kind), named)| named.singles(group, kind));
    whole.chain(autoscalers).chain(singles).collect()
}

impl Named<'_> {
    /// The whole kind where it is declared, in the version that most of it is declared in. What is declared in another one is
    /// read in that.
    fn whole(&self, group: &str, kind: &str) -> WantedKind {
        let version = self.versions.iter().max_by_key(|(_, count)| **count).map(|(version, _)| *version);
        let mut versions: BTreeMap<Box<str>, NameSet> = BTreeMap::new();
        for ((namespace, name), declarations) in &self.objects {
            if let Some(version) = self.version_of(declarations) {
                versions.entry(version.into()).or_default().insert(namespace, name);
            }
        }
        let scope = scope_of(self.namespaces().collect());
        WantedKind { versions: Arc::new(versions), ..wanted(group, version, kind, scope) }
    }

    /// The namespaces of the objects, some of them more than once.
    fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(|(namespace, _)| *namespace)
    }

    /// Each object on its own.
    fn singles(&self, group: &str, kind: &str) -> Vec<WantedKind> {
        let single = |((namespace, name), declarations): (&(&str, &str), &Vec<Declaration<'_>>)| {
            let scope = Scope::new([*namespace], []);
            let wanted = wanted(group, self.version_of(declarations), kind, scope);
            WantedKind { name: Some((*name).into()), ..wanted }
        };
        self.objects.iter().map(single).collect()
    }

    /// The version to read an object in. Where it is declared in several, what declares all of it comes before what declares
    /// parts, and then the version that more is declared in.
    fn version_of<'a>(&self, declarations: &[Declaration<'a>]) -> Option<&'a str> {
        let order = |own: &&Declaration<'a>| (!own.is_part, self.versions.get(own.version), own.version);
        declarations.iter().max_by_key(order).map(|own| own.version)
    }
}

/// These namespaces, or all where they are too many.
fn scope_of(namespaces: BTreeSet<&str>) -> Scope {
    let everywhere = namespaces.contains("") || namespaces.len() > MOST_NAMESPACES;
    if everywhere { Scope::default() } else { Scope::new(namespaces, []) }
}

fn wanted(group: &str, version: Option<&str>, kind: &str, scope: Scope) -> WantedKind {
    WantedKind {
        group: group.into(),
        version: version.map(Into::into),
        kind: KindName::Named(kind.into()),
        scope,
        selector: None,
        name: None,
        versions: Arc::default(),
        by_the_way: false,
    }
}

/// The kinds, by group and name, of all that is declared, and what is sealed in objects of each.
///
/// Each baseline has its key, where it brings one, and its objects. What is kept sealed can be compared by whoever has a key of its
/// digests only: so it has digests of all keys that come with a declaration of it, and of no others. Those are no reason to
/// read a kind again.
pub(super) fn documents<'a>(
    own_key: &RedactionKey,
    baselines: impl Iterator<Item = (Option<&'a RedactionKey>, &'a [Arc<DeclaredObject>])> + Clone,
) -> BTreeMap<(Box<str>, Box<str>), Arc<RedactionPolicy>> {
    let mut kinds: BTreeMap<(Box<str>, Box<str>), RedactionPolicy> = BTreeMap::new();
    let kind_of = |declared: &DeclaredObject| (declared.object.group.clone(), declared.object.kind.clone());
    for declared in baselines.clone().flat_map(|(_, objects)| objects) {
        let sealing = kinds.entry(kind_of(declared)).or_insert_with(|| RedactionPolicy::new(own_key.clone()));
        let fields = sensitive_fields(declared);
        if !fields.is_empty() {
            sealing.mark(&declared.object, fields);
        }
    }
    let brought = baselines.filter_map(|(key, objects)| Some((key?, objects)));
    for (key, declared) in brought.flat_map(|(key, objects)| objects.iter().map(move |own| (key, own))) {
        let object = &declared.object;
        if let Some(sealing) = kinds.get_mut(&kind_of(declared))
            && (is_secret(&object.group, &object.kind) || sealing.marks(object))
        {
            sealing.add_key(key);
        }
    }
    kinds.into_iter().map(|(kind, sealing)| (kind, Arc::new(sealing))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{DeclaredObject, NameSet, ObjectName, RedactionKey, Scope, documents, wanted_kinds};
    use crate::types::{DeclaredBody, Packed, UnknownReason};

    fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> DeclaredObject {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        DeclaredObject {
            address: Box::default(),
            resource_type: Box::default(),
            object: ObjectName {
                group: group.into(),
                version: version.into(),
                kind: kind.into(),
                namespace: namespace.into(),
                name: name.into(),
            },
            uid: None,
            sensitive: Vec::new(),
            key: RedactionKey::new([1; 32]),
            body: DeclaredBody::Opaque(UnknownReason::Unreadable),
        }
    }

    fn names<const N: usize>(names: [(&str, &str); N]) -> NameSet {
        names.into_iter().collect()
    }

    #[test]
    fn kinds_are_watched_where_they_are_declared_and_secrets_one_by_one() {
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
                ("autoscaling/v2 HorizontalPodAutoscaler".to_owned(), within(&["ops", "shop"]), None),
                ("v1 Secret".to_owned(), within(&["shop"]), Some("a")),
                ("v1 Secret".to_owned(), within(&["shop"]), Some("b")),
            ]
        );
        objects.reverse();
        assert_eq!(wanted_kinds(&objects), wanted);
    }

    #[test]
    fn autoscalers_are_looked_at_where_something_can_be_scaled() {
        let of = |objects: &[DeclaredObject]| {
            let wanted = wanted_kinds(objects).into_iter();
            let told: Vec<_> =
                wanted.filter(|own| own.by_the_way).map(|own| (own.to_string(), own.scope)).collect();
            told
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
            assert_eq!(of(&many[..1]), autoscalers(Scope::new(["n0"], [])), "{kind}");
            assert_eq!(of(&many), autoscalers(Scope::default()), "{kind}");
        }
        assert_eq!(
            of(&[object("apps/v1", "DaemonSet", "shop", "logs"), object("v1", "Service", "shop", "web")]),
            []
        );
    }

    #[test]
    fn every_object_is_read_in_the_version_that_it_is_declared_in() {
        let autoscaler = |version: &str, namespace: &str, name: &str| {
            object(&format!("autoscaling/{version}"), "HorizontalPodAutoscaler", namespace, name)
        };
        let part = |own: DeclaredObject| DeclaredObject {
            body: DeclaredBody::Parts(Packed::new(Vec::new())),
            ..own
        };
        let mut objects = vec![
            autoscaler("v1", "shop", "old"),
            autoscaler("v1", "ops", "old"),
            autoscaler("v1", "ops", "older"),
            autoscaler("v2", "shop", "new"),
            // Two states say something else, and the version that more is declared in counts.
            autoscaler("v2", "shop", "both"),
            autoscaler("v1", "shop", "both"),
            // Whoever declares labels alone does not say how the rest is read.
            autoscaler("v2", "shop", "marked"),
            part(autoscaler("v1", "shop", "marked")),
        ];
        let wanted = wanted_kinds(&objects);
        let [kind] = &*wanted else { panic!("{wanted:?}") };
        assert_eq!(kind.to_string(), "autoscaling/v1 HorizontalPodAutoscaler");
        let versions = [
            ("v1".into(), names([("ops", "old"), ("ops", "older"), ("shop", "both"), ("shop", "old")])),
            ("v2".into(), names([("shop", "marked"), ("shop", "new")])),
        ];
        assert_eq!(*kind.versions, versions.into());
        objects.reverse();
        assert_eq!(wanted_kinds(&objects), wanted);
    }

    #[test]
    fn a_lease_is_asked_for_in_its_own_version() {
        let objects = ["v1", "v1beta1"].map(|version| {
            object(&format!("coordination.k8s.io/{version}"), "Lease", "shop", &format!("in-{version}"))
        });
        let told: Vec<_> = wanted_kinds(&objects).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["coordination.k8s.io/v1 Lease", "coordination.k8s.io/v1beta1 Lease"]);
    }

    fn key(number: u8) -> RedactionKey {
        RedactionKey::new([number; 32])
    }

    fn declared(resource_type: &str, kind: &str, name: &str, marked: &[&str]) -> Arc<DeclaredObject> {
        Arc::new(DeclaredObject {
            address: name.into(),
            resource_type: resource_type.into(),
            object: ObjectName {
                group: "".into(),
                version: "v1".into(),
                kind: kind.into(),
                namespace: "shop".into(),
                name: name.into(),
            },
            uid: None,
            sensitive: marked.iter().map(|path| (*path).into()).collect(),
            key: key(1),
            body: DeclaredBody::Opaque(UnknownReason::NewerSchema),
        })
    }

    fn config_map(name: &str, marked: &[&str]) -> Arc<DeclaredObject> {
        declared("kubernetes_config_map", "ConfigMap", name, marked)
    }

    #[test]
    fn what_is_sealed_is_sealed_for_everybody_who_declares_it_and_nobody_else() {
        let secret = |name: &str| declared("kubernetes_secret", "Secret", name, &["data"]);
        let service = declared("kubernetes_service", "Service", "web", &[]);
        let own = [config_map("a", &["data"]), config_map("b", &[]), service, secret("s")];
        let (same, another, more) =
            ([config_map("a", &[])], [config_map("b", &[])], [secret("other"), config_map("c", &["data"])]);
        let baselines =
            [(None, &own[..]), (Some(&key(2)), &same), (Some(&key(3)), &another), (Some(&key(4)), &more)];
        let documents = documents(&key(1), baselines.into_iter());
        let sealing = |kind: &str| &documents[&("".into(), kind.into())];
        assert_eq!(documents.len(), 3);
        assert_eq!(sealing("ConfigMap").keys(), [key(1), key(2), key(4)]);
        assert_eq!(sealing("Secret").keys(), [key(1), key(4)], "of each one all that is in it is sealed");
        assert_eq!(sealing("Service").keys(), [key(1)]);
        let fields = |kind: &str, name: &str| sealing(kind).fields("v1", "shop", name).join(" ");
        assert_eq!([fields("ConfigMap", "a"), fields("ConfigMap", "c")], ["data", "data"]);
        for (kind, name) in [("ConfigMap", "b"), ("Service", "web"), ("Secret", "s")] {
            assert!(sealing(kind).fields("v1", "shop", name).is_empty(), "{kind}");
        }
    }
}
