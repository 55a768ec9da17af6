//! Comparison of declared and live objects on a real API server. kubectl diff is the oracle.
//!
//! A large corpus is applied, applied on the server side, and created: no difference may be found. Then each declared field of
//! each document, each declared list and many undeclared fields are edited, each in its own copy, and `kubectl diff`
//! reports whether an apply would revert the edit.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "it prints its matrix, and fails by panicking"
)]

mod corpus;
mod edits;
mod helm;
mod known_differences;
mod kubectl;
mod matrix;
mod objects;
mod paths;
mod table;
mod values;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    diff::{
        manifest::{Schemas, declared_object},
        unpack,
    },
    types::{Finding, ObjectRef, RedactionKey},
};
use serde_json::{Value, json};

use self::{
    corpus::{Document, Pass},
    edits::{Class, Edit, edits_of},
    known_differences::Judge,
    kubectl::{DiffInput, Kubectl},
    matrix::{EditResult, Matrix, MatrixEdit, name},
    objects::Objects,
};
use crate::support::{
    cluster::{Cluster, Setup},
    diff::diff_with,
};

/// Every n-th edit is made, unless `DECLARED_EDITS` is `all`. CRDs are slow to install, so fewer are edited.
const EDIT_STRIDE: usize = 6;
const CRD_EDITS: usize = 30;

#[test]
fn applied_objects_drift_as_in_kubectl_diff() {
    let cluster = Cluster::start_with(Setup { disabled_admission: "AlwaysAdmit", ..Setup::default() });
    let fixture = CorpusFixture::new(&cluster);
    let mut matrix = Matrix::new(Judge::Kubectl);
    for pass in [Pass::Applied, Pass::Merged, Pass::Created] {
        fixture.check_unedited(pass, &mut matrix);
    }
    fixture.edit_all(&mut matrix);
    matrix.finish();
}

struct CorpusFixture<'a> {
    kubectl: Kubectl,
    objects: Objects<'a>,
    documents: Vec<Document>,
    key: RedactionKey,
}

/// An edited copy of a document.
struct Edited {
    edit: Edit,
    document: Document,
    declared: Value,
    before: Value,
    after: Value,
    diff_input: DiffInput,
    /// Whether it was patched in place, so that kubectl can compare it.
    in_place: bool,
}

