//! What runs in the demo cluster: a small shop with hashes in its annotations, beside what Terraform manages by its state,
//! Helm by its release, and somebody with kubectl.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    cluster::{Cluster, Refusal},
    helm, kubectl,
    rollout::settle,
    terraform,
};
use crate::{
    diff::{Algorithm, fingerprint},
    types::{Clock, Kind, ObjectKey},
};

/// The field manager of Terraform's Kubernetes provider.
pub(super) const TERRAFORM: &str = "HashiCorp";

const OPEN_SINCE: SignedDuration = SignedDuration::from_hours(51);

/// The shop's objects in a cluster.
#[derive(Clone, Debug)]
pub struct Shop {
    pub(super) cluster: Cluster,
    /// The prefix of label and annotation.
    prefix: Box<str>,
}

/// One application: a Deployment, and a Service in front of most.
struct Application {
    namespace: &'static str,
    name: &'static str,
    image: &'static str,
    replicas: u32,
    port: Option<u16>,
    stamp: Stamp,
}

/// What the annotation says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stamp {
    /// The hash of the object.
    Hash(Algorithm),
    /// Nothing yet: somebody has only set the label.
    Missing,
    /// A hash that this version does not understand.
    Foreign,
}

const USUAL: Stamp = Stamp::Hash(Algorithm::TfdriftV1);
/// Every declared field, not only what `tfdrift-v1` covers.
const THOROUGH: Stamp = Stamp::Hash(Algorithm::JcsV1);

#[rustfmt::skip]
const APPLICATIONS: &[Application] = &[
    Application { namespace: "shop", name: "web", image: "registry.example/web:5.2.0", replicas: 3, port: Some(8080), stamp: USUAL },
    Application { namespace: "shop", name: "cart", image: "registry.example/cart:1.14.2", replicas: 2, port: Some(8081), stamp: USUAL },
    Application { namespace: "shop", name: "catalog", image: "registry.example/catalog:3.0.7", replicas: 3, port: Some(8082), stamp: USUAL },
    Application { namespace: "shop", name: "checkout", image: "registry.example/checkout:2.4.0", replicas: 2, port: Some(8083), stamp: USUAL },
    Application { namespace: "shop", name: "search", image: "registry.example/search:0.9.31", replicas: 3, port: Some(8084), stamp: USUAL },
    Application { namespace: "shop", name: "newsletter", image: "registry.example/newsletter:1.0.1", replicas: 1, port: None, stamp: Stamp::Missing },
    Application { namespace: "payments", name: "gateway", image: "registry.example/gateway:7.1.3", replicas: 2, port: Some(8443), stamp: THOROUGH },
    Application { namespace: "payments", name: "ledger", image: "registry.example/ledger:4.2.2", replicas: 2, port: Some(8090), stamp: USUAL },
    Application { namespace: "payments", name: "fraud-check", image: "registry.example/fraud-check:0.3.0", replicas: 1, port: Some(8091), stamp: THOROUGH },
    Application { namespace: "platform", name: "mailer", image: "registry.example/mailer:2.2.0", replicas: 1, port: Some(2525), stamp: USUAL },
    Application { namespace: "platform", name: "importer", image: "registry.example/importer:0.1.4", replicas: 1, port: None, stamp: Stamp::Foreign },
];

impl Shop {
    /// Opens the shop in a cluster of its own. Everything was made as declared, two days ago.
    pub fn open(clock: Clock, prefix: &str) -> Result<Self, Refusal> {
        let opened = clock.now() - OPEN_SINCE;
        let shop = Self { cluster: Cluster::new(Clock::new(move || opened)), prefix: prefix.into() };
        shop.repair()?;
        terraform::apply(&shop.cluster)?;
        helm::install(&shop.cluster)?;
        kubectl::apply(&shop.cluster)?;
        settle(&shop.cluster);
        Ok(Self { cluster: shop.cluster.in_time_of(clock), prefix: shop.prefix })
    }

