//! What a person could do about an object, by what declares it: look closer, put it back, or accept it.
//! Commands that a person could copy. We never run them.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::overview::Row;
use crate::{
    engine::{BaselineState, DeclaredBy, Snapshot},
    rules::{Accepted, Why, accepting, rules_as_yaml},
    server::values::Values,
    types::{Algorithm, HashBaseline, ObjectKey, Source, VerdictKind},
};

/// How long what is accepted by a rule is accepted for, unless people write something else.
const ACCEPTED_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);
/// So many differences are accepted by rules that are written out here.
const MOST_RULES: usize = 20;

/// What a command is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Inspect,
    Revert,
    Accept,
}

/// A command, or a text to paste, and what it does.
#[derive(Debug)]
struct Remedy {
    purpose: Purpose,
    words: &'static str,
    text: String,
}

/// What is known about the object whose remedies are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patient<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) rows: &'a [Row<'a>],
    pub(super) snapshot: &'a Snapshot,
    /// The prefix of our annotations.
    pub(super) prefix: &'a str,
}

/// Commands to copy, by what they are good for.
pub(super) fn remedies(patient: Patient<'_>, values: &Values, now: Timestamp) -> Markup {
    let mut all = vec![
        inspect("See it, and who owns which field:", kubectl_get(patient.key)),
        inspect("See all that is known about it:", explain(patient.key)),
    ];
    for row in patient.rows {
        all.extend(of_source(row, patient));
    }
    all.extend(by_rule(patient, values, now));
    html! {
        @for (purpose, title) in [(Purpose::Inspect, "Inspect"), (Purpose::Revert, "Revert"), (Purpose::Accept, "Accept")] {
            @if all.iter().any(|own| own.purpose == purpose) {
                h3 { (title) }
                @for own in all.iter().filter(|own| own.purpose == purpose) {
                    p { (own.words) }
                    pre data-copy { code { (own.text) } }
                }
            }
        }
    }
}

fn inspect(words: &'static str, text: String) -> Remedy {
    Remedy { purpose: Purpose::Inspect, words, text }
}

fn revert(words: &'static str, text: String) -> Remedy {
    Remedy { purpose: Purpose::Revert, words, text }
}

fn accept(words: &'static str, text: String) -> Remedy {
    Remedy { purpose: Purpose::Accept, words, text }
}

/// What the tool of a source can do. What is as declared needs nothing put back and nothing accepted.
fn of_source(row: &Row<'_>, patient: Patient<'_>) -> Vec<Remedy> {
    let (claim, key) = (&row.found.1.claim, patient.key);
    let declared = claim.declared_by().first();
    let mut all = match (claim.source, declared) {
        (Source::Terraform, Some(declared)) => of_terraform(declared),
        (Source::Helm, Some(declared)) => of_helm(declared, patient.snapshot),
        (Source::Manifest, Some(declared)) => {
            let file = file_of(declared);
            let words = "See how the cluster differs from the file, where it lies:";
            vec![
                inspect(words, kubectl_diff_file(&file)),
                revert("Apply the file once more:", kubectl_apply_file(&file)),
            ]
        }
        (Source::LastApplied, _) => vec![
            inspect("See how it differs from what was applied last:", last_applied_diff(key)),
            revert("Apply once more what was applied last:", reapply_last_applied(key)),
            accept("Write down as applied what is there:", edit_last_applied(key)),
        ],
        (Source::Annotation | Source::Nothing, _) => vec![accept(
            "Record its hash as it is now:",
            annotate_hash(key, patient.prefix, algorithm(&row.found.1.object.stamp)),
        )],
        (Source::Terraform | Source::Helm | Source::Manifest | Source::StatusHash, _) => Vec::new(),
    };
    let is_off = row.episode.is_some() || row.verdict == VerdictKind::NoBaseline;
    all.retain(|own| is_off || own.purpose == Purpose::Inspect);
    all
}

