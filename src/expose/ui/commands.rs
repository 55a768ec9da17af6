//! Commands that a person could copy. We never run them.

use crate::model::{Algorithm, ObjectKey};

/// Shows the object, and who owns which field.
pub(super) fn look(key: &ObjectKey) -> String {
    format!(
        "kubectl {}get {} {} -o yaml --show-managed-fields",
        namespace(key),
        quote(&key.kind.to_string()),
        quote(&key.name)
    )
}

/// Makes the present state the declared one, with the algorithm that the object is stamped with. Nothing is recorded where
/// there is no hash.
pub(super) fn accept(key: &ObjectKey, prefix: &str, algorithm: Option<Algorithm>) -> String {
    let algorithm = algorithm.map_or_else(String::new, |own| format!("--algorithm {} ", own.name()));
    format!(
        "hash=$(drift-exporter hash {algorithm}{namespace}{object}) && kubectl {namespace}annotate {kind} {name} {annotation}=\"${{hash%% *}}\" --overwrite",
        object = quote(&format!("{}/{}", key.kind, key.name)),
        namespace = namespace(key),
        kind = quote(&key.kind.to_string()),
        name = quote(&key.name),
        annotation = quote(&format!("{prefix}/spec-hash")),
    )
}

/// Shows what Terraform would do about a resource.
pub(super) fn plan(address: &str) -> String {
    format!("terraform plan -target={}", quote(address))
}

/// Shows what a release declares.
pub(super) fn manifest(release: &str) -> String {
    format!("helm get manifest {}", of_release(release))
}

/// Deploys a revision of a release once more. That of the deployed one puts back what others changed.
pub(super) fn deploy_again(release: &str, revision: u64) -> String {
    format!("helm rollback {} {revision}", of_release(release))
}

/// A release as it is told, `<namespace>/<name>`, as Helm wants it.
fn of_release(told: &str) -> String {
    let (namespace, name) = told.split_once('/').unwrap_or(("default", told));
    let name = name.split(' ').next().unwrap_or(name);
    format!("-n {} {}", quote(namespace), quote(name))
}

fn namespace(key: &ObjectKey) -> String {
    if key.namespace.is_empty() { String::new() } else { format!("-n {} ", quote(&key.namespace)) }
}

/// A word as a shell takes it literally. People copy what stands here, and names may hold anything.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/:@".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{accept, deploy_again, look, manifest, plan, quote};
    use crate::model::{Algorithm, Kind, ObjectKey};

    fn key(kind: Kind, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey { kind: Arc::new(kind), namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn an_address_is_quoted_as_a_shell_wants_it() {
        assert_eq!(plan("a_b.c"), "terraform plan -target=a_b.c");
        assert_eq!(plan("module.x[\"eu\"].a_b.c"), "terraform plan -target='module.x[\"eu\"].a_b.c'");
    }

    #[test]
    fn a_release_is_named_as_helm_wants_it() {
        assert_eq!(manifest("shop/web"), "helm get manifest -n shop web");
        assert_eq!(deploy_again("shop/web (ConfigMap)", 3), "helm rollback -n shop web 3");
        assert_eq!(manifest("shop/$(x)"), "helm get manifest -n shop '$(x)'");
    }

    #[test]
    fn commands_name_the_object_and_nothing_else() {
        let web = key(Kind::deployment(), "shop", "web");
        assert_eq!(look(&web), "kubectl -n shop get deployments.apps web -o yaml --show-managed-fields");
        assert_eq!(
            accept(&web, "drift.example.com", Some(Algorithm::JcsV1)),
            "hash=$(drift-exporter hash --algorithm jcs-v1 -n shop deployments.apps/web) && \
             kubectl -n shop annotate deployments.apps web drift.example.com/spec-hash=\"${hash%% *}\" --overwrite"
        );
        assert!(accept(&web, "drift.example.com", None).starts_with("hash=$(drift-exporter hash -n shop "));
        let role = key(Kind { namespaced: false, ..Kind::service() }, "", "a");
        assert_eq!(look(&role), "kubectl get services a -o yaml --show-managed-fields");
    }

    #[test]
    fn a_name_cannot_break_out_of_a_command() {
        for (word, quoted) in [
            ("system:node", "system:node"),
            ("$(reboot)", "'$(reboot)'"),
            ("a'; reboot '", r"'a'\''; reboot '\'''"),
            ("`x`", "'`x`'"),
            ("a b", "'a b'"),
            ("--all", "'--all'"),
            ("", "''"),
        ] {
            assert_eq!(quote(word), quoted);
        }
    }
}
