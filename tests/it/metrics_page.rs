//! The `/metrics` page: golden file, escaping, formats and limits.

use std::{collections::BTreeMap, fs, io::Read as _, path::Path, sync::Arc};

use axum::body::Body;
use drift_exporter::{
    config::{Limits, NamespaceLimits, Settings, StateLocations},
    engine::{ClaimBlocks, KindState, PlannedWatch, Snapshot, WatchState},
    server::CATALOG,
    types::{DownReason, Kind, Source, SyncHealth, TerraformJobSpec, WatchSpec},
};
use flate2::read::GzDecoder;
use http::{HeaderName, Request, header};
use prometheus_client::{
    encoding::text::encode_registry,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    rules::rules,
    status_hash::{job, job_kind},
    support::{
        api_server::ApiServer,
        exporter_fixture::ExporterFixture,
        live_objects::{deployment, edited, recorded, service},
    },
};

const OPEN_METRICS: &str = "application/openmetrics-text;version=1.0.0";

fn request(accept: &str, encoding: &str) -> Request<Body> {
    request_with([(header::ACCEPT, accept), (header::ACCEPT_ENCODING, encoding)])
}

fn request_with<'a>(headers: impl IntoIterator<Item = (HeaderName, &'a str)>) -> Request<Body> {
    let request = Request::get("/metrics");
    let with_headers =
        headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
    with_headers.body(Body::empty()).unwrap()
}

/// One object for each verdict of the annotation source.
fn sample_cluster() -> ApiServer {
    let api = ApiServer::default();
    api.put("deployments", deployment("fine"));
    api.put("deployments", edited(deployment("edited"), 1));
    api.put("deployments", recorded(deployment("bad-hash"), "nonsense"));
    api.put("deployments", recorded(deployment("unknown-algorithm"), "md5:00"));
    api.put("deployments", recorded(deployment("no-hash"), ""));
    api.put("services", service("fine"));
    api
}

/// Replaces values that differ between runs and sorts the lines.
fn stable(page: &str) -> String {
    let mut lines: Vec<String> = page
        .lines()
        .map(|line| match line.rsplit_once(' ') {
            Some((name, _))
                if name.starts_with("process_") || name.starts_with("drift_reconcile_duration_seconds_") =>
            {
                format!("{name} VARIES")
            }
            _ => line.to_owned(),
        })
        .collect();
    lines.sort();
    lines.join("\n") + "\n"
}

#[tokio::test(start_paused = true)]
async fn page_equals_golden_file() {
    let settings = Settings { health_series: true, ..Settings::default() };
    let api = sample_cluster();
    let exporter = ExporterFixture::start_with(&api, settings);
    exporter.wait_idle().await;
    api.put("deployments", edited(deployment("fine"), 2));
    exporter.wait_idle().await;
    api.put("deployments", deployment("fine"));
    exporter.wait_idle().await;
    let page = stable(&exporter.metrics().await);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/metrics.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &page).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap();
    assert!(
        page == expected,
        "the page differs from {}; UPDATE_GOLDEN=1 updates it:\n{page}",
        golden.display()
    );
}

