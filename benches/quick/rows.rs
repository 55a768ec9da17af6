//! The rows: one for each piece of work that happens once per object, per list or per scrape.

use std::sync::Arc;

use drift_exporter::{
    diff::{
        Algorithm, ReportLimits, compare, fingerprint, last_applied as declared_by_kubectl,
        manifest::Schemas, pack_live_object, unpack,
    },
    engine::Snapshot,
    event::Event,
    sources::terraform::decode,
    types::{DeclaredObject, Document, Kind, LiveObject, ObjectKey, RedactionPolicy, Source, VerdictKind},
    watch::json_items::{ItemSplitter, ListLayout, Part},
    watch::{DecodeConfig, Decoded, LineBuffer, WatchLine},
};

use crate::{
    exporter::{Cluster, Scrapes, reader, reading, redaction_key},
    inputs::{
        PREFIX, applied, deployment, edited, manifest, name, namespace, plain, rolled_out, terraform_state,
    },
    measured,
};

/// One piece of work with its inputs.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The number of objects, events or pages that the work processes.
    pub(crate) items: usize,
    /// Prepares the inputs, does the work under [`measured`], and checks the result.
    pub(crate) run: fn(),
}

pub(crate) const ROWS: &[Row] = &[
    Row { name: "decode_watch", items: FEW, run: decode_watch },
    Row { name: "decode_watch_documents", items: FEW, run: decode_watch_documents },
    Row { name: "decode_list", items: FEW, run: decode_list },
    Row { name: "diff_tfdrift_v1", items: FEW, run: || diff_hash(Algorithm::TfdriftV1) },
    Row { name: "diff_jcs_v1", items: FEW, run: || diff_hash(Algorithm::JcsV1) },
    Row { name: "diff_terraform", items: FEW, run: diff_terraform },
    Row { name: "diff_manifest", items: FEW, run: diff_manifest },
    Row { name: "reconcile_hash", items: EVENTS_PER_EDITED_OBJECT * MANY / 10, run: reconcile_hash },
    Row {
        name: "reconcile_terraform",
        items: EVENTS_PER_EDITED_OBJECT * 2 * FEW / 10,
        run: reconcile_terraform,
    },
    Row { name: "relist_first", items: MANY, run: relist_first },
    Row { name: "relist_again", items: MANY, run: relist_again },
    Row { name: "render_first_plain", items: 1, run: || render_first("identity") },
    Row { name: "render_first_gzip", items: 1, run: || render_first("gzip") },
    Row { name: "render_again_plain", items: 1, run: || render_again("identity") },
    Row { name: "render_again_gzip", items: 1, run: || render_again("gzip") },
];

/// The number of objects to decode or compare.
const FEW: usize = 200;
/// The number of cached objects before some of them change.
const MANY: usize = 1_000;
/// An edit, a new status, a revert and a deletion.
const EVENTS_PER_EDITED_OBJECT: usize = 4;
/// The size of the chunks of a body.
const CHUNK: usize = 16 << 10;

fn decode_watch() {
    let objects = decode_lines(&reading(Source::Annotation), deployment);
    assert!(objects.iter().all(|object| object.document.is_none()));
}

/// Objects whose fields are compared are cached whole.
fn decode_watch_documents() {
    let objects = decode_lines(&reading(Source::LastApplied), applied);
    assert!(objects.iter().all(|object| object.document.is_some() && object.applied.declared().is_some()));
}

fn decode_lines(reading: &DecodeConfig, object: fn(usize) -> serde_json::Value) -> Vec<Arc<LiveObject>> {
    let line = |number| format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", object(number));
    let body: String = (0..FEW).map(line).collect();
    let reader = reader(reading);
    let objects = measured(|| {
        let (mut lines, mut objects) = (LineBuffer::default(), Vec::new());
        for chunk in body.as_bytes().chunks(CHUNK) {
            for line in lines.push(chunk).expect("lines are short") {
                let line: WatchLine<'_> = serde_json::from_slice(&line).expect("it is an event");
                objects.push(reader.decode(line.object.get().as_bytes()));
            }
        }
        objects
    });
    objects_of(objects)
}

