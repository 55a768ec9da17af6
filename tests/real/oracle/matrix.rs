//! What was asked and what both said, by type.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use drift_exporter::types::DeclaredObject;

/// What one edit came to.
pub(super) struct Answer {
    /// `kubernetes_service_v1.web`.
    pub(super) resource: &'static str,
    pub(super) edit: String,
    pub(super) terraform: BTreeSet<String>,
    pub(super) exporter: BTreeSet<String>,
    /// Whether the running exporter calls it drift; none where it cannot compare the object.
    pub(super) asked: Option<bool>,
    /// Fields that we say Terraform cannot see.
    pub(super) blind: usize,
}

pub(super) struct Matrix {
    title: &'static str,
    started: Instant,
    answers: Vec<Answer>,
    refused: Vec<String>,
    objects: BTreeMap<String, usize>,
    rests: Vec<String>,
    false_drift: Vec<String>,
}

impl Matrix {
    pub(super) fn new(title: &'static str) -> Self {
        Self {
            title,
            started: Instant::now(),
            answers: Vec::new(),
            refused: Vec::new(),
            objects: BTreeMap::new(),
            rests: Vec::new(),
            false_drift: Vec::new(),
        }
    }

    /// What was found where nothing should be.
    pub(super) fn at_rest(
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
        self.rests.push(format!(
            "{when}: {} objects of {} types, drift by Terraform {}, by the exporter {}",
            declared.len(),
            self.objects.len(),
            of_terraform.len(),
            of_exporter.len()
        ));
        let told = |who: &str, found: Vec<String>| -> Vec<String> {
            found.into_iter().map(|found| format!("{when}, {who}: {found}")).collect()
        };
        let found = [told("Terraform", of_terraform), told("exporter", of_exporter)].concat();
        found.iter().for_each(|found| println!("false drift {found}"));
        self.false_drift.extend(found);
    }

    /// An edit that both were asked about.
    pub(super) fn answer(&mut self, answer: Answer) {
        if !answer.agrees() {
            let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
                one.difference(other).cloned().collect::<Vec<_>>()
            };
            println!("differs: {}", answer.edit);
            println!("  only Terraform: {:?}", only(&answer.terraform, &answer.exporter));
            println!("  only exporter:  {:?}", only(&answer.exporter, &answer.terraform));
            println!("  drift by the word of the running exporter: {:?}", answer.asked);
        }
        self.answers.push(answer);
    }

    /// An edit that the API server did not take.
    pub(super) fn refused(&mut self, refused: String) {
        println!("refused: {refused}");
        self.refused.push(refused);
    }

    /// Prints everything, and fails where something is not as it should be.
    pub(super) fn finish(self) {
        println!("\n{} ({} s)", self.title, self.started.elapsed().as_secs());
        self.print_types();
        self.rests.iter().for_each(|rest| println!("{rest}"));
        let silent: Vec<&str> = self
            .answers
            .iter()
            .filter(|answer| answer.asked.is_none())
            .map(|answer| answer.edit.as_str())
            .collect();
        println!(
            "the running exporter was asked about {} of these edits, and could not compare {}",
            self.answers.len(),
            silent.len()
        );
        assert!(self.answers.iter().all(Answer::agrees), "the exporter and Terraform disagree");
        assert!(silent.is_empty(), "{silent:#?}");
        assert!(self.false_drift.is_empty(), "drift at rest");
        assert!(self.refused.is_empty(), "edits that nobody was asked about");
    }

    fn print_types(&self) {
        let line = |name: &str, objects: String, numbers: [String; 5]| {
            let numbers = numbers.map(|number| format!("{number:>9}")).concat();
            println!("{name:<44}{objects:>8}{numbers}");
        };
        let heads = ["edits", "drift", "blind", "agreed", "differ"].map(str::to_owned);
        line("type", "objects".to_owned(), heads);
        let of_type = |name: &str| -> Vec<&Answer> {
            self.answers.iter().filter(|answer| answer.resource.split('.').next() == Some(name)).collect()
        };
        for (name, objects) in &self.objects {
            line(name, objects.to_string(), numbers(&of_type(name)));
        }
        line(
            "all",
            self.objects.values().sum::<usize>().to_string(),
            numbers(&self.answers.iter().collect::<Vec<_>>()),
        );
    }
}

impl Answer {
    fn agrees(&self) -> bool {
        let is_drift = !self.terraform.is_empty();
        self.terraform == self.exporter && self.asked.is_none_or(|asked| asked == is_drift)
    }
}

fn numbers(answers: &[&Answer]) -> [String; 5] {
    let count = |is: fn(&Answer) -> bool| answers.iter().filter(|answer| is(answer)).count().to_string();
    [
        count(|_| true),
        count(|answer| !answer.terraform.is_empty()),
        count(|answer| answer.terraform.is_empty() && answer.blind > 0),
        count(Answer::agrees),
        count(|answer| !answer.agrees()),
    ]
}
