//! The same corpus as a chart. Helm installs, upgrades and rolls back, the running exporter goes by the releases, and
//! `helm get manifest | kubectl diff` judges.

mod chart;

use std::collections::BTreeSet;

use drift_exporter::sources::documents;
use serde_json::{Value, json};

use self::chart::{Chart, other_values};
use super::{
    as_stored, content,
    corpus::{self, Document, Pass},
    edits::{Edit, edits_of},
    known::Judge,
    kubectl::{Asked, Kubectl},
    matrix::{Answer, Asking, Matrix, name},
    objects::{NAMESPACE, Objects},
};
use crate::support::{
    cluster::{Cluster, Setup, User},
    exporter::Exporter,
    helm::Helm,
    objects::{create_namespace, grant},
    wait::eventually,
};

/// How often each object is edited, at most; and with `DECLARED_EDITS=all`.
const ROUNDS: usize = 3;
const ALL_ROUNDS: usize = 15;
/// A release, and what Helm and kubectl can do with what is in it.
struct Release {
    name: &'static str,
    is_judged: bool,
    is_upgraded: bool,
}

const RELEASES: [Release; 4] = [
    Release { name: "kinds", is_judged: true, is_upgraded: true },
    Release { name: "corpus", is_judged: true, is_upgraded: true },
    // kubectl takes away what it does not remember to have applied as null.
    Release { name: "nulls", is_judged: false, is_upgraded: true },
    // What cannot be applied a second time.
    Release { name: "once", is_judged: false, is_upgraded: false },
];

#[test]
fn what_a_chart_declares_drifts_by_the_word_of_kubectl() {
    let cluster = Cluster::start_as(Setup { without_admission: "AlwaysAdmit", ..Setup::default() });
    let world = World::start(&cluster);
    let mut matrix = Matrix::new(Judge::Helm);
    world.install();
    let mut edited = world.at_rest("installed", 1, &mut matrix);
    assert_eq!(world.turns(), Vec::<String>::new());
    let is_all = std::env::var("DECLARED_EDITS").is_ok_and(|edits| edits == "all");
    for _ in 0..if is_all { ALL_ROUNDS } else { ROUNDS } {
        world.edit(&mut edited, &mut matrix);
    }
    let turns = world.turns();
    let others = other_values();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    for release in RELEASES.iter().filter(|release| release.is_upgraded) {
        world.helm(&[&["upgrade", release.name, &world.chart(release.name)], &*others].concat());
    }
    world.at_rest("upgraded", 2, &mut matrix);
    for release in RELEASES.iter().filter(|release| release.is_upgraded) {
        world.helm(&["rollback", release.name, "1"]);
    }
    world.at_rest("rolled back", 3, &mut matrix);
    for release in RELEASES.iter().rev() {
        world.helm(&["uninstall", release.name]);
    }
    eventually("nothing is claimed", || world.claims().is_empty().then_some(()));
    assert_eq!(world.turns(), turns, "upgrade, rollback and uninstall are no drift");
    matrix.finish();
}

struct World<'a> {
    cluster: &'a Cluster,
    kubectl: Kubectl,
    objects: Objects<'a>,
    helm: Helm,
    exporter: Exporter,
}

/// An object of a release.
struct Charted {
    declared: Value,
    asked: Asked,
    is_judged: bool,
    /// As it is when nobody has edited it.
    resting: Value,
    /// What is still to be done to it.
    edits: Vec<Edit>,
}

/// An edit that was made, of the object at this place.
struct Made {
    at: usize,
    edit: Edit,
    after: Value,
}

