//! The same corpus as a chart. Helm installs, upgrades and rolls back, the running exporter reads the releases, and
//! `helm get manifest | kubectl diff` is the oracle.

mod chart;

use std::collections::BTreeSet;

use drift_exporter::{config::BaselineLimits, sources::read_objects};
use serde_json::{Value, json};

use self::chart::{Chart, other_values};
use super::{
    as_stored, content,
    corpus::{self, Document, Pass},
    edits::{Edit, edits_of},
    known_differences::Judge,
    kubectl::{DiffInput, Kubectl},
    matrix::{EditResult, Matrix, MatrixEdit, name},
    objects::{NAMESPACE, Objects},
};
use crate::support::{
    cluster::{Cluster, Setup, User},
    exporter::Exporter,
    helm::Helm,
    objects::{create_namespace, grant},
    wait::eventually,
};

/// The maximum number of edits per object; and with `DECLARED_EDITS=all`.
const ROUNDS: usize = 3;
const ALL_ROUNDS: usize = 15;
/// A release, and which operations of Helm and kubectl it supports.
struct Release {
    name: &'static str,
    is_comparable: bool,
    is_upgraded: bool,
}

const RELEASES: [Release; 4] = [
    Release { name: "kinds", is_comparable: true, is_upgraded: true },
    Release { name: "corpus", is_comparable: true, is_upgraded: true },
    // kubectl deletes null fields that are not in its last-applied annotation.
    Release { name: "nulls", is_comparable: false, is_upgraded: true },
    // These objects cannot be applied a second time.
    Release { name: "once", is_comparable: false, is_upgraded: false },
];

#[test]
fn release_drift_matches_kubectl_diff() {
    let cluster = Cluster::start_with(Setup { disabled_admission: "AlwaysAdmit", ..Setup::default() });
    let fixture = ChartFixture::start(&cluster);
    let mut matrix = Matrix::new(Judge::Helm);
    fixture.install();
    let mut edited = fixture.check_unedited("installed", 1, &mut matrix);
    assert_eq!(fixture.transitions(), Vec::<String>::new());
    let is_all = std::env::var("DECLARED_EDITS").is_ok_and(|edits| edits == "all");
    for _ in 0..if is_all { ALL_ROUNDS } else { ROUNDS } {
        fixture.edit_once(&mut edited, &mut matrix);
    }
    let transitions = fixture.transitions();
    let others = other_values();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    for release in RELEASES.iter().filter(|release| release.is_upgraded) {
        fixture.helm(&[&["upgrade", release.name, &fixture.chart(release.name)], &*others].concat());
    }
    fixture.check_unedited("upgraded", 2, &mut matrix);
    for release in RELEASES.iter().filter(|release| release.is_upgraded) {
        fixture.helm(&["rollback", release.name, "1"]);
    }
    fixture.check_unedited("rolled back", 3, &mut matrix);
    for release in RELEASES.iter().rev() {
        fixture.helm(&["uninstall", release.name]);
    }
    eventually("no claim is left", || fixture.claims().is_empty().then_some(()));
    assert_eq!(fixture.transitions(), transitions, "upgrade, rollback and uninstall are no drift");
    matrix.finish();
}

struct ChartFixture<'a> {
    cluster: &'a Cluster,
    kubectl: Kubectl,
    objects: Objects<'a>,
    helm: Helm,
    exporter: Exporter,
}

/// An object of a release.
struct ReleasedObject {
    declared: Value,
    diff_input: DiffInput,
    is_comparable: bool,
    /// The live object without an edit.
    unedited: Value,
    /// The remaining edits.
    edits: Vec<Edit>,
}

/// An edit that was made, of the object with this index.
struct MadeEdit {
    at: usize,
    edit: Edit,
    after: Value,
}

