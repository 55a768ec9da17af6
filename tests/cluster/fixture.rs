//! A cluster with one Deployment and one Service that are in sync, and an exporter with read-only permissions.

use drift_exporter::types::Kind;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::Value;

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    objects::{create_namespace, create_with_hash, deployment, grant, patch, read_only_rules, service},
};

pub(crate) const DRIFTED: &str = "drift_resource_drifted";
pub(crate) const WEB: &[(&str, &str)] = &[("kind", "Deployment"), ("namespace", "shop"), ("name", "web")];

pub(crate) struct Shop {
    pub(crate) cluster: Cluster,
    pub(crate) deployments: Api<Deployment>,
    pub(crate) exporter: Exporter,
}

impl Shop {
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_with_rules(read_only_rules(), flags)
    }

    /// Starts an exporter with these RBAC rules only.
    pub(crate) fn start_with_rules(rules: Value, flags: &[&str]) -> Self {
        let cluster = Cluster::start();
        let client = cluster.client();
        cluster.block_on(async {
            grant(&client, "drift-exporter", rules).await;
            create_namespace(&client, "shop").await;
            create_with_hash(&client, &Kind::deployment(), &deployment("shop", "web")).await;
            create_with_hash(&client, &Kind::service(), &service("shop", "web")).await;
        });
        let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), flags).ready();
        Self { deployments: Api::namespaced(client, "shop"), cluster, exporter }
    }

    /// Makes changes while the exporter is stopped, and compacts etcd, so that the exporter has to relist.
    pub(crate) fn change_during_outage(&mut self, changes: impl FnOnce(&Self)) {
        self.exporter.running.signal("STOP");
        // A restart closes the watches. Otherwise the exporter would read the events from its socket buffer.
        self.cluster.kill_apiserver();
        self.cluster.start_apiserver();
        changes(self);
        self.cluster.kill_apiserver();
        self.cluster.compact();
        self.cluster.start_apiserver();
        self.exporter.running.signal("CONT");
    }

    /// Patches the Deployment `web` with a field manager.
    pub(crate) fn edit(&self, manager: &str, change: Value) -> Deployment {
        self.cluster.block_on(patch(&self.deployments, "web", manager, change))
    }
}
