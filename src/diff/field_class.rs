//! What kind of field a path leads to.

use crate::types::{FieldClass, FieldPath, Segment};

/// The class of the field at `path`, in an object of any kind.
pub fn class_of(path: &FieldPath) -> FieldClass {
    let fields: Vec<&str> = path
        .segments()
        .iter()
        .filter_map(|segment| match segment {
            Segment::Field(name) => Some(&**name),
            Segment::Element(_) | Segment::Index(_) | Segment::Value(_) => None,
        })
        .collect();
    if let ["rules" | "subjects" | "roleRef" | "aggregationRule", ..] = *fields.as_slice() {
        return FieldClass::Rbac;
    }
    if let ["data" | "binaryData" | "stringData", ..] = *fields.as_slice() {
        return FieldClass::Data;
    }
    // The outermost name that says anything decides: a port in a probe belongs to the probe.
    fields.iter().find_map(|name| by_name(name)).unwrap_or(FieldClass::Other)
}

fn by_name(name: &str) -> Option<FieldClass> {
    Some(match name {
        "replicas" | "minReplicas" | "maxReplicas" => FieldClass::Replicas,
        "image" | "imagePullPolicy" => FieldClass::Image,
        "env" | "envFrom" => FieldClass::Env,
        "resources" | "hard" | "limits" => FieldClass::Resources,
        "ports" => FieldClass::Ports,
        "selector" | "podSelector" | "labelSelector" | "namespaceSelector" => FieldClass::Selector,
        "labels" => FieldClass::Labels,
        "annotations" => FieldClass::Annotations,
        "securityContext"
        | "hostNetwork"
        | "hostPID"
        | "hostIPC"
        | "serviceAccountName"
        | "automountServiceAccountToken"
        | "shareProcessNamespace"
        | "runtimeClassName" => FieldClass::Security,
        "livenessProbe" | "readinessProbe" | "startupProbe" => FieldClass::Probes,
        "volumes" | "volumeMounts" | "volumeDevices" | "volumeClaimTemplates" => FieldClass::Volumes,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{FieldClass, class_of};

    #[test]
    fn the_outermost_telling_name_decides() {
        for (path, class) in [
            ("spec.replicas", FieldClass::Replicas),
            ("spec.template.spec.containers[name=web].image", FieldClass::Image),
            (
                "spec.template.spec.containers[name=web].env[name=A].valueFrom.secretKeyRef.name",
                FieldClass::Env,
            ),
            ("spec.template.spec.containers[name=web].livenessProbe.httpGet.port", FieldClass::Probes),
            ("spec.template.spec.volumes[name=a].configMap.name", FieldClass::Volumes),
            ("spec.template.metadata.labels.app", FieldClass::Labels),
            ("spec.selector.matchLabels.app", FieldClass::Selector),
            ("spec.template.spec.hostNetwork", FieldClass::Security),
            ("rules[0].verbs", FieldClass::Rbac),
            ("spec.rules[0].host", FieldClass::Other),
            ("data.key", FieldClass::Data),
        ] {
            assert_eq!(class_of(&path.parse().unwrap()), class, "{path}");
        }
    }
}
