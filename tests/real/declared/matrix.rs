//! The results of all edits, by kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde_json::Value;

use super::{
    edits::{Class, Edit},
    known_differences::{Exception, Judge, find_exception},
    paths,
};

/// An edit that was made.
pub(super) struct MatrixEdit<'a> {
    pub(super) edit: &'a Edit,
    pub(super) declared: &'a Value,
    pub(super) before: &'a Value,
    pub(super) after: &'a Value,
}

/// The result of one edit.
pub(super) struct EditResult {
    pub(super) kind: String,
    pub(super) class: Class,
    /// The edited object and field.
    pub(super) name: String,
    pub(super) pointer: String,
    /// Whether kubectl would revert the edit; none if it cannot compare.
    pub(super) kubectl: Option<bool>,
    /// Whether we report drift.
    pub(super) drift: bool,
    /// Findings in other places than the edit.
    pub(super) misplaced: Vec<String>,
    /// Whether the edit is in a list of a custom resource.
    pub(super) in_custom_list: bool,
}

/// How the two results relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// kubectl agrees.
    Agreed,
    /// kubectl cannot compare, and we report the expected result.
    Alone,
    /// An added element of a list that kubectl merges: kubectl ignores it, and we report drift.
    Merged,
    /// A field that is declared as empty or null and that the server sets: kubectl would clear it, and we treat
    /// it as undeclared.
    Filled,
    /// An undeclared field in a list element of a custom resource: kubectl replaces such lists, and we ignore
    /// the field.
    Custom,
    /// A documented exception.
    Exception,
    Wrong,
}

impl EditResult {
    /// Combines an edit with the result of kubectl and the paths that we find.
    pub(super) fn new(made: &MatrixEdit<'_>, kubectl: Option<bool>, found: &[String]) -> Self {
        let MatrixEdit { edit, declared, before, after } = made;
        // The server may change more fields than the patch does.
        let is_expected = |pointer: &String| {
            paths::is_at(pointer, &edit.pointer) || before.pointer(pointer) != after.pointer(pointer)
        };
        let places = |path: &str| [after, before].map(|object| paths::pointers(path, object)).concat();
        let is_misplaced = |path: &&String| !places(path).iter().any(is_expected);
        let in_list = edit.pointer.split('/').any(|step| step.parse::<usize>().is_ok());
        Self {
            kind: declared["kind"].as_str().unwrap_or_default().to_owned(),
            class: edit.class,
            name: name(declared),
            pointer: edit.pointer.clone(),
            kubectl,
            drift: !found.is_empty(),
            misplaced: found.iter().filter(is_misplaced).cloned().collect(),
            in_custom_list: in_list && declared["kind"] == "Widget",
        }
    }

    fn outcome(&self) -> Outcome {
        let expected = matches!(self.class, Class::Changed | Class::Removed | Class::Added);
        match (self.kubectl, self.drift) {
            _ if !self.misplaced.is_empty() => Outcome::Wrong,
            (Some(true), false) if self.class == Class::Filled => Outcome::Filled,
            (Some(true), false) if self.class == Class::Undeclared && self.in_custom_list => Outcome::Custom,
            (Some(false), true) if self.class == Class::Added => Outcome::Merged,
            (Some(kubectl), drift) if kubectl == drift => Outcome::Agreed,
            (None, drift) if expected == drift => Outcome::Alone,
            (_, drift) if self.exception().is_some_and(|exception| exception.drift == drift) => {
                Outcome::Exception
            }
            _ => Outcome::Wrong,
        }
    }

    fn exception(&self) -> Option<&'static Exception> {
        find_exception(&self.kind, &self.pointer)
    }
}

/// Kind and name of a declared object.
pub(super) fn name(declared: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&declared["kind"]), text(&declared["metadata"]["name"]))
}

pub(super) struct Matrix {
    judge: Judge,
    started: Instant,
    results: Vec<EditResult>,
    rejected: BTreeMap<Class, usize>,
    without_effect: usize,
    unedited: Vec<String>,
    wrong: Vec<String>,
}