impl<'a> World<'a> {
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
        let (kinds, others): (Vec<&Document>, Vec<&Document>) = all.iter().partition(|own| own.is_kind());
        let (again, once): (Vec<&Document>, Vec<&Document>) =
            others.into_iter().partition(|own| own.is_judged(Pass::Applied));
        let (judged, nulls): (Vec<&Document>, Vec<&Document>) =
            again.into_iter().partition(|own| own.is_judged(Pass::Created));
        let chart = |name| Chart::new(self.cluster.folder(), name);
        // What is edited is a copy that nothing depends on.
        chart("kinds").with(kinds.iter().copied(), "").with(kinds, "-copy");
        chart("corpus").with(judged, "").with_own();
        chart("nulls").with(nulls, "");
        chart("once").with(once, "");
        for Release { name, .. } in RELEASES {
            self.helm(&["install", name, &self.chart(name)]);
            if name == "kinds" {
                self.objects.shapes("example.com");
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

    /// Neither kubectl nor we may see anything in this revision of the releases.
    fn at_rest(&self, when: &str, revision: u64, matrix: &mut Matrix) -> Vec<Charted> {
        let mut charted = Vec::new();
        let mut differ = BTreeSet::new();
        for Release { name, is_judged, .. } in RELEASES {
            let manifest = self.helm(&["get", "manifest", name]);
            charted.extend(self.objects_of(&manifest, is_judged));
            if is_judged && self.kubectl.diff_release(&manifest).unwrap() {
                differ.insert(name.to_owned());
            }
        }
        eventually("the releases were read", || {
            let status = self.asked("/v1/status");
            let is_read = |release: &Release| {
                let state = format!("{NAMESPACE}/{}", release.name);
                let own = status["baselines"].as_array()?.iter().find(|own| own["state"] == state)?;
                let wanted = if release.is_upgraded { revision } else { 1 };
                (own["serial"] == wanted && own["lock"].is_null() && own["fault"].is_null()).then_some(())
            };
            RELEASES.iter().try_for_each(is_read)
        });
        for own in &charted {
            self.seen(&own.resting);
        }
        let claims = self.claims();
        assert_eq!(claims.len(), charted.len(), "one claim for each object: {claims:#?}");
        let found = claims.iter().filter(|claim| claim["verdict"] != "in_sync").map(told).collect();
        matrix.at_rest(when, charted.len(), &differ, found);
        charted
    }

    /// The objects that a manifest declares, with all that can be done to them in no order.
    fn objects_of(&self, manifest: &str, is_judged: bool) -> Vec<Charted> {
        let mut random = fastrand::Rng::with_seed(1);
        let mut charted = Vec::new();
        for document in documents(manifest) {
            let objects = document.objects();
            let is_alone = objects.len() == 1;
            for declared in objects {
                let declared = declared.unwrap_or_else(|error| panic!("{error:?}"));
                let text = if is_alone { document.text().to_owned() } else { declared.to_string() };
                let resting = self.objects.get(&declared);
                let asked = Asked::new(&declared, &resting, text);
                // Others depend on the kinds that are in use.
                let is_in_use = declared["spec"]["group"] == "example.com";
                let mut edits =
                    if is_in_use { Vec::new() } else { edits_of(&as_stored(declared.clone()), &resting) };
                edits.retain(|edit| !edit.pointer.contains("meta.helm.sh"));
                random.shuffle(&mut edits);
                charted.push(Charted { declared, asked, is_judged, resting, edits });
            }
        }
        charted
    }

    /// Edits each object once more, asks both, and takes it back.
    fn edit(&self, charted: &mut [Charted], matrix: &mut Matrix) {
        let mut made = Vec::new();
        for (at, own) in charted.iter_mut().enumerate() {
            made.extend(self.make(own, matrix).map(|(edit, after)| Made { at, edit, after }));
        }
        let judged = made.iter().map(|own| &charted[own.at]).filter(|own| own.is_judged);
        let judged = self.kubectl.diff(&[], &judged.map(|own| own.asked.clone()).collect::<Vec<_>>());
        for Made { at, edit, after } in &made {
            let Charted { declared, asked, is_judged, resting, .. } = &charted[*at];
            let is_told = *is_judged && !judged.untold.contains(&asked.file);
            let kubectl = is_told.then(|| judged.differ.contains(&asked.file));
            let found = self.found(after);
            matrix.answer(Answer::new(&Asking { edit, declared, before: resting, after }, kubectl, &found));
        }
        for Made { at, .. } in made {
            let own = &mut charted[at];
            own.resting = self.objects.restore(&own.declared, &own.resting);
        }
        for own in &*charted {
            let found = self.found(&own.resting);
            assert!(found.is_empty(), "{} after it was taken back: {found:?}", name(&own.declared));
        }
    }

    /// The next edit that does something to an object, and what it makes of it.
    fn make(&self, own: &mut Charted, matrix: &mut Matrix) -> Option<(Edit, Value)> {
        while let Some(edit) = own.edits.pop() {
            let after = edit.ways.iter().find_map(|way| self.objects.patch(&own.declared, way).ok());
            match after {
                None => matrix.refused(edit.class),
                Some(after) if content(&after) == content(&own.resting) => matrix.without_effect(),
                Some(after) => return Some((edit, after)),
            }
        }
        None
    }

    /// The paths of what the exporter finds in this version of an object.
    fn found(&self, live: &Value) -> Vec<String> {
        let claim = self.seen(live);
        let differences = claim["differences"].as_array().into_iter().flatten();
        let paths: Vec<String> = differences.map(|own| own["path"].as_str().unwrap().to_owned()).collect();
        let verdict = if paths.is_empty() { "in_sync" } else { "drifted" };
        assert_eq!(claim["verdict"], verdict, "{claim}");
        paths
    }

    /// The claim on an object, once this version of it was seen, or a later one.
    fn seen(&self, live: &Value) -> Value {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, metadata) = (text(&live["apiVersion"]), &live["metadata"]);
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let namespace = metadata["namespace"].as_str().unwrap_or("-");
        let path =
            format!("/v1/resources/{}.{group}/{namespace}/{}", text(&live["kind"]), text(&metadata["name"]));
        let number = |version: &Value| version.as_str().and_then(|text| text.parse::<u64>().ok());
        eventually(&path, || {
            let mut object = self.asked(&path);
            let is_seen = object["uid"] == metadata["uid"]
                && number(&object["resourceVersion"]) >= number(&metadata["resourceVersion"]);
            is_seen.then(|| object["claims"][0].take())
        })
    }

    fn claims(&self) -> Vec<Value> {
        let mut all = self.asked("/v1/resources?namespace=*&limit=1000");
        let claims = all["resources"].take();
        claims.as_array().unwrap().iter().filter(|own| own["source"] == "helm").cloned().collect()
    }

    /// What happened, newest first.
    fn turns(&self) -> Vec<String> {
        let history = self.asked("/v1/history?limit=10000");
        history["transitions"].as_array().unwrap().iter().map(ToString::to_string).collect()
    }

    fn asked(&self, path: &str) -> Value {
        serde_json::from_str(&self.exporter.get(path).unwrap().text()).unwrap()
    }
}

fn told(claim: &Value) -> String {
    let differences = claim["differences"].as_array().into_iter().flatten();
    let found: Vec<String> =
        differences.map(|own| format!("{} {} {}", own["path"], own["expected"], own["actual"])).collect();
    format!(
        "{} {} {} {} {found:?}",
        claim["resourceType"], claim["resourceName"], claim["verdict"], claim["reason"]
    )
}
