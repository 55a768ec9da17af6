//! The manifest source: directories of manifests, their changes and their faults.

use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc};

use drift_exporter::{
    config::{ManifestLocations, Settings},
    types::{
        Baseline, BaselineFault, BaselineOrigin, DeclaredBody, SkipReason, Source, SyncHealth, UnknownReason,
    },
};
use tempfile::TempDir;

use crate::support::{
    api_server::{ApiServer, custom_kind},
    source::{SourceEvent, SourceFixture},
};

fn locations(path: &Path) -> Settings {
    let manifest = ManifestLocations { paths: vec![path.to_owned()], namespace: "shop".into() };
    Settings { sources: vec![Source::Manifest], manifest, ..Settings::default() }
}

fn config_map(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n")
}

fn write(folder: &TempDir, name: &str, text: &str) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Each object with its file; a question mark if its declared state is unknown.
fn object_lines(baseline: &Arc<Baseline>) -> Vec<String> {
    let mut lines: Vec<String> = baseline
        .objects
        .iter()
        .map(|declared| {
            let is_unknown = declared.body == DeclaredBody::Opaque(UnknownReason::UnreadableBaseline);
            format!(
                "{}: {}/{}{}",
                declared.address,
                declared.object.namespace,
                declared.object.name,
                if is_unknown { " ?" } else { "" }
            )
        })
        .collect();
    lines.sort();
    lines
}

fn skipped(baseline: &Arc<Baseline>) -> Vec<(&str, SkipReason)> {
    baseline.skipped.listed().iter().map(|skipped| (&*skipped.address, skipped.reason)).collect()
}

#[tokio::test(start_paused = true)]
async fn directory_is_a_baseline_and_changes_update_it() {
    let (server, folder) = (ApiServer::with_source_kinds(), tempfile::tempdir().unwrap());
    write(&folder, "a.yaml", &format!("{}{}", config_map("a"), config_map("b")));
    let list = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ops","namespace":"x"}}]}"#;
    write(&folder, "base/list.json", list);
    write(
        &folder,
        "kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
    );
    let mut source = SourceFixture::start_manifests(&server, locations(folder.path()));
    let baseline = source.next_baseline().await;
    assert_eq!(object_lines(&baseline), ["a.yaml: shop/a", "a.yaml: shop/b", "base/list.json: /ops"]);
    assert_eq!(
        (skipped(&baseline), baseline.this_cluster, baseline.origin),
        (vec![], true, BaselineOrigin::Manifests)
    );
    assert_eq!(*baseline.name, *folder.path().display().to_string());
    source.expect_up().await;
    let wanted = source.requirements();
    assert_eq!(
        wanted.kinds.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["v1 ConfigMap", "v1 Namespace"]
    );
    source.expect_no_event(30).await;
    write(&folder, "a.yaml", &config_map("a"));
    let next = source.next_baseline().await;
    assert_eq!(object_lines(&next), ["a.yaml: shop/a", "base/list.json: /ops"]);
    let same = |baseline: &Arc<Baseline>| {
        baseline.objects.iter().find(|object| &*object.object.name == "a").unwrap().clone()
    };
    assert!(Arc::ptr_eq(&same(&baseline), &same(&next)), "an unchanged object is the same allocation");
    source.set(Settings::default());
    assert!(
        matches!(source.next().await, SourceEvent::Removed(name) if name == folder.path().display().to_string())
    );
}

#[tokio::test(start_paused = true)]
async fn swapped_symlink_replaces_the_baseline_at_once() {
    let (server, folder) = (ApiServer::with_source_kinds(), tempfile::tempdir().unwrap());
    for (revision, name) in [("1", "a"), ("2", "b")] {
        write(&folder, &format!(".worktrees/{revision}/web.yaml"), &config_map(name));
    }
    symlink(".worktrees/1", folder.path().join("current")).unwrap();
    let mut source = SourceFixture::start_manifests(&server, locations(&folder.path().join("current")));
    assert_eq!(object_lines(&source.next_baseline().await), ["web.yaml: shop/a"]);
    source.expect_up().await;
    symlink(".worktrees/2", folder.path().join("next")).unwrap();
    fs::rename(folder.path().join("next"), folder.path().join("current")).unwrap();
    assert_eq!(object_lines(&source.next_baseline().await), ["web.yaml: shop/b"]);
}

