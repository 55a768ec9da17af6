//! The objects of the demo cluster: a small shop with hash annotations, and objects that Terraform, Helm and kubectl manage.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    cluster::{Cluster, StatusError},
    helm,
    story::finish_rollouts,
    terraform,
};
use crate::{
    diff::{Algorithm, LAST_APPLIED, fingerprint},
    types::{Clock, Kind, ObjectKey},
};

/// The namespace of the objects that kubectl applies.
pub(super) const KUBECTL_NAMESPACE: &str = "marketing";
/// The field manager of `kubectl apply`.
const KUBECTL_APPLY: &str = "kubectl-client-side-apply";

/// The age of the objects at the start of the demo.
const INITIAL_AGE: SignedDuration = SignedDuration::from_hours(51);

/// The sample application in its cluster.
#[derive(Clone, Debug)]
pub struct Shop {
    cluster: Cluster,
    /// The prefix of the exporter's label and annotations.
    prefix: Box<str>,
}

struct Application {
    namespace: &'static str,
    name: &'static str,
    image: &'static str,
    replicas: u32,
    /// Applications with a port have a Service.
    port: Option<u16>,
    hash: HashAnnotation,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HashAnnotation {
    Hash(Algorithm),
    /// The object has the label but no hash yet.
    Missing,
    /// A hash of an algorithm that this version does not support.
    UnknownAlgorithm,
}

const TFDRIFT: HashAnnotation = HashAnnotation::Hash(Algorithm::TfdriftV1);
/// Covers every declared field, unlike `tfdrift-v1`.
const JCS: HashAnnotation = HashAnnotation::Hash(Algorithm::JcsV1);

#[rustfmt::skip]
const APPLICATIONS: &[Application] = &[
    Application { namespace: "shop", name: "web", image: "registry.example/web:5.2.0", replicas: 3, port: Some(8080), hash: TFDRIFT },
    Application { namespace: "shop", name: "cart", image: "registry.example/cart:1.14.2", replicas: 2, port: Some(8081), hash: TFDRIFT },
    Application { namespace: "shop", name: "catalog", image: "registry.example/catalog:3.0.7", replicas: 3, port: Some(8082), hash: TFDRIFT },
    Application { namespace: "shop", name: "checkout", image: "registry.example/checkout:2.4.0", replicas: 2, port: Some(8083), hash: TFDRIFT },
    Application { namespace: "shop", name: "search", image: "registry.example/search:0.9.31", replicas: 3, port: Some(8084), hash: TFDRIFT },
    Application { namespace: "shop", name: "newsletter", image: "registry.example/newsletter:1.0.1", replicas: 1, port: None, hash: HashAnnotation::Missing },
    Application { namespace: "payments", name: "gateway", image: "registry.example/gateway:7.1.3", replicas: 2, port: Some(8443), hash: JCS },
    Application { namespace: "payments", name: "ledger", image: "registry.example/ledger:4.2.2", replicas: 2, port: Some(8090), hash: TFDRIFT },
    Application { namespace: "payments", name: "fraud-check", image: "registry.example/fraud-check:0.3.0", replicas: 1, port: Some(8091), hash: JCS },
    Application { namespace: "platform", name: "mailer", image: "registry.example/mailer:2.2.0", replicas: 1, port: Some(2525), hash: TFDRIFT },
    Application { namespace: "platform", name: "importer", image: "registry.example/importer:0.1.4", replicas: 1, port: None, hash: HashAnnotation::UnknownAlgorithm },
];

impl Shop {
    /// Creates a cluster with all objects as declared.
    pub fn open(clock: Clock, prefix: &str) -> Result<Self, StatusError> {
        let created = clock.now() - INITIAL_AGE;
        let shop = Self { cluster: Cluster::new(Clock::new(move || created)), prefix: prefix.into() };
        shop.create_missing()?;
        terraform::apply(&shop.cluster)?;
        helm::install(&shop.cluster)?;
        shop.apply_banner()?;
        finish_rollouts(&shop.cluster);
        Ok(Self { cluster: shop.cluster.with_clock(clock), prefix: shop.prefix })
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Creates the objects that do not exist, as `terraform apply` does.
    pub(super) fn create_missing(&self) -> Result<(), StatusError> {
        let namespace = Kind::namespace();
        for name in ["default", "shop", "payments", "platform", KUBECTL_NAMESPACE, terraform::NAMESPACE] {
            if self.cluster.get(&ObjectKey::new(namespace.clone(), "", name)).is_none() {
                let object = json!({"metadata": {"name": name}});
                self.cluster.create(&namespace, terraform::FIELD_MANAGER, object)?;
            }
        }
        for application in APPLICATIONS {
            let deployment = deployment_key(application.namespace, application.name);
            self.create_if_missing(&deployment, application.deployment(), application.hash)?;
            if let Some(port) = application.port {
                let service = service_key(application.namespace, application.name);
                self.create_if_missing(&service, application.service(port), application.hash)?;
            }
        }
        Ok(())
    }

    fn create_if_missing(
        &self,
        key: &ObjectKey,
        mut object: Value,
        annotation: HashAnnotation,
    ) -> Result<(), StatusError> {
        if self.cluster.get(key).is_some() {
            return Ok(());
        }
        object["metadata"]["labels"][format!("{}/enabled", self.prefix)] = "true".into();
        let created = self.cluster.create(&key.kind, terraform::FIELD_MANAGER, object)?;
        let hash = match annotation {
            HashAnnotation::Hash(algorithm) => self.hash(algorithm, &key.kind, &created),
            HashAnnotation::Missing => return Ok(()),
            HashAnnotation::UnknownAlgorithm => format!("jcs-v2:{}", "0123456789abcdef".repeat(4)),
        };
        let patch = json!({"metadata": {"annotations": {self.hash_annotation(): hash}}});
        self.cluster.patch(key, terraform::FIELD_MANAGER, patch).map(|_| ())
    }

    /// Patches an object and its hash annotation in one write, as `terraform apply` does.
    pub(super) fn apply(&self, key: &ObjectKey, mut patch: Value) -> Result<(), StatusError> {
        // A deleted object is created by the next step of the story that creates missing objects.
        if self.cluster.get(key).is_none() {
            return Ok(());
        }
        let patched = self.cluster.dry_run_patch(key, terraform::FIELD_MANAGER, patch.clone())?;
        let hash = self.hash(Algorithm::TfdriftV1, &key.kind, &patched);
        patch["metadata"]["annotations"][self.hash_annotation()] = hash.into();
        self.cluster.patch(key, terraform::FIELD_MANAGER, patch).map(|_| ())
    }

    /// Applies `banner.json` with its last-applied annotation, as `kubectl apply` does.
    pub(super) fn apply_banner(&self) -> Result<(), StatusError> {
        let mut object: Value =
            serde_json::from_str(include_str!("kubectl/banner.json")).expect("banner.json is valid JSON");
        object["metadata"]["annotations"] = json!({});
        let last_applied = format!("{object}\n");
        object["metadata"]["annotations"][LAST_APPLIED] = last_applied.into();
        let key = Cluster::key_of(&object)?;
        match self.cluster.get(&key) {
            None => self.cluster.create(&key.kind, KUBECTL_APPLY, object)?,
            Some(_) => self.cluster.patch(&key, KUBECTL_APPLY, object)?,
        };
        Ok(())
    }

    fn hash_annotation(&self) -> String {
        format!("{}/spec-hash", self.prefix)
    }

    fn hash(&self, algorithm: Algorithm, kind: &Kind, object: &Value) -> String {
        let digest = fingerprint(algorithm, kind, &object.to_string(), &self.prefix)
            .expect("objects of the shop have a hash");
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

pub(super) fn deployment_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Kind::deployment(), namespace, name)
}

pub(super) fn service_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Kind::service(), namespace, name)
}
