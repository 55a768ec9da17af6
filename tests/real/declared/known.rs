//! Edits about which kubectl and we differ, or which kubectl cannot judge and we do not call drift, each with its reason.

/// Who judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judge {
    /// kubectl, which remembers what it applied.
    Kubectl,
    /// kubectl with the manifest of a release: it does not know what Helm sent before.
    Helm,
}

impl Judge {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kubectl => "kubectl",
            Self::Helm => "helm get manifest | kubectl diff",
        }
    }
}

/// An edit that is known.
pub(super) struct Known {
    /// The kind; `*` for all.
    kind: &'static str,
    /// The end of the pointer; `*` is any step.
    end: &'static str,
    /// Whether we call it drift.
    pub(super) drift: bool,
    pub(super) why: &'static str,
}

const FILLED: &str = "declared to be empty, and filled by others";
const SYSTEM: &str = "what the system adds to lists and maps";
const KEYS: &str = "a key that nobody declared makes another element of it";
const FIRST_KEY: &str = "kubectl knows elements by the first of several keys";
const OLD_NAMES: &str = "kubectl changes one of two names, and the server goes by the other";

const KNOWN: &[Known] = &[
    known("*", "clientConfig/caBundle", false, FILLED),
    known("*", "ports/*/hostPort", false, FILLED),
    known("CustomResourceDefinition", "names/listKind", false, FILLED),
    known("CustomResourceDefinition", "names/singular", false, FILLED),
    known("PersistentVolumeClaim", "spec/volumeName", false, FILLED),
    known("Pod", "spec/nodeName", false, FILLED),
    known("Pod", "spec/imagePullSecrets/*", false, FILLED),
    known("Secret", "type", false, FILLED),
    known("LimitRange", "defaultRequest/*", false, SYSTEM),
    known("Pod", "labelSelector/matchExpressions/*", false, SYSTEM),
    known("Pod", "spec/tolerations/*/tolerationSeconds", false, SYSTEM),
    known("*", "ports/*/protocol", true, KEYS),
    known("Deployment", "ports/*/containerPort", true, FIRST_KEY),
    known("Deployment", "topologySpreadConstraints/1/labelSelector", true, FIRST_KEY),
    known("Deployment", "topologySpreadConstraints/1/labelSelector/matchLabels", true, FIRST_KEY),
    known("Deployment", "topologySpreadConstraints/1/labelSelector/matchLabels/app", true, FIRST_KEY),
    known("Service", "ports/*/targetPort", false, FIRST_KEY),
    known("ReplicaSet", "env/1/name", true, "kubectl takes no element twice"),
    known("*", "template/spec/serviceAccountName", true, OLD_NAMES),
    known("Widget", "free/big", true, "kubectl has large numbers as fractions"),
];

const fn known(kind: &'static str, end: &'static str, drift: bool, why: &'static str) -> Known {
    Known { kind, end, drift, why }
}

/// What is known about an edit.
pub(super) fn known_about(kind: &str, pointer: &str) -> Option<&'static Known> {
    let ends_in = |end: &str| {
        let (mut steps, mut wanted) = (pointer.rsplit('/'), end.rsplit('/'));
        wanted.all(|wanted| steps.next().is_some_and(|step| wanted == "*" || wanted == step))
    };
    KNOWN.iter().find(|known| (known.kind == "*" || known.kind == kind) && ends_in(known.end))
}
