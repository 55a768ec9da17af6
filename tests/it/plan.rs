//! The watch plan: watches are shared, never overlap and cover exactly the wanted objects.

use std::sync::Arc;

use drift_exporter::{
    config::Settings,
    types::{
        DownReason, Kind, KindName, NameSet, Scope, Selector, ServedKind, ServedKinds, SyncHealth,
        WantedKind, Watch, WatchIds, WatchPlan, WatchSpec,
    },
    watch::{Discovery, plan},
};
use proptest::prelude::*;

pub(crate) fn kind(group: &str, version: &str, name: &str) -> Kind {
    Kind { plural: format!("{}s", name.to_lowercase()).into(), ..Kind::undiscovered(group, version, name) }
}

/// A cluster with some core kinds, Deployments, and a group that serves v1 and v2.
pub(crate) fn cluster() -> Discovery {
    let node = Kind { namespaced: false, ..kind("", "v1", "Node") };
    let kinds = [
        (kind("", "v1", "ConfigMap"), true),
        (kind("", "v1", "Secret"), true),
        (kind("", "v1", "Binding"), false),
        (node, true),
        (Kind::deployment(), true),
        (kind("example.com", "v2", "Widget"), true),
        (kind("example.com", "v1", "Widget"), true),
        (kind("example.com", "v1", "Gadget"), true),
        (kind("coordination.k8s.io", "v1", "Lease"), true),
    ];
    let kinds = kinds.map(|(kind, watchable)| ServedKind { kind: Arc::new(kind), watchable });
    Discovery::Complete(Arc::new(ServedKinds { kinds: kinds.into() }))
}

/// Parses `apps/v1 Deployment in a,b but c with x=y`.
pub(crate) fn want(text: &str) -> WantedKind {
    let (rest, selector) =
        text.split_once(" with ").map_or((text, None), |(rest, selector)| (rest, Some(selector)));
    let (rest, excluded) = rest.split_once(" but ").unwrap_or((rest, ""));
    let (rest, namespaces) = rest.split_once(" in ").unwrap_or((rest, ""));
    let (api_version, kind) = rest.split_once(' ').unwrap();
    let names = |list: &'static str| list.split(',').filter(|name| !name.is_empty());
    let (namespaces, excluded) = (namespaces.to_owned().leak(), excluded.to_owned().leak());
    WantedKind {
        scope: Scope::new(names(namespaces), names(excluded)),
        selector: selector.map(|selector| Selector::parse(selector).unwrap()),
        ..WantedKind::parse(api_version, kind).unwrap()
    }
}

fn names_after(word: &str, names: &NameSet) -> Option<String> {
    let names: Vec<String> = names.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
    (!names.is_empty()).then(|| format!("{word} {}", names.join(",")))
}

