//! Everything that parses input from outside the process, as functions of bytes.

use std::{cell::RefCell, io::Write as _, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    config::{BaselineLimits, Overrides, load, load_web, read_yaml},
    rules::{RuleConfig, RuleSet, RuleSpec},
    sources::{
        helm, read_objects,
        terraform::{self, PublishedBaseline},
    },
    types::Source,
    watch::{
        LineBuffer, ObjectDecoder, WatchLine,
        json_items::{ItemSplitter, ListLayout, Part},
    },
};
use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use serde_json::json;

use crate::exporter::{Cluster, Scrapes, reader, reading, redaction_key};

/// A function that must neither panic nor take long nor use much memory, whatever the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The name of its folder in `tests/fuzz/corpus`.
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
}

pub(crate) const TARGETS: [Target; 10] = [
    Target { name: "watch_lines", run: watch_lines },
    Target { name: "lists", run: lists },
    Target { name: "states", run: states },
    Target { name: "releases", run: releases },
    Target { name: "yaml", run: yaml },
    Target { name: "settings", run: settings },
    Target { name: "web_config", run: web_config },
    Target { name: "rules", run: rules },
    Target { name: "queries", run: queries },
    Target { name: "labels", run: labels },
];

/// Decoders for a hash, for fields that Terraform declares, and for fields that kubectl applied.
fn decoders() -> [ObjectDecoder; 3] {
    [Source::Annotation, Source::Terraform, Source::LastApplied].map(|source| reader(&reading(source)))
}

fn watch_lines(input: &[u8]) {
    let Ok(lines) = LineBuffer::default().push(input) else { return };
    let decoders = decoders();
    for line in lines {
        if let Ok(line) = serde_json::from_slice::<WatchLine<'_>>(&line) {
            for decoder in &decoders {
                decoder.decode(line.object.get().as_bytes());
            }
        }
    }
}

fn lists(input: &[u8]) {
    const LIST: ListLayout = ListLayout { list: "items", members: &["metadata"], max_bytes: 1 << 20 };
    let (decoders, mut splitter) = (decoders(), ItemSplitter::new(LIST));
    // In two chunks, to cut values too.
    for chunk in input.chunks(input.len().div_ceil(2).max(1)) {
        let split = splitter.push(chunk, |part| {
            if let Part::Item(item) = part {
                decoders.iter().for_each(|decoder| drop(decoder.decode(item)));
            }
        });
        if split.is_err() {
            return;
        }
    }
    let _ = splitter.finish();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing to memory does not fail")
}

fn states(input: &[u8]) {
    let _ = terraform::decode(input, &redaction_key());
    let _ = terraform::decode(&gzip(input), &redaction_key());
    let _ = PublishedBaseline::read(input, &BaselineLimits::default());
}

fn releases(input: &[u8]) {
    let limits = BaselineLimits::default();
    let _ = helm::decode(input, &limits);
    if let Ok(release) = helm::decode(STANDARD.encode(gzip(input)).as_bytes(), &limits) {
        let _ = read_objects(&release.manifest, &limits);
    }
}

fn yaml(input: &[u8]) {
    let _ = read_objects(&String::from_utf8_lossy(input), &BaselineLimits::default());
}

fn settings(input: &[u8]) {
    let _ = load(&String::from_utf8_lossy(input), &Overrides::default(), Timestamp::UNIX_EPOCH);
}

fn web_config(input: &[u8]) {
    let _ = load_web(&String::from_utf8_lossy(input), Path::new("/nonexistent"));
}

fn rules(input: &[u8]) {
    if let Ok(rules) = read_yaml::<Vec<RuleSpec>>(&String::from_utf8_lossy(input)) {
        let _ = RuleSet::compile(&RuleConfig { rules, ..RuleConfig::default() });
    }
}

thread_local! {
    /// Reused, because compiling the built-in rules takes longer than a case.
    static EMPTY: RefCell<Cluster> = RefCell::new(Cluster::new(Source::Annotation, 0));
    static LISTED: Scrapes =
        Scrapes::of(&Cluster::listed(Source::Annotation, 3, crate::inputs::deployment));
}

fn queries(input: &[u8]) {
    let query = String::from_utf8_lossy(input);
    for path in
        ["/", "/v1/resources", "/v1/history", "/v1/gate", "/v1/resources/deployments.apps/team-00/web-00000"]
    {
        LISTED.with(|scrapes| {
            if let Some((status, _)) = scrapes.get(&format!("{path}?{query}"), "identity") {
                assert!(status < 500, "{path}?{query}: {status}");
            }
        });
    }
}

/// Lines of the input are the namespace and the name of an object, and a label.
fn labels(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut words = text.split('\n');
    let (Some(namespace), Some(name)) = (words.next(), words.next().filter(|name| !name.is_empty())) else {
        return;
    };
    let mut object = crate::inputs::deployment(0);
    object["metadata"]["namespace"] = json!(namespace);
    object["metadata"]["name"] = json!(name);
    object["metadata"]["labels"]["team"] = json!(words.next().unwrap_or_default());
    let page = EMPTY.with_borrow_mut(|cluster| {
        let live = cluster.read(&object);
        cluster.list(vec![live]);
        Scrapes::of(cluster).scrape("identity").concat()
    });
    let page = String::from_utf8(page).expect("a page is UTF-8");
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("drift_resource_drifted{")).collect();
    assert_eq!(lines.len(), 1, "one object has one series: {page}");
    let labels = parse_labels(lines[0]).expect("a valid line");
    for (label, value) in [("namespace", namespace), ("name", name)] {
        assert!(labels.iter().any(|(key, found)| key == label && found == value), "{label}: {labels:?}");
    }
}

/// The labels of a sample line, unescaped; none if it is malformed.
fn parse_labels(line: &str) -> Option<Vec<(String, String)>> {
    let mut rest = line.split_once('{')?.1;
    let mut labels = Vec::new();
    while !rest.starts_with('}') {
        let (label, value) = rest.split_once("=\"")?;
        let (mut text, mut characters) = (String::new(), value.char_indices());
        rest = loop {
            match characters.next()? {
                (_, '\\') => text.push(match characters.next()?.1 {
                    'n' => '\n',
                    escaped @ ('\\' | '"') => escaped,
                    _ => return None,
                }),
                (at, '"') => break &value[at + 1..],
                (_, character) => text.push(character),
            }
        };
        labels.push((label.trim_start_matches(',').to_owned(), text));
    }
    Some(labels)
}
