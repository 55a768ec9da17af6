//! The story of the demo: manual edits, a hotfix, an autoscaler, a restart, and how the drift ends. Rollouts run meanwhile.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};
use tracing::warn;

use super::{
    cluster::{Cluster, StatusError},
    helm,
    shop::{KUBECTL_NAMESPACE, Shop, deployment_key, service_key},
    terraform,
};
use crate::types::{Kind, ObjectKey};

/// What the story reports.
#[derive(Clone, Debug)]
pub enum StoryEvent {
    /// The command runs now.
    Action {
        actor: &'static str,
        /// The command line or a description.
        command: String,
    },
    /// The cluster rejected the action, for example after an edit by the user of the demo.
    Failed { error: String },
}

struct Scene {
    /// Seconds after the previous scene.
    pause: f32,
    actor: &'static str,
    command: String,
    action: Action,
}

type Action = fn(&Shop) -> Result<(), StatusError>;

/// Plays the story in a loop, `speed` times as fast, until the receiver of the events is dropped.
pub async fn play_story(shop: Shop, speed: f32, events: mpsc::Sender<StoryEvent>) {
    loop {
        for scene in drifting_scenes().into_iter().chain(resolving_scenes()) {
            sleep(Duration::from_secs_f32(scene.pause / speed)).await;
            if events.send(StoryEvent::Action { actor: scene.actor, command: scene.command }).await.is_err() {
                return;
            }
            if let Err(error) = (scene.action)(&shop) {
                let _ = events.send(StoryEvent::Failed { error: error.to_string() }).await;
            }
        }
    }
}

impl Scene {
    fn new(pause: f32, actor: &'static str, command: &str, action: Action) -> Self {
        Self { pause, actor, command: command.to_owned(), action }
    }
}

const CHECKOUT_HOTFIX: &str = "registry.example/checkout:2.4.1-hotfix";
const CHECKOUT_RELEASE: &str = "registry.example/checkout:2.4.0";
const REFUNDS_HOTFIX: &str = "registry.example/refunds:1.8.1-hotfix";
/// The image of the first container in the attributes of a Deployment.
const CONTAINER_IMAGE_ATTRIBUTE: &str = "/spec/0/template/0/spec/0/container/0/image";
/// The horizontal pod autoscaler runs in the controller manager.
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

#[rustfmt::skip]
fn drifting_scenes() -> Vec<Scene> {
    vec![
        Scene::new(3.0, "alice", "kubectl -n shop scale deployment catalog --replicas=6",
            |shop| shop.cluster().scale(&deployment_key("shop", "catalog"), "kubectl", 6).map(drop)),
        Scene::new(3.0, "alice", "kubectl -n payments scale deployment checkout-eu --replicas=5",
            |shop| shop.cluster().scale(&deployment_key("payments", "checkout-eu"), "kubectl", 5).map(drop)),
        Scene::new(5.0, "bob", &format!("kubectl -n shop set image deployment checkout checkout={CHECKOUT_HOTFIX}"),
            |shop| shop.cluster().patch(&deployment_key("shop", "checkout"), "kubectl-set", container_image("checkout", CHECKOUT_HOTFIX)).map(drop)),
        Scene::new(3.0, "bob", &format!("kubectl -n payments set image deployment refunds refunds={REFUNDS_HOTFIX}"),
            |shop| shop.cluster().patch(&deployment_key("payments", "refunds"), "kubectl-set", container_image("refunds", REFUNDS_HOTFIX)).map(drop)),
        Scene::new(5.0, "autoscaler", "more load: search goes from 3 to 7 replicas",
            |shop| shop.cluster().scale(&deployment_key("shop", "search"), CONTROLLER_MANAGER, 7).map(drop)),
        Scene::new(3.0, "autoscaler", "more load: checkout-us goes from 3 to 6 replicas",
            |shop| shop.cluster().scale(&deployment_key("payments", "checkout-us"), CONTROLLER_MANAGER, 6).map(drop)),
        Scene::new(3.0, "erin", "kubectl -n platform set resources deployment notifier --limits=memory=1Gi",
            |shop| shop.cluster().patch(&deployment_key("platform", "notifier"), "kubectl-set", memory_limit("notifier", "1Gi")).map(drop)),
        Scene::new(5.0, "carol", "kubectl -n payments rollout restart deployment ledger",
            |shop| shop.cluster().patch(&deployment_key("payments", "ledger"), "kubectl-rollout", restarted_at(&shop.cluster().now().to_string().into())).map(drop)),
        Scene::new(3.0, "carol", "kubectl -n payments edit configmap exchange-rates      # GBP is too low",
            |shop| shop.cluster().patch(&payments_key("", "ConfigMap", "configmaps", "exchange-rates"), "kubectl-edit", json!({"data": {"GBP": "0.8702"}})).map(drop)),
        Scene::new(5.0, "dave", "kubectl -n shop edit service cart      # port 80 now leads to 9999",
            |shop| shop.cluster().patch(&service_key("shop", "cart"), "kubectl-edit", json!({"spec": {"ports": [{"port": 80, "targetPort": 9999}]}})).map(drop)),
        Scene::new(3.0, "frank", "kubectl -n marketing edit deployment banner      # another greeting",
            |shop| shop.cluster().patch(&deployment_key(KUBECTL_NAMESPACE, "banner"), "kubectl-edit", greeting_env("banner", "All you can carry for half the price")).map(drop)),
        Scene::new(3.0, "dave", "kubectl -n payments edit secret psp-credentials      # another password",
            |shop| shop.cluster().patch(&payments_key("", "Secret", "secrets", "psp-credentials"), "kubectl-edit", json!({"stringData": {"password": "tried-by-dave"}})).map(drop)),
        Scene::new(3.0, "dave", "kubectl -n payments delete networkpolicy refunds",
            |shop| shop.cluster().delete(&payments_key("networking.k8s.io", "NetworkPolicy", "networkpolicies", "refunds"))),
    ]
}

