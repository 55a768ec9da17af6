//! What was asked and what both said, by kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde_json::Value;

use super::{
    edits::{Class, Edit},
    known::{Judge, Known, known_about},
    paths,
};

/// An edit that was made.
pub(super) struct Asking<'a> {
    pub(super) edit: &'a Edit,
    /// What is declared of the object.
    pub(super) declared: &'a Value,
    pub(super) before: &'a Value,
    pub(super) after: &'a Value,
}

/// What one edit came to.
pub(super) struct Answer {
    pub(super) kind: String,
    pub(super) class: Class,
    /// Which object was edited, and where.
    pub(super) name: String,
    pub(super) pointer: String,
    /// Whether kubectl would change the object back; none where it cannot tell.
    pub(super) kubectl: Option<bool>,
    /// Whether we call it drift.
    pub(super) drift: bool,
    /// What we found elsewhere than where the edit was.
    pub(super) astray: Vec<String>,
    /// Whether the edit is in a list of a custom resource.
    pub(super) in_custom_list: bool,
}

/// How both answers go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// kubectl says the same.
    Agreed,
    /// kubectl cannot put it back, and we say what it is.
    Alone,
    /// An element that kubectl leaves alone in a list that it merges; by our word elements that are added are drift.
    Merged,
    /// A field that is declared to be empty, or null, and that the server fills: kubectl would have it filled anew, and we take
    /// it for not declared.
    Filled,
    /// A field that nobody declared, in an element of a custom resource's list: kubectl replaces such lists, and we leave
    /// alone what others fill in there.
    Custom,
    /// One of those that are known, with its reason.
    Known,
    Wrong,
}

impl Answer {
    /// What was asked, what kubectl says, and the paths that we find.
    pub(super) fn new(asking: &Asking<'_>, kubectl: Option<bool>, found: &[String]) -> Self {
        let Asking { edit, declared, before, after } = asking;
        // Besides, the server may have changed more than it was told to.
        let is_right = |pointer: &String| {
            paths::is_at(pointer, &edit.pointer) || before.pointer(pointer) != after.pointer(pointer)
        };
        let places = |path: &str| [after, before].map(|object| paths::pointers(path, object)).concat();
        let is_astray = |path: &&String| !places(path).iter().any(is_right);
        let in_list = edit.pointer.split('/').any(|step| step.parse::<usize>().is_ok());
        Self {
            kind: declared["kind"].as_str().unwrap_or_default().to_owned(),
            class: edit.class,
            name: name(declared),
            pointer: edit.pointer.clone(),
            kubectl,
            drift: !found.is_empty(),
            astray: found.iter().filter(is_astray).cloned().collect(),
            in_custom_list: in_list && declared["kind"] == "Widget",
        }
    }

    fn outcome(&self) -> Outcome {
        let wanted = matches!(self.class, Class::Changed | Class::Removed | Class::Added);
        match (self.kubectl, self.drift) {
            _ if !self.astray.is_empty() => Outcome::Wrong,
            (Some(true), false) if self.class == Class::Filled => Outcome::Filled,
            (Some(true), false) if self.class == Class::Undeclared && self.in_custom_list => Outcome::Custom,
            (Some(false), true) if self.class == Class::Added => Outcome::Merged,
            (Some(kubectl), drift) if kubectl == drift => Outcome::Agreed,
            (None, drift) if wanted == drift => Outcome::Alone,
            (_, drift) if self.known().is_some_and(|known| known.drift == drift) => Outcome::Known,
            _ => Outcome::Wrong,
        }
    }

    fn known(&self) -> Option<&'static Known> {
        known_about(&self.kind, &self.pointer)
    }
}

/// What a declared object is called.
pub(super) fn name(declared: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&declared["kind"]), text(&declared["metadata"]["name"]))
}

pub(super) struct Matrix {
    judge: Judge,
    started: Instant,
    answers: Vec<Answer>,
    refused: BTreeMap<Class, usize>,
    without_effect: usize,
    rests: Vec<String>,
    wrong: Vec<String>,
}

