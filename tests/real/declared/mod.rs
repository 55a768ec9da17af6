//! What is declared beside what is there, on a real API server. kubectl itself judges.
//!
//! A wide corpus is applied, applied on the server's side, and created: nothing may be found then. Then each declared field of
//! each document, each declared list and much of what is not declared is edited, each in a copy of its own, and `kubectl diff`
//! says whether an apply would change it back.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "it prints its matrix, and fails by panicking"
)]

mod charted;
mod corpus;
mod edits;
mod known;
mod kubectl;
mod matrix;
mod objects;
mod paths;
mod table;
mod values;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    diff::manifest::{Schemas, compare, normalize},
    types::{Finding, RedactionKey},
};
use serde_json::{Value, json};

use self::{
    corpus::{Document, Pass},
    edits::{Class, Edit, edits_of},
    known::Judge,
    kubectl::{Asked, Kubectl},
    matrix::{Answer, Asking, Matrix, name},
    objects::Objects,
};
use crate::support::cluster::{Cluster, Setup};

/// Every so many edits are made, unless `DECLARED_EDITS` is `all`. Kinds are slow to come: of these there are fewer.
const EVERY: usize = 6;
const KINDS_EDITED: usize = 30;

#[test]
fn what_is_declared_drifts_by_the_word_of_kubectl() {
    let cluster = Cluster::start_as(Setup { without_admission: "AlwaysAdmit", ..Setup::default() });
    let world = World::new(&cluster);
    let mut matrix = Matrix::new(Judge::Kubectl);
    for pass in [Pass::Applied, Pass::Merged, Pass::Created] {
        world.at_rest(pass, &mut matrix);
    }
    world.edit_all(&mut matrix);
    matrix.finish();
}

struct World<'a> {
    kubectl: Kubectl,
    objects: Objects<'a>,
    documents: Vec<Document>,
    key: RedactionKey,
}

/// A copy of a document that was edited.
struct Edited {
    edit: Edit,
    document: Document,
    /// What the copy declares.
    declared: Value,
    before: Value,
    after: Value,
    asked: Asked,
    /// Whether it was edited in place, so that kubectl can be asked.
    in_place: bool,
}