fn decode_list() {
    let items: Vec<String> = (0..FEW).map(|number| deployment(number).to_string()).collect();
    let body = format!(
        "{{\"kind\":\"DeploymentList\",\"metadata\":{{\"resourceVersion\":\"9\"}},\"items\":[{}]}}",
        items.join(",")
    );
    let reader = reader(&reading(Source::Annotation));
    let objects = measured(|| {
        let layout = ListLayout { list: "items", members: &["metadata"], max_bytes: 32 << 20 };
        let (mut splitter, mut objects) = (ItemSplitter::new(layout), Vec::new());
        for chunk in body.as_bytes().chunks(CHUNK) {
            let push = |part: Part<'_>| {
                if let Part::Item(item) = part {
                    objects.push(reader.decode(item));
                }
            };
            splitter.push(chunk, push).expect("it is a list");
        }
        splitter.finish().expect("it is complete");
        objects
    });
    objects_of(objects);
}

fn objects_of(read: Vec<Decoded>) -> Vec<Arc<LiveObject>> {
    let objects: Vec<_> = read
        .into_iter()
        .map(|read| match read {
            Decoded::Object(object) => object,
            other => unreachable!("{other:?} is not an object"),
        })
        .collect();
    assert_eq!(objects.len(), FEW);
    objects
}

fn diff_hash(algorithm: Algorithm) {
    let objects: Vec<String> = (0..FEW).map(|number| deployment(number).to_string()).collect();
    let kind = Kind::deployment();
    let digests = measured(|| {
        let digests = objects.iter().map(|object| fingerprint(algorithm, &kind, object, PREFIX).ok());
        digests.collect::<Vec<_>>()
    });
    assert!(digests.iter().all(Option::is_some));
}

fn diff_terraform() {
    let state = terraform_state(FEW).to_string();
    let declared = decode(state.as_bytes(), &redaction_key()).expect("it is a state").objects;
    diff_fields(&declared, plain);
}

/// The strategy for the last-applied annotation, Helm charts and manifests.
fn diff_manifest() {
    let kind = Arc::new(Kind::deployment());
    let declared: Vec<Arc<DeclaredObject>> = (0..FEW)
        .map(|number| {
            let (namespace, name) = (namespace(number).into(), name(number).into());
            let key = ObjectKey { kind: kind.clone(), namespace, name };
            let applied =
                declared_by_kubectl(&applied(number).into(), &key, &redaction_key()).expect("it was applied");
            Arc::new(applied)
        })
        .collect();
    assert_eq!(manifest(0)["metadata"]["name"], *declared[0].object.name);
    diff_fields(&declared, deployment);
}

/// Compares with live objects, of which every second was edited.
fn diff_fields(declared: &[Arc<DeclaredObject>], live: fn(usize) -> serde_json::Value) {
    let (kind, redaction) = (Kind::deployment(), RedactionPolicy::new(redaction_key()));
    let documents: Vec<Document> = (0..FEW)
        .map(|number| if number % 2 == 0 { live(number) } else { edited(live(number)) })
        .map(|object| pack_live_object(object, &kind, &redaction))
        .collect();
    let (schemas, limits) = (Schemas::default(), ReportLimits::default());
    let compare = |number: usize| {
        compare(&declared[number], &unpack(&documents[number].packed), &schemas, limits).findings
    };
    // Tables are read once, when they are first used.
    assert_eq!((compare(0).len(), compare(1).len()), (0, 2), "{:?}", [compare(0), compare(1)]);
    let findings = measured(|| (0..FEW).map(compare).collect::<Vec<_>>());
    assert_eq!(findings.iter().map(Vec::len).sum::<usize>(), FEW);
}

fn reconcile_hash() {
    let detections = reconcile(Source::Annotation, MANY, deployment);
    assert_eq!(detections, MANY as u64 / 10);
}

