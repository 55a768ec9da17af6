//! The settings of a command without a settings file.

use std::sync::Arc;

use drift_exporter::{
    app::default_settings,
    types::{Kind, ServedKind, ServedKinds},
};

fn served() -> ServedKinds {
    let kind = |group: &str, version: &str, kind: &str, namespaced| ServedKind {
        kind: Arc::new(Kind { namespaced, ..Kind::undiscovered(group, version, kind) }),
        watchable: true,
    };
    let kinds = vec![
        kind("", "v1", "ConfigMap", true),
        kind("", "v1", "Secret", true),
        kind("", "v1", "Pod", true),
        kind("events.k8s.io", "v1", "Event", true),
        kind("example.com", "v2", "Widget", true),
        kind("example.com", "v1", "Widget", true),
        kind("rbac.authorization.k8s.io", "v1", "ClusterRole", false),
        ServedKind { watchable: false, ..kind("authorization.k8s.io", "v1", "SubjectAccessReview", false) },
    ];
    ServedKinds { kinds }
}

fn wanted(kinds: &[Kind], namespace: Option<&str>) -> Vec<String> {
    let settings = default_settings(&served(), kinds, namespace);
    settings.wanted_kinds().iter().map(ToString::to_string).collect()
}

#[test]
fn default_settings_watch_all_declarable_kinds_once() {
    let everywhere = ["v1 ConfigMap", "example.com/v2 Widget", "rbac.authorization.k8s.io/v1 ClusterRole"];
    assert_eq!(wanted(&[], None), everywhere);
    assert_eq!(wanted(&[], Some("shop")), everywhere[..2]);
}

#[test]
fn default_settings_watch_requested_kinds_and_autoscalers_only() {
    let secret = Kind::undiscovered("", "v1", "Secret");
    let requested = [Kind::deployment(), secret];
    assert_eq!(wanted(&requested, None), ["apps/v1 Deployment", "autoscaling/v2 HorizontalPodAutoscaler"]);
}
