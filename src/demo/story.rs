//! What happens in the shop while somebody watches: edits by hand, a hotfix, an autoscaler, a restart, and their ends.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};

use super::{
    cluster::Refusal,
    shop::{Shop, TERRAFORM, deployment, service},
};
use crate::model::ObjectKey;

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
        }
    }
}

const HOTFIX: &str = "registry.example/checkout:2.4.1-hotfix";
const RELEASE: &str = "registry.example/checkout:2.4.0";
/// The horizontal autoscaler is part of this program.
const AUTOSCALER: &str = "kube-controller-manager";

/// One round. At its end everything is as it was at its beginning.
#[rustfmt::skip]
fn acts() -> Vec<Act> {
    let (catalog, checkout, search) = (deployment("shop", "catalog"), deployment("shop", "checkout"), deployment("shop", "search"));
    let (ledger, cart) = (deployment("payments", "ledger"), service("shop", "cart"));
    let act = |pause, who, what: &str, deed| Act { pause, who, what: what.to_owned(), deed };
    vec![
        act(3.0, "alice", "kubectl -n shop scale deployment catalog --replicas=6",
            Deed::Scale(catalog.clone(), "kubectl", 6)),
        act(6.0, "bob", &format!("kubectl -n shop set image deployment checkout checkout={HOTFIX}"),
            Deed::Merge(checkout.clone(), "kubectl-set", image(HOTFIX))),
        act(6.0, "autoscaler", "more load: search goes from 3 to 7 replicas",
            Deed::Scale(search.clone(), AUTOSCALER, 7)),
        act(6.0, "carol", "kubectl -n payments rollout restart deployment ledger",
            Deed::Restart(ledger.clone(), "kubectl-rollout")),
        act(6.0, "dave", "kubectl -n shop edit service cart      # port 80 now leads to 9999",
            Deed::Merge(cart.clone(), "kubectl-edit", json!({"spec": {"ports": [{"port": 80, "targetPort": 9999}]}}))),
        act(10.0, "alice", "kubectl -n shop scale deployment catalog --replicas=3",
            Deed::Scale(catalog, "kubectl", 3)),
        act(6.0, "terraform", "terraform apply      # bob's hotfix is in the code now",
            Deed::Apply(checkout.clone(), json!({}))),
        act(6.0, "autoscaler", "less load: search goes back to 3 replicas",
            Deed::Scale(search, AUTOSCALER, 3)),
        act(6.0, "dave", "kubectl -n shop delete service cart",
            Deed::Delete(cart)),
        act(6.0, "terraform", "terraform apply      # makes the service anew",
            Deed::Repair),
        act(4.0, "terraform", "terraform apply      # ledger as declared, without the restart",
            Deed::Merge(ledger, TERRAFORM, restarted(&Value::Null))),
        act(6.0, "terraform", "terraform apply      # checkout goes back to the release",
            Deed::Apply(checkout, image(RELEASE))),
    ]
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "checkout", "image": image}]}}}})
}

fn restarted(at: &Value) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}}}})
}