/// Returns all objects to their initial state.
#[rustfmt::skip]
fn resolving_scenes() -> Vec<Scene> {
    vec![
        Scene::new(7.0, "alice", "kubectl -n shop scale deployment catalog --replicas=3",
            |shop| shop.cluster().scale(&deployment_key("shop", "catalog"), "kubectl", 3).map(drop)),
        Scene::new(3.0, "alice", "kubectl -n payments scale deployment checkout-eu --replicas=2",
            |shop| shop.cluster().scale(&deployment_key("payments", "checkout-eu"), "kubectl", 2).map(drop)),
        Scene::new(5.0, "terraform", "terraform apply      # bob's hotfix is in the code now",
            |shop| shop.apply(&deployment_key("shop", "checkout"), json!({}))),
        Scene::new(3.0, "terraform", "terraform apply -refresh-only      # the state takes over bob's hotfix of refunds",
            |shop| terraform::refresh_attribute(shop.cluster(), "kubernetes_deployment_v1.refunds", CONTAINER_IMAGE_ATTRIBUTE, REFUNDS_HOTFIX)),
        Scene::new(5.0, "autoscaler", "less load: search goes back to 3 replicas",
            |shop| shop.cluster().scale(&deployment_key("shop", "search"), CONTROLLER_MANAGER, 3).map(drop)),
        Scene::new(3.0, "autoscaler", "less load: checkout-us goes back to 3 replicas",
            |shop| shop.cluster().scale(&deployment_key("payments", "checkout-us"), CONTROLLER_MANAGER, 3).map(drop)),
        Scene::new(3.0, "helm", "helm -n platform rollback notifier      # to the revision that is deployed",
            |shop| helm::begin_rollback(shop.cluster())),
        Scene::new(2.0, "helm", "Rollback was a success! Happy Helming!",
            |shop| helm::finish_rollback(shop.cluster())),
        Scene::new(3.0, "frank", "kubectl apply -f banner.json      # as it is in the repository",
            Shop::apply_banner),
        Scene::new(5.0, "dave", "kubectl -n shop delete service cart",
            |shop| shop.cluster().delete(&service_key("shop", "cart"))),
        Scene::new(5.0, "terraform", "terraform apply      # recreates the service",
            Shop::create_missing),
        Scene::new(3.0, "terraform", "terraform apply      # of payments: takes the lock of its state",
            |shop| terraform::lock(shop.cluster())),
        Scene::new(4.0, "terraform", "Apply complete!      # rates, password, policy and release of payments are as declared",
            |shop| terraform::apply(shop.cluster())),
        Scene::new(4.0, "terraform", "terraform apply      # ledger as declared, without the restart",
            |shop| shop.cluster().patch(&deployment_key("payments", "ledger"), terraform::FIELD_MANAGER, restarted_at(&Value::Null)).map(drop)),
        Scene::new(5.0, "terraform", "terraform apply      # checkout goes back to the release",
            |shop| shop.apply(&deployment_key("shop", "checkout"), container_image("checkout", CHECKOUT_RELEASE))),
    ]
}