impl Matrix {
    pub(super) fn new(judge: Judge) -> Self {
        Self {
            judge,
            started: Instant::now(),
            answers: Vec::new(),
            refused: BTreeMap::new(),
            without_effect: 0,
            rests: Vec::new(),
            wrong: Vec::new(),
        }
    }

    /// What was found where nothing should be.
    pub(super) fn at_rest(
        &mut self,
        when: &str,
        objects: usize,
        of_kubectl: &BTreeSet<String>,
        of_ours: Vec<String>,
    ) {
        self.rests.push(format!(
            "{when}: {objects} objects, drift by kubectl {}, by us {}",
            of_kubectl.len(),
            of_ours.len()
        ));
        self.wrong.extend(of_kubectl.iter().map(|name| format!("{when}, kubectl: {name}")));
        self.wrong.extend(of_ours.into_iter().map(|found| format!("{when}, we: {found}")));
    }

    /// An edit that the API server does not take in any way.
    pub(super) fn refused(&mut self, class: Class) {
        *self.refused.entry(class).or_default() += 1;
    }

    /// An edit that changed nothing.
    pub(super) fn without_effect(&mut self) {
        self.without_effect += 1;
    }

    /// An edit that both were asked about.
    pub(super) fn answer(&mut self, answer: Answer) {
        if answer.outcome() == Outcome::Wrong {
            let Answer { class, name, pointer, kubectl, drift, astray, .. } = &answer;
            self.wrong.push(format!(
                "{class:?} {name} {pointer}: kubectl {kubectl:?}, we {drift}, astray {astray:?}"
            ));
        }
        self.answers.push(answer);
    }

    /// Prints everything, and fails where something is not as it should be.
    pub(super) fn finish(self) {
        println!("\nwhat is declared, beside {} ({} s)", self.judge.name(), self.started.elapsed().as_secs());
        self.rests.iter().for_each(|rest| println!("{rest}"));
        let line = |name: &str, numbers: [usize; 8]| {
            println!("{name:<34}{}", numbers.map(|number| format!("{number:>9}")).concat());
        };
        println!("{:<34}    edits    drift   agreed    alone   merged   filled   custom    known", "kind");
        let kinds: BTreeSet<&str> = self.answers.iter().map(|answer| answer.kind.as_str()).collect();
        for kind in kinds {
            line(kind, self.numbers(|answer| answer.kind == kind));
        }
        for class in [Class::Changed, Class::Removed, Class::Added, Class::Undeclared, Class::Filled] {
            let name = format!("{class:?}").to_lowercase();
            line(&name, self.numbers(|answer| answer.class == class));
        }
        line("all", self.numbers(|_| true));
        for (why, count) in self.reasons() {
            println!("{count} known: {why}");
        }
        println!("{} edits without effect, refused {:?}", self.without_effect, self.refused);
        self.wrong.iter().for_each(|wrong| println!("wrong: {wrong}"));
        assert!(self.wrong.is_empty(), "{} answers are wrong", self.wrong.len());
    }
}

impl Matrix {
    /// Why kubectl and we differ, and how often.
    fn reasons(&self) -> BTreeMap<&'static str, usize> {
        let known = self.answers.iter().filter(|answer| answer.outcome() == Outcome::Known);
        let mut reasons = BTreeMap::new();
        for known in known.filter_map(Answer::known) {
            *reasons.entry(known.why).or_default() += 1;
        }
        reasons
    }

    fn numbers(&self, is_counted: impl Fn(&Answer) -> bool) -> [usize; 8] {
        let mut numbers = [0; 8];
        for answer in self.answers.iter().filter(|answer| is_counted(answer)) {
            numbers[0] += 1;
            numbers[1] += usize::from(answer.drift);
            let column = match answer.outcome() {
                Outcome::Agreed => 2,
                Outcome::Alone => 3,
                Outcome::Merged => 4,
                Outcome::Filled => 5,
                Outcome::Custom => 6,
                Outcome::Known => 7,
                Outcome::Wrong => continue,
            };
            numbers[column] += 1;
        }
        numbers
    }
}
