//! The kinds of tests. `tests/it` includes this file, too.

/// Group and name of the kinds whose facts are read, each in its own way, and a custom resource.
#[cfg(test)]
pub(crate) const KINDS_WITH_FACTS: &[(&str, &str)] = &[
    ("apps", "Deployment"),
    ("", "Service"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("apps", "ReplicaSet"),
    ("batch", "Job"),
    ("batch", "CronJob"),
    ("", "Pod"),
    ("", "PersistentVolumeClaim"),
    ("", "PersistentVolume"),
    ("", "Namespace"),
    ("", "ConfigMap"),
    ("networking.k8s.io", "Ingress"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("policy", "PodDisruptionBudget"),
    ("apiregistration.k8s.io", "APIService"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("infra.opr8r", "SimpleResource"),
];