fn payments_key(group: &str, kind: &str, plural: &str, name: &str) -> ObjectKey {
    let kind = Kind { group: group.into(), kind: kind.into(), plural: plural.into(), ..Kind::service() };
    ObjectKey::new(kind, "payments", name)
}

fn container_image(container: &str, image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": container, "image": image}]}}}})
}

fn memory_limit(container: &str, memory: &str) -> Value {
    let container = json!({"name": container, "resources": {"limits": {"memory": memory}}});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

fn greeting_env(container: &str, text: &str) -> Value {
    let container = json!({"name": container, "env": [{"name": "GREETING", "value": text}]});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

fn restarted_at(at: &Value) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}}}})
}

const ROLLOUT_INTERVAL: Duration = Duration::from_millis(400);

/// Simulates the deployment controller: moves the status of each Deployment towards its spec, one pod at a time.
pub async fn run_deployment_controller(cluster: Cluster) {
    let mut interval = tokio::time::interval(ROLLOUT_INTERVAL);
    loop {
        interval.tick().await;
        advance_rollouts(&cluster);
    }
}

pub(super) fn finish_rollouts(cluster: &Cluster) {
    while advance_rollouts(cluster) {}
}

/// Adds or removes one pod of each Deployment whose rollout is not complete. Returns whether there was one.
fn advance_rollouts(cluster: &Cluster) -> bool {
    let kind = Arc::new(Kind::deployment());
    let mut advanced = false;
    // Only one object is parsed at a time: parsed objects take many times the memory of their JSON.
    for (namespace, name) in cluster.names(&kind) {
        let key = ObjectKey::new(kind.clone(), &namespace, &name);
        let Some(status) = cluster.get(&key).and_then(|deployment| next_status(&deployment)) else {
            continue;
        };
        match cluster.patch_status(&key, CONTROLLER_MANAGER, &status) {
            Ok(_) => advanced = true,
            Err(error) if cluster.get(&key).is_some() => {
                warn!(object = %key, %error, "cannot update deployment status");
            }
            // The object was deleted in the meantime.
            Err(_) => {}
        }
    }
    advanced
}

/// The status with one pod more or less; `None` if the rollout is complete.
fn next_status(deployment: &Value) -> Option<Value> {
    let count = |value: &Value| value.as_i64().unwrap_or(0);
    let (generation, replicas) =
        (&deployment["metadata"]["generation"], count(&deployment["spec"]["replicas"]));
    let status = &deployment["status"];
    let ready = count(&status["readyReplicas"]);
    let next = ready + (replicas - ready).signum();
    if status["observedGeneration"] == *generation && next == ready && status["replicas"] == replicas {
        return None;
    }
    let available = if next >= replicas { "True" } else { "False" };
    Some(json!({
        "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": next, "availableReplicas": next, "unavailableReplicas": (replicas - next).max(0),
        "conditions": [{"type": "Available", "status": available, "reason": "MinimumReplicas"}],
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::next_status;

    #[test]
    fn rollout_adds_and_removes_one_pod_per_step() {
        let mut deployment = json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": {}});
        let mut ready = Vec::new();
        while let Some(status) = next_status(&deployment) {
            ready.push(status["readyReplicas"].clone());
            deployment["status"] = status;
        }
        assert_eq!(Value::Array(ready), json!([1, 2, 3]));
        deployment["spec"]["replicas"] = 0.into();
        deployment["metadata"]["generation"] = 3.into();
        assert_eq!(next_status(&deployment).unwrap()["readyReplicas"], 2);
    }
}
