//! What is looked at where nobody has written settings: every source that needs none, and every kind that people declare.

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client,
    api::{ListParams, PartialObjectMeta},
};

use crate::{
    model::{Kind, Scope, Served, Source, WantedKind},
    settings::{HelmFrom, Settings, TerraformFrom},
};

/// Kinds, by group and name, that controllers make and nobody declares, or that are many and tell nothing. `*`: all of a group.
const UNDECLARED: &[(&str, &str)] = &[
    ("", "ComponentStatus"),
    ("", "Endpoints"),
    ("", "Event"),
    ("", "Node"),
    ("", "Pod"),
    ("", "Secret"),
    ("apps", "ControllerRevision"),
    ("apps", "ReplicaSet"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("coordination.k8s.io", "*"),
    ("discovery.k8s.io", "*"),
    ("events.k8s.io", "*"),
    ("internal.apiserver.k8s.io", "*"),
    ("metrics.k8s.io", "*"),
    ("networking.k8s.io", "IPAddress"),
    ("resource.k8s.io", "ResourceSlice"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("storage.k8s.io", "VolumeAttachment"),
];

/// Namespaces that are tried at a time.
const AT_ONCE: usize = 16;

/// Settings for one look. `named`: the only kinds that matter; none for all that are usually declared. `namespace`: the only one
/// that matters. `readable`: where Secrets may be read. States often lie elsewhere than what they declare, and are few; releases are
/// many, and lie where they are installed.
pub fn usual_settings(served: &Served, named: &[Kind], namespace: Option<&str>, readable: Scope) -> Settings {
    let mut kinds: Vec<WantedKind> = if named.is_empty() {
        usual_kinds(served, namespace.is_none()).map(WantedKind::exactly).collect()
    } else {
        // Who scales an object is told by its autoscaler, which need not be asked for.
        let autoscaler = WantedKind { by_the_way: true, ..WantedKind::exactly(&Kind::autoscaler()) };
        let named = named.iter().filter(|kind| !kind.is_guarded());
        named.map(WantedKind::exactly).chain([autoscaler]).collect()
    };
    kinds.sort();
    kinds.dedup();
    let installed = Scope::new(namespace, []);
    Settings {
        namespaces: namespace.into_iter().map(Into::into).collect(),
        kinds,
        sources: vec![Source::Annotation, Source::Terraform, Source::Helm, Source::LastApplied],
        helm: HelmFrom { scope: readable.within(&installed), ..HelmFrom::default() },
        terraform: TerraformFrom { scope: readable, ..TerraformFrom::default() },
        ..Settings::default()
    }
}

/// Every kind that people declare, in the version that the API server prefers.
fn usual_kinds(served: &Served, cluster_scoped: bool) -> impl Iterator<Item = &Kind> {
    let mut seen = Vec::new();
    let first = move |kind: &&Kind| {
        let name = (kind.group.clone(), kind.kind.clone());
        let is_first = !seen.contains(&name);
        seen.push(name);
        is_first
    };
    let watchable = served.kinds.iter().filter(|own| own.watchable).map(|own| &*own.kind);
    watchable
        .filter(|kind| is_declared(kind))
        .filter(move |kind| cluster_scoped || kind.namespaced)
        .filter(first)
}

fn is_declared(kind: &Kind) -> bool {
    let (group, name) = (&*kind.group, &*kind.kind);
    !UNDECLARED.iter().any(|own| *own == (group, name) || *own == (group, "*"))
}

/// The namespaces in which Secrets may be listed: all of them, where that is allowed at once or cannot be found out; else the
/// one that matters, or those that are found.
pub async fn readable_scope(client: &Client, namespace: Option<&str>) -> Scope {
    // Asking with a label that none has shows nothing and costs nothing.
    let nothing = ListParams::default().labels("owner=helm,!owner").limit(1);
    let everywhere: Api<PartialObjectMeta<Secret>> = Api::all(client.clone());
    if !is_forbidden(&everywhere.list(&nothing).await) {
        return Scope::default();
    }
    if namespace.is_some() {
        return Scope::new(namespace, []);
    }
    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    let Ok(found) = namespaces.list(&ListParams::default()).await else { return Scope::default() };
    let names = found.items.into_iter().filter_map(|own| own.metadata.name);
    let tried = stream::iter(names).map(async |name| {
        let there: Api<PartialObjectMeta<Secret>> = Api::namespaced(client.clone(), &name);
        there.list(&nothing).await.is_ok().then_some(name)
    });
    let readable: Vec<String> =
        tried.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
    Scope::new(readable, [])
}

fn is_forbidden<T>(answer: &Result<T, kube::Error>) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 403)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Kind, Scope, Served, usual_settings};
    use crate::model::ServedKind;

    fn served() -> Served {
        let kind = |group: &str, version: &str, kind: &str, namespaced| ServedKind {
            kind: Arc::new(Kind { namespaced, ..Kind::unseen(group, version, kind) }),
            watchable: true,
        };
        let kinds = vec![
            kind("", "v1", "ConfigMap", true),
            kind("", "v1", "Secret", true),
            kind("", "v1", "Pod", true),
            kind("events.k8s.io", "v1", "Event", true),
            kind("example.com", "v2", "Widget", true),
            kind("example.com", "v1", "Widget", true),
            kind("rbac.authorization.k8s.io", "v1", "ClusterRole", false),
            ServedKind {
                watchable: false,
                ..kind("authorization.k8s.io", "v1", "SubjectAccessReview", false)
            },
        ];
        Served { kinds }
    }

    fn wanted(named: &[Kind], namespace: Option<&str>) -> Vec<String> {
        let settings = usual_settings(&served(), named, namespace, Scope::default());
        settings.wanted_kinds().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_that_people_declare_is_looked_at_once() {
        let everywhere =
            ["v1 ConfigMap", "example.com/v2 Widget", "rbac.authorization.k8s.io/v1 ClusterRole"];
        assert_eq!(wanted(&[], None), everywhere);
        assert_eq!(wanted(&[], Some("shop")), everywhere[..2]);
    }

    #[test]
    fn of_named_kinds_no_other_is_looked_at_but_who_scales_them() {
        let secret = Kind::unseen("", "v1", "Secret");
        let named = [Kind::deployment(), secret];
        assert_eq!(wanted(&named, None), ["apps/v1 Deployment", "autoscaling/v2 HorizontalPodAutoscaler"]);
    }
}