/// The file of a manifest: its way from the directory that was named, or what was named itself.
fn file_of(declared: &DeclaredBy) -> String {
    let (named, way) = (Path::new(&*declared.baseline), Path::new(&*declared.address));
    if named.ends_with(way) { named.display().to_string() } else { named.join(way).display().to_string() }
}

fn of_terraform(declared: &DeclaredBy) -> Vec<Remedy> {
    vec![
        inspect("See what Terraform would do about it:", terraform_plan(&declared.address)),
        revert("Have Terraform put it back:", terraform_apply(&declared.address)),
        accept(
            "Take it over into the state; the configuration has to follow:",
            terraform_refresh(&declared.address),
        ),
    ]
}

fn of_helm(declared: &DeclaredBy, snapshot: &Snapshot) -> Vec<Remedy> {
    let is_own =
        |own: &&BaselineState| own.baseline.source == Source::Helm && own.baseline.name == declared.baseline;
    let baseline = snapshot.baselines.iter().find(is_own);
    let revision = baseline.and_then(|own| own.baseline.version.as_ref()).map(|own| own.serial);
    let mut all =
        vec![inspect("See how the cluster differs from what Helm declares:", helm_diff(&declared.baseline))];
    if let Some(revision) = revision {
        let words = "Have Helm put back what others changed in the release:";
        all.push(revert(words, helm_rollback(&declared.baseline, revision)));
    }
    all
}

/// Rules that accept the differences that count, for a while. What is not shown is not pinned, so that nobody can guess it.
fn by_rule(patient: Patient<'_>, values: &Values, now: Timestamp) -> Option<Remedy> {
    let expires = (now + ACCEPTED_FOR).strftime("%Y-%m-%d").to_string();
    let why = Why { owner: "who answers for it", reason: "why it is fine", expires: &expires };
    let episodes = patient.rows.iter().filter_map(|row| row.episode);
    let fields = episodes.flat_map(|episode| &episode.differences).map(|difference| {
        let finding = &difference.finding;
        let ObjectKey { kind, namespace, name } = patient.key;
        let value = Some(&*finding.actual).filter(|own| values.of_finding(finding).actual == **own);
        let (group, kind, path) = (&kind.group, &kind.kind, &finding.path);
        Accepted { group, kind, namespace, name, path, value }
    });
    let mut rules = accepting(fields, &why);
    let more = rules.len().saturating_sub(MOST_RULES);
    rules.truncate(MOST_RULES);
    let words = "Ignore just this for a while, by rules in the settings:";
    let rest = if more > 0 { format!("# {more} fields more differ\n") } else { String::new() };
    (!rules.is_empty()).then(|| accept(words, rules_as_yaml(&rules) + &rest))
}

/// How the hash was made that the object is stamped with; none where it has none that could be kept to.
fn algorithm(stamp: &HashBaseline) -> Option<Algorithm> {
    match stamp {
        HashBaseline::Mismatch(mismatch) => Some(mismatch.algorithm),
        HashBaseline::Unasked | HashBaseline::Absent | HashBaseline::Unusable(_) | HashBaseline::Match(_) => {
            None
        }
    }
}

/// Shows the object, and who owns which field.
pub(super) fn kubectl_get(key: &ObjectKey) -> String {
    format!(
        "kubectl {}get {} {} -o yaml --show-managed-fields",
        namespace(key),
        quote(&key.kind.to_string()),
        quote(&key.name)
    )
}

