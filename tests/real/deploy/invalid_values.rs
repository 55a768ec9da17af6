//! Values that the chart refuses, and its error messages.

use serde_json::Value;

use crate::support::chart::{kinds, one, refusal, render};

#[test]
fn invalid_values_fail_with_a_remedy() {
    for (values, reason) in [
        ("replica: 2", "replica"),
        ("settings: {source: {}}", "source"),
        ("settings: {sources: {terraform: {}}}", "settings.sources.terraform.namespaces has to name"),
        ("settings: {sources: {helm: {}}}", "settings.sources.helm.namespaces has to name"),
        ("settings: {kinds: [{apiVersion: v1, kind: '*'}]}", "name its kinds instead of *"),
        ("settings: {kinds: [{apiVersion: v1, kind: Secret}]}", "Secrets are read in named namespaces only"),
        (
            "settings: {kinds: [{apiVersion: example.com/v1, kind: Thing}]}",
            r#"rbac.resources: {"example.com/Thing": …}"#,
        ),
        ("serviceMonitor: {enabled: true}\npodMonitor: {enabled: true}", "enable one"),
        ("web: {auth: kubernetes}\npodMonitor: {enabled: true}", "set podMonitor.authorization"),
        ("settings: {kinds: [{apiVersion: '*/*', kind: '*'}]}", "`*` is no API group"),
        ("rbac: {declaredKinds: [{apiVersion: '*/v1', kind: '*'}]}", "`*` is no API group"),
        ("rbac: {resources: {Thing: '*'}}", "Thing"),
        ("settings: {namespaces: ['*']}", "namespaces"),
        ("settings: {sources: {terraform: {files: [/states]}}}", "name the namespace of the release"),
        ("settings: {sources: {}}", "sources"),
        ("settings: {sources: {helm: }}", "no source is switched on"),
        ("settings: {sources: {annotation: , last_applied: }}", "no source is switched on"),
        ("settings: {sources: {manifest: {}}}", "settings.sources.manifest.paths has to name"),
        ("settings: {metrics: {max_series: 0}}", "max_series"),
        ("web: {existingSecret: mine, config: {rate_limit: {}}}", "web.config would not be read"),
        ("web: {auth: kubernetes, config: {basic_auth_users: {a: b}}}", "both say who may ask"),
        ("extraArgs: [--namespaces, shop]", "--namespaces; set settings.namespaces"),
        ("extraArgs: ['--sources=helm']", "--sources; set settings.sources"),
        ("extraEnv: [{name: DRIFT_WEB_AUTH, value: kubernetes}]", "DRIFT_WEB_AUTH; set web.auth"),
        ("prometheusRule: {enabled: true, without: [DriftAbsorbd]}", "no alert is called DriftAbsorbd"),
        ("commonLabels: {app.kubernetes.io/managed-by: me}", "commonLabels: app.kubernetes.io/managed-by"),
        ("podLabels: {app.kubernetes.io/name: other}", "podLabels: app.kubernetes.io/name"),
        ("dashboards: {labels: {helm.sh/chart: other}}", "dashboards.labels: helm.sh/chart"),
        ("fullnameOverride: drift.exporter", "a name without dots"),
        ("addresses: {page: 'drift.acme.io'}", "page"),
        ("image: {digest: latest}", "digest"),
    ] {
        let message = refusal(values);
        assert!(message.contains(reason), "{values}: {message}");
    }
}

#[test]
fn keys_without_a_value_mean_the_same_to_chart_and_exporter() {
    let usual = render("{}");
    for values in [
        "settings: ",
        "settings: {sources: }",
        "settings: {team_rules: , terraform_jobs: }",
        "web: {config: }",
    ] {
        let rules = |objects: &[Value]| one(objects, "ClusterRole")["rules"].clone();
        let objects = render(values);
        assert_eq!(kinds(&objects), kinds(&usual), "{values}");
        assert_eq!(rules(&objects), rules(&usual), "{values}");
    }
}
