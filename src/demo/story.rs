//! What happens in the shop while somebody watches: edits by hand, a hotfix, an autoscaler, a restart, and their ends.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};

use super::{
    cluster::Refusal,
    helm,
    shop::{Shop, TERRAFORM, deployment, service},
    terraform,
};
use crate::model::{Kind, ObjectKey};

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
        for act in acts() {
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

/// One round. At its end everything is as it was at its beginning.
#[rustfmt::skip]
fn acts() -> Vec<Act> {
    let (catalog, checkout, search) = (deployment("shop", "catalog"), deployment("shop", "checkout"), deployment("shop", "search"));
    let (ledger, cart) = (deployment("payments", "ledger"), service("shop", "cart"));
    // These have no label and no annotation: they are in Terraform's state.
    let (eu, us, refunds) = (deployment("payments", "checkout-eu"), deployment("payments", "checkout-us"), deployment("payments", "refunds"));
    let (rates, password) = (in_payments("", "ConfigMap", "configmaps", "exchange-rates"), in_payments("", "Secret", "secrets", "psp-credentials"));
    let policy = in_payments("networking.k8s.io", "NetworkPolicy", "networkpolicies", "refunds");
    let act = |pause, who, what: &str, deed| Act { pause, who, what: what.to_owned(), deed };
    vec![
        act(3.0, "alice", "kubectl -n shop scale deployment catalog --replicas=6",
            Deed::Scale(catalog.clone(), "kubectl", 6)),
        act(3.0, "alice", "kubectl -n payments scale deployment checkout-eu --replicas=5",
            Deed::Scale(eu.clone(), "kubectl", 5)),
        act(5.0, "bob", &format!("kubectl -n shop set image deployment checkout checkout={HOTFIX}"),
            Deed::Merge(checkout.clone(), "kubectl-set", image("checkout", HOTFIX))),
        act(3.0, "bob", &format!("kubectl -n payments set image deployment refunds refunds={REFUNDS_HOTFIX}"),
            Deed::Merge(refunds, "kubectl-set", image("refunds", REFUNDS_HOTFIX))),
        act(5.0, "autoscaler", "more load: search goes from 3 to 7 replicas",
            Deed::Scale(search.clone(), AUTOSCALER, 7)),
        act(3.0, "autoscaler", "more load: checkout-us goes from 3 to 6 replicas",
            Deed::Scale(us.clone(), AUTOSCALER, 6)),
        act(3.0, "erin", "kubectl -n platform set resources deployment notifier --limits=memory=1Gi",
            Deed::Merge(deployment("platform", "notifier"), "kubectl-set", limits("notifier", "1Gi"))),
        act(5.0, "carol", "kubectl -n payments rollout restart deployment ledger",
            Deed::Restart(ledger.clone(), "kubectl-rollout")),
        act(3.0, "carol", "kubectl -n payments edit configmap exchange-rates      # GBP is too low",
            Deed::Merge(rates, "kubectl-edit", json!({"data": {"GBP": "0.8702"}}))),
        act(5.0, "dave", "kubectl -n shop edit service cart      # port 80 now leads to 9999",
            Deed::Merge(cart.clone(), "kubectl-edit", json!({"spec": {"ports": [{"port": 80, "targetPort": 9999}]}}))),
        act(3.0, "dave", "kubectl -n payments edit secret psp-credentials      # another password",
            Deed::Merge(password, "kubectl-edit", json!({"stringData": {"password": "tried-by-dave"}}))),
        act(3.0, "dave", "kubectl -n payments delete networkpolicy refunds",
            Deed::Delete(policy)),
        act(7.0, "alice", "kubectl -n shop scale deployment catalog --replicas=3",
            Deed::Scale(catalog, "kubectl", 3)),
        act(3.0, "alice", "kubectl -n payments scale deployment checkout-eu --replicas=2",
            Deed::Scale(eu, "kubectl", 2)),
        act(5.0, "terraform", "terraform apply      # bob's hotfix is in the code now",
            Deed::Apply(checkout.clone(), json!({}))),
        act(3.0, "terraform", "terraform apply -refresh-only      # the state takes over bob's hotfix of refunds",
            Deed::Accept { address: "kubernetes_deployment_v1.refunds", attribute: CONTAINER_IMAGE, value: REFUNDS_HOTFIX }),
        act(5.0, "autoscaler", "less load: search goes back to 3 replicas",
            Deed::Scale(search, AUTOSCALER, 3)),
        act(3.0, "autoscaler", "less load: checkout-us goes back to 3 replicas",
            Deed::Scale(us, AUTOSCALER, 3)),
        act(3.0, "helm", "helm -n platform rollback notifier      # to the revision that is deployed",
            Deed::BeginRollback),
        act(2.0, "helm", "Rollback was a success! Happy Helming!",
            Deed::FinishRollback),
        act(5.0, "dave", "kubectl -n shop delete service cart",
            Deed::Delete(cart)),
        act(5.0, "terraform", "terraform apply      # makes the service anew",
            Deed::Repair),
        act(3.0, "terraform", "terraform apply      # of payments: takes the lock of its state",
            Deed::Lock),
        act(4.0, "terraform", "Apply complete!      # rates, password, policy and release of payments are as declared",
            Deed::ApplyState),
        act(4.0, "terraform", "terraform apply      # ledger as declared, without the restart",
            Deed::Merge(ledger, TERRAFORM, restarted(&Value::Null))),
        act(5.0, "terraform", "terraform apply      # checkout goes back to the release",
            Deed::Apply(checkout, image("checkout", RELEASE))),
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

fn restarted(at: &Value) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}}}})
}
