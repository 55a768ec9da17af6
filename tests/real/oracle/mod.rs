//! Terraform itself says what is drift: the same edits are shown to a refresh of the real provider and to our comparison.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "it prints its matrix, and fails by panicking"
)]

mod attributes;
mod cluster;
mod edits;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    thread,
    time::Duration,
};

use drift_exporter::{
    baseline::terraform::decode,
    compare::terraform::compare,
    model::{DeclaredObject, SealKey},
};
use serde_json::Value;

use self::{attributes::changed_attributes, cluster::Objects, edits::Edit};
use crate::support::{
    cluster::{Cluster, User},
    terraform::Terraform,
};

/// How many copies there are of each resource, so that as many edits of it share a plan.
const COPIES: usize = 12;

/// What one edit came to.
struct Answer {
    edit: String,
    terraform: BTreeSet<String>,
    exporter: BTreeSet<String>,
    /// Fields that we say Terraform cannot see.
    blind: usize,
}

#[test]
fn the_exporter_says_what_a_refresh_says() {
    let cluster = Cluster::start();
    let objects = Objects::new(&cluster);
    objects.create_those_of_others(COPIES);
    objects.create_kind();
    let configuration = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/oracle");
    let terraform = Terraform::init(&configuration, &cluster.kubeconfig(User::Admin), COPIES);
    thread::scope(|scope| {
        let applied = scope.spawn(|| terraform.apply());
        while !applied.is_finished() {
            objects.confirm_quotas();
            thread::sleep(Duration::from_millis(100));
        }
    });
    let state = decode(&terraform.state(), &SealKey::new([7; 32])).unwrap();
    assert_eq!(state.skipped, []);
    let declared: BTreeMap<&str, &DeclaredObject> =
        state.objects.iter().map(|object| (&*object.address, &**object)).collect();

    // At rest, nobody sees anything.
    let of_terraform = changes(&terraform);
    let mut false_findings = Vec::new();
    for (address, object) in &declared {
        let comparison = compare(object, &objects.get(object));
        false_findings
            .extend(comparison.findings.into_iter().map(|finding| format!("{address}: {finding:?}")));
    }
    println!("at rest: {} objects of {} types", declared.len(), types(&declared));
    println!(
        "  Terraform: {of_terraform:?}\n  exporter: {} {}",
        false_findings.len(),
        false_findings.join("\n  ")
    );

    let edits = edits::all();
    let (mut answers, mut refused) = (Vec::new(), Vec::new());
    for batch in edits::batches(&edits, COPIES) {
        ask(&objects, &terraform, &declared, &batch, &mut answers, &mut refused);
    }
    report(&answers, &refused);
    assert!(of_terraform.is_empty() && false_findings.is_empty(), "drift at rest");
}

/// What a refresh would change, by address.
fn changes(terraform: &Terraform) -> BTreeMap<String, BTreeSet<String>> {
    let changed = terraform.drift().into_iter().map(|drifted| {
        let changed = changed_attributes(&drifted.address, &drifted.before, &drifted.after);
        (drifted.address, changed)
    });
    changed.filter(|(_, changed)| !changed.is_empty()).collect()
}

/// Makes edits of different objects, asks both, and puts everything back.
fn ask(
    objects: &Objects<'_>,
    terraform: &Terraform,
    declared: &BTreeMap<&str, &DeclaredObject>,
    batch: &[(String, &Edit)],
    answers: &mut Vec<Answer>,
    refused: &mut Vec<String>,
) {
    let mut made = Vec::new();
    for (address, edit) in batch {
        let object = declared[address.as_str()];
        let original = objects.get(object);
        match objects.patch(object, &edit.patch) {
            Ok(edited) => made.push((address, edit, object, original, edited)),
            Err(reason) => refused.push(format!("{address} {}: {reason}", edit.patch)),
        }
    }
    let drift = changes(terraform);
    for (address, edit, object, original, edited) in made {
        let comparison = compare(object, &edited);
        let terraform = drift.get(address.as_str()).cloned().unwrap_or_default();
        let exporter = comparison.attributes.iter().map(ToString::to_string).collect();
        let blind = comparison.blind.len();
        answers.push(Answer { edit: format!("{address} {}", edit.patch), terraform, exporter, blind });
        objects.put_back(object, &original, &edited);
    }
}

fn report(answers: &[Answer], refused: &[String]) {
    let seen = answers.iter().filter(|answer| !answer.terraform.is_empty()).count();
    let same_verdict =
        answers.iter().filter(|answer| answer.terraform.is_empty() == answer.exporter.is_empty()).count();
    let same = answers.iter().filter(|answer| answer.terraform == answer.exporter).count();
    println!(
        "{} edits, {seen} of them drift by Terraform's word, {} refused by the API server",
        answers.len(),
        refused.len()
    );
    println!("same verdict: {same_verdict}/{}; same attributes: {same}/{}", answers.len(), answers.len());
    let unseen = answers.iter().filter(|answer| answer.terraform.is_empty());
    let blind = unseen.clone().filter(|answer| answer.blind > 0).count();
    println!(
        "{} edits that Terraform does not see, {blind} of them in fields that we call blind",
        unseen.count()
    );
    refused.iter().for_each(|refused| println!("refused: {refused}"));
    for answer in answers.iter().filter(|answer| answer.terraform != answer.exporter) {
        let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
            one.difference(other).cloned().collect::<Vec<_>>()
        };
        println!("differs: {}", answer.edit);
        println!("  only Terraform: {:?}", only(&answer.terraform, &answer.exporter));
        println!("  only exporter:  {:?}", only(&answer.exporter, &answer.terraform));
    }
    assert_eq!(same, answers.len(), "the exporter and Terraform disagree");
}

fn types(declared: &BTreeMap<&str, &DeclaredObject>) -> usize {
    declared.values().map(|object| &object.resource_type).collect::<BTreeSet<_>>().len()
}

/// Follows a path of names.
fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, name| &value[*name])
}
