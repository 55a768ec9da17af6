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

struct Step {
    /// Seconds after the previous step.
    pause: f32,
    actor: &'static str,
    command: String,
    action: Action,
}

enum Action {
    Scale {
        key: ObjectKey,
        manager: &'static str,
        replicas: u32,
    },
    Patch {
        key: ObjectKey,
        manager: &'static str,
        patch: Value,
    },
    /// `kubectl rollout restart`.
    Restart {
        key: ObjectKey,
        manager: &'static str,
    },
    Delete(ObjectKey),
    /// Terraform patches an object and updates its hash.
    Apply {
        key: ObjectKey,
        patch: Value,
    },
    CreateMissing,
    LockState,
    /// Terraform applies its configuration, stores the state and releases the lock.
    ApplyState,
    BeginRollback,
    FinishRollback,
    ApplyBanner,
    /// Terraform copies a live value into its state.
    RefreshAttribute {
        address: &'static str,
        attribute: &'static str,
        value: &'static str,
    },
}

/// Plays the story in a loop, `speed` times as fast, until the receiver of the events is dropped.
pub async fn play_story(shop: Shop, speed: f32, events: mpsc::Sender<StoryEvent>) {
    loop {
        for step in drifting_steps().into_iter().chain(resolving_steps()) {
            sleep(Duration::from_secs_f32(step.pause / speed)).await;
            if events.send(StoryEvent::Action { actor: step.actor, command: step.command }).await.is_err() {
                return;
            }
            if let Err(error) = step.action.run(&shop) {
                let _ = events.send(StoryEvent::Failed { error: error.to_string() }).await;
            }
        }
    }
}

impl Step {
    fn new(pause: f32, actor: &'static str, command: &str, action: Action) -> Self {
        Self { pause, actor, command: command.to_owned(), action }
    }
}