#[tokio::test(start_paused = true)]
async fn broken_manifest_makes_only_its_objects_unknown() {
    let (server, folder) = (ApiServer::with_source_kinds(), tempfile::tempdir().unwrap());
    write(&folder, "a.yaml", &format!("{}{}", config_map("a"), config_map("b")));
    write(&folder, "c.yaml", &config_map("c"));
    let mut source = SourceFixture::start_manifests(&server, locations(folder.path()));
    source.next_baseline().await;
    source.expect_up().await;
    // One of two documents contains an unrendered template.
    write(
        &folder,
        "a.yaml",
        &format!("{}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{{{ .Values.b }}}}\n", config_map("a")),
    );
    let broken = source.next_baseline().await;
    assert_eq!(object_lines(&broken), ["a.yaml: shop/a", "a.yaml: shop/b ?", "c.yaml: shop/c"]);
    assert_eq!((skipped(&broken), &broken.fault), (vec![("a.yaml", SkipReason::NotYaml)], &None));
    // Of two files with the same object, the first wins. Invalid UTF-8 is unreadable.
    write(&folder, "d.yaml", &config_map("c"));
    fs::write(folder.path().join("e.yaml"), b"\xff\xfe").unwrap();
    let twice = source.next_baseline().await;
    assert_eq!(object_lines(&twice), object_lines(&broken));
    let reasons = [
        ("a.yaml", SkipReason::NotYaml),
        ("d.yaml", SkipReason::Duplicate),
        ("e.yaml", SkipReason::Unreadable),
    ];
    assert_eq!(skipped(&twice), reasons);
    // An unrendered template in a name hides the identity of the object.
    write(&folder, "c.yaml", &config_map("\"{{ .Values.c }}\""));
    let nameless = source.next_baseline().await;
    assert_eq!(
        object_lines(&nameless),
        ["a.yaml: shop/a", "a.yaml: shop/b ?", "d.yaml: shop/c"],
        "another file declares it"
    );
    fs::remove_file(folder.path().join("d.yaml")).unwrap();
    source.next_baseline().await;
    write(&folder, "c.yaml", &config_map("c"));
    assert_eq!(object_lines(&source.next_baseline().await)[2], "c.yaml: shop/c");
    write(&folder, "c.yaml", &config_map("\"{{ .Values.c }}\""));
    assert_eq!(object_lines(&source.next_baseline().await)[2], "c.yaml: shop/c ?");
    write(&folder, "c.yaml", &config_map("c"));
    source.next_baseline().await;
    // With the file fixed, no object is unknown.
    write(&folder, "a.yaml", &config_map("b"));
    assert_eq!(object_lines(&source.next_baseline().await), ["a.yaml: shop/b", "c.yaml: shop/c"]);
}

#[tokio::test(start_paused = true)]
async fn missing_or_empty_directory_keeps_last_baseline() {
    let (server, folder) = (ApiServer::with_source_kinds(), tempfile::tempdir().unwrap());
    write(&folder, "deep/a.yaml", &config_map("a"));
    let path = folder.path().join("deep");
    let mut source = SourceFixture::start_manifests(&server, locations(&path));
    source.next_baseline().await;
    source.expect_up().await;
    for (remove_directory, word) in [(true, ": No such file"), (false, "no manifests are left")] {
        let hidden = folder.path().join("hidden");
        if remove_directory {
            fs::rename(&path, &hidden).unwrap();
        } else {
            fs::rename(path.join("a.yaml"), &hidden).unwrap();
        }
        let faulty = source.next_baseline().await;
        let error = faulty.fault.as_ref().unwrap();
        assert_eq!(
            (error.fault, object_lines(&faulty)),
            (BaselineFault::Unreadable, vec!["a.yaml: shop/a".to_owned()])
        );
        assert!(error.message.contains(word), "{}", error.message);
        source.expect_no_event(30).await;
        fs::rename(&hidden, if remove_directory { path.clone() } else { path.join("a.yaml") }).unwrap();
        let restored = source.next_baseline().await;
        assert_eq!((object_lines(&restored), &restored.fault), (vec!["a.yaml: shop/a".to_owned()], &None));
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_files_are_read() {
    let (server, folder) = (ApiServer::with_source_kinds(), tempfile::tempdir().unwrap());
    write(&folder, "first.yaml", &config_map("first"));
    let mut source = SourceFixture::start_manifests(&server, locations(folder.path()));
    source.next_baseline().await;
    source.expect_up().await;
    for at in 0..10_000 {
        write(&folder, &format!("{}/{at}.yaml", at % 100), &config_map(&format!("c{at}")));
    }
    let baseline = source.next_baseline().await;
    assert_eq!((baseline.objects.len(), &baseline.fault), (10_001, &None));
}

/// The number of discovery requests.
fn discovery_requests(server: &ApiServer) -> usize {
    server.requests().iter().filter(|request| request.plural == "apis").count()
}

#[tokio::test(start_paused = true)]
async fn unserved_kinds_are_discovered_rarely_and_keep_their_objects() {
    let (server, folder) = (ApiServer::with_source_kinds(), tempfile::tempdir().unwrap());
    let custom = "---\napiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: f}\n";
    write(&folder, "a.yaml", &(config_map("a") + custom));
    let mut source = SourceFixture::start_manifests(&server, locations(folder.path()));
    assert_eq!(object_lines(&source.next_baseline().await), ["a.yaml: shop/a", "a.yaml: shop/f"]);
    source.expect_up().await;
    source.expect_no_event(100).await;
    let count = discovery_requests(&server);
    assert!((2..=5).contains(&count), "{count} requests in 100 s");
    server.serve(&[custom_kind("Fleet")]);
    assert_eq!(object_lines(&source.next_baseline().await), ["a.yaml: /f", "a.yaml: shop/a"]);
    source.expect_no_event(100).await;
}

#[tokio::test(start_paused = true)]
async fn failed_discovery_of_a_group_hides_only_its_objects() {
    let (server, folder) = (ApiServer::with_source_kinds(), tempfile::tempdir().unwrap());
    server.serve(&[custom_kind("Fleet")]);
    server.make_stale("example.com/v1");
    let custom = "---\napiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: f}\n";
    write(&folder, "a.yaml", &(config_map("a") + custom));
    let mut source = SourceFixture::start_manifests(&server, locations(folder.path()));
    assert_eq!(object_lines(&source.next_baseline().await), ["a.yaml: shop/a"]);
    assert!(matches!(source.next().await, SourceEvent::Health(SyncHealth::Down { .. })));
    server.allow();
    assert_eq!(object_lines(&source.next_baseline().await), ["a.yaml: /f", "a.yaml: shop/a"]);
    source.expect_up().await;
}
