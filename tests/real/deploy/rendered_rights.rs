//! Which rights the chart gives for which settings.

use serde_json::Value;

use crate::support::chart::{kinds, render};

/// Every right: where, on what, which verbs.
fn rights(objects: &[Value]) -> Vec<String> {
    let roles = objects.iter().filter(|own| own["kind"] == "ClusterRole" || own["kind"] == "Role");
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut rights = Vec::new();
    for role in roles {
        let place = role["metadata"]["namespace"].as_str().unwrap_or("*");
        for rule in role["rules"].as_array().expect("rules") {
            let (group, verbs) = (list(&rule["apiGroups"]).join(","), list(&rule["verbs"]).join(","));
            let names = list(&rule["resourceNames"]).join(",");
            let names = if names.is_empty() { names } else { format!("={names}") };
            let resources = [list(&rule["resources"]), list(&rule["nonResourceURLs"])].concat();
            rights.extend(resources.iter().map(|own| format!("{place} {group}/{own}{names} {verbs}")));
        }
    }
    rights.sort();
    rights
}

#[track_caller]
fn check(values: &str, wanted: &[&str]) {
    assert_eq!(rights(&render(values)), wanted, "{values}");
}

#[test]
fn as_it_comes_two_kinds_are_read() {
    check("{}", &["* /services list,watch", "* apps/deployments list,watch"]);
    check(
        "settings: {sources: {annotation: {prefix: example.com}}}",
        &["* /services list,watch", "* apps/deployments list,watch"],
    );
    check("rbac: {create: false}", &[]);
}

#[test]
fn namespaces_that_are_named_have_roles_and_the_cluster_has_none() {
    let wanted = [
        "ops /services list,watch",
        "ops apps/deployments list,watch",
        "shop /services list,watch",
        "shop apps/deployments list,watch",
    ];
    check("settings: {namespaces: [shop, ops]}", &wanted);
    assert!(!kinds(&render("settings: {namespaces: [shop, ops]}")).contains(&"ClusterRole"));
    // To leave some out, all others have to be read.
    check(
        "settings: {excluded_namespaces: [shop]}",
        &["* /services list,watch", "* apps/deployments list,watch"],
    );
}

#[test]
fn kinds_are_read_where_they_are_wanted() {
    let values = "settings: {kinds: [{apiVersion: apps/v1, kind: StatefulSet}, {apiVersion: v1, kind: Secret, namespaces: [shop], selector: a=b},\
                  {apiVersion: rbac.authorization.k8s.io/*, kind: '*'}, {apiVersion: example.com/v1, kind: Thing, namespaces: [shop, ops], excluded_namespaces: [ops]}]}\n\
                  rbac: {resources: {example.com/Thing: things}}\n";
    let wanted = [
        "* apps/statefulsets list,watch",
        "* rbac.authorization.k8s.io/* list,watch",
        "shop /secrets list,watch",
        "shop example.com/things list,watch",
    ];
    check(values, &wanted);
    let narrow = "settings: {namespaces: [shop], kinds: [{apiVersion: v1, kind: Namespace}, {apiVersion: v1, kind: Service, namespaces: [shop, ops]}]}";
    check(narrow, &["shop /services list,watch"]);
}

#[test]
fn secrets_are_read_in_the_namespaces_that_sources_name() {
    let states = "settings: {sources: {terraform: {namespaces: [terraform]}}}\nrbac: {usualKinds: false, declaredKinds: [{apiVersion: v1, kind: Service}], \
                  declaredSecrets: [{namespace: shop, names: [a, b]}, {namespace: terraform, names: [c]}]}";
    // Who scales is asked for by the way, whether somebody declares it or not.
    let wanted = [
        "* /services list,watch",
        "* autoscaling/horizontalpodautoscalers list,watch",
        "shop /secrets=a,b list,watch",
        "terraform /secrets list,watch",
        "terraform coordination.k8s.io/leases list,watch",
    ];
    check(states, &wanted);
    let releases = "settings: {sources: {helm: {namespaces: [shop]}}}\nrbac: {usualKinds: false}";
    check(releases, &["shop /configmaps get,list,watch", "shop /secrets get,list,watch"]);
    // What is allowed everywhere is not allowed once more.
    let both = "settings: {sources: {helm: {namespaces: [shop]}}}";
    let given = rights(&render(both));
    assert!(
        given.contains(&"* /configmaps list,watch".to_owned())
            && given.contains(&"shop /configmaps get".to_owned()),
        "{given:?}"
    );
    assert!(given.iter().all(|right| !right.starts_with("* /secrets")), "{given:?}");
}

#[test]
fn operators_jobs_teams_events_and_reviews_need_their_own() {
    check(
        "settings: {sources: {status_hash: []}}",
        &["* batch/jobs list,watch", "* infra.opr8r/simpleresources list,watch"],
    );
    let own = "settings: {sources: {status_hash: [{apiVersion: example.com/v1, kind: Thing, algorithm: generation, namespaces: [shop]}]}, terraform_jobs: {label: a, namespaces: [ci]}}\n\
               rbac: {resources: {example.com/Thing: things}}";
    check(own, &["ci batch/jobs list,watch", "shop example.com/things list,watch"]);
    let usual = own.replace("{label: a, namespaces: [ci]}", "{}");
    check(&usual, &["* batch/jobs list,watch", "shop example.com/things list,watch"]);
    let none = own.replace("{label: a, namespaces: [ci]}", "");
    check(&none, &["shop example.com/things list,watch"]);
    check(
        "settings: {namespaces: [shop], team_rules: {}, kinds: [{apiVersion: v1, kind: Service}]}\nevents: true",
        &["shop /configmaps list", "shop /services list,watch", "shop events.k8s.io/events create,patch"],
    );
    let guarded = "settings: {kinds: [{apiVersion: v1, kind: Service}]}\nweb: {auth: kubernetes, metricsReaders: [{kind: Group, name: a}]}";
    let wanted = [
        "* /services list,watch",
        "* //metrics get",
        "* authentication.k8s.io/tokenreviews create",
        "* authorization.k8s.io/subjectaccessreviews create",
    ];
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    check(guarded, &wanted);
}

#[test]
fn nothing_may_be_changed() {
    let values = "settings: {sources: {annotation: {}, terraform: {namespaces: [a]}, helm: {namespaces: [b]}, last_applied: {}, manifest: {paths: [/m]}, status_hash: []}, team_rules: {}}";
    let reads = ["get", "list", "watch"];
    for right in rights(&render(values)) {
        let verbs = right.rsplit(' ').next().expect("verbs");
        assert!(verbs.split(',').all(|verb| reads.contains(&verb)), "{right}");
    }
}