impl<'a> ChartFixture<'a> {
    fn start(cluster: &'a Cluster) -> Self {
        let (kubectl, objects) = (Kubectl::new(cluster), Objects::new(cluster));
        let client = cluster.client();
        cluster.block_on(async {
            create_namespace(&client, "elsewhere").await;
            let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]);
            grant(&client, "exporter", rules).await;
        });
        let flags = ["--sources", "helm"];
        let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), &flags).ready();
        let helm = Helm::new(&cluster.kubeconfig(User::Admin), "secret");
        Self { cluster, kubectl, objects, helm, exporter }
    }

    fn install(&self) {
        let all = corpus::read();
        let (kinds, others): (Vec<&Document>, Vec<&Document>) =
            all.iter().partition(|document| document.is_crd());
        let (again, once): (Vec<&Document>, Vec<&Document>) =
            others.into_iter().partition(|document| document.is_comparable(Pass::Applied));
        let (comparable, nulls): (Vec<&Document>, Vec<&Document>) =
            again.into_iter().partition(|document| document.is_comparable(Pass::Created));
        let chart = |name| Chart::new(self.cluster.folder(), name);
        // Edits use a copy that no other object depends on.
        chart("kinds").with(kinds.iter().copied(), "").with(kinds, "-copy");
        chart("corpus").with(comparable, "").with_helm_features();
        chart("nulls").with(nulls, "");
        chart("once").with(once, "");
        for Release { name, .. } in RELEASES {
            self.helm(&["install", name, &self.chart(name)]);
            if name == "kinds" {
                self.objects.wait_for_schemas("example.com");
            }
        }
    }

    #[track_caller]
    fn helm(&self, arguments: &[&str]) -> String {
        self.helm.run(&[arguments, &["--namespace", NAMESPACE]].concat())
    }

    fn chart(&self, release: &str) -> String {
        self.cluster.folder().join(release).display().to_string()
    }

    /// Neither kubectl nor the exporter reports drift in this revision of the releases.
    fn check_unedited(&self, when: &str, revision: u64, matrix: &mut Matrix) -> Vec<ReleasedObject> {
        let mut released = Vec::new();
        let mut differ = BTreeSet::new();
        for Release { name, is_comparable, .. } in RELEASES {
            let manifest = self.helm(&["get", "manifest", name]);
            released.extend(self.objects_of(&manifest, is_comparable));
            if is_comparable && self.kubectl.diff_release(&manifest).unwrap() {
                differ.insert(name.to_owned());
            }
        }
        eventually("the releases were read", || {
            let status = self.get_json("/v1/status");
            let is_read = |release: &Release| {
                let state = format!("{NAMESPACE}/{}", release.name);
                let baseline =
                    status["baselines"].as_array()?.iter().find(|baseline| baseline["state"] == state)?;
                let expected = if release.is_upgraded { revision } else { 1 };
                (baseline["serial"] == expected && baseline["lock"].is_null() && baseline["fault"].is_null())
                    .then_some(())
            };
            RELEASES.iter().try_for_each(is_read)
        });
        for object in &released {
            self.wait_for_version(&object.unedited);
        }
        let claims = self.claims();
        assert_eq!(claims.len(), released.len(), "one claim for each object: {claims:#?}");
        let drifted = claims.iter().filter(|claim| claim["verdict"] != "in_sync").map(describe).collect();
        matrix.record_unedited(when, released.len(), &differ, drifted);
        released
    }

    /// The objects that a manifest declares, with their edits in random order.
    fn objects_of(&self, manifest: &str, is_comparable: bool) -> Vec<ReleasedObject> {
        let mut random = fastrand::Rng::with_seed(1);
        let mut released = Vec::new();
        for document in manifest.split("\n---\n") {
            let objects = read_objects(document, &BaselineLimits::of_command()).unwrap();
            let is_alone = objects.len() == 1;
            for declared in objects {
                let declared = declared.unwrap_or_else(|error| panic!("{error:?}"));
                let text = if is_alone { document.to_owned() } else { declared.to_string() };
                let unedited = self.objects.get(&declared);
                let diff_input = DiffInput::new(&declared, &unedited, text);
                // Other objects depend on these CRDs.
                let is_in_use = declared["spec"]["group"] == "example.com";
                let mut edits =
                    if is_in_use { Vec::new() } else { edits_of(&as_stored(declared.clone()), &unedited) };
                edits.retain(|edit| !edit.pointer.contains("meta.helm.sh"));
                random.shuffle(&mut edits);
                released.push(ReleasedObject { declared, diff_input, is_comparable, unedited, edits });
            }
        }
        released
    }

    /// Edits each object once, compares the results, and reverts the edit.
    fn edit_once(&self, released: &mut [ReleasedObject], matrix: &mut Matrix) {
        let mut made = Vec::new();
        for (at, object) in released.iter_mut().enumerate() {
            made.extend(self.make_edit(object, matrix).map(|(edit, after)| MadeEdit { at, edit, after }));
        }
        let comparable = made.iter().map(|edited| &released[edited.at]).filter(|edited| edited.is_comparable);
        let result =
            self.kubectl.diff(&[], &comparable.map(|edited| edited.diff_input.clone()).collect::<Vec<_>>());
        for MadeEdit { at, edit, after } in &made {
            let ReleasedObject { declared, diff_input, is_comparable, unedited, .. } = &released[*at];
            let is_decided = *is_comparable && !result.undecided.contains(&diff_input.file);
            let kubectl = is_decided.then(|| result.differ.contains(&diff_input.file));
            let differing_paths = self.differing_paths(after);
            matrix.record(EditResult::new(
                &MatrixEdit { edit, declared, before: unedited, after },
                kubectl,
                &differing_paths,
            ));
        }
        for MadeEdit { at, .. } in made {
            let object = &mut released[at];
            object.unedited = self.objects.restore(&object.declared, &object.unedited);
        }
        for object in &*released {
            let differing_paths = self.differing_paths(&object.unedited);
            assert!(
                differing_paths.is_empty(),
                "{} after the revert: {differing_paths:?}",
                name(&object.declared)
            );
        }
    }

    /// The next edit with an effect, and the edited object.
    fn make_edit(&self, object: &mut ReleasedObject, matrix: &mut Matrix) -> Option<(Edit, Value)> {
        while let Some(edit) = object.edits.pop() {
            let after = edit.ways.iter().find_map(|way| self.objects.patch(&object.declared, way).ok());
            match after {
                None => matrix.rejected(edit.class),
                Some(after) if content(&after) == content(&object.unedited) => matrix.without_effect(),
                Some(after) => return Some((edit, after)),
            }
        }
        None
    }

    /// The paths that the exporter reports for this version of an object.
    fn differing_paths(&self, live: &Value) -> Vec<String> {
        let claim = self.wait_for_version(live);
        let differences = claim["differences"].as_array().into_iter().flatten();
        let paths: Vec<String> =
            differences.map(|difference| difference["path"].as_str().unwrap().to_owned()).collect();
        let verdict = if paths.is_empty() { "in_sync" } else { "drifted" };
        assert_eq!(claim["verdict"], verdict, "{claim}");
        paths
    }

    /// Waits until this version of an object or a later one is synced, and returns its claim.
    fn wait_for_version(&self, live: &Value) -> Value {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, metadata) = (text(&live["apiVersion"]), &live["metadata"]);
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let namespace = metadata["namespace"].as_str().unwrap_or("-");
        let path =
            format!("/v1/resources/{}.{group}/{namespace}/{}", text(&live["kind"]), text(&metadata["name"]));
        let number = |version: &Value| version.as_str().and_then(|text| text.parse::<u64>().ok());
        eventually(&path, || {
            let mut object = self.get_json(&path);
            let is_current = object["uid"] == metadata["uid"]
                && number(&object["resourceVersion"]) >= number(&metadata["resourceVersion"]);
            is_current.then(|| object["claims"][0].take())
        })
    }

    fn claims(&self) -> Vec<Value> {
        let mut all = self.get_json("/v1/resources?namespace=*&limit=1000");
        let claims = all["resources"].take();
        claims.as_array().unwrap().iter().filter(|claim| claim["source"] == "helm").cloned().collect()
    }

    /// All transitions, newest first.
    fn transitions(&self) -> Vec<String> {
        let history = self.get_json("/v1/history?limit=10000");
        history["transitions"].as_array().unwrap().iter().map(ToString::to_string).collect()
    }

    fn get_json(&self, path: &str) -> Value {
        serde_json::from_str(&self.exporter.get(path).unwrap().text()).unwrap()
    }
}

fn describe(claim: &Value) -> String {
    let differences = claim["differences"].as_array().into_iter().flatten();
    let descriptions: Vec<String> = differences
        .map(|difference| {
            format!("{} {} {}", difference["path"], difference["expected"], difference["actual"])
        })
        .collect();
    format!(
        "{} {} {} {} {descriptions:?}",
        claim["resourceType"], claim["resourceName"], claim["verdict"], claim["reason"]
    )
}