impl<'a> CorpusFixture<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let (kubectl, objects) = (Kubectl::new(cluster), Objects::new(cluster));
        Self { kubectl, objects, documents: corpus::read(), key: RedactionKey::new([7; 32]) }
    }

    /// Sends the corpus, after which neither kubectl nor we report drift.
    fn check_unedited(&self, pass: Pass, matrix: &mut Matrix) {
        let ([send, diff], suffix) = (pass.arguments(), pass.suffix());
        let documents = || self.documents.iter().filter(|document| document.is_included(pass));
        let (kinds, others): (Vec<&Document>, Vec<&Document>) =
            documents().partition(|document| document.is_crd());
        let texts = |documents: &[&Document]| -> Vec<String> {
            documents.iter().map(|document| document.yaml(suffix, "")).collect()
        };
        self.kubectl.send(send, &texts(&kinds));
        let schemas = self.objects.wait_for_schemas(&format!("example{suffix}.com"));
        self.kubectl.send(send, &texts(&others));
        let (mut inputs, mut found, mut count) = (Vec::new(), Vec::new(), 0);
        for document in documents() {
            let declared = document.value(suffix, "");
            let live = self.objects.get(&declared);
            count += 1;
            // Without schemas, the comparison uses heuristics.
            for (schemas, how) in [(&schemas, ""), (&Schemas::default(), " (guessed)")] {
                let findings = self.findings(&declared, &live, schemas);
                found.extend(
                    findings.into_iter().map(|finding| format!("{}{how}: {finding:?}", name(&declared))),
                );
            }
            if document.is_comparable(pass) {
                inputs.push(DiffInput::new(&declared, &live, document.yaml(suffix, "")));
            }
        }
        let result = self.kubectl.diff(diff, &inputs);
        assert!(result.undecided.is_empty(), "{:?}", result.undecided);
        matrix.record_unedited(&format!("{pass:?}"), count, &result.differ, found);
    }

    /// Makes every edit in its own copy, and then runs kubectl diff on all of them.
    fn edit_all(&self, matrix: &mut Matrix) {
        let is_all = std::env::var("DECLARED_EDITS").is_ok_and(|edits| edits == "all");
        let (mut edited, mut count) = (Vec::new(), 0);
        for document in self.documents.iter().filter(|document| !document.is_singleton()) {
            let declared = as_stored(document.value("", ""));
            let edits = edits_of(&declared, &self.objects.get(&declared));
            let every = match document.is_crd() {
                true => edits.len().div_ceil(CRD_EDITS),
                false if is_all => 1,
                false => EDIT_STRIDE,
            };
            for edit in edits.into_iter().skip(count % every).step_by(every) {
                let copy = format!("-e{count}");
                count += 1;
                match self.make_edit(*document, edit, &copy) {
                    EditOutcome::Edited(made) => edited.push(*made),
                    EditOutcome::Rejected(class) => matrix.rejected(class),
                    EditOutcome::WithoutEffect => matrix.without_effect(),
                }
            }
        }
        let inputs: Vec<&Edited> = edited
            .iter()
            .filter(|edited| edited.in_place && edited.document.is_comparable(Pass::Applied))
            .collect();
        println!("running kubectl diff on {} of {} edits", inputs.len(), edited.len());
        let inputs: Vec<DiffInput> = inputs.into_iter().map(|edited| edited.diff_input.clone()).collect();
        let result = self.kubectl.diff(&[], &inputs);
        let schemas = self.objects.wait_for_schemas("example.com");
        for edited in edited {
            let file = &edited.diff_input.file;
            let is_decided = edited.in_place
                && edited.document.is_comparable(Pass::Applied)
                && !result.undecided.contains(file);
            matrix.record(self.compare_edit(
                &edited,
                is_decided.then(|| result.differ.contains(file)),
                &schemas,
            ));
        }
    }

    fn make_edit(&self, document: Document, edit: Edit, copy: &str) -> EditOutcome {
        let declared = document.value("", copy);
        let before = self.objects.create(&with_last_applied(&declared)).unwrap();
        let diff_input = DiffInput::new(&declared, &before, document.yaml("", copy));
        let in_place = edit.ways.iter().find_map(|way| self.objects.patch(&declared, way).ok());
        let is_in_place = in_place.is_some();
        // An object that cannot be patched in place can be recreated.
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
        let Some(after) = after else { return EditOutcome::Rejected(edit.class) };
        if content(&before) == content(&after) {
            return EditOutcome::WithoutEffect;
        }
        EditOutcome::Edited(Box::new(Edited {
            edit,
            document,
            declared,
            before,
            after,
            diff_input,
            in_place: is_in_place,
        }))
    }

    fn compare_edit(&self, edited: &Edited, kubectl: Option<bool>, schemas: &Schemas) -> EditResult {
        let Edited { edit, declared, before, after, .. } = edited;
        let found: Vec<String> =
            self.findings(declared, after, schemas).iter().map(|finding| finding.path.to_string()).collect();
        EditResult::new(&MatrixEdit { edit, declared, before, after }, kubectl, &found)
    }

    fn findings(&self, declared: &Value, live: &Value, schemas: &Schemas) -> Vec<Finding> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&declared["apiVersion"]), text(&declared["kind"]));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let object = ObjectRef::new(group, version, &kind, "", "");
        let declared = declared_object(object, declared.clone(), &self.key);
        let findings = diff_with(&declared, live, schemas).findings;
        let text = format!("{} {findings:?}", unpack(declared.body.packed().unwrap()));
        assert!(kind != "Secret" || !text.contains("canary"), "a secret is exposed: {text}");
        findings
    }
}

enum EditOutcome {
    Edited(Box<Edited>),
    Rejected(Class),
    WithoutEffect,
}

/// A document with `stringData` moved to `data`, as the API server stores it.
fn as_stored(mut document: Value) -> Value {
    if let Some(Value::Object(texts)) = document.get_mut("stringData").map(Value::take) {
        for (name, text) in texts {
            document["data"][name] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
        }
        document.as_object_mut().unwrap().remove("stringData");
    }
    document
}

/// A document with kubectl's last-applied annotation.
fn with_last_applied(document: &Value) -> Value {
    let mut sent = document.clone();
    let annotations = &mut sent["metadata"]["annotations"];
    if annotations.is_null() {
        *annotations = json!({});
    }
    annotations["kubectl.kubernetes.io/last-applied-configuration"] = document.to_string().into();
    sent
}

/// The editable part of an object.
fn content(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut content = object.clone();
    content["metadata"] = json!([metadata["labels"], metadata["annotations"], metadata["finalizers"]]);
    content
}