impl<'a> World<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let (kubectl, objects) = (Kubectl::new(cluster), Objects::new(cluster));
        Self { kubectl, objects, documents: corpus::read(), key: RedactionKey::new([7; 32]) }
    }

    /// Sends the corpus, after which neither kubectl nor we may see anything.
    fn at_rest(&self, pass: Pass, matrix: &mut Matrix) {
        let ([send, diff], own) = (pass.arguments(), pass.suffix());
        let documents = || self.documents.iter().filter(|document| document.is_sent(pass));
        let (kinds, others): (Vec<&Document>, Vec<&Document>) =
            documents().partition(|document| document.is_kind());
        let texts = |documents: &[&Document]| -> Vec<String> {
            documents.iter().map(|document| document.yaml(own, "")).collect()
        };
        self.kubectl.send(send, &texts(&kinds));
        let shapes = self.objects.shapes(&format!("example{own}.com"));
        self.kubectl.send(send, &texts(&others));
        let (mut asked, mut found, mut count) = (Vec::new(), Vec::new(), 0);
        for document in documents() {
            let declared = document.value(own, "");
            let live = self.objects.get(&declared);
            count += 1;
            // Without a word from the API server about its kinds, there are only guesses.
            for (shapes, how) in [(&shapes, ""), (&Schemas::default(), " (guessed)")] {
                let findings = self.findings(&declared, &live, shapes);
                found.extend(
                    findings.into_iter().map(|finding| format!("{}{how}: {finding:?}", name(&declared))),
                );
            }
            if document.is_judged(pass) {
                asked.push(Asked::new(&declared, &live, document.yaml(own, "")));
            }
        }
        let judged = self.kubectl.diff(diff, &asked);
        assert!(judged.untold.is_empty(), "{:?}", judged.untold);
        matrix.at_rest(&format!("{pass:?}"), count, &judged.differ, found);
    }

    /// Makes every edit in a copy of its own, and then asks kubectl about all of them.
    fn edit_all(&self, matrix: &mut Matrix) {
        let is_all = std::env::var("DECLARED_EDITS").is_ok_and(|edits| edits == "all");
        let (mut edited, mut count) = (Vec::new(), 0);
        for document in self.documents.iter().filter(|document| !document.is_only_one()) {
            let declared = as_stored(document.value("", ""));
            let edits = edits_of(&declared, &self.objects.get(&declared));
            let every = match document.is_kind() {
                true => edits.len().div_ceil(KINDS_EDITED),
                false if is_all => 1,
                false => EVERY,
            };
            for edit in edits.into_iter().skip(count % every).step_by(every) {
                let copy = format!("-e{count}");
                count += 1;
                match self.make(*document, edit, &copy) {
                    Made::Edited(made) => edited.push(*made),
                    Made::Refused(class) => matrix.refused(class),
                    Made::WithoutEffect => matrix.without_effect(),
                }
            }
        }
        let asked: Vec<&Edited> = edited
            .iter()
            .filter(|edited| edited.in_place && edited.document.is_judged(Pass::Applied))
            .collect();
        println!("asking kubectl about {} of {}", asked.len(), edited.len());
        let asked: Vec<Asked> = asked.into_iter().map(|edited| edited.asked.clone()).collect();
        let judged = self.kubectl.diff(&[], &asked);
        let shapes = self.objects.shapes("example.com");
        for edited in edited {
            let file = &edited.asked.file;
            let is_told =
                edited.in_place && edited.document.is_judged(Pass::Applied) && !judged.untold.contains(file);
            matrix.answer(self.answer(&edited, is_told.then(|| judged.differ.contains(file)), &shapes));
        }
    }

    fn make(&self, document: Document, edit: Edit, copy: &str) -> Made {
        let declared = document.value("", copy);
        let before = self.objects.create(&with_last_applied(&declared)).unwrap();
        let asked = Asked::new(&declared, &before, document.yaml("", copy));
        let in_place = edit.ways.iter().find_map(|way| self.objects.patch(&declared, way).ok());
        let is_in_place = in_place.is_some();
        // What cannot be edited in place can still be replaced by something else.
        let after = in_place.or_else(|| {
            if edit.class == Class::Undeclared || edit.class == Class::Filled {
                return None;
            }
            self.objects.delete(&declared);
            edit.ways.iter().find_map(|way| {
                let mut other = as_stored(declared.clone());
                let way: json_patch::Patch = serde_json::from_value(way.clone()).unwrap();
                json_patch::patch(&mut other, &way).ok()?;
                self.objects.create(&other).ok()
            })
        });
        let Some(after) = after else { return Made::Refused(edit.class) };
        if content(&before) == content(&after) {
            return Made::WithoutEffect;
        }
        Made::Edited(Box::new(Edited {
            edit,
            document,
            declared,
            before,
            after,
            asked,
            in_place: is_in_place,
        }))
    }

    fn answer(&self, edited: &Edited, kubectl: Option<bool>, shapes: &Schemas) -> Answer {
        let Edited { edit, declared, before, after, .. } = edited;
        let found: Vec<String> =
            self.findings(declared, after, shapes).iter().map(|finding| finding.path.to_string()).collect();
        Answer::new(&Asking { edit, declared, before, after }, kubectl, &found)
    }

    fn findings(&self, declared: &Value, live: &Value, shapes: &Schemas) -> Vec<Finding> {
        let mut prepared = declared.clone();
        normalize(&mut prepared, &self.key);
        let findings = compare(&prepared, live, shapes, &self.key).findings;
        let told = format!("{prepared} {findings:?}");
        assert!(declared["kind"] != "Secret" || !told.contains("canary"), "a secret is told: {told}");
        findings
    }
}

enum Made {
    Edited(Box<Edited>),
    Refused(Class),
    WithoutEffect,
}

/// A document with the texts of a Secret where the API server puts them.
fn as_stored(mut document: Value) -> Value {
    if let Some(Value::Object(texts)) = document.get_mut("stringData").map(Value::take) {
        for (name, text) in texts {
            document["data"][name] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
        }
        document.as_object_mut().unwrap().remove("stringData");
    }
    document
}

/// A document as kubectl sends it, which remembers what it applied.
fn with_last_applied(document: &Value) -> Value {
    let mut sent = document.clone();
    let annotations = &mut sent["metadata"]["annotations"];
    if annotations.is_null() {
        *annotations = json!({});
    }
    annotations["kubectl.kubernetes.io/last-applied-configuration"] = document.to_string().into();
    sent
}

/// What of an object can be edited.
fn content(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut content = object.clone();
    content["metadata"] = json!([metadata["labels"], metadata["annotations"], metadata["finalizers"]]);
    content
}