/// The watches of a plan: the request to the server, and the number of local filters.
pub(crate) fn describe_streams(plan: &WatchPlan) -> Vec<String> {
    let describe = |Watch { spec, .. }: &Watch| {
        let excluded = Some(spec.excluded.join(",")).filter(|names| !names.is_empty());
        let kept = Some(spec.filters.len()).filter(|count| *count > 0);
        [
            Some(format!("{} {}", spec.kind.api_version(), spec.kind.kind)),
            spec.namespace.as_ref().map(|namespace| format!("in {namespace}")),
            excluded.map(|names| format!("but {names}")),
            spec.selector.as_ref().map(|selector| format!("with {selector}")),
            kept.map(|count| format!("choosing {count}")),
            names_after("without", &spec.excluded_names),
            names_after("only", &spec.included_names),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
    };
    plan.watches.iter().map(describe).collect()
}

#[track_caller]
fn check(wanted: &[&str], streams: &[&str]) {
    let wanted: Vec<WantedKind> = wanted.iter().map(|text| want(text)).collect();
    let plan = plan(&wanted, &cluster(), &mut WatchIds::default());
    assert_eq!(describe_streams(&plan), streams);
    assert!(plan.unwatched.is_empty(), "{:?}", plan.unwatched);
}

#[track_caller]
fn check_unwatched(wanted: &[&str], streams: &[&str], kind: &str, reason: DownReason, message_part: &str) {
    let wanted: Vec<WantedKind> = wanted.iter().map(|text| want(text)).collect();
    let plan = plan(&wanted, &cluster(), &mut WatchIds::default());
    assert_eq!(describe_streams(&plan), streams);
    let [unwatched] = &*plan.unwatched else { panic!("{:?}", plan.unwatched) };
    assert_eq!(unwatched.spec.kind.to_string(), kind);
    let SyncHealth::Down { reason: actual, message } = &unwatched.health else { panic!("{unwatched:?}") };
    assert!(*actual == reason && message.contains(message_part), "{unwatched:?}");
    assert!(!unwatched.spec.covers("shop") && !unwatched.spec.covers(""));
}

#[test]
fn equal_requests_share_a_watch() {
    check(&["v1 ConfigMap", "v1 ConfigMap"], &["v1 ConfigMap"]);
    check(&["v1 ConfigMap with a=b", "v1 ConfigMap with a==b"], &["v1 ConfigMap with a=b"]);
    check(&["v1 ConfigMap in x", "v1 ConfigMap in x,y"], &["v1 ConfigMap in x", "v1 ConfigMap in y"]);
}

#[test]
fn different_selectors_share_a_watch_with_local_filters() {
    check(&["v1 ConfigMap with a=b", "v1 ConfigMap with c"], &["v1 ConfigMap choosing 2"]);
    check(&["v1 ConfigMap with a=b", "v1 ConfigMap"], &["v1 ConfigMap"]);
    check(
        &["v1 ConfigMap in x,y with a=b", "v1 ConfigMap in x with c"],
        &["v1 ConfigMap in x choosing 2", "v1 ConfigMap in y with a=b"],
    );
}

#[test]
fn cluster_wide_watch_replaces_namespaced_ones() {
    check(&["v1 ConfigMap in x with a", "v1 ConfigMap with a"], &["v1 ConfigMap with a"]);
    check(&["v1 ConfigMap in x with b", "v1 ConfigMap with a"], &["v1 ConfigMap choosing 2"]);
}

#[test]
fn namespaces_are_excluded_by_the_server_unless_wanted() {
    check(&["v1 ConfigMap but x,y"], &["v1 ConfigMap but x,y"]);
    check(&["v1 ConfigMap in x,y but y"], &["v1 ConfigMap in x"]);
    check(&["v1 ConfigMap but x,y", "v1 ConfigMap but y,z"], &["v1 ConfigMap but y"]);
    check(&["v1 ConfigMap but x,y", "v1 ConfigMap in y"], &["v1 ConfigMap but x"]);
    check(&["v1 ConfigMap but x with a", "v1 ConfigMap but x,y with b"], &["v1 ConfigMap but x choosing 2"]);
    check(&["v1 Node but x"], &["v1 Node"]);
}

#[test]
fn unserved_version_falls_back_to_a_served_one() {
    check(&["example.com/v1 Widget"], &["example.com/v1 Widget"]);
    check(&["example.com/* Widget"], &["example.com/v2 Widget"]);
    check(&["example.com/v3 Widget"], &["example.com/v2 Widget"]);
    check(&["example.com/v1 Widget", "example.com/v2 Widget"], &["example.com/v2 Widget"]);
}

#[test]
fn star_selects_every_watchable_kind_in_one_version() {
    check(&["example.com/* *"], &["example.com/v1 Gadget", "example.com/v2 Widget"]);
    check(&["example.com/v1 *"], &["example.com/v1 Gadget", "example.com/v1 Widget"]);
    // `*` does not include Secrets; Nodes are cluster-scoped.
    check(&["v1 *"], &["v1 ConfigMap", "v1 Node"]);
    check(&["v1 * in x"], &["v1 ConfigMap in x"]);
    check(&["v1 * in x with a"], &["v1 ConfigMap in x with a", "v1 Secret in x with a"]);
}

#[test]
fn secrets_and_leases_require_a_selector_and_namespaces() {
    check(&["v1 Secret in x with a=b"], &["v1 Secret in x with a=b"]);
    check(
        &["v1 Secret in x with a", "v1 Secret in y with b"],
        &["v1 Secret in x with a", "v1 Secret in y with b"],
    );
    let refused = DownReason::Refused;
    for wanted in ["v1 Secret", "v1 Secret in x", "v1 Secret with a", "v1 Secret but x with a"] {
        check_unwatched(
            &[wanted],
            &[],
            "secrets",
            refused,
            "by a name or a selector, and in named namespaces only",
        );
    }
    check_unwatched(
        &["coordination.k8s.io/v1 Lease"],
        &[],
        "leases.coordination.k8s.io",
        refused,
        "by a name or a selector",
    );
    let both = ["v1 Secret in x with a", "v1 Secret in x with b"];
    check_unwatched(&both, &["v1 Secret in x with a"], "secrets", refused, "one selector in each namespace");
}

#[test]
fn unwatchable_kind_is_reported_and_does_not_affect_others() {
    let (missing, refused) = (DownReason::NotFound, DownReason::Refused);
    let others = &["v1 ConfigMap"];
    check_unwatched(
        &["example.com/v1 Nothing", "v1 ConfigMap"],
        others,
        "Nothing.example.com",
        missing,
        "has no",
    );
    check_unwatched(&["nowhere.io/* *", "v1 ConfigMap"], others, "*.nowhere.io", missing, "has no");
    check_unwatched(&["v1 Binding", "v1 ConfigMap"], others, "Binding", missing, "can be watched");
    check_unwatched(&["v1 Node in x", "v1 ConfigMap"], others, "nodes", refused, "in no namespace");
    check_unwatched(
        &["apps/v1 Deployment in x but x"],
        &[],
        "deployments.apps",
        refused,
        "none of its namespaces",
    );
}

#[test]
fn built_in_kinds_do_not_wait_for_discovery() {
    let wanted = Settings::default().wanted_kinds();
    for discovery in [Discovery::Pending, cluster()] {
        let plan = plan(&wanted, &discovery, &mut WatchIds::default());
        let label = "with tfdrift.jin.dev/enabled=true";
        assert_eq!(
            describe_streams(&plan),
            [format!("apps/v1 Deployment {label}"), format!("v1 Service {label}")]
        );
    }
    let plan = plan(
        &[want("v1 ConfigMap"), want("apps/v1 Deployment")],
        &Discovery::Pending,
        &mut WatchIds::default(),
    );
    assert_eq!(describe_streams(&plan), ["apps/v1 Deployment"]);
    assert_eq!(plan.unwatched[0].health, SyncHealth::Starting);
}

#[test]
fn settings_only_narrow_wanted_kinds() {
    let kinds =
        vec![want("v1 ConfigMap in a,b"), want("example.com/v2 Widget"), want("apps/v1 Deployment in z")];
    let settings = Settings {
        namespaces: vec!["a".into(), "c".into()],
        excluded_namespaces: vec!["c".into()],
        kinds,
        ..Settings::default()
    };
    let plan = plan(&settings.wanted_kinds(), &cluster(), &mut WatchIds::default());
    assert_eq!(describe_streams(&plan), ["v1 ConfigMap in a", "example.com/v2 Widget in a"]);
    assert_eq!(plan.unwatched.len(), 1);
    assert!(
        settings.allows_namespace("a") && !settings.allows_namespace("b") && !settings.allows_namespace("c")
    );
}

/// The name of objects that may be declared in another version.
const OTHER: &str = "other";
const NAMESPACES: [&str; 4] = ["a", "b", "c", "d"];
const LABELS: [&[(&str, &str)]; 4] = [&[], &[("x", "1")], &[("y", "1")], &[("x", "2"), ("y", "1")]];

fn wanted() -> impl Strategy<Value = WantedKind> {
    let names = || prop::collection::vec(prop::sample::select(&NAMESPACES[..3]), 0..3);
    let selectors =
        prop::sample::select(vec![None, Some("x"), Some("x=1"), Some("y=1"), Some("!x"), Some("")]);
    let kinds = prop::sample::select(vec!["v1 ConfigMap", "example.com/v1 Widget", "example.com/* *"]);
    let others = prop::sample::subsequence(&NAMESPACES[..], 0..4);
    let implicit = prop::bool::weighted(0.2);
    (kinds, names(), names(), selectors, others, implicit).prop_map(
        |(kind, namespaces, excluded, selector, others, implicit)| WantedKind {
            scope: Scope::new(namespaces, excluded),
            selector: selector.filter(|_| !implicit).map(|text| Selector::parse(text).unwrap()),
            versions: Arc::new(
                [("v2".into(), others.iter().map(|namespace| (*namespace, OTHER)).collect())].into(),
            ),
            implicit,
            ..want(kind)
        },
    )
}

/// Whether the server sends such an object on a watch and no local filter drops it.
fn delivers(spec: &WatchSpec, namespace: &str, name: &str, labels: &[(&str, &'static str)]) -> bool {
    let value_of = |key: &str| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    spec.includes(namespace, name)
        && spec.namespace.as_deref().is_none_or(|watched| watched == namespace)
        && !spec.excluded.iter().any(|excluded| **excluded == *namespace)
        && spec.selector.as_ref().is_none_or(|selector| selector.matches(value_of))
        && spec.accepts(namespace, value_of)
}

proptest! {
    #[test]
    fn plan_delivers_each_wanted_object_exactly_once(wanted in prop::collection::vec(wanted(), 0..6), rotation in 0..6_usize) {
        let plan_of = |wanted: &[WantedKind]| plan(wanted, &cluster(), &mut WatchIds::default());
        let planned = plan_of(&wanted);
        for kind in [kind("", "v1", "ConfigMap"), kind("example.com", "v1", "Widget"), kind("example.com", "v1", "Gadget")] {
            let cases = NAMESPACES.iter().flat_map(|space| LABELS.map(|labels| (*space, labels)));
            for (name, (namespace, labels)) in ["any", OTHER].iter().flat_map(|name| cases.clone().map(move |case| (*name, case))) {
                let value_of = |key: &str| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
                let is_wanted = wanted.iter().any(|want| {
                    let named = want.kind != KindName::Any || want.group == kind.group;
                    named && want.matches(&kind) && want.scope.has(namespace)
                        && want.selector.as_ref().is_none_or(|selector| selector.matches(value_of))
                });
                let streams = planned.watches.iter().map(|watch| &watch.spec).filter(|spec| spec.kind.is_same_type(&kind));
                let delivering = streams.filter(|spec| delivers(spec, namespace, name, labels));
                let delivering: Vec<_> = delivering.inspect(|spec| assert!(spec.covers(namespace))).collect();
                prop_assert_eq!(delivering.len(), usize::from(is_wanted), "{} {:?} {:?}", namespace, labels, planned);
                let is_watched_completely = wanted.iter().any(|want| {
                    want.matches(&kind) && want.scope.has(namespace) && want.selector.as_ref().is_none_or(Selector::is_empty)
                });
                let declares = |want: &&WantedKind| {
                    want.matches(&kind) && !want.scope.is_empty() && want.versions["v2"].has(namespace, name)
                };
                if &*kind.kind == "Widget" && is_watched_completely && wanted.iter().any(|want| declares(&want)) {
                    prop_assert_eq!(&*delivering[0].kind.version, "v2");
                }
            }
        }
        let mut reordered = wanted;
        if !reordered.is_empty() {
            let rotation = rotation % reordered.len();
            reordered.rotate_left(rotation);
        }
        prop_assert_eq!(plan_of(&reordered), planned.clone());
        reordered.reverse();
        reordered.extend(reordered.clone());
        prop_assert_eq!(plan_of(&reordered), planned);
    }
}

#[test]
fn named_secret_has_its_own_watch() {
    let secret = WantedKind::parse("v1", "Secret").unwrap();
    let scope = Scope::new(["x"], []);
    let named = WantedKind { scope: scope.clone(), name: Some("login".into()), ..secret.clone() };
    let selected = WantedKind { scope, selector: Selector::parse("a=b").ok(), ..secret };
    let plan = plan(&[named, selected], &cluster(), &mut WatchIds::default());
    assert!(plan.unwatched.is_empty(), "{plan:?}");
    let deliveries = |name: &str| plan.watches.iter().filter(|watch| watch.spec.delivers("x", name)).count();
    assert_eq!((plan.watches.len(), deliveries("login"), deliveries("other")), (2, 1, 1));
}