/// An object that a state declares drifts when it is edited, and again when it is deleted.
fn reconcile_terraform() {
    let detections = reconcile(Source::Terraform, 2 * FEW, plain);
    assert_eq!(detections, 2 * 2 * FEW as u64 / 10);
}

/// An edit, a new status, a revert and a deletion of every tenth object. Returns the number of episodes that started.
fn reconcile(source: Source, count: usize, object: fn(usize) -> serde_json::Value) -> u64 {
    let mut cluster = Cluster::listed(source, count, object);
    let mut changes = Vec::new();
    for number in (0..count).step_by(10) {
        let (original, changed) = (object(number), edited(object(number)));
        let reverted = rolled_out(original, 3);
        for version in [changed.clone(), rolled_out(changed, 1), reverted] {
            changes.push(Event::Applied(cluster.stream.id, cluster.read(&version)));
        }
        let (namespace, name) = (namespace(number).into(), name(number).into());
        changes.push(Event::Deleted { watch: cluster.stream.id, namespace, name });
    }
    let published = measured(|| {
        let mut published = (0_usize, Snapshot::default());
        for change in changes.drain(..) {
            if cluster.engine.apply(change) {
                // Readers hold the last snapshot, so that the engine copies what it changes.
                published = (published.0 + 1, cluster.engine.snapshot());
            }
        }
        published
    });
    assert!(published.0 >= 3 * count / 10, "{} snapshots", published.0);
    published.1.counters.detections().map(|(_, count)| count).sum()
}

fn relist_first() {
    let mut cluster = Cluster::new(Source::Annotation, 0);
    let objects = (0..MANY).map(|number| cluster.read(&drifted(number))).collect();
    measured(|| cluster.list(objects));
    check(&cluster, MANY / 20);
}

/// A list of cached objects. One in twenty was edited, and one in twenty deleted.
fn relist_again() {
    let mut cluster = Cluster::listed(Source::Annotation, MANY, deployment);
    let objects = (0..MANY).filter(|number| number % 20 != 7);
    let objects = objects.map(|number| cluster.read(&drifted(number))).collect();
    measured(|| cluster.list(objects));
    check(&cluster, MANY / 20);
}

/// One object in twenty was edited.
fn drifted(number: usize) -> serde_json::Value {
    if number.is_multiple_of(20) { edited(deployment(number)) } else { deployment(number) }
}

fn check(cluster: &Cluster, drifted: usize) {
    let snapshot = cluster.engine.snapshot();
    let verdicts = snapshot.kinds[0].blocks.entries().map(|entry| entry.claim.verdict.kind());
    assert_eq!(verdicts.filter(|kind| *kind == VerdictKind::Drifted).count(), drifted);
}

fn render_first(encoding: &'static str) {
    let cluster = Cluster::listed(Source::Annotation, MANY, drifted);
    let scrapes = Scrapes::of(&cluster);
    let page = measured(|| scrapes.scrape(encoding));
    check_page(&page, encoding);
}

/// Only the block of the object that changed is rendered again.
fn render_again(encoding: &'static str) {
    let mut cluster = Cluster::listed(Source::Annotation, MANY, drifted);
    let mut scrapes = Scrapes::of(&cluster);
    scrapes.scrape(encoding);
    cluster.engine.apply(Event::Applied(cluster.stream.id, cluster.read(&edited(deployment(7)))));
    scrapes = scrapes.after(&cluster);
    let page = measured(|| scrapes.scrape(encoding));
    check_page(&page, encoding);
}

fn check_page(page: &[bytes::Bytes], encoding: &str) {
    let length: usize = page.iter().map(bytes::Bytes::len).sum();
    let is_gzip = page[0].starts_with(&[0x1f, 0x8b]);
    assert_eq!(is_gzip, encoding == "gzip");
    assert!(length > if is_gzip { 4 << 10 } else { 100 << 10 }, "the page has {length} bytes");
}
