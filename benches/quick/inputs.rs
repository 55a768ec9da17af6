//! Inputs that are the same in every run: objects as an API server sends them, manifests, and a Terraform state.

use std::sync::LazyLock;

use drift_exporter::{
    diff::{Algorithm, fingerprint},
    types::Kind,
};
use serde_json::{Value, json};

pub(crate) const PREFIX: &str = "tfdrift.jin.dev";
const HASH: &str = "tfdrift.jin.dev/spec-hash";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const NAMESPACES: usize = 20;

pub(crate) fn namespace(number: usize) -> String {
    format!("team-{:02}", number % NAMESPACES)
}

pub(crate) fn name(number: usize) -> String {
    format!("web-{number:05}")
}

/// A Deployment that carries the hash of its own spec.
pub(crate) fn deployment(number: usize) -> Value {
    static DIGEST: LazyLock<String> = LazyLock::new(|| {
        let object = OBJECT.to_string();
        let digest = fingerprint(Algorithm::TfdriftV1, &Kind::deployment(), &object, PREFIX);
        digest.expect("a Deployment can be hashed").to_string()
    });
    let mut object = plain(number);
    object["metadata"]["annotations"][HASH] = DIGEST.clone().into();
    object
}

/// A Deployment that carries the manifest that kubectl applied.
pub(crate) fn applied(number: usize) -> Value {
    let mut object = deployment(number);
    object["metadata"]["annotations"][LAST_APPLIED] = manifest(number).to_string().into();
    object
}

/// The same object after `kubectl edit` changed replicas and image.
pub(crate) fn edited(mut object: Value) -> Value {
    object["metadata"]["resourceVersion"] = next_version(&object, 1);
    object["metadata"]["generation"] = 4.into();
    object["spec"]["replicas"] = 5.into();
    object["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/web:1.8.1".into();
    let container = json!({"k:{\"name\":\"web\"}": {"f:image": {}}});
    let fields = json!({"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": container}}}});
    let edit = manager("kubectl-edit", "2026-01-02T00:00:00Z", &fields);
    object["metadata"]["managedFields"].as_array_mut().expect("it is a list").push(edit);
    object
}

/// The same object after its controller wrote a status.
pub(crate) fn rolled_out(mut object: Value, times: usize) -> Value {
    object["metadata"]["resourceVersion"] = next_version(&object, times);
    object["status"]["readyReplicas"] = 1.into();
    object
}

fn next_version(object: &Value, by: usize) -> Value {
    let version = object["metadata"]["resourceVersion"].as_str().and_then(|own| own.parse::<usize>().ok());
    (version.unwrap_or_default() + by * 1_000_000).to_string().into()
}

/// The manifest of a Deployment: a subset of the object.
pub(crate) fn manifest(number: usize) -> Value {
    let mut object = OBJECT.clone();
    object.as_object_mut().expect("it is an object").remove("status");
    let labels = json!({"app": "web", "app.kubernetes.io/part-of": "shop"});
    let (name, namespace) = (name(number), namespace(number));
    object["metadata"] = json!({"name": name, "namespace": namespace, "labels": labels, "annotations": {}});
    for field in ["progressDeadlineSeconds", "revisionHistoryLimit", "strategy"] {
        object["spec"].as_object_mut().expect("it is an object").remove(field);
    }
    let pod = object["spec"]["template"]["spec"].as_object_mut().expect("it is an object");
    pod.retain(|field, _| field == "containers");
    object
}

/// A Deployment that Terraform applied.
pub(crate) fn plain(number: usize) -> Value {
    let mut object = OBJECT.clone();
    let metadata = &mut object["metadata"];
    metadata["name"] = name(number).into();
    metadata["namespace"] = namespace(number).into();
    metadata["uid"] = uid(number).into();
    metadata["resourceVersion"] = (1_000 + number).to_string().into();
    object
}

fn uid(number: usize) -> String {
    format!("4fdb1af9-1253-4e0c-9584-{number:012}")
}

/// The fields that all Deployments share.
static OBJECT: LazyLock<Value> = LazyLock::new(|| {
    let labels = labels();
    let condition = |kind: &str, reason: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": "Deployment is as its spec wants it",
            "lastUpdateTime": "2026-01-01T00:00:10Z", "lastTransitionTime": "2026-01-01T00:00:10Z"})
    };
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "generation": 3, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"deployment.kubernetes.io/revision": "3"},
            "managedFields": managers(),
        },
        "spec": {
            "progressDeadlineSeconds": 600, "replicas": 2, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": {
                "automountServiceAccountToken": true, "enableServiceLinks": true, "shareProcessNamespace": false,
                "containers": [container("web", 8080), container("metrics", 9090)],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
            }},
        },
        "status": {
            "observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
            "conditions": [condition("Available", "MinimumReplicasAvailable"), condition("Progressing", "NewReplicaSetAvailable")],
        },
    })
});

fn labels() -> Value {
    json!({"app": "web", "app.kubernetes.io/part-of": "shop", "tfdrift.jin.dev/enabled": "true"})
}

fn container(name: &str, port: u16) -> Value {
    json!({
        "name": name, "image": format!("registry.example/{name}:1.8.0"), "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "REGION", "value": "eu-central-1"}],
        "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
        "resources": {"limits": {"memory": "256Mi"}, "requests": {"cpu": "250m", "memory": "128Mi"}},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    })
}