    /// The cluster that it is in.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Makes what is missing, as `terraform apply` would; what it made.
    pub(super) fn repair(&self) -> Result<Vec<ObjectKey>, Refusal> {
        let namespace = Kind::namespace();
        for name in ["default", "shop", "payments", "platform", kubectl::NAMESPACE, terraform::NAMESPACE] {
            let key =
                ObjectKey { kind: Arc::new(namespace.clone()), namespace: "".into(), name: name.into() };
            if self.cluster.get(&key).is_none() {
                self.cluster.create(&namespace, TERRAFORM, json!({"metadata": {"name": name}}))?;
            }
        }
        let mut made = Vec::new();
        for application in APPLICATIONS {
            let deployment = deployment(application.namespace, application.name);
            self.make(&deployment, application.deployment(), application.stamp, &mut made)?;
            if let Some(port) = application.port {
                let service = service(application.namespace, application.name);
                self.make(&service, application.service(port), application.stamp, &mut made)?;
            }
        }
        Ok(made)
    }

    fn make(
        &self,
        key: &ObjectKey,
        mut object: Value,
        stamp: Stamp,
        made: &mut Vec<ObjectKey>,
    ) -> Result<(), Refusal> {
        if self.cluster.get(key).is_some() {
            return Ok(());
        }
        object["metadata"]["labels"][format!("{}/enabled", self.prefix)] = "true".into();
        let created = self.cluster.create(&key.kind, TERRAFORM, object)?;
        let hash = match stamp {
            Stamp::Hash(algorithm) => Some(self.hash(algorithm, &key.kind, &created)),
            Stamp::Missing => None,
            Stamp::Foreign => Some(format!("jcs-v2:{}", "0123456789abcdef".repeat(4))),
        };
        if let Some(hash) = hash {
            self.stamp(key, &hash)?;
        }
        made.push(key.clone());
        Ok(())
    }

    /// Changes an object and records it as it then is, in one write, as `terraform apply` would.
    pub(super) fn apply(&self, key: &ObjectKey, mut change: Value) -> Result<(), Refusal> {
        // It will be made anew.
        if self.cluster.get(key).is_none() {
            return Ok(());
        }
        let wanted = self.cluster.preview(key, TERRAFORM, change.clone())?;
        let hash = self.hash(Algorithm::TfdriftV1, &key.kind, &wanted);
        change["metadata"]["annotations"][self.annotation()] = hash.into();
        self.cluster.merge(key, TERRAFORM, change).map(|_| ())
    }

    fn stamp(&self, key: &ObjectKey, hash: &str) -> Result<(), Refusal> {
        let annotations = json!({self.annotation(): hash});
        self.cluster.merge(key, TERRAFORM, json!({"metadata": {"annotations": annotations}})).map(|_| ())
    }

    /// The annotation that holds the hash.
    fn annotation(&self) -> String {
        format!("{}/spec-hash", self.prefix)
    }

    fn hash(&self, algorithm: Algorithm, kind: &Kind, object: &Value) -> String {
        let digest = fingerprint(algorithm, kind, &object.to_string(), &self.prefix)
            .expect("the shop's objects can be hashed");
        algorithm.record(digest)
    }
}

impl Application {
    fn deployment(&self) -> Value {
        let name = self.name;
        let ports: Vec<Value> =
            self.port.iter().map(|port| json!({"name": "http", "containerPort": port})).collect();
        json!({
            "metadata": {"namespace": self.namespace, "name": name, "labels": self.labels()},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
                "template": {
                    "metadata": {"labels": self.labels()},
                    "spec": {"containers": [{
                        "name": name, "image": self.image, "ports": ports,
                        "env": [{"name": "LOG_LEVEL", "value": "info"}],
                        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                    }]},
                },
            },
        })
    }

    fn service(&self, port: u16) -> Value {
        json!({
            "metadata": {"namespace": self.namespace, "name": self.name, "labels": self.labels()},
            "spec": {
                "selector": {"app.kubernetes.io/name": self.name},
                "ports": [{"name": "http", "port": 80, "targetPort": port}],
            },
        })
    }

    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.name, "app.kubernetes.io/instance": self.namespace})
    }
}

/// The key of a Deployment.
pub(super) fn deployment(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { kind: Arc::new(Kind::deployment()), namespace: namespace.into(), name: name.into() }
}

/// The key of a Service.
pub(super) fn service(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { kind: Arc::new(Kind::service()), namespace: namespace.into(), name: name.into() }
}
