//! The small facts about an object that are shown and never compared.

use super::{Health, LabelSet, ObjectKey, Phase};

/// Small facts about an object, taken from its spec and status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How well it works.
    pub health: Health,
    /// What it is doing, where that says more than its health.
    pub phase: Option<Phase>,
    /// Why it is not healthy, or not done yet; empty when all is well.
    pub message: Box<str>,
    /// Replicas that should run, for kinds that have them.
    pub replicas: Option<i32>,
    /// CPU requested by one replica, in thousandths of a core.
    pub cpu_request: Option<u64>,
    /// Memory requested by one replica, in bytes.
    pub memory_request: Option<u64>,
    /// Storage requested by one replica, in bytes.
    pub storage_request: Option<u64>,
    /// Whether it orders a load balancer.
    pub load_balancer: bool,
    /// Where it can be reached, when that does not follow from its name.
    pub endpoint: Option<Box<str>>,
    /// The first port it serves on.
    pub port: Option<u16>,
    /// The name of the Secret that tells how to connect; never what is in it.
    pub connection_secret: Option<Box<str>>,
    /// The labels of its pods; those that it selects pods by, for Services.
    pub labels: LabelSet,
    /// The value of its label `app.kubernetes.io/instance`.
    pub instance: Option<Box<str>>,
    /// The object whose replicas it sets, for autoscalers.
    pub scales: Option<Box<ObjectKey>>,
    /// The object that made it and looks after it.
    pub owner: Option<Box<ObjectKey>>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            health: Health::Unknown,
            phase: None,
            message: Box::default(),
            replicas: None,
            cpu_request: None,
            memory_request: None,
            storage_request: None,
            load_balancer: false,
            endpoint: None,
            port: None,
            connection_secret: None,
            labels: LabelSet::default(),
            instance: None,
            scales: None,
            owner: None,
        }
    }
}
