//! Commands that a person could copy. We never run them.

use crate::types::{Algorithm, ObjectKey};

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
        object = of_object(key),
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

/// Has Terraform make a resource as it is declared.
pub(super) fn apply(address: &str) -> String {
    format!("terraform apply -target={}", quote(address))
}

/// Has Terraform take over what is there; the configuration has to follow.
pub(super) fn refresh(address: &str) -> String {
    format!("terraform apply -refresh-only -target={}", quote(address))
}

/// Shows how what is there differs from what a release declares.
pub(super) fn release_diff(release: &str) -> String {
    let Release { namespace, name } = of_release(release);
    format!("helm get manifest {namespace} {name} | kubectl {namespace} diff -f -")
}

/// Shows how the object differs from what kubectl applied last.
pub(super) fn applied_diff(key: &ObjectKey) -> String {
    format!("{} | kubectl diff -f -", view_applied(key))
}

/// Applies once more what kubectl applied last.
pub(super) fn apply_again(key: &ObjectKey) -> String {
    format!("{} | kubectl apply -f -", view_applied(key))
}

/// Writes down as applied what is there, by hand.
pub(super) fn edit_applied(key: &ObjectKey) -> String {
    format!("kubectl {}apply edit-last-applied {}", namespace(key), of_object(key))
}

fn view_applied(key: &ObjectKey) -> String {
    format!("kubectl {}apply view-last-applied {} -o yaml", namespace(key), of_object(key))
}

/// Shows how the cluster differs from a file.
pub(super) fn file_diff(file: &str) -> String {
    format!("kubectl diff -f {}", quote(file))
}

/// Applies a file.
pub(super) fn apply_file(file: &str) -> String {
    format!("kubectl apply -f {}", quote(file))
}

/// Shows an object as this program sees it, on the command line.
pub(super) fn explain(key: &ObjectKey) -> String {
    format!("drift-exporter explain {}{}", namespace(key), of_object(key))
}

/// `deployments.apps/web`.
fn of_object(key: &ObjectKey) -> String {
    quote(&format!("{}/{}", key.kind, key.name))
}

/// Deploys a revision of a release once more. That of the deployed one puts back what others changed.
pub(super) fn deploy_again(release: &str, revision: u64) -> String {
    let Release { namespace, name } = of_release(release);
    format!("helm rollback {namespace} {name} {revision}")
}

/// A release, quoted.
struct Release {
    /// With its flag.
    namespace: String,
    name: String,
}

/// A release as it is told, `<namespace>/<name>`, as Helm wants it.
fn of_release(told: &str) -> Release {
    let (namespace, name) = told.split_once('/').unwrap_or(("default", told));
    let name = name.split(' ').next().unwrap_or(name);
    Release { namespace: format!("-n {}", quote(namespace)), name: quote(name) }
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

    use super::{accept, apply_again, deploy_again, explain, look, plan, quote, release_diff};
    use crate::types::{Algorithm, Kind, ObjectKey};

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
        assert_eq!(release_diff("shop/web"), "helm get manifest -n shop web | kubectl -n shop diff -f -");
        assert_eq!(deploy_again("shop/web (ConfigMap)", 3), "helm rollback -n shop web 3");
        let odd = release_diff("shop/$(x)");
        assert_eq!(odd, "helm get manifest -n shop '$(x)' | kubectl -n shop diff -f -");
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
        let again =
            "kubectl -n shop apply view-last-applied deployments.apps/web -o yaml | kubectl apply -f -";
        assert_eq!(apply_again(&web), again);
        assert_eq!(explain(&web), "drift-exporter explain -n shop deployments.apps/web");
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
