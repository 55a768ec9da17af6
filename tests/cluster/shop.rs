//! A cluster with one Deployment and one Service that are as declared, and an exporter that may only read.

use drift_exporter::types::Kind;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::Value;

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    objects::{create_namespace, create_stamped, deployment, grant, patch, read_only_rules, service},
};

pub(crate) const DRIFTED: &str = "drift_resource_drifted";
pub(crate) const WEB: &[(&str, &str)] = &[("kind", "Deployment"), ("namespace", "shop"), ("name", "web")];

pub(crate) struct Shop {
    pub(crate) cluster: Cluster,
    pub(crate) deployments: Api<Deployment>,
    pub(crate) exporter: Exporter,
}

impl Shop {
    pub(crate) fn open(flags: &[&str]) -> Self {
        Self::open_with(read_only_rules(), flags)
    }

    /// A shop whose exporter has these rights only.
    pub(crate) fn open_with(rules: Value, flags: &[&str]) -> Self {
        let cluster = Cluster::start();
        let client = cluster.client();
        cluster.block_on(async {
            grant(&client, "drift-exporter", rules).await;
            create_namespace(&client, "shop").await;
            create_stamped(&client, &Kind::deployment(), &deployment("shop", "web")).await;
            create_stamped(&client, &Kind::service(), &service("shop", "web")).await;
        });
        let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), flags).ready();
        Self { deployments: Api::namespaced(client, "shop"), cluster, exporter }
    }

    /// Makes changes that the exporter cannot see, and that neither the API server nor etcd remember afterwards.
    pub(crate) fn behind_its_back(&mut self, changes: impl FnOnce(&Self)) {
        self.exporter.running.signal("STOP");
        // The stream must be cut first, or the changes would wait for the exporter in its socket.
        self.cluster.kill_apiserver();
        self.cluster.start_apiserver();
        changes(self);
        self.cluster.kill_apiserver();
        self.cluster.compact();
        self.cluster.start_apiserver();
        self.exporter.running.signal("CONT");
    }

    /// Changes the Deployment `web` under a field manager's name.
    pub(crate) fn edit(&self, manager: &str, change: Value) -> Deployment {
        self.cluster.block_on(patch(&self.deployments, "web", manager, change))
    }
}