#[tokio::test(start_paused = true)]
async fn formats_and_encodings_expose_the_same_samples() {
    let exporter = ExporterFixture::ready(&sample_cluster()).await;
    let plain = exporter.send(request("*/*", "identity")).await;
    assert_eq!(plain.headers[header::CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    assert!(!plain.headers.contains_key(header::CONTENT_ENCODING));
    let open = exporter.send(request(OPEN_METRICS, "identity")).await;
    assert_eq!(
        open.headers[header::CONTENT_TYPE],
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert!(open.text().ends_with("# EOF\n") && !plain.text().contains("# EOF"));
    let samples = |page: &str| {
        let page = stable(page);
        page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(samples(&plain.text()), samples(&open.text()));

    for (accept, reference) in [("*/*", plain.text()), (OPEN_METRICS, open.text())] {
        let gzip = exporter.send(request(accept, "gzip")).await;
        assert_eq!(gzip.headers[header::CONTENT_ENCODING], "gzip");
        let mut decoder = GzDecoder::new(&gzip.body[..]);
        let mut text = String::new();
        decoder.read_to_string(&mut text).unwrap();
        assert!(decoder.into_inner().is_empty(), "more than one gzip member");
        assert_eq!(stable(&text), stable(&reference));
    }
}

#[tokio::test(start_paused = true)]
async fn accepted_format_of_the_highest_quality_is_rendered() {
    let exporter = ExporterFixture::ready(&ApiServer::default()).await;
    let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.7,\
        application/openmetrics-text;version=0.0.1;q=0.6,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,\
        text/plain;version=0.0.4;q=0.4,*/*;q=0.3";
    for (accept, format) in [
        (Some(prometheus), "application/openmetrics-text"),
        (Some("*/*"), "text/plain"),
        (Some("text/html,*/*;q=0.1"), "text/plain"),
        (Some("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.5"), "text/plain"),
        (Some("application/openmetrics-text;version=2.0.0"), "text/plain"),
        (Some("application/openmetrics-text;q=0"), "text/plain"),
        (Some("nonsense;;;q=x"), "text/plain"),
        (None, "text/plain"),
    ] {
        let headers = accept.map(|accept| (header::ACCEPT, accept));
        let page = exporter.send(request_with(headers)).await;
        let content_type = page.headers[header::CONTENT_TYPE].to_str().unwrap();
        assert_eq!(content_type.split(';').next(), Some(format), "{accept:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn gzip_is_sent_only_if_accepted() {
    let exporter = ExporterFixture::ready(&ApiServer::default()).await;
    for (accepted, gzip) in [
        (Some("gzip"), true),
        (Some("br, gzip;q=0.5"), true),
        (Some("gzip;q=0"), false),
        (Some("br"), false),
        (Some("*"), true),
        (Some("gzip;q=0, *"), false),
        (Some("GZIP"), true),
        (None, false),
    ] {
        let headers = accepted.map(|accepted| (header::ACCEPT_ENCODING, accepted));
        let page = exporter.send(request_with(headers)).await;
        assert_eq!(page.headers.contains_key(header::CONTENT_ENCODING), gzip, "{accepted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_of_single_objects_share_a_series() {
    let kind = Arc::new(Kind::service());
    let watch = |name: &str, health: SyncHealth| {
        let (namespace, name) = (Some("shop".into()), Some(name.into()));
        let spec = Arc::new(WatchSpec { namespace, name, ..WatchSpec::all(kind.clone()) });
        WatchState { planned: PlannedWatch::Unwatched, spec, health, synced: true, first_list_ended: true }
    };
    let down = SyncHealth::Down { reason: DownReason::Forbidden, message: "no".into() };
    let both = vec![watch("a", SyncHealth::Up), watch("b", down)];
    let state = KindState { kind: kind.clone(), watches: both.into(), blocks: ClaimBlocks::default() };
    let snapshot = Snapshot { kinds: vec![Arc::new(state)], ..Snapshot::default() };
    let exporter = ExporterFixture::ready(&ApiServer::default()).await.with_snapshot(snapshot);
    let page = exporter.metrics().await;
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("drift_watch_stream_up")).collect();
    assert_eq!(lines, ["drift_watch_stream_up{group=\"\",version=\"v1\",kind=\"Service\",scope=\"shop\"} 0"]);
}

/// The labels of a sample and its value.
type Sample = (BTreeMap<String, String>, f64);

/// A strict parser of the text format: HELP, TYPE, then all samples of the family.
fn parse(page: &str) -> BTreeMap<String, Vec<Sample>> {
    let mut families: BTreeMap<String, Vec<_>> = BTreeMap::new();
    let mut family = String::new();
    for line in page.lines() {
        if let Some(header) = line.strip_prefix("# HELP ") {
            assert!(header.split_once(' ').is_some_and(|(_, help)| help.ends_with('.')), "{line}");
        } else if let Some(header) = line.strip_prefix("# TYPE ") {
            let (name, kind) = header.split_once(' ').unwrap();
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            assert!(families.insert(name.to_owned(), Vec::new()).is_none(), "{name} has two headers");
            name.clone_into(&mut family);
        } else {
            let (labels, value, name) = parse_sample(line);
            assert!(
                name.strip_prefix(&family)
                    .is_some_and(|rest| ["", "_sum", "_count", "_bucket"].contains(&rest)),
                "{line}"
            );
            families.get_mut(&family).unwrap().push((labels, value));
        }
    }
    families
}

fn parse_sample(line: &str) -> (BTreeMap<String, String>, f64, String) {
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).unwrap();
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").unwrap();
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        c @ ('"' | '\\') => c,
                        c => panic!("invalid escape \\{c}"),
                    }),
                    (_, c) => value.push(c),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "duplicate label {label}");
            rest = after[end + 1..].trim_start_matches(',');
        }
        rest = &rest[1..];
    }
    (labels, rest.strip_prefix(' ').unwrap().parse().unwrap(), name.to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn label_values_are_escaped(names in prop::collection::btree_set("[^\u{0}\r]{1,12}|a\"\\} 1\nfake\\{x=\"|[\"\\\\\n]{1,4}", 1..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let api = ApiServer::default();
            for name in &names {
                api.put("deployments", edited(deployment(name), 1));
            }
            let exporter = ExporterFixture::ready(&api).await;
            let families = parse(&exporter.metrics().await);
            for family in ["drift_resource_drifted", "drift_resource_drifted_timestamp_seconds", "drift_resource_drifted_fields"] {
                let found: std::collections::BTreeSet<_> = families[family].iter().map(|(labels, _)| labels["name"].clone()).collect();
                assert_eq!(found, names, "{family}");
            }
        });
    }

    /// prometheus-client is the reference implementation.
    #[test]
    fn lines_equal_those_of_prometheus_client(name in "[^\u{0}\r]{1,20}", namespace in "[^\u{0}\r]{0,20}") {
        let family = Family::<Vec<(String, String)>, Gauge>::default();
        let labels = [("group", "apps"), ("kind", "Deployment"), ("namespace", &namespace), ("name", &name), ("source", "annotation")];
        family.get_or_create_owned(&labels.map(|(label, value)| (label.to_owned(), value.to_owned())).to_vec()).set(0);
        let mut registry = Registry::default();
        registry.register("drift_resource_drifted", help("drift_resource_drifted"), family);
        let mut reference = String::new();
        encode_registry(&mut reference, &registry).unwrap();

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let page = runtime.block_on(async {
            let api = ApiServer::default();
            let mut object = deployment(&name);
            object["metadata"]["namespace"] = json!(namespace);
            api.put("deployments", object);
            ExporterFixture::ready(&api).await.send(request(OPEN_METRICS, "identity")).await.text()
        });
        prop_assert!(page.starts_with(&reference), "{page}\nis not\n{reference}");
    }
}