/// Makes the present state the declared one, with the algorithm that the object is stamped with. Nothing is recorded where
/// there is no hash.
pub(super) fn annotate_hash(key: &ObjectKey, prefix: &str, algorithm: Option<Algorithm>) -> String {
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
pub(super) fn terraform_plan(address: &str) -> String {
    format!("terraform plan -target={}", quote(address))
}

/// Has Terraform make a resource as it is declared.
pub(super) fn terraform_apply(address: &str) -> String {
    format!("terraform apply -target={}", quote(address))
}

/// Has Terraform take over what is there; the configuration has to follow.
pub(super) fn terraform_refresh(address: &str) -> String {
    format!("terraform apply -refresh-only -target={}", quote(address))
}

/// Shows how what is there differs from what a release declares.
pub(super) fn helm_diff(release: &str) -> String {
    let Release { namespace, name } = of_release(release);
    format!("helm get manifest {namespace} {name} | kubectl {namespace} diff -f -")
}

/// Shows how the object differs from what kubectl applied last.
pub(super) fn last_applied_diff(key: &ObjectKey) -> String {
    format!("{} | kubectl diff -f -", view_last_applied(key))
}

/// Applies once more what kubectl applied last.
pub(super) fn reapply_last_applied(key: &ObjectKey) -> String {
    format!("{} | kubectl apply -f -", view_last_applied(key))
}

/// Writes down as applied what is there, by hand.
pub(super) fn edit_last_applied(key: &ObjectKey) -> String {
    format!("kubectl {}apply edit-last-applied {}", namespace(key), of_object(key))
}

fn view_last_applied(key: &ObjectKey) -> String {
    format!("kubectl {}apply view-last-applied {} -o yaml", namespace(key), of_object(key))
}

/// Shows how the cluster differs from a file.
pub(super) fn kubectl_diff_file(file: &str) -> String {
    format!("kubectl diff -f {}", quote(file))
}

/// Applies a file.
pub(super) fn kubectl_apply_file(file: &str) -> String {
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
pub(super) fn helm_rollback(release: &str, revision: u64) -> String {
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

    use super::{
        annotate_hash, explain, helm_diff, helm_rollback, kubectl_get, quote, reapply_last_applied,
        terraform_plan,
    };
    use crate::types::{Algorithm, Kind, ObjectKey};

    fn key(kind: Kind, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey { kind: Arc::new(kind), namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn an_address_is_quoted_as_a_shell_wants_it() {
        assert_eq!(terraform_plan("a_b.c"), "terraform plan -target=a_b.c");
        assert_eq!(
            terraform_plan("module.x[\"eu\"].a_b.c"),
            "terraform plan -target='module.x[\"eu\"].a_b.c'"
        );
    }

    #[test]
    fn a_release_is_named_as_helm_wants_it() {
        assert_eq!(helm_diff("shop/web"), "helm get manifest -n shop web | kubectl -n shop diff -f -");
        assert_eq!(helm_rollback("shop/web (ConfigMap)", 3), "helm rollback -n shop web 3");
        let odd = helm_diff("shop/$(x)");
        assert_eq!(odd, "helm get manifest -n shop '$(x)' | kubectl -n shop diff -f -");
    }

    #[test]
    fn commands_name_the_object_and_nothing_else() {
        let web = key(Kind::deployment(), "shop", "web");
        assert_eq!(
            kubectl_get(&web),
            "kubectl -n shop get deployments.apps web -o yaml --show-managed-fields"
        );
        assert_eq!(
            annotate_hash(&web, "drift.example.com", Some(Algorithm::JcsV1)),
            "hash=$(drift-exporter hash --algorithm jcs-v1 -n shop deployments.apps/web) && \
             kubectl -n shop annotate deployments.apps web drift.example.com/spec-hash=\"${hash%% *}\" --overwrite"
        );
        assert!(
            annotate_hash(&web, "drift.example.com", None).starts_with("hash=$(drift-exporter hash -n shop ")
        );
        let again =
            "kubectl -n shop apply view-last-applied deployments.apps/web -o yaml | kubectl apply -f -";
        assert_eq!(reapply_last_applied(&web), again);
        assert_eq!(explain(&web), "drift-exporter explain -n shop deployments.apps/web");
        let role = key(Kind { namespaced: false, ..Kind::service() }, "", "a");
        assert_eq!(kubectl_get(&role), "kubectl get services a -o yaml --show-managed-fields");
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
