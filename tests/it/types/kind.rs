//! Kinds as settings name them.

use drift_exporter::types::{KindName, WantedKind};

#[test]
fn kinds_of_the_settings_are_parsed() {
    for (api_version, kind, group, version) in [
        ("apps/v1", "Deployment", "apps", Some("v1")),
        ("v1", "ConfigMap", "", Some("v1")),
        ("example.com/*", "Widget", "example.com", None),
        ("example.com/v1alpha1", "*", "example.com", Some("v1alpha1")),
    ] {
        let wanted = WantedKind::parse(api_version, kind).unwrap();
        assert_eq!((&*wanted.group, wanted.version.as_deref()), (group, version));
        assert_eq!(wanted.kind == KindName::Any, kind == "*");
        assert_eq!(wanted.to_string(), format!("{api_version} {kind}"));
    }
}

#[test]
fn invalid_kinds_are_rejected() {
    for (api_version, kind) in [
        ("apps", "Deployment"),
        ("", "Deployment"),
        ("/v1", "Pod"),
        ("*", "Pod"),
        ("*/*", "*"),
        ("apps/one", "Deployment"),
        ("apps/v1/x", "Deployment"),
        ("Apps/v1", "Deployment"),
        ("apps/v1", ""),
        ("apps/v1", "deployments/scale"),
    ] {
        assert!(WantedKind::parse(api_version, kind).is_err(), "{api_version} {kind}");
    }
}