impl Matrix {
    pub(super) fn new(judge: Judge) -> Self {
        Self {
            judge,
            started: Instant::now(),
            results: Vec::new(),
            rejected: BTreeMap::new(),
            without_effect: 0,
            unedited: Vec::new(),
            wrong: Vec::new(),
        }
    }

    /// Records drift without an edit.
    pub(super) fn record_unedited(
        &mut self,
        when: &str,
        objects: usize,
        of_kubectl: &BTreeSet<String>,
        of_ours: Vec<String>,
    ) {
        self.unedited.push(format!(
            "{when}: {objects} objects, drift by kubectl {}, by us {}",
            of_kubectl.len(),
            of_ours.len()
        ));
        self.wrong.extend(of_kubectl.iter().map(|name| format!("{when}, kubectl: {name}")));
        self.wrong.extend(of_ours.into_iter().map(|found| format!("{when}, we: {found}")));
    }

    /// Records an edit that the API server rejected in all variants.
    pub(super) fn rejected(&mut self, class: Class) {
        *self.rejected.entry(class).or_default() += 1;
    }

    /// Records an edit without effect.
    pub(super) fn without_effect(&mut self) {
        self.without_effect += 1;
    }

    /// Records an edit that both compared.
    pub(super) fn record(&mut self, result: EditResult) {
        if result.outcome() == Outcome::Wrong {
            let EditResult { class, name, pointer, kubectl, drift, misplaced, .. } = &result;
            self.wrong.push(format!(
                "{class:?} {name} {pointer}: kubectl {kubectl:?}, we {drift}, misplaced {misplaced:?}"
            ));
        }
        self.results.push(result);
    }

    /// Prints all results, and fails on any wrong one.
    pub(super) fn finish(self) {
        println!(
            "\ndeclared fields compared with {} ({} s)",
            self.judge.name(),
            self.started.elapsed().as_secs()
        );
        self.unedited.iter().for_each(|rest| println!("{rest}"));
        let line = |name: &str, numbers: [usize; 8]| {
            println!("{name:<34}{}", numbers.map(|number| format!("{number:>9}")).concat());
        };
        println!("{:<34}    edits    drift   agreed    alone   merged   filled   custom   except", "kind");
        let kinds: BTreeSet<&str> = self.results.iter().map(|result| result.kind.as_str()).collect();
        for kind in kinds {
            line(kind, self.numbers(|result| result.kind == kind));
        }
        for class in [Class::Changed, Class::Removed, Class::Added, Class::Undeclared, Class::Filled] {
            let name = format!("{class:?}").to_lowercase();
            line(&name, self.numbers(|result| result.class == class));
        }
        line("all", self.numbers(|_| true));
        for (why, count) in self.reasons() {
            println!("{count} exceptions: {why}");
        }
        println!("{} edits without effect, rejected {:?}", self.without_effect, self.rejected);
        self.wrong.iter().for_each(|wrong| println!("wrong: {wrong}"));
        assert!(self.wrong.is_empty(), "{} answers are wrong", self.wrong.len());
    }
}

impl Matrix {
    /// The reasons for exceptions, with their counts.
    fn reasons(&self) -> BTreeMap<&'static str, usize> {
        let exceptions = self.results.iter().filter(|result| result.outcome() == Outcome::Exception);
        let mut reasons = BTreeMap::new();
        for exception in exceptions.filter_map(EditResult::exception) {
            *reasons.entry(exception.why).or_default() += 1;
        }
        reasons
    }

    fn numbers(&self, is_counted: impl Fn(&EditResult) -> bool) -> [usize; 8] {
        let mut numbers = [0; 8];
        for result in self.results.iter().filter(|result| is_counted(result)) {
            numbers[0] += 1;
            numbers[1] += usize::from(result.drift);
            let column = match result.outcome() {
                Outcome::Agreed => 2,
                Outcome::Alone => 3,
                Outcome::Merged => 4,
                Outcome::Filled => 5,
                Outcome::Custom => 6,
                Outcome::Exception => 7,
                Outcome::Wrong => continue,
            };
            numbers[column] += 1;
        }
        numbers
    }
}
