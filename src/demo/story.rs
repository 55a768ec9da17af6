//! What happens in the shop while somebody watches: edits by hand, a hotfix, an autoscaler, a restart, and their ends.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};

use super::{
    cluster::Refusal,
    helm, kubectl,
    shop::{Shop, TERRAFORM, deployment, service},
    terraform,
};
use crate::types::{Kind, ObjectKey};

/// What is told of the story.
#[derive(Clone, Debug)]
pub enum Scene {
    /// Somebody does something now.
    Does {
        /// Who.
        who: &'static str,
        /// What they type, or what happens.
        what: String,
    },
    /// It did not work, since somebody else was faster.
    Fails {
        /// What the cluster says.
        why: String,
    },
}

/// One thing that will happen.
struct Act {
    /// How long after the one before.
    pause: f32,
    who: &'static str,
    what: String,
    deed: Deed,
}

enum Deed {
    /// Sets the replicas, under this field manager's name.
    Scale(ObjectKey, &'static str, u32),
    /// Merges a change, under this field manager's name.
    Merge(ObjectKey, &'static str, Value),
    /// Has all its pods made anew, under this field manager's name.
    Restart(ObjectKey, &'static str),
    Delete(ObjectKey),
    /// Terraform changes the object, and what it then is becomes what is declared.
    Apply(ObjectKey, Value),
    /// Whatever is missing is made anew.
    Repair,
    /// Terraform takes the lock of its state.
    Lock,
    /// Terraform makes everything in its state as its configuration says, records it, and lets go of the lock.
    ApplyState,
    /// Helm begins to deploy what is deployed once more.
    BeginRollback,
    /// Helm has deployed it, and what others changed in it is as declared.
    FinishRollback,
    /// Somebody applies their manifest once more.
    ApplyManifest,
    /// Terraform takes over into its state what an object's attribute is now.
    Accept {
        address: &'static str,
        attribute: &'static str,
        value: &'static str,
    },
}

/// Plays the story again and again, `speed` times as fast, and tells of each scene.
pub async fn play(shop: Shop, speed: f32, scenes: mpsc::Sender<Scene>) {
    loop {
        for act in edits().into_iter().chain(ends()) {
            sleep(Duration::from_secs_f32(act.pause / speed)).await;
            if scenes.send(Scene::Does { who: act.who, what: act.what }).await.is_err() {
                return;
            }
            if let Err(refusal) = act.deed.do_in(&shop) {
                let _ = scenes.send(Scene::Fails { why: refusal.to_string() }).await;
            }
        }
    }
}

impl Act {
    fn new(pause: f32, who: &'static str, what: &str, deed: Deed) -> Self {
        Self { pause, who, what: what.to_owned(), deed }
    }
}

impl Deed {
    fn do_in(&self, shop: &Shop) -> Result<(), Refusal> {
        let cluster = &shop.cluster;
        match self {
            Self::Scale(key, manager, replicas) => cluster.scale(key, manager, *replicas).map(|_| ()),
            Self::Merge(key, manager, change) => cluster.merge(key, manager, change.clone()).map(|_| ()),
            Self::Restart(key, manager) => {
                cluster.merge(key, manager, restarted(&cluster.now().to_string().into())).map(|_| ())
            }
            Self::Delete(key) => cluster.delete(key),
            Self::Apply(key, change) => shop.apply(key, change.clone()),
            Self::Repair => shop.repair().map(|_| ()),
            Self::Lock => terraform::lock(cluster),
            Self::ApplyState => terraform::apply(cluster),
            Self::BeginRollback => helm::begin_rollback(cluster),
            Self::FinishRollback => helm::finish_rollback(cluster),
            Self::ApplyManifest => kubectl::apply(cluster),
            Self::Accept { address, attribute, value } => {
                terraform::accept(cluster, address, attribute, value)
            }
        }
    }
}

const HOTFIX: &str = "registry.example/checkout:2.4.1-hotfix";
const RELEASE: &str = "registry.example/checkout:2.4.0";
const REFUNDS_HOTFIX: &str = "registry.example/refunds:1.8.1-hotfix";
/// Where a Deployment's attributes in a state have the image of its first container.
const CONTAINER_IMAGE: &str = "/spec/0/template/0/spec/0/container/0/image";
/// The horizontal autoscaler is part of this program.
const AUTOSCALER: &str = "kube-controller-manager";

/// What people and the autoscaler do in the shop, in Terraform's state, in Helm's release and in what somebody applied.
#[rustfmt::skip]
fn edits() -> Vec<Act> {
    vec![
        Act::new(3.0, "alice", "kubectl -n shop scale deployment catalog --replicas=6",
            Deed::Scale(deployment("shop", "catalog"), "kubectl", 6)),
        Act::new(3.0, "alice", "kubectl -n payments scale deployment checkout-eu --replicas=5",
            Deed::Scale(deployment("payments", "checkout-eu"), "kubectl", 5)),
        Act::new(5.0, "bob", &format!("kubectl -n shop set image deployment checkout checkout={HOTFIX}"),
            Deed::Merge(deployment("shop", "checkout"), "kubectl-set", image("checkout", HOTFIX))),
        Act::new(3.0, "bob", &format!("kubectl -n payments set image deployment refunds refunds={REFUNDS_HOTFIX}"),
            Deed::Merge(deployment("payments", "refunds"), "kubectl-set", image("refunds", REFUNDS_HOTFIX))),
        Act::new(5.0, "autoscaler", "more load: search goes from 3 to 7 replicas",
            Deed::Scale(deployment("shop", "search"), AUTOSCALER, 7)),
        Act::new(3.0, "autoscaler", "more load: checkout-us goes from 3 to 6 replicas",
            Deed::Scale(deployment("payments", "checkout-us"), AUTOSCALER, 6)),
        Act::new(3.0, "erin", "kubectl -n platform set resources deployment notifier --limits=memory=1Gi",
            Deed::Merge(deployment("platform", "notifier"), "kubectl-set", limits("notifier", "1Gi"))),
        Act::new(5.0, "carol", "kubectl -n payments rollout restart deployment ledger",
            Deed::Restart(deployment("payments", "ledger"), "kubectl-rollout")),
        Act::new(3.0, "carol", "kubectl -n payments edit configmap exchange-rates      # GBP is too low",
            Deed::Merge(in_payments("", "ConfigMap", "configmaps", "exchange-rates"), "kubectl-edit", json!({"data": {"GBP": "0.8702"}}))),
        Act::new(5.0, "dave", "kubectl -n shop edit service cart      # port 80 now leads to 9999",
            Deed::Merge(service("shop", "cart"), "kubectl-edit", json!({"spec": {"ports": [{"port": 80, "targetPort": 9999}]}}))),
        Act::new(3.0, "frank", "kubectl -n marketing edit deployment banner      # another greeting",
            Deed::Merge(deployment(kubectl::NAMESPACE, "banner"), "kubectl-edit", greeting("banner", "All you can carry for half the price"))),
        Act::new(3.0, "dave", "kubectl -n payments edit secret psp-credentials      # another password",
            Deed::Merge(in_payments("", "Secret", "secrets", "psp-credentials"), "kubectl-edit", json!({"stringData": {"password": "tried-by-dave"}}))),
        Act::new(3.0, "dave", "kubectl -n payments delete networkpolicy refunds",
            Deed::Delete(in_payments("networking.k8s.io", "NetworkPolicy", "networkpolicies", "refunds"))),
    ]
}

/// How all that ends: afterwards everything is as it was at the beginning.
#[rustfmt::skip]
fn ends() -> Vec<Act> {
    vec![
        Act::new(7.0, "alice", "kubectl -n shop scale deployment catalog --replicas=3",
            Deed::Scale(deployment("shop", "catalog"), "kubectl", 3)),
        Act::new(3.0, "alice", "kubectl -n payments scale deployment checkout-eu --replicas=2",
            Deed::Scale(deployment("payments", "checkout-eu"), "kubectl", 2)),
        Act::new(5.0, "terraform", "terraform apply      # bob's hotfix is in the code now",
            Deed::Apply(deployment("shop", "checkout"), json!({}))),
        Act::new(3.0, "terraform", "terraform apply -refresh-only      # the state takes over bob's hotfix of refunds",
            Deed::Accept { address: "kubernetes_deployment_v1.refunds", attribute: CONTAINER_IMAGE, value: REFUNDS_HOTFIX }),
        Act::new(5.0, "autoscaler", "less load: search goes back to 3 replicas",
            Deed::Scale(deployment("shop", "search"), AUTOSCALER, 3)),
        Act::new(3.0, "autoscaler", "less load: checkout-us goes back to 3 replicas",
            Deed::Scale(deployment("payments", "checkout-us"), AUTOSCALER, 3)),
        Act::new(3.0, "helm", "helm -n platform rollback notifier      # to the revision that is deployed",
            Deed::BeginRollback),
        Act::new(2.0, "helm", "Rollback was a success! Happy Helming!",
            Deed::FinishRollback),
        Act::new(3.0, "frank", "kubectl apply -f banner.json      # as it is in the repository",
            Deed::ApplyManifest),
        Act::new(5.0, "dave", "kubectl -n shop delete service cart",
            Deed::Delete(service("shop", "cart"))),
        Act::new(5.0, "terraform", "terraform apply      # makes the service anew",
            Deed::Repair),
        Act::new(3.0, "terraform", "terraform apply      # of payments: takes the lock of its state",
            Deed::Lock),
        Act::new(4.0, "terraform", "Apply complete!      # rates, password, policy and release of payments are as declared",
            Deed::ApplyState),
        Act::new(4.0, "terraform", "terraform apply      # ledger as declared, without the restart",
            Deed::Merge(deployment("payments", "ledger"), TERRAFORM, restarted(&Value::Null))),
        Act::new(5.0, "terraform", "terraform apply      # checkout goes back to the release",
            Deed::Apply(deployment("shop", "checkout"), image("checkout", RELEASE))),
    ]
}

fn in_payments(group: &str, kind: &str, plural: &str, name: &str) -> ObjectKey {
    let kind = Kind { group: group.into(), kind: kind.into(), plural: plural.into(), ..Kind::service() };
    ObjectKey { kind: Arc::new(kind), namespace: "payments".into(), name: name.into() }
}

fn image(container: &str, image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": container, "image": image}]}}}})
}

fn limits(container: &str, memory: &str) -> Value {
    let container = json!({"name": container, "resources": {"limits": {"memory": memory}}});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

fn greeting(container: &str, text: &str) -> Value {
    let container = json!({"name": container, "env": [{"name": "GREETING", "value": text}]});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

fn restarted(at: &Value) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}}}})
}
