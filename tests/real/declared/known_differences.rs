//! Edits for which kubectl and we disagree, or that kubectl cannot compare and we do not report, each with its reason.

/// The oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judge {
    /// kubectl with its last-applied annotation.
    Kubectl,
    /// kubectl with the manifest of a release, without the previously applied state.
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

/// An exception.
pub(super) struct Exception {
    /// The kind; `*` for all.
    kind: &'static str,
    /// The end of the pointer; `*` is any step.
    end: &'static str,
    /// Whether we report drift.
    pub(super) drift: bool,
    pub(super) why: &'static str,
}

const FILLED: &str = "declared as empty, and set by others";
const SYSTEM: &str = "added to lists and maps by the system";
const KEYS: &str = "an undeclared key identifies another element";
const FIRST_KEY: &str = "kubectl identifies elements by the first of several keys";
const OLD_NAMES: &str = "kubectl changes one of two names, and the server uses the other";

const EXCEPTIONS: &[Exception] = &[
    exception("*", "clientConfig/caBundle", false, FILLED),
    exception("*", "ports/*/hostPort", false, FILLED),
    exception("CustomResourceDefinition", "names/listKind", false, FILLED),
    exception("CustomResourceDefinition", "names/singular", false, FILLED),
    exception("PersistentVolumeClaim", "spec/volumeName", false, FILLED),
    exception("Pod", "spec/nodeName", false, FILLED),
    exception("Pod", "spec/imagePullSecrets/*", false, FILLED),
    exception("Secret", "type", false, FILLED),
    exception("LimitRange", "defaultRequest/*", false, SYSTEM),
    exception("Pod", "labelSelector/matchExpressions/*", false, SYSTEM),
    exception("Pod", "spec/tolerations/*/tolerationSeconds", false, SYSTEM),
    exception("*", "ports/*/protocol", true, KEYS),
    exception("Deployment", "ports/*/containerPort", true, FIRST_KEY),
    exception("Deployment", "topologySpreadConstraints/1/labelSelector", true, FIRST_KEY),
    exception("Deployment", "topologySpreadConstraints/1/labelSelector/matchLabels", true, FIRST_KEY),
    exception("Deployment", "topologySpreadConstraints/1/labelSelector/matchLabels/app", true, FIRST_KEY),
    exception("Service", "ports/*/targetPort", false, FIRST_KEY),
    exception("ReplicaSet", "env/1/name", true, "kubectl merges duplicate elements"),
    exception("*", "template/spec/serviceAccountName", true, OLD_NAMES),
    exception("Widget", "free/big", true, "kubectl decodes large numbers as floats"),
];

const fn exception(kind: &'static str, end: &'static str, drift: bool, why: &'static str) -> Exception {
    Exception { kind, end, drift, why }
}

/// The exception for an edit.
pub(super) fn find_exception(kind: &str, pointer: &str) -> Option<&'static Exception> {
    let ends_in = |end: &str| {
        let (mut steps, mut expected) = (pointer.rsplit('/'), end.rsplit('/'));
        expected.all(|expected| steps.next().is_some_and(|step| expected == "*" || expected == step))
    };
    EXCEPTIONS
        .iter()
        .find(|exception| (exception.kind == "*" || exception.kind == kind) && ends_in(exception.end))
}
