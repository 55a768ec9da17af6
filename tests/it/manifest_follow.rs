//! Following directories of manifests: what is told, when, and what stays when something breaks.

use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc};

use drift_exporter::{
    sources::manifest::ManifestLocations,
    types::{Baseline, BaselineFault, BaselineOrigin, DeclaredBody, SkipReason, UnknownReason, WatchHealth},
};
use tempfile::TempDir;

use crate::support::{
    followed::{Followed, Told},
    state_server::StateServer,
};

fn sources(path: &Path) -> ManifestLocations {
    ManifestLocations { enabled: true, paths: vec![path.to_owned()], namespace: "shop".into() }
}

fn config_map(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n")
}

fn write(folder: &TempDir, name: &str, text: &str) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Each object with its file; a question mark where nobody knows what is declared for it.
fn told(baseline: &Arc<Baseline>) -> Vec<String> {
    let mut told: Vec<String> = baseline
        .objects
        .iter()
        .map(|own| {
            let doubt = own.body == DeclaredBody::Opaque(UnknownReason::UnreadableBaseline);
            format!(
                "{}: {}/{}{}",
                own.address,
                own.object.namespace,
                own.object.name,
                if doubt { " ?" } else { "" }
            )
        })
        .collect();
    told.sort();
    told
}

fn skipped(baseline: &Arc<Baseline>) -> Vec<(&str, SkipReason)> {
    baseline.skipped.iter().map(|own| (&*own.address, own.reason)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_directory_declares_is_told_and_so_is_every_change() {
    let (server, folder) = (StateServer::default(), tempfile::tempdir().unwrap());
    write(&folder, "a.yaml", &format!("{}{}", config_map("a"), config_map("b")));
    let list = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ops","namespace":"x"}}]}"#;
    write(&folder, "base/list.json", list);
    write(
        &folder,
        "kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
    );
    let mut followed = Followed::start_manifests(&server, sources(folder.path()));
    let baseline = followed.baseline().await;
    assert_eq!(told(&baseline), ["a.yaml: shop/a", "a.yaml: shop/b", "base/list.json: /ops"]);
    assert_eq!(
        (skipped(&baseline), baseline.this_cluster, baseline.origin),
        (vec![], true, BaselineOrigin::Manifests)
    );
    assert_eq!(*baseline.name, *folder.path().display().to_string());
    followed.up().await;
    let wanted = followed.wanted();
    assert_eq!(
        wanted.kinds.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["v1 ConfigMap", "v1 Namespace"]
    );
    followed.silent(30).await;
    write(&folder, "a.yaml", &config_map("a"));
    let next = followed.baseline().await;
    assert_eq!(told(&next), ["a.yaml: shop/a", "base/list.json: /ops"]);
    let same = |baseline: &Arc<Baseline>| {
        baseline.objects.iter().find(|own| &*own.object.name == "a").unwrap().clone()
    };
    assert!(Arc::ptr_eq(&same(&baseline), &same(&next)), "what did not change is the very same");
    followed.sources.send_replace(Arc::new(ManifestLocations::default()));
    assert!(matches!(followed.next().await, Told::Gone(name) if name == folder.path().display().to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_link_that_is_swapped_moves_everything_at_once() {
    let (server, folder) = (StateServer::default(), tempfile::tempdir().unwrap());
    for (revision, name) in [("1", "a"), ("2", "b")] {
        write(&folder, &format!(".worktrees/{revision}/web.yaml"), &config_map(name));
    }
    symlink(".worktrees/1", folder.path().join("current")).unwrap();
    let mut followed = Followed::start_manifests(&server, sources(&folder.path().join("current")));
    assert_eq!(told(&followed.baseline().await), ["web.yaml: shop/a"]);
    followed.up().await;
    symlink(".worktrees/2", folder.path().join("next")).unwrap();
    fs::rename(folder.path().join("next"), folder.path().join("current")).unwrap();
    assert_eq!(told(&followed.baseline().await), ["web.yaml: shop/b"]);
}

#[tokio::test(start_paused = true)]
async fn what_breaks_leaves_the_rest_alone_and_what_it_declared_in_doubt() {
    let (server, folder) = (StateServer::default(), tempfile::tempdir().unwrap());
    write(&folder, "a.yaml", &format!("{}{}", config_map("a"), config_map("b")));
    write(&folder, "c.yaml", &config_map("c"));
    let mut followed = Followed::start_manifests(&server, sources(folder.path()));
    followed.baseline().await;
    followed.up().await;
    // One of two documents has something of a template left in it.
    write(
        &folder,
        "a.yaml",
        &format!("{}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{{{ .Values.b }}}}\n", config_map("a")),
    );
    let broken = followed.baseline().await;
    assert_eq!(told(&broken), ["a.yaml: shop/a", "a.yaml: shop/b ?", "c.yaml: shop/c"]);
    assert_eq!((skipped(&broken), &broken.fault), (vec![("a.yaml", SkipReason::NotYaml)], &None));
    // The same object in two files: the first one counts. A text that is none is no text.
    write(&folder, "d.yaml", &config_map("c"));
    fs::write(folder.path().join("e.yaml"), b"\xff\xfe").unwrap();
    let twice = followed.baseline().await;
    assert_eq!(told(&twice), told(&broken));
    let reasons = [
        ("a.yaml", SkipReason::NotYaml),
        ("d.yaml", SkipReason::Duplicate),
        ("e.yaml", SkipReason::Unreadable),
    ];
    assert_eq!(skipped(&twice), reasons);
    // What a template left in a name hides which object it is.
    write(&folder, "c.yaml", &config_map("\"{{ .Values.c }}\""));
    let nameless = followed.baseline().await;
    assert_eq!(
        told(&nameless),
        ["a.yaml: shop/a", "a.yaml: shop/b ?", "d.yaml: shop/c"],
        "another file has it"
    );
    fs::remove_file(folder.path().join("d.yaml")).unwrap();
    followed.baseline().await;
    write(&folder, "c.yaml", &config_map("c"));
    assert_eq!(told(&followed.baseline().await)[2], "c.yaml: shop/c");
    write(&folder, "c.yaml", &config_map("\"{{ .Values.c }}\""));
    assert_eq!(told(&followed.baseline().await)[2], "c.yaml: shop/c ?");
    write(&folder, "c.yaml", &config_map("c"));
    followed.baseline().await;
    // Mended, nothing is in doubt.
    write(&folder, "a.yaml", &config_map("b"));
    assert_eq!(told(&followed.baseline().await), ["a.yaml: shop/b", "c.yaml: shop/c"]);
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_vanishes_or_is_emptied_declares_what_it_last_did() {
    let (server, folder) = (StateServer::default(), tempfile::tempdir().unwrap());
    write(&folder, "deep/a.yaml", &config_map("a"));
    let path = folder.path().join("deep");
    let mut followed = Followed::start_manifests(&server, sources(&path));
    followed.baseline().await;
    followed.up().await;
    for (hide, word) in [(true, ": No such file"), (false, "no manifests are left")] {
        let hidden = folder.path().join("hidden");
        if hide {
            fs::rename(&path, &hidden).unwrap();
        } else {
            fs::rename(path.join("a.yaml"), &hidden).unwrap();
        }
        let gone = followed.baseline().await;
        let trouble = gone.fault.as_ref().unwrap();
        assert_eq!(
            (trouble.fault, told(&gone)),
            (BaselineFault::Unreadable, vec!["a.yaml: shop/a".to_owned()])
        );
        assert!(trouble.message.contains(word), "{}", trouble.message);
        followed.silent(30).await;
        fs::rename(&hidden, if hide { path.clone() } else { path.join("a.yaml") }).unwrap();
        let back = followed.baseline().await;
        assert_eq!((told(&back), &back.fault), (vec!["a.yaml: shop/a".to_owned()], &None));
    }
}

#[tokio::test(start_paused = true)]
async fn thousands_of_files_are_read_like_a_few() {
    let (server, folder) = (StateServer::default(), tempfile::tempdir().unwrap());
    write(&folder, "first.yaml", &config_map("first"));
    let mut followed = Followed::start_manifests(&server, sources(folder.path()));
    followed.baseline().await;
    followed.up().await;
    for at in 0..10_000 {
        write(&folder, &format!("{}/{at}.yaml", at % 100), &config_map(&format!("c{at}")));
    }
    let baseline = followed.baseline().await;
    assert_eq!((baseline.objects.len(), &baseline.fault), (10_001, &None));
}

/// How often the server was asked which kinds it has.
fn asked_for_kinds(server: &StateServer) -> usize {
    server.requests().iter().filter(|asked| asked.plural.starts_with("/apis/")).count()
}

#[tokio::test(start_paused = true)]
async fn kinds_that_the_cluster_does_not_have_are_asked_for_seldom_and_hide_nothing() {
    let (server, folder) = (StateServer::default(), tempfile::tempdir().unwrap());
    let custom = "---\napiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: f}\n";
    write(&folder, "a.yaml", &(config_map("a") + custom));
    let mut followed = Followed::start_manifests(&server, sources(folder.path()));
    assert_eq!(told(&followed.baseline().await), ["a.yaml: shop/a", "a.yaml: shop/f"]);
    followed.up().await;
    followed.silent(100).await;
    let asked = asked_for_kinds(&server);
    assert!((2..=5).contains(&asked), "{asked} times in 100 s");
    server.serve("example.com/v1", "Fleet", false);
    assert_eq!(told(&followed.baseline().await), ["a.yaml: /f", "a.yaml: shop/a"]);
    followed.silent(100).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_nobody_answers_for_hides_its_own_objects_only() {
    let (server, folder) = (StateServer::default(), tempfile::tempdir().unwrap());
    server.serve("example.com/v1", "Fleet", false);
    server.forbid("/apis/example.com/v1", "");
    let custom = "---\napiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: f}\n";
    write(&folder, "a.yaml", &(config_map("a") + custom));
    let mut followed = Followed::start_manifests(&server, sources(folder.path()));
    assert_eq!(told(&followed.baseline().await), ["a.yaml: shop/a"]);
    assert!(matches!(followed.next().await, Told::Source(WatchHealth::Down { .. })));
    server.allow();
    assert_eq!(told(&followed.baseline().await), ["a.yaml: /f", "a.yaml: shop/a"]);
    followed.up().await;
}
