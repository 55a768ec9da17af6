//! The permissions that the chart grants for given settings.

use serde_json::Value;

use crate::support::chart::{kinds, render};

/// Every permission: namespace, resource, verbs.
fn permissions(objects: &[Value]) -> Vec<String> {
    let roles = objects.iter().filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role");
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut permissions = Vec::new();
    for role in roles {
        let place = role["metadata"]["namespace"].as_str().unwrap_or("*");
        for rule in role["rules"].as_array().expect("rules") {
            let (group, verbs) = (list(&rule["apiGroups"]).join(","), list(&rule["verbs"]).join(","));
            let names = list(&rule["resourceNames"]).join(",");
            let names = if names.is_empty() { names } else { format!("={names}") };
            let resources = [list(&rule["resources"]), list(&rule["nonResourceURLs"])].concat();
            permissions.extend(
                resources.iter().map(|resource| format!("{place} {group}/{resource}{names} {verbs}")),
            );
        }
    }
    permissions.sort();
    permissions
}

#[track_caller]
fn check(values: &str, expected: &[&str]) {
    assert_eq!(permissions(&render(values)), expected, "{values}");
}

#[test]
fn defaults_read_two_kinds() {
    check("{}", &["* /services list,watch", "* apps/deployments list,watch"]);
    check(
        "settings: {sources: {annotation: {prefix: example.com}}}",
        &["* /services list,watch", "* apps/deployments list,watch"],
    );
    check("rbac: {create: false}", &[]);
}

#[test]
fn listed_namespaces_get_roles_and_no_cluster_role() {
    let expected = [
        "ops /services list,watch",
        "ops apps/deployments list,watch",
        "shop /services list,watch",
        "shop apps/deployments list,watch",
    ];
    check("settings: {namespaces: [shop, ops]}", &expected);
    assert!(!kinds(&render("settings: {namespaces: [shop, ops]}")).contains(&"ClusterRole"));
    // Excluding namespaces needs permission to read all others.
    check(
        "settings: {excluded_namespaces: [shop]}",
        &["* /services list,watch", "* apps/deployments list,watch"],
    );
}

#[test]
fn kinds_are_read_in_their_namespaces() {
    let values = "settings: {kinds: [{apiVersion: apps/v1, kind: StatefulSet}, {apiVersion: v1, kind: Secret, namespaces: [shop], selector: a=b},\
                  {apiVersion: rbac.authorization.k8s.io/*, kind: '*'}, {apiVersion: example.com/v1, kind: Thing, namespaces: [shop, ops], excluded_namespaces: [ops]}]}\n\
                  rbac: {resources: {example.com/Thing: things}}\n";
    let expected = [
        "* apps/statefulsets list,watch",
        "* rbac.authorization.k8s.io/* list,watch",
        "shop /secrets list,watch",
        "shop example.com/things list,watch",
    ];
    check(values, &expected);
    let narrow = "settings: {namespaces: [shop], kinds: [{apiVersion: v1, kind: Namespace}, {apiVersion: v1, kind: Service, namespaces: [shop, ops]}]}";
    check(narrow, &["shop /services list,watch"]);
}

#[test]
fn secrets_are_read_in_the_namespaces_of_sources() {
    let states = "settings: {sources: {terraform: {namespaces: [terraform]}}}\nrbac: {usualKinds: false, declaredKinds: [{apiVersion: v1, kind: Service}], \
                  declaredSecrets: [{namespace: shop, names: [a, b]}, {namespace: terraform, names: [c]}]}";
    // Autoscalers are always read, declared or not.
    let expected = [
        "* /services list,watch",
        "* autoscaling/horizontalpodautoscalers list,watch",
        "shop /secrets=a,b list,watch",
        "terraform /secrets list,watch",
        "terraform coordination.k8s.io/leases list,watch",
    ];
    check(states, &expected);
    let releases = "settings: {sources: {helm: {namespaces: [shop]}}}\nrbac: {usualKinds: false}";
    check(releases, &["shop /configmaps get,list,watch", "shop /secrets get,list,watch"]);
    // A cluster-wide permission is not repeated for a namespace.
    let both = "settings: {sources: {helm: {namespaces: [shop]}}}";
    let given = permissions(&render(both));
    assert!(
        given.contains(&"* /configmaps list,watch".to_owned())
            && given.contains(&"shop /configmaps get".to_owned()),
        "{given:?}"
    );
    assert!(given.iter().all(|permission| !permission.starts_with("* /secrets")), "{given:?}");
}

#[test]
fn optional_features_add_their_permissions() {
    check(
        "settings: {sources: {status_hash: []}}",
        &["* batch/jobs list,watch", "* infra.opr8r/simpleresources list,watch"],
    );
    let values = "settings: {sources: {status_hash: [{apiVersion: example.com/v1, kind: Thing, algorithm: generation, namespaces: [shop]}]}, terraform_jobs: {label: a, namespaces: [ci]}}\n\
               rbac: {resources: {example.com/Thing: things}}";
    check(values, &["ci batch/jobs list,watch", "shop example.com/things list,watch"]);
    let usual = values.replace("{label: a, namespaces: [ci]}", "{}");
    check(&usual, &["* batch/jobs list,watch", "shop example.com/things list,watch"]);
    let none = values.replace("{label: a, namespaces: [ci]}", "");
    check(&none, &["shop example.com/things list,watch"]);
    check(
        "settings: {namespaces: [shop], team_rules: {}, kinds: [{apiVersion: v1, kind: Service}]}\nevents: true",
        &["shop /configmaps list", "shop /services list,watch", "shop events.k8s.io/events create,patch"],
    );
    let guarded = "settings: {kinds: [{apiVersion: v1, kind: Service}]}\nweb: {auth: kubernetes, metricsReaders: [{kind: Group, name: a}]}";
    let expected = [
        "* /services list,watch",
        "* //metrics get",
        "* authentication.k8s.io/tokenreviews create",
        "* authorization.k8s.io/subjectaccessreviews create",
    ];
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    check(guarded, &expected);
}

#[test]
fn permissions_are_read_only() {
    let values = "settings: {sources: {annotation: {}, terraform: {namespaces: [a]}, helm: {namespaces: [b]}, last_applied: {}, manifest: {paths: [/m]}, status_hash: []}, team_rules: {}}";
    let reads = ["get", "list", "watch"];
    for permission in permissions(&render(values)) {
        let verbs = permission.rsplit(' ').next().expect("verbs");
        assert!(verbs.split(',').all(|verb| reads.contains(&verb)), "{permission}");
    }
}