impl Action {
    fn run(self, shop: &Shop) -> Result<(), StatusError> {
        let cluster = shop.cluster();
        match self {
            Self::Scale { key, manager, replicas } => cluster.scale(&key, manager, replicas).map(|_| ()),
            Self::Patch { key, manager, patch } => cluster.patch(&key, manager, patch).map(|_| ()),
            Self::Restart { key, manager } => {
                cluster.patch(&key, manager, restarted_at(&cluster.now().to_string().into())).map(|_| ())
            }
            Self::Delete(key) => cluster.delete(&key),
            Self::Apply { key, patch } => shop.apply(&key, patch),
            Self::CreateMissing => shop.create_missing(),
            Self::LockState => terraform::lock(cluster),
            Self::ApplyState => terraform::apply(cluster),
            Self::BeginRollback => helm::begin_rollback(cluster),
            Self::FinishRollback => helm::finish_rollback(cluster),
            Self::ApplyBanner => shop.apply_banner(),
            Self::RefreshAttribute { address, attribute, value } => {
                terraform::refresh_attribute(cluster, address, attribute, value)
            }
        }
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
fn drifting_steps() -> Vec<Step> {
    vec![
        Step::new(3.0, "alice", "kubectl -n shop scale deployment catalog --replicas=6",
            Action::Scale { key: deployment_key("shop", "catalog"), manager: "kubectl", replicas: 6 }),
        Step::new(3.0, "alice", "kubectl -n payments scale deployment checkout-eu --replicas=5",
            Action::Scale { key: deployment_key("payments", "checkout-eu"), manager: "kubectl", replicas: 5 }),
        Step::new(5.0, "bob", &format!("kubectl -n shop set image deployment checkout checkout={CHECKOUT_HOTFIX}"),
            Action::Patch { key: deployment_key("shop", "checkout"), manager: "kubectl-set", patch: container_image("checkout", CHECKOUT_HOTFIX) }),
        Step::new(3.0, "bob", &format!("kubectl -n payments set image deployment refunds refunds={REFUNDS_HOTFIX}"),
            Action::Patch { key: deployment_key("payments", "refunds"), manager: "kubectl-set", patch: container_image("refunds", REFUNDS_HOTFIX) }),
        Step::new(5.0, "autoscaler", "more load: search goes from 3 to 7 replicas",
            Action::Scale { key: deployment_key("shop", "search"), manager: CONTROLLER_MANAGER, replicas: 7 }),
        Step::new(3.0, "autoscaler", "more load: checkout-us goes from 3 to 6 replicas",
            Action::Scale { key: deployment_key("payments", "checkout-us"), manager: CONTROLLER_MANAGER, replicas: 6 }),
        Step::new(3.0, "erin", "kubectl -n platform set resources deployment notifier --limits=memory=1Gi",
            Action::Patch { key: deployment_key("platform", "notifier"), manager: "kubectl-set", patch: memory_limit("notifier", "1Gi") }),
        Step::new(5.0, "carol", "kubectl -n payments rollout restart deployment ledger",
            Action::Restart { key: deployment_key("payments", "ledger"), manager: "kubectl-rollout" }),
        Step::new(3.0, "carol", "kubectl -n payments edit configmap exchange-rates      # GBP is too low",
            Action::Patch { key: payments_key("", "ConfigMap", "configmaps", "exchange-rates"), manager: "kubectl-edit", patch: json!({"data": {"GBP": "0.8702"}}) }),
        Step::new(5.0, "dave", "kubectl -n shop edit service cart      # port 80 now leads to 9999",
            Action::Patch { key: service_key("shop", "cart"), manager: "kubectl-edit", patch: json!({"spec": {"ports": [{"port": 80, "targetPort": 9999}]}}) }),
        Step::new(3.0, "frank", "kubectl -n marketing edit deployment banner      # another greeting",
            Action::Patch { key: deployment_key(KUBECTL_NAMESPACE, "banner"), manager: "kubectl-edit", patch: greeting_env("banner", "All you can carry for half the price") }),
        Step::new(3.0, "dave", "kubectl -n payments edit secret psp-credentials      # another password",
            Action::Patch { key: payments_key("", "Secret", "secrets", "psp-credentials"), manager: "kubectl-edit", patch: json!({"stringData": {"password": "tried-by-dave"}}) }),
        Step::new(3.0, "dave", "kubectl -n payments delete networkpolicy refunds",
            Action::Delete(payments_key("networking.k8s.io", "NetworkPolicy", "networkpolicies", "refunds"))),
    ]
}

/// Returns all objects to their initial state.
#[rustfmt::skip]
fn resolving_steps() -> Vec<Step> {
    vec![
        Step::new(7.0, "alice", "kubectl -n shop scale deployment catalog --replicas=3",
            Action::Scale { key: deployment_key("shop", "catalog"), manager: "kubectl", replicas: 3 }),
        Step::new(3.0, "alice", "kubectl -n payments scale deployment checkout-eu --replicas=2",
            Action::Scale { key: deployment_key("payments", "checkout-eu"), manager: "kubectl", replicas: 2 }),
        Step::new(5.0, "terraform", "terraform apply      # bob's hotfix is in the code now",
            Action::Apply { key: deployment_key("shop", "checkout"), patch: json!({}) }),
        Step::new(3.0, "terraform", "terraform apply -refresh-only      # the state takes over bob's hotfix of refunds",
            Action::RefreshAttribute { address: "kubernetes_deployment_v1.refunds", attribute: CONTAINER_IMAGE_ATTRIBUTE, value: REFUNDS_HOTFIX }),
        Step::new(5.0, "autoscaler", "less load: search goes back to 3 replicas",
            Action::Scale { key: deployment_key("shop", "search"), manager: CONTROLLER_MANAGER, replicas: 3 }),
        Step::new(3.0, "autoscaler", "less load: checkout-us goes back to 3 replicas",
            Action::Scale { key: deployment_key("payments", "checkout-us"), manager: CONTROLLER_MANAGER, replicas: 3 }),
        Step::new(3.0, "helm", "helm -n platform rollback notifier      # to the revision that is deployed",
            Action::BeginRollback),
        Step::new(2.0, "helm", "Rollback was a success! Happy Helming!",
            Action::FinishRollback),
        Step::new(3.0, "frank", "kubectl apply -f banner.json      # as it is in the repository",
            Action::ApplyBanner),
        Step::new(5.0, "dave", "kubectl -n shop delete service cart",
            Action::Delete(service_key("shop", "cart"))),
        Step::new(5.0, "terraform", "terraform apply      # makes the service anew",
            Action::CreateMissing),
        Step::new(3.0, "terraform", "terraform apply      # of payments: takes the lock of its state",
            Action::LockState),
        Step::new(4.0, "terraform", "Apply complete!      # rates, password, policy and release of payments are as declared",
            Action::ApplyState),
        Step::new(4.0, "terraform", "terraform apply      # ledger as declared, without the restart",
            Action::Patch { key: deployment_key("payments", "ledger"), manager: terraform::FIELD_MANAGER, patch: restarted_at(&Value::Null) }),
        Step::new(5.0, "terraform", "terraform apply      # checkout goes back to the release",
            Action::Apply { key: deployment_key("shop", "checkout"), patch: container_image("checkout", CHECKOUT_RELEASE) }),
    ]
}

fn payments_key(group: &str, kind: &str, plural: &str, name: &str) -> ObjectKey {
    let kind = Kind { group: group.into(), kind: kind.into(), plural: plural.into(), ..Kind::service() };
    ObjectKey { kind: Arc::new(kind), namespace: "payments".into(), name: name.into() }
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
        let key = ObjectKey { kind: kind.clone(), namespace: (*namespace).into(), name: (*name).into() };
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
