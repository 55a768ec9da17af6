//! Health of objects by the status that a real API server stores.

use drift_exporter::{
    config::Settings,
    types::{Kind, WantedKind},
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{
    cluster::{Cluster, User},
    exporter_fixture::ClusterExporter,
    objects::{create_namespace, from_json, grant},
    wait::eventually,
};

/// A kind, its spec, the status to set, and the expected health, phase and message.
fn cases() -> Vec<(Kind, Value, Value, [&'static str; 3])> {
    let kind = |group: &str, version: &str, name: &str, plural: &str| Kind {
        plural: plural.into(),
        ..Kind::undiscovered(group, version, name)
    };
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}});
    let workload = |replicas: i32| json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let stateful = |replicas: i32| {
        let mut spec = workload(replicas);
        spec["serviceName"] = json!("web");
        spec
    };
    let daemon = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    let once = json!({"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [{"name": "web", "image": "nginx"}]}});
    let job = json!({"template": once});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}});
    let ended = json!([
        {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "it failed"},
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it failed"},
    ]);
    let scaler = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3});
    let blind = json!([{"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": "no metrics"}]);
    let web = json!({"rules": [{"host": "shop.example.com"}]});
    vec![
        (
            Kind::deployment(),
            workload(3),
            json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 2, "readyReplicas": 2}),
            ["Degraded", "Progressing", "2 of 3 replicas are available"],
        ),
        (
            kind("apps", "v1", "StatefulSet", "statefulsets"),
            stateful(2),
            json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 1}),
            ["Healthy", "Progressing", "1 of 2 replicas are updated"],
        ),
        (
            kind("apps", "v1", "DaemonSet", "daemonsets"),
            daemon,
            json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0,
                "numberReady": 2, "numberAvailable": 2, "updatedNumberScheduled": 2}),
            ["Healthy", "Ready", ""],
        ),
        (
            kind("batch", "v1", "Job", "jobs"),
            job,
            json!({"startTime": "2026-01-01T00:00:00Z", "conditions": ended}),
            ["Unhealthy", "Failed", "it failed"],
        ),
        (
            kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
            claim,
            json!({"phase": "Lost"}),
            ["Unhealthy", "Failed", "its volume is lost"],
        ),
        (
            Kind::service(),
            json!({"type": "LoadBalancer", "ports": [{"port": 443}]}),
            json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}),
            ["Healthy", "Ready", ""],
        ),
        (
            kind("networking.k8s.io", "v1", "Ingress", "ingresses"),
            json!({"rules": web["rules"], "defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}),
            json!({"loadBalancer": {}}),
            ["Degraded", "Progressing", "waiting for the load balancer's address"],
        ),
        (
            kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
            scaler,
            json!({"currentReplicas": 1, "desiredReplicas": 1, "conditions": blind}),
            ["Degraded", "Degraded", "no metrics"],
        ),
        (
            kind("", "v1", "ServiceAccount", "serviceaccounts"),
            Value::Null,
            Value::Null,
            ["Healthy", "Ready", ""],
        ),
    ]
}

#[test]
fn health_of_each_kind_follows_its_status() {
    let cluster = Cluster::start();
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]);
    let client = cluster.client();
    cluster.block_on(async {
        create_namespace(&client, "shop").await;
        grant(&client, User::Exporter.name(), rules).await;
        for (kind, spec, status, _) in cases() {
            let resource = ApiResource {
                group: kind.group.to_string(),
                version: kind.version.to_string(),
                api_version: kind.api_version(),
                kind: kind.kind.to_string(),
                plural: kind.plural.to_string(),
            };
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "shop", &resource);
            let mut object = json!({"apiVersion": kind.api_version(), "kind": &*kind.kind, "metadata": {"name": "web", "namespace": "shop"}});
            if !spec.is_null() {
                object["spec"] = spec;
            }
            api.create(&PostParams::default(), &from_json(object)).await.unwrap();
            if !status.is_null() {
                let change = Patch::Merge(json!({"status": status}));
                api.patch_status("web", &PatchParams::default(), &change).await.unwrap();
            }
        }
    });
    let kinds = cases().iter().map(|(kind, ..)| WantedKind::exactly(kind)).collect();
    let exporter = ClusterExporter::start(&cluster, Settings { kinds, ..Settings::default() });
    let get_json = |path: &str| exporter.get(path).json();
    for (kind, _, _, expected) in cases() {
        let path = format!(
            "/v1/resources?namespace=shop&resourceName=web&resourceType={}.{}",
            kind.kind, kind.group
        );
        let path = path.trim_end_matches('.');
        let reported = || {
            let list = get_json(path);
            ["healthStatus", "phase", "message"]
                .map(|field| list["resources"][0][field].as_str().map(str::to_owned))
        };
        eventually(&format!("{} is {expected:?}", kind.kind), || {
            (reported() == expected.map(|word| Some(word.to_owned()))).then_some(())
        });
    }
    let field = |kind: &str, name: &str| {
        get_json(&format!("/v1/resources/{kind}/shop/web"))["claims"][0][name].clone()
    };
    assert_eq!(field("service", "endpoint"), "192.0.2.7");
    assert_eq!(field("ingress", "endpoint"), "shop.example.com");
    assert_eq!(field("persistentvolumeclaim", "resourceUsage")["storageUsage"], "5Gi");
}
