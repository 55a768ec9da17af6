//! Attribution of a scaled object that a state declares: to the autoscaler that targets it, or to a user, through `scale`.

use std::{fs, process::Command};

use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    objects::{create_namespace, delete, deployment, from_json, grant},
    parts::program,
    wait::eventually,
};

fn autoscaler() -> HorizontalPodAutoscaler {
    from_json(json!({
        "metadata": {"namespace": "shop", "name": "web-scaler"},
        "spec": {"maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }))
}

/// A state that declares the Deployment's replicas.
fn state(uid: &str) -> Value {
    let metadata = json!([{"name": "web", "namespace": "shop", "uid": uid}]);
    let attributes = json!({"id": "shop/web", "metadata": metadata, "spec": [{"replicas": "2"}]});
    let instances = json!([{"schema_version": 1, "attributes": attributes}]);
    let web =
        json!({"mode": "managed", "type": "kubernetes_deployment_v1", "name": "web", "instances": instances});
    json!({"version": 4, "serial": 1, "lineage": "shop", "resources": [web]})
}

fn claim(exporter: &Exporter) -> Option<Value> {
    Some(exporter.get("/v1/resources/deployment/shop/web")?.json()["claims"][0].clone())
}

/// Waits until this actor is reported for the replicas, and returns the onset of the difference.
#[track_caller]
fn wait_for_actor(exporter: &Exporter, actor: &str, expectation: &str) -> Value {
    eventually(&format!("{actor}, which is {expectation}"), || {
        let claim = claim(exporter)?;
        let difference = &claim["differences"][0];
        let reported = (
            difference["path"].as_str()?,
            difference["actor"].as_str()?,
            difference["expectation"].as_str()?,
        );
        (reported == ("spec.replicas", actor, expectation)).then(|| claim["onset"].clone())
    })
}

#[test]
fn scale_by_the_targeting_autoscaler_is_distinguished_from_users() {
    let cluster = Cluster::start();
    let client = cluster.client();
    let (deployments, autoscalers) =
        (Api::<Deployment>::namespaced(client.clone(), "shop"), Api::namespaced(client.clone(), "shop"));
    let read = json!(["list", "watch"]);
    let made = cluster.block_on(async {
        create_namespace(&client, "shop").await;
        let rules = json!([
            {"apiGroups": [""], "resources": ["secrets"], "verbs": read},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": read},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": read},
        ]);
        grant(&client, "exporter", rules).await;
        let by_terraform =
            PostParams { field_manager: Some("Terraform".to_owned()), ..PostParams::default() };
        autoscalers.create(&PostParams::default(), &autoscaler()).await.unwrap();
        deployments.create(&by_terraform, &deployment("shop", "web")).await.unwrap()
    });
    let folder = cluster.folder().join("states");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("shop.tfstate"), state(&made.uid().unwrap()).to_string()).unwrap();
    let settings = cluster.folder().join("settings.yaml");
    fs::write(&settings, json!({"sources": {"terraform": {"files": [folder]}}}).to_string()).unwrap();
    let flags = ["--config.file", settings.to_str().unwrap()];

    // Without permission to list autoscalers, the exporter reports that and compares everything else.
    let check = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
        .args(["check", flags[0], flags[1], "--kubeconfig"])
        .arg(cluster.kubeconfig(User::Exporter))
        .output()
        .unwrap();
    let output = String::from_utf8(check.stdout).unwrap();
    let line = "horizontalpodautoscalers.autoscaling in all namespaces: not allowed, and all else works without it: may not list, watch";
    assert!(check.status.code() == Some(0) && output.contains(line), "{output}");
    assert!(
        output.contains("- apiGroups: [\"autoscaling\"]\n  resources: [horizontalpodautoscalers]\n"),
        "{output}"
    );
    let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), &flags).ready();
    eventually("it is as declared", || (claim(&exporter)?["verdict"] == "in_sync").then_some(()));
    let scale = |manager: &str, replicas: u32| {
        let by = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        cluster.block_on(deployments.patch_scale("web", &by, &change)).unwrap();
    };
    scale("my-scaler", 5);
    let onset = wait_for_actor(&exporter, "other", "unexpected");
    let ready = exporter.get("/readyz").unwrap().text();
    let line = "horizontalpodautoscalers.autoscaling in shop: not listed (forbidden): ";
    assert!(ready.contains(line) && ready.contains("cannot list resource"), "{ready}");

    let rules =
        json!([{"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": read}]);
    cluster.block_on(grant(&client, "autoscalers", rules));
    assert_eq!(wait_for_actor(&exporter, "autoscaler", "expected"), onset, "it is the same drift");

    let kubectl_scale = |replicas: u32| {
        let kubectl = Command::new(program("kube-apiserver", "kubectl"))
            .args([
                "scale",
                "deployment/web",
                "-n",
                "shop",
                &format!("--replicas={replicas}"),
                "--kubeconfig",
            ])
            .arg(cluster.kubeconfig(User::Admin))
            .output()
            .unwrap();
        assert!(kubectl.status.success(), "{}", String::from_utf8_lossy(&kubectl.stderr));
    };
    kubectl_scale(4);
    assert_eq!(wait_for_actor(&exporter, "kubectl", "unexpected"), onset);
    scale("my-scaler", 6);
    assert_eq!(wait_for_actor(&exporter, "autoscaler", "expected"), onset);
    cluster.block_on(delete(&autoscalers, "web-scaler"));
    assert_eq!(wait_for_actor(&exporter, "other", "unexpected"), onset);
    cluster.block_on(autoscalers.create(&PostParams::default(), &autoscaler())).unwrap();
    assert_eq!(wait_for_actor(&exporter, "autoscaler", "expected"), onset);
    // The API server records no field manager for zero replicas, and autoscalers do not scale to zero.
    kubectl_scale(0);
    assert_eq!(wait_for_actor(&exporter, "none", "unexpected"), onset);
    assert_eq!(claim(&exporter).unwrap()["differences"][0]["severity"], "critical");
    let history = exporter.get("/v1/history").unwrap().json();
    let transitions: Vec<&Value> =
        history["transitions"].as_array().unwrap().iter().map(|transition| &transition["to"]).collect();
    assert_eq!(transitions, ["drifted"], "one episode");
    let requests = cluster.requests_by(User::Exporter);
    let is_fine = |verb: &str| ["list", "watch", "get", "create"].contains(&verb);
    assert!(
        requests
            .iter()
            .all(|(verb, resource)| is_fine(verb) && (verb != "create" || resource.ends_with("reviews"))),
        "{requests:?}"
    );
}
