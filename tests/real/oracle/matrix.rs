//! The results of all edits, by resource type.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use drift_exporter::types::DeclaredObject;

/// The result of one edit.
pub(super) struct EditResult {
    /// `kubernetes_service_v1.web`.
    pub(super) resource: &'static str,
    pub(super) edit: String,
    pub(super) terraform: BTreeSet<String>,
    pub(super) exporter: BTreeSet<String>,
    /// Whether the running exporter reports drift; none if it cannot compare the object.
    pub(super) running_exporter: Option<bool>,
    /// Number of fields that Terraform cannot read.
    pub(super) blind: usize,
}

pub(super) struct Matrix {
    title: &'static str,
    started: Instant,
    results: Vec<EditResult>,
    rejected: Vec<String>,
    objects: BTreeMap<String, usize>,
    unedited: Vec<String>,
    false_drift: Vec<String>,
}

impl Matrix {
    pub(super) fn new(title: &'static str) -> Self {
        Self {
            title,
            started: Instant::now(),
            results: Vec::new(),
            rejected: Vec::new(),
            objects: BTreeMap::new(),
            unedited: Vec::new(),
            false_drift: Vec::new(),
        }
    }

    /// Records drift without an edit.
    pub(super) fn record_unedited(
        &mut self,
        when: &str,
        declared: &BTreeMap<String, Arc<DeclaredObject>>,
        of_terraform: Vec<String>,
        of_exporter: Vec<String>,
    ) {
        self.objects.clear();
        for object in declared.values() {
            *self.objects.entry(object.resource_type.to_string()).or_default() += 1;
        }
        self.unedited.push(format!(
            "{when}: {} objects of {} types, drift by Terraform {}, by the exporter {}",
            declared.len(),
            self.objects.len(),
            of_terraform.len(),
            of_exporter.len()
        ));
        let prefixed = |who: &str, found: Vec<String>| -> Vec<String> {
            found.into_iter().map(|found| format!("{when}, {who}: {found}")).collect()
        };
        let found = [prefixed("Terraform", of_terraform), prefixed("exporter", of_exporter)].concat();
        found.iter().for_each(|found| println!("false drift {found}"));
        self.false_drift.extend(found);
    }

    /// Records an edit that Terraform and the exporter compared.
    pub(super) fn record(&mut self, result: EditResult) {
        if !result.agrees() {
            let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
                one.difference(other).cloned().collect::<Vec<_>>()
            };
            println!("differs: {}", result.edit);
            println!("  only Terraform: {:?}", only(&result.terraform, &result.exporter));
            println!("  only exporter:  {:?}", only(&result.exporter, &result.terraform));
            println!("  drift by the running exporter: {:?}", result.running_exporter);
        }
        self.results.push(result);
    }

    /// Records an edit that the API server rejected.
    pub(super) fn rejected(&mut self, rejected: String) {
        println!("rejected: {rejected}");
        self.rejected.push(rejected);
    }

    /// Prints all results, and fails on any disagreement.
    pub(super) fn finish(self) {
        println!("\n{} ({} s)", self.title, self.started.elapsed().as_secs());
        self.print_types();
        self.unedited.iter().for_each(|rest| println!("{rest}"));
        let silent: Vec<&str> = self
            .results
            .iter()
            .filter(|result| result.running_exporter.is_none())
            .map(|result| result.edit.as_str())
            .collect();
        println!(
            "the running exporter was queried for {} edits, and could not compare {}",
            self.results.len(),
            silent.len()
        );
        assert!(self.results.iter().all(EditResult::agrees), "the exporter and Terraform disagree");
        assert!(silent.is_empty(), "{silent:#?}");
        assert!(self.false_drift.is_empty(), "drift without an edit");
        assert!(self.rejected.is_empty(), "rejected edits");
    }

    fn print_types(&self) {
        let line = |name: &str, objects: String, numbers: [String; 5]| {
            let numbers = numbers.map(|number| format!("{number:>9}")).concat();
            println!("{name:<44}{objects:>8}{numbers}");
        };
        let heads = ["edits", "drift", "blind", "agreed", "differ"].map(str::to_owned);
        line("type", "objects".to_owned(), heads);
        let of_type = |name: &str| -> Vec<&EditResult> {
            self.results.iter().filter(|result| result.resource.split('.').next() == Some(name)).collect()
        };
        for (name, objects) in &self.objects {
            line(name, objects.to_string(), numbers(&of_type(name)));
        }
        line(
            "all",
            self.objects.values().sum::<usize>().to_string(),
            numbers(&self.results.iter().collect::<Vec<_>>()),
        );
    }
}

impl EditResult {
    fn agrees(&self) -> bool {
        let is_drift = !self.terraform.is_empty();
        self.terraform == self.exporter
            && self.running_exporter.is_none_or(|is_reported| is_reported == is_drift)
    }
}

fn numbers(results: &[&EditResult]) -> [String; 5] {
    let count = |is: fn(&EditResult) -> bool| results.iter().filter(|result| is(result)).count().to_string();
    [
        count(|_| true),
        count(|result| !result.terraform.is_empty()),
        count(|result| result.terraform.is_empty() && result.blind > 0),
        count(EditResult::agrees),
        count(|result| !result.agrees()),
    ]
}