fn help(name: &str) -> &'static str {
    CATALOG.iter().find(|metric| metric.name == name).unwrap().help
}

/// A locked state file that declares a paused Deployment; Terraform does not read `spec.paused`.
fn settings_with_locked_state(api: &ApiServer, folder: &Path) -> Settings {
    let mut paused = deployment("paused");
    paused["spec"]["paused"] = json!(true);
    paused["metadata"]["managedFields"] = json!([
        {"manager": "kubectl", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:paused": {}}}}]);
    api.put("deployments", paused);
    let attributes = json!({"id": "shop/paused", "metadata": [{"name": "paused", "namespace": "shop"}]});
    let resource = json!({"mode": "managed", "type": "kubernetes_deployment_v1", "name": "paused",
        "instances": [{"schema_version": 1, "attributes": attributes}]});
    let state = json!({"version": 4, "serial": 1, "lineage": "a", "resources": [resource]});
    fs::write(folder.join("shop.tfstate"), state.to_string()).unwrap();
    let lock =
        json!({"ID": "1", "Operation": "OperationTypePlan", "Who": "ci", "Created": "2026-01-01T00:00:00Z"});
    fs::write(folder.join(".shop.tfstate.lock.info"), lock.to_string()).unwrap();
    let files = vec![folder.join("shop.tfstate")];
    let terraform = StateLocations { files, this_cluster: true, ..StateLocations::default() };
    Settings { sources: vec![Source::Annotation, Source::Terraform], terraform, ..Settings::default() }
}

#[tokio::test(start_paused = true)]
async fn every_family_is_in_the_catalog_with_type_help_and_labels() {
    let api = sample_cluster();
    let folder = tempfile::tempdir().unwrap();
    api.serve(&[job_kind()]);
    api.put("jobs", job("apply-1", "db", -30, Some((true, -10))));
    let jobs = Some(TerraformJobSpec::default());
    let settings = Settings {
        health_series: true,
        terraform_jobs: jobs,
        ..settings_with_locked_state(&api, folder.path())
    };
    let exporter = ExporterFixture::start_with(&api, settings);
    exporter.wait_idle().await;
    let expiring = "[{name: brief, match: {fields: [image]}, effect: ignore, expires: 2026-12-31}]";
    exporter.rules(rules(expiring)).await;
    api.put("deployments", edited(deployment("fine"), 2));
    exporter.wait_idle().await;
    api.put("deployments", deployment("fine"));
    api.close_watches();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let page = exporter.metrics().await;
    let families = parse(&page);
    let names: Vec<_> = families.keys().map(String::as_str).collect();
    let mut catalogue: Vec<_> = CATALOG.iter().map(|metric| metric.name).collect();
    catalogue.sort_unstable();
    assert_eq!(names, catalogue);
    for metric in CATALOG {
        assert!(
            page.contains(&format!("# HELP {} {}.\n", metric.name, metric.help)),
            "help of {}",
            metric.name
        );
        assert!(
            page.contains(&format!("# TYPE {} {}\n", metric.name, metric.kind.as_str())),
            "type of {}",
            metric.name
        );
        assert!(!families[metric.name].is_empty(), "{} has no sample", metric.name);
        for (labels, _) in &families[metric.name] {
            let mut labels_found: Vec<_> =
                labels.keys().map(String::as_str).filter(|label| *label != "le").collect();
            let mut documented = metric.labels.to_vec();
            labels_found.sort_unstable();
            documented.sort_unstable();
            assert_eq!(labels_found, documented, "labels of {}", metric.name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn state_and_lock_are_in_api_and_ui() {
    let (api, folder) = (sample_cluster(), tempfile::tempdir().unwrap());
    let exporter = ExporterFixture::start_with(&api, settings_with_locked_state(&api, folder.path()));
    exporter
        .until("the state is loaded", std::time::Duration::from_secs(10), |exporter| {
            exporter.snapshot().baselines.values().next().is_some()
        })
        .await;
    let status = exporter.get("/v1/status").await.json();
    assert_eq!(status["sources"][0]["source"], "terraform");
    let state = &status["baselines"][0];
    let fields =
        ["origin", "serial", "objects", "cluster", "fault", "inFlight"].map(|name| state[name].clone());
    assert_eq!(json!(fields), json!(["file", 1, 1, "this", null, false]));
    let lock = &state["lock"];
    assert_eq!((&lock["who"], &lock["operation"]), (&json!("ci"), &json!("OperationTypePlan")));
    assert!(lock["ageSeconds"].as_i64().is_some_and(|age| age > 86_400), "{lock}");
    let page = exporter.get("/sources").await.text();
    let shown = page.split("id=\"states\"").nth(1).unwrap();
    assert!(shown.contains("shop.tfstate") && shown.contains("OperationTypePlan"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn series_limit_keeps_drifted_objects_and_counts_dropped_series() {
    let api = ApiServer::default();
    for n in 0..600 {
        api.put("deployments", deployment(&format!("fine-{n}")));
    }
    api.put("services", service("fine"));
    for n in 0..3 {
        api.put("deployments", edited(deployment(&format!("edited-{n}")), 1));
    }
    let exporter = ExporterFixture::start_with(&api, Settings { max_series: 20, ..Settings::default() });
    exporter
        .until("all objects are cached", std::time::Duration::from_secs(5), |exporter| {
            exporter.cached_versions("deployments").len() == 603
        })
        .await;
    exporter.wait_idle().await;
    let page = exporter.metrics().await;
    let families = parse(&page);
    let drifted = &families["drift_resource_drifted"];
    assert_eq!(drifted.iter().filter(|(_, value)| *value > 0.5).count(), 3);
    assert_eq!(families["drift_resource_drifted_timestamp_seconds"].len(), 3);
    let shown = drifted.len() + 3 + 3;
    assert!(shown <= 20, "{shown} series");
    let dropped = families["drift_series_dropped"][0].1;
    assert!((dropped - (604.0 + 6.0 - shown as f64)).abs() < 0.5, "{dropped} dropped, {shown} shown");
    let counted: f64 = families["drift_resources"].iter().map(|(_, value)| value).sum();
    assert!((counted - 604.0).abs() < 0.5, "counts by verdict are complete");
}

#[tokio::test(start_paused = true)]
async fn series_limit_also_applies_to_drifted_objects() {
    let api = ApiServer::default();
    for n in 0..40 {
        api.put("deployments", edited(deployment(&format!("edited-{n}")), 1));
    }
    let exporter = ExporterFixture::start_with(
        &api,
        Settings { max_series: 50, health_series: true, ..Settings::default() },
    );
    exporter
        .until("all objects are cached", std::time::Duration::from_secs(5), |exporter| {
            exporter.cached_versions("deployments").len() == 40
        })
        .await;
    exporter.wait_idle().await;
    let families = parse(&exporter.metrics().await);
    let shown = families["drift_resource_drifted"].len();
    assert_eq!(shown, 50 / 3);
    assert_eq!(families["drift_resource_drifted_timestamp_seconds"].len(), shown);
    let dropped = families["drift_series_dropped"][0].1;
    // Three series of each object and its health; health gets the room that is left.
    assert!((dropped - f64::from(40 * 4 - 50)).abs() < 0.5, "{dropped} dropped");
}

/// The objects of namespace `name` in the family `drift_resource_drifted` at 1.
fn drifted_in(families: &BTreeMap<String, Vec<Sample>>, name: &str) -> usize {
    let drifted = families["drift_resource_drifted"].iter();
    drifted.filter(|(labels, value)| labels["namespace"] == name && *value > 0.5).count()
}

#[tokio::test(start_paused = true)]
async fn namespace_with_many_drifted_objects_leaves_room_for_others() {
    let api = ApiServer::default();
    let in_namespace = |namespace: &str, mut object: Value| {
        object["metadata"]["namespace"] = namespace.into();
        object
    };
    for n in 0..300 {
        api.put("deployments", in_namespace("tenant", edited(deployment(&format!("tenant-{n}")), 1)));
    }
    for n in 0..5 {
        api.put("deployments", in_namespace("victim", edited(deployment(&format!("victim-{n}")), 1)));
    }
    let exporter = ExporterFixture::start_with(&api, Settings { max_series: 60, ..Settings::default() });
    exporter
        .until("all objects are cached", std::time::Duration::from_secs(5), |exporter| {
            exporter.cached_versions("deployments").len() == 305
        })
        .await;
    exporter.wait_idle().await;
    let families = parse(&exporter.metrics().await);
    // Each object has three series: the victim needs 15 of 60, and the tenant gets the rest.
    assert_eq!([drifted_in(&families, "victim"), drifted_in(&families, "tenant")], [5, 15]);
}

#[tokio::test(start_paused = true)]
async fn namespace_has_at_most_the_series_of_its_limit() {
    let api = ApiServer::default();
    for (namespace, name) in [("tenant", "a"), ("tenant", "b"), ("tenant", "c"), ("victim", "a")] {
        let mut object = edited(deployment(name), 1);
        object["metadata"]["namespace"] = namespace.into();
        api.put("deployments", object);
    }
    let namespace = NamespaceLimits { series: 6, ..NamespaceLimits::default() };
    let limits = Limits { namespace, ..Limits::default() };
    let exporter = ExporterFixture::ready_with(&api, Settings { limits, ..Settings::default() }).await;
    let families = parse(&exporter.metrics().await);
    assert_eq!([drifted_in(&families, "victim"), drifted_in(&families, "tenant")], [1, 2]);
    assert!(
        (families["drift_series_dropped"][0].1 - 3.0).abs() < 0.5,
        "{:?}",
        families["drift_series_dropped"]
    );
}

#[tokio::test(start_paused = true)]
async fn critical_drift_gets_series_before_other_drift() {
    let api = ApiServer::default();
    for name in ["a-warning", "b-warning", "z-critical"] {
        api.put("deployments", edited(deployment(name), 1));
    }
    let exporter = ExporterFixture::ready_with(&api, Settings { max_series: 3, ..Settings::default() }).await;
    let critical = "[{name: worse, match: {names: [z-critical]}, effect: {severity: critical}}]";
    exporter.rules(rules(critical)).await;
    let families = parse(&exporter.metrics().await);
    let shown: Vec<_> =
        families["drift_resource_drifted"].iter().map(|(labels, _)| labels["name"].clone()).collect();
    assert_eq!(shown, ["z-critical"]);
}

#[tokio::test(start_paused = true)]
async fn only_drifted_setting_hides_other_objects() {
    let exporter = ExporterFixture::start_with(
        &sample_cluster(),
        Settings { only_drifted: true, health_series: true, ..Settings::default() },
    );
    exporter.wait_idle().await;
    let families = parse(&exporter.metrics().await);
    let shown: Vec<_> =
        families["drift_resource_drifted"].iter().map(|(labels, _)| labels["name"].clone()).collect();
    assert_eq!(shown, ["edited"]);
    assert_eq!(families["drift_resource_health"].len(), 6, "health series do not depend on `only_drifted`");
    assert!(
        families["drift_series_dropped"][0].1 < 0.5,
        "series that the settings hide are not counted as dropped"
    );
}