fn managers() -> Value {
    let container = json!({
        ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:terminationMessagePath": {},
        "f:env": {".": {}, "k:{\"name\":\"LOG_LEVEL\"}": {".": {}, "f:name": {}, "f:value": {}},
            "k:{\"name\":\"REGION\"}": {".": {}, "f:name": {}, "f:value": {}}},
        "f:resources": {".": {}, "f:limits": {".": {}, "f:memory": {}}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}},
        "f:terminationMessagePolicy": {},
    });
    let pod = json!({"f:containers": {"k:{\"name\":\"metrics\"}": container, "k:{\"name\":\"web\"}": container},
        "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:terminationGracePeriodSeconds": {}});
    let spec = json!({"f:progressDeadlineSeconds": {}, "f:replicas": {}, "f:revisionHistoryLimit": {}, "f:selector": {},
        "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
        "f:template": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": pod}});
    let metadata =
        json!({"f:annotations": {".": {}, format!("f:{HASH}"): {}}, "f:labels": {".": {}, "f:app": {}}});
    let applied =
        manager("HashiCorp", "2026-01-01T00:00:00Z", &json!({"f:metadata": metadata, "f:spec": spec}));
    let status =
        json!({"f:status": {"f:availableReplicas": {}, "f:conditions": {}, "f:observedGeneration": {}}});
    let mut controller = manager("kube-controller-manager", "2026-01-01T00:00:10Z", &status);
    controller["subresource"] = "status".into();
    json!([applied, controller])
}

fn manager(name: &str, time: &str, fields: &Value) -> Value {
    json!({"manager": name, "operation": "Update", "apiVersion": "apps/v1", "time": time, "fieldsType": "FieldsV1",
        "fieldsV1": fields})
}

/// A Terraform state that declares `count` Deployments.
pub(crate) fn terraform_state(count: usize) -> Value {
    let resources: Vec<Value> = (0..count)
        .map(|number| {
            let instance = json!({"schema_version": 1, "attributes": attributes(number), "sensitive_attributes": []});
            json!({"mode": "managed", "type": "kubernetes_deployment_v1", "name": name(number), "instances": [instance],
                "provider": "provider[\"registry.terraform.io/hashicorp/kubernetes\"]"})
        })
        .collect();
    json!({"version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "shop", "resources": resources})
}

fn attributes(number: usize) -> Value {
    let (name, namespace) = (name(number), namespace(number));
    let mut attributes = ATTRIBUTES.clone();
    attributes["id"] = format!("{namespace}/{name}").into();
    let metadata = &mut attributes["metadata"][0];
    metadata["name"] = name.into();
    metadata["namespace"] = namespace.into();
    metadata["uid"] = uid(number).into();
    attributes
}

/// The attributes that the provider reads from every Deployment.
static ATTRIBUTES: LazyLock<Value> = LazyLock::new(|| {
    let labels = labels();
    let template = json!({"annotations": null, "generate_name": "", "generation": 0, "labels": labels, "name": "",
        "namespace": "", "resource_version": "", "uid": ""});
    let pod = json!({
        "active_deadline_seconds": 0, "affinity": [], "automount_service_account_token": true,
        "container": [attributes_of_container("web", 8080), attributes_of_container("metrics", 9090)],
        "dns_config": [], "dns_policy": "ClusterFirst", "enable_service_links": true, "host_aliases": [],
        "host_ipc": false, "host_network": false, "host_pid": false, "hostname": "", "image_pull_secrets": [],
        "init_container": [], "node_name": "", "node_selector": null, "os": [], "priority_class_name": "",
        "readiness_gate": [], "restart_policy": "Always", "runtime_class_name": "", "scheduler_name": "default-scheduler",
        "security_context": [], "service_account_name": "", "share_process_namespace": false, "subdomain": "",
        "termination_grace_period_seconds": 30, "toleration": [], "topology_spread_constraint": [], "volume": [],
    });
    let rolling = json!([{"max_surge": "25%", "max_unavailable": "25%"}]);
    json!({
        "metadata": [{"annotations": null, "generate_name": "", "generation": 3, "labels": labels,
            "resource_version": "1"}],
        "spec": [{"min_ready_seconds": 0, "paused": false, "progress_deadline_seconds": 600, "replicas": "2",
            "revision_history_limit": 10, "selector": [{"match_expressions": [], "match_labels": {"app": "web"}}],
            "strategy": [{"rolling_update": rolling, "type": "RollingUpdate"}],
            "template": [{"metadata": [template], "spec": [pod]}]}],
        "timeouts": null, "wait_for_rollout": false,
    })
});

fn attributes_of_container(name: &str, port: u16) -> Value {
    let env = |name: &str, value: &str| json!({"name": name, "value": value, "value_from": []});
    json!({
        "args": null, "command": null, "env": [env("LOG_LEVEL", "info"), env("REGION", "eu-central-1")], "env_from": [],
        "image": format!("registry.example/{name}:1.8.0"), "image_pull_policy": "IfNotPresent", "lifecycle": [],
        "liveness_probe": [], "name": name,
        "port": [{"container_port": port, "host_ip": "", "host_port": 0, "name": "http", "protocol": "TCP"}],
        "readiness_probe": [], "restart_policy": "", "security_context": [], "startup_probe": [],
        "resources": [{"limits": {"memory": "256Mi"}, "requests": {"cpu": "250m", "memory": "128Mi"}}],
        "stdin": false, "stdin_once": false, "termination_message_path": "/dev/termination-log",
        "termination_message_policy": "File", "tty": false, "volume_device": [], "volume_mount": [], "working_dir": "",
    })
}
