//! Commands to copy, by the tool that declares an object: inspect it, revert it, or accept it. The exporter never runs
//! them.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use crate::{
    engine::{BaselineState, DeclaredBy, Snapshot},
    rules::{AcceptedField, Justification, acceptance_rules, rules_to_yaml},
    server::{query::ClaimRow, redaction::ValueRedactor},
    types::{Algorithm, HashBaseline, ObjectKey, Source, VerdictKind},
};

const RULES_EXPIRE_AFTER: SignedDuration = SignedDuration::from_hours(30 * 24);
const MAX_RULES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Inspect,
    Revert,
    Accept,
}

/// A command, or YAML to paste into the settings.
#[derive(Debug)]
struct Command {
    purpose: Purpose,
    description: &'static str,
    text: String,
}

fn inspect(description: &'static str, text: String) -> Command {
    Command { purpose: Purpose::Inspect, description, text }
}

fn revert(description: &'static str, text: String) -> Command {
    Command { purpose: Purpose::Revert, description, text }
}

fn accept(description: &'static str, text: String) -> Command {
    Command { purpose: Purpose::Accept, description, text }
}

/// The commands for one object. `prefix` is the prefix of the exporter's annotations.
pub(super) fn commands(
    claims: &[ClaimRow<'_>],
    snapshot: &Snapshot,
    prefix: &str,
    values: &ValueRedactor,
    now: Timestamp,
) -> Markup {
    let Some(key) = claims.first().map(|row| row.entry.key()) else { return html! {} };
    let mut commands = vec![
        inspect("See it, and who owns which field:", kubectl_get(key)),
        inspect("See all that is known about it:", explain(key)),
    ];
    commands.extend(claims.iter().flat_map(|row| source_commands(row, snapshot, prefix)));
    commands.extend(suggested_rules(key, claims, values, now));
    html! {
        @for (purpose, title) in [(Purpose::Inspect, "Inspect"), (Purpose::Revert, "Revert"), (Purpose::Accept, "Accept")] {
            @if commands.iter().any(|command| command.purpose == purpose) {
                h3 { (title) }
                @for command in commands.iter().filter(|command| command.purpose == purpose) {
                    p { (command.description) }
                    pre data-copy { code { (command.text) } }
                }
            }
        }
    }
}

/// The commands of the tool that declares a claim. Claims in sync have commands to inspect them only.
fn source_commands(row: &ClaimRow<'_>, snapshot: &Snapshot, prefix: &str) -> Vec<Command> {
    let (claim, key) = (&row.entry.claim, row.entry.key());
    let mut commands = match (claim.source, claim.declared_by().first()) {
        (Source::Terraform, Some(declared)) => terraform_commands(&declared.address),
        (Source::Helm, Some(declared)) => {
            helm_commands(&declared.baseline, deployed_revision(declared, snapshot))
        }
        (Source::Manifest, Some(declared)) => {
            let file = quote(&manifest_file(declared));
            let description = "See how the cluster differs from the file, where it lies:";
            vec![
                inspect(description, format!("kubectl diff -f {file}")),
                revert("Apply the file once more:", format!("kubectl apply -f {file}")),
            ]
        }
        (Source::LastApplied, _) => last_applied_commands(key),
        (Source::Annotation | Source::Unclaimed, _) => vec![accept(
            "Record its hash as it is now:",
            annotate_hash(
                key,
                prefix,
                row.entry.object.live().and_then(|object| hash_algorithm(&object.hash_baseline)),
            ),
        )],
        (Source::Terraform | Source::Helm | Source::Manifest | Source::StatusHash, _) => Vec::new(),
    };
    let needs_change = row.episode().is_some() || row.verdict == VerdictKind::NoBaseline;
    commands.retain(|command| needs_change || command.purpose == Purpose::Inspect);
    commands
}

/// The path of a manifest: relative to the configured directory, or the configured file itself.
fn manifest_file(declared: &DeclaredBy) -> String {
    let (configured, relative) = (Path::new(&*declared.baseline), Path::new(&*declared.address));
    let path =
        if configured.ends_with(relative) { configured.to_path_buf() } else { configured.join(relative) };
    path.display().to_string()
}

fn terraform_commands(address: &str) -> Vec<Command> {
    let target = format!("-target={}", quote(address));
    vec![
        inspect("See what Terraform would do about it:", format!("terraform plan {target}")),
        revert("Have Terraform put it back:", format!("terraform apply {target}")),
        accept(
            "Take it over into the state; the configuration has to follow:",
            format!("terraform apply -refresh-only {target}"),
        ),
    ]
}

fn deployed_revision(declared: &DeclaredBy, snapshot: &Snapshot) -> Option<u64> {
    let declares = |state: &&BaselineState| {
        state.baseline.source == Source::Helm && state.baseline.name == declared.baseline
    };
    let baseline = snapshot.baselines.values().find(declares);
    baseline.and_then(|state| state.baseline.version.as_ref()).map(|version| version.serial)
}

/// `release` is the name of a baseline: `<namespace>/<name>`, and a note in parentheses.
fn helm_commands(release: &str, revision: Option<u64>) -> Vec<Command> {
    let (namespace, name) = release.split_once('/').unwrap_or(("default", release));
    let name = quote(name.split(' ').next().unwrap_or(name));
    let flag = format!("-n {}", quote(namespace));
    let mut commands = vec![inspect(
        "See how the cluster differs from what Helm declares:",
        format!("helm get manifest {flag} {name} | kubectl {flag} diff -f -"),
    )];
    // A rollback to the deployed revision reverts changes by other tools.
    commands.extend(revision.map(|revision| {
        let description = "Have Helm put back what others changed in the release:";
        revert(description, format!("helm rollback {flag} {name} {revision}"))
    }));
    commands
}

fn last_applied_commands(key: &ObjectKey) -> Vec<Command> {
    let (namespace, object) = (namespace_flag(key), object_arg(key));
    let view = format!("kubectl {namespace}apply view-last-applied {object} -o yaml");
    let edit = format!("kubectl {namespace}apply edit-last-applied {object}");
    vec![
        inspect("See how it differs from what was applied last:", format!("{view} | kubectl diff -f -")),
        revert("Apply once more what was applied last:", format!("{view} | kubectl apply -f -")),
        accept("Edit the last-applied configuration to match the live object:", edit),
    ]
}

/// Rules that ignore the current differences for a while. A rule does not contain a redacted value, so that its digest
/// cannot be used to guess the value.
fn suggested_rules(
    key: &ObjectKey,
    claims: &[ClaimRow<'_>],
    values: &ValueRedactor,
    now: Timestamp,
) -> Option<Command> {
    let expires = (now + RULES_EXPIRE_AFTER).strftime("%Y-%m-%d").to_string();
    let why = Justification { owner: "who answers for it", reason: "why it is fine", expires: &expires };
    let ObjectKey { kind, namespace, name } = key;
    let differences = claims.iter().filter_map(ClaimRow::episode).flat_map(|episode| &episode.differences);
    let fields = differences.map(|difference| {
        let finding = &difference.finding;
        let (path, value) = (finding.path.as_str(), values.redact(finding, namespace).actual.into_owned());
        AcceptedField { group: &kind.group, kind: &kind.kind, namespace, name, path, value }
    });
    let mut rules = acceptance_rules(fields, &why);
    let more = rules.len().saturating_sub(MAX_RULES);
    rules.truncate(MAX_RULES);
    let rest = if more > 0 { format!("# {more} fields more differ\n") } else { String::new() };
    let description = "Ignore just this for a while, by rules in the settings:";
    (!rules.is_empty()).then(|| accept(description, rules_to_yaml(&rules) + &rest))
}

/// The algorithm of the object's current hash annotation, which a new hash keeps.
fn hash_algorithm(hash: &HashBaseline) -> Option<Algorithm> {
    let HashBaseline::Mismatch(mismatch) = hash else { return None };
    Some(mismatch.algorithm)
}

fn kubectl_get(key: &ObjectKey) -> String {
    format!(
        "kubectl {}get {} {} -o yaml --show-managed-fields",
        namespace_flag(key),
        quote(&key.kind.to_string()),
        quote(&key.name)
    )
}

fn explain(key: &ObjectKey) -> String {
    format!("drift-exporter explain {}{}", namespace_flag(key), object_arg(key))
}

/// Declares the live state. The annotation stays as it is if the hash cannot be computed.
fn annotate_hash(key: &ObjectKey, prefix: &str, algorithm: Option<Algorithm>) -> String {
    let algorithm = algorithm.map_or_else(String::new, |algorithm| format!("--algorithm {algorithm} "));
    format!(
        "hash=$(drift-exporter hash {algorithm}{namespace}{object}) && kubectl {namespace}annotate {kind} {name} {annotation}=\"${{hash%% *}}\" --overwrite",
        object = object_arg(key),
        namespace = namespace_flag(key),
        kind = quote(&key.kind.to_string()),
        name = quote(&key.name),
        annotation = quote(&format!("{prefix}/spec-hash")),
    )
}

/// `deployments.apps/web`.
fn object_arg(key: &ObjectKey) -> String {
    quote(&format!("{}/{}", key.kind, key.name))
}

/// `-n shop `, or nothing for cluster-scoped objects.
fn namespace_flag(key: &ObjectKey) -> String {
    if key.namespace.is_empty() { String::new() } else { format!("-n {} ", quote(&key.namespace)) }
}

/// Quotes a word for the shell. Names come from the cluster and may contain anything.
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
    use super::{Command, annotate_hash, helm_commands, kubectl_get, quote, terraform_commands};
    use crate::types::{Algorithm, Kind, ObjectKey};

    fn key(kind: Kind, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::new(kind, namespace, name)
    }

    fn texts(commands: Vec<Command>) -> Vec<String> {
        commands.into_iter().map(|command| command.text).collect()
    }

    #[test]
    fn terraform_address_is_quoted_for_the_shell() {
        let plan = |address| texts(terraform_commands(address)).remove(0);
        assert_eq!(plan("a_b.c"), "terraform plan -target=a_b.c");
        assert_eq!(plan("module.x[\"eu\"].a_b.c"), "terraform plan -target='module.x[\"eu\"].a_b.c'");
    }

    #[test]
    fn helm_commands_name_release_and_namespace() {
        let diff = "helm get manifest -n shop web | kubectl -n shop diff -f -";
        assert_eq!(texts(helm_commands("shop/web", None)), [diff]);
        let both = texts(helm_commands("shop/web (ConfigMap)", Some(3)));
        assert_eq!(both, [diff, "helm rollback -n shop web 3"]);
        let quoted = "helm get manifest -n shop '$(x)' | kubectl -n shop diff -f -";
        assert_eq!(texts(helm_commands("shop/$(x)", None)), [quoted]);
    }

    #[test]
    fn commands_name_the_object() {
        let web = key(Kind::deployment(), "shop", "web");
        assert_eq!(
            annotate_hash(&web, "drift.example.com", Some(Algorithm::JcsV1)),
            "hash=$(drift-exporter hash --algorithm jcs-v1 -n shop deployments.apps/web) && \
             kubectl -n shop annotate deployments.apps web drift.example.com/spec-hash=\"${hash%% *}\" --overwrite"
        );
        assert!(
            annotate_hash(&web, "drift.example.com", None).starts_with("hash=$(drift-exporter hash -n shop ")
        );
        let role = key(Kind { namespaced: false, ..Kind::service() }, "", "a");
        assert_eq!(kubectl_get(&role), "kubectl get services a -o yaml --show-managed-fields");
    }

    #[test]
    fn names_cannot_inject_shell_commands() {
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
