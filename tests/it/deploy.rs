//! Copies in the chart are current, and image and workflows match the repository. `make test-real` renders the chart with Helm.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use drift_exporter::{
    config::{Overrides, load},
    types::KindName,
};
use jiff::Timestamp;
use regex::Regex;
use serde_json::Value;

const CHART: &str = "deploy/chart/drift-exporter";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn json(name: &str) -> Value {
    serde_json::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The files of a directory by name, with their content; empty if the directory does not exist.
fn files(folder: &str, ending: &str) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(path(folder)) else { return BTreeMap::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| name.ends_with(ending));
    names.map(|name| (name.clone(), text(&format!("{folder}/{name}")))).collect()
}

/// Compares files with their copies in the chart, or updates the copies.
fn check_copy(folder: &str, ending: &str, wanted: &BTreeMap<String, String>) {
    let folder = format!("{CHART}/{folder}");
    if std::env::var_os("UPDATE_CHART").is_some() {
        fs::create_dir_all(path(&folder)).unwrap();
        for name in files(&folder, ending).keys().filter(|name| !wanted.contains_key(*name)) {
            fs::remove_file(path(&folder).join(name)).unwrap();
        }
        for (name, content) in wanted {
            fs::write(path(&folder).join(name), content).unwrap();
        }
    }
    let copies = files(&folder, ending);
    assert_eq!(copies.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "run `make chart`");
    for (name, content) in wanted {
        assert!(copies[name] == *content, "{folder}/{name} is outdated: run `make chart`");
    }
}

#[test]
fn the_chart_has_current_alerts_and_dashboards() {
    let rules = files("alerts/rules", ".yaml");
    assert!(rules.len() > 2, "{:?}", rules.keys());
    check_copy("files/rules", ".yaml", &rules);
    check_copy("dashboards", ".json", &files("dashboards", ".json"));
}

#[test]
fn the_schema_of_values_includes_the_settings_schema() {
    let mut schema = json(&format!("{CHART}/values.schema.json"));
    let mut settings = json("docs/settings.schema.json");
    let settings_object = settings.as_object_mut().unwrap();
    // `$ref` resolves against the root, and the schema has one dialect, which every Helm 3 supports.
    settings_object.remove("$schema");
    schema["$defs"] = settings_object.remove("$defs").unwrap();
    schema["properties"]["settings"] = settings;
    let content = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
    check_copy("", ".schema.json", &BTreeMap::from([("values.schema.json".to_owned(), content)]));
}

#[test]
fn values_schema_accepts_exactly_the_chart_values() {
    let schema = json(&format!("{CHART}/values.schema.json"));
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let values = yaml(&format!("{CHART}/values.yaml"));
    assert!(validator.is_valid(&values), "{:?}", validator.iter_errors(&values).collect::<Vec<_>>());
    // Every key has a default, because templates use it, and a property in the schema.
    let described: BTreeSet<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let there: BTreeSet<&String> = values.as_object().unwrap().keys().collect();
    assert!(described.difference(&there).eq([&&"global".to_owned()]), "{described:?}\n{there:?}");
    for (key, value) in values.as_object().unwrap() {
        let Some(members) = schema["properties"][key]["properties"].as_object().filter(|_| key != "settings")
        else {
            continue;
        };
        let there: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(members.keys().collect::<Vec<_>>(), there, "{key}");
    }
    for wrong in ["replica: 2", "settings: {source: {}}", "web: {auth: basic}", "addresses: {page: 'x y'}"] {
        assert!(!validator.is_valid(&serde_saphyr::from_str(wrong).unwrap()), "{wrong}");
    }
}

#[test]
fn chart_readme_lists_every_value_with_its_default() {
    let (schema, values) =
        (json(&format!("{CHART}/values.schema.json")), yaml(&format!("{CHART}/values.yaml")));
    let mut wanted = Vec::new();
    for (key, value) in values.as_object().unwrap() {
        let has_members = key != "settings" && schema["properties"][key]["properties"].is_object();
        match value.as_object().filter(|_| has_members) {
            Some(members) => {
                wanted
                    .extend(members.iter().map(|(name, default)| (format!("{key}.{name}"), default.clone())));
            }
            None => wanted.push((key.clone(), value.clone())),
        }
    }
    let row = Regex::new(r"^\| `([^`]+)` \| `([^`]+)` \| \S.* \|$").unwrap();
    let readme = text(&format!("{CHART}/README.md"));
    let listed = readme.lines().filter_map(|line| row.captures(line));
    let mut listed: Vec<(String, Value)> =
        listed.map(|found| (found[1].to_owned(), serde_saphyr::from_str(&found[2]).unwrap())).collect();
    wanted.sort_by(|one, other| one.0.cmp(&other.0));
    listed.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(listed, wanted);
}

#[test]
fn chart_version_matches_the_crate() {
    let chart = yaml(&format!("{CHART}/Chart.yaml"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn chart_lists_the_default_kinds_of_last_applied() {
    let settings =
        load("sources: {last_applied: {}}", &Overrides::default(), Timestamp::UNIX_EPOCH).unwrap().settings;
    let wanted: BTreeSet<(String, String)> = settings
        .wanted_kinds()
        .into_iter()
        .map(|kind| match kind.kind {
            KindName::Named(name) => (kind.group.into(), name.into()),
            KindName::Any => panic!("a kind"),
        })
        .collect();
    let kinds = yaml(&format!("{CHART}/files/kinds.yaml"));
    let word = |kind: &Value, key: &str| kind[key].as_str().unwrap().to_owned();
    let usual = kinds["usual"].as_array().unwrap();
    assert_eq!(
        usual.iter().map(|kind| (word(kind, "group"), word(kind, "kind"))).collect::<BTreeSet<_>>(),
        wanted
    );
}

#[test]
fn workflows_call_existing_make_targets() {
    let call = Regex::new(r"\bmake (?:-s )?([a-z-]+)").unwrap();
    let makefile = text("Makefile");
    let workflows = files(".github/workflows", ".yaml");
    let called: BTreeSet<String> = workflows
        .values()
        .flat_map(|text| call.captures_iter(text).map(|found| found[1].to_owned()).collect::<Vec<_>>())
        .collect();
    for target in ["test", "test-real", "release-notes"] {
        assert!(called.contains(target), "no workflow calls {target}: {called:?}");
    }
    for target in called {
        assert!(makefile.contains(&format!("\n{target}:")), "unknown target {target}");
    }
}

#[test]
fn release_requires_all_tests() {
    let (ci, release) = (yaml(".github/workflows/ci.yaml"), yaml(".github/workflows/release.yaml"));
    assert!(ci["on"].as_object().unwrap().contains_key("workflow_call"));
    assert_eq!(release["jobs"]["test"]["uses"], "./.github/workflows/ci.yaml");
    assert_eq!(release["jobs"]["image"]["needs"], serde_json::json!(["check", "test"]));
    for job in ["test", "real"] {
        let steps = ci["jobs"][job]["steps"].as_array().unwrap();
        let calls: Vec<&str> = steps
            .iter()
            .filter_map(|step| step["run"].as_str())
            .filter(|run| run.contains("make "))
            .collect();
        assert!(calls.len() == 1 && calls[0].ends_with(" REQUIRE_ALL=1"), "{calls:?}");
    }
}

#[test]
fn require_all_turns_skipped_tests_into_failures() {
    let makefile = text("Makefile");
    assert_eq!(makefile.matches("SKIPPED").count(), 1, "only one place prints SKIPPED");
    let folder = tempfile::tempdir().unwrap();
    let find_program = |program: &str| {
        let folders = std::env::var_os("PATH").unwrap();
        std::env::split_paths(&folders)
            .map(|directory| directory.join(program))
            .find(|candidate| candidate.exists())
            .unwrap()
    };
    std::os::unix::fs::symlink(find_program("bash"), folder.path().join("bash")).unwrap();
    // PATH has bash only, so Terraform is missing.
    let run = |arguments: &[&str]| {
        let mut make = Command::new(find_program("make"));
        make.args(["-s"]).args(arguments).current_dir(path("")).env("PATH", folder.path());
        make.env_remove("REQUIRE_ALL").env_remove("MAKEFLAGS").output().unwrap()
    };
    let output = run(&["stack-test"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.starts_with("SKIPPED: the test from an edit to a page"),
        "{printed}"
    );
    assert!(!run(&["stack-test", "REQUIRE_ALL=1"]).status.success());
    let output = run(&["stack"]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && printed.contains("needs terraform"), "{printed}");
}

#[test]
fn image_name_is_lower_case() {
    let release = text(".github/workflows/release.yaml");
    assert_eq!(release.matches("ghcr.io/").count(), 1, "only one place names the registry");
    assert!(release.contains("ghcr.io/${GITHUB_REPOSITORY,,}"));
}

#[test]
fn release_notes_come_from_the_changelog() {
    let notes = |version: &str| {
        let version = format!("VERSION={version}");
        Command::new("make").args(["-s", "release-notes", &version]).current_dir(path("")).output().unwrap()
    };
    let unreleased = String::from_utf8(notes("Unreleased").stdout).unwrap();
    assert!(unreleased.contains("### Added\n") && !unreleased.contains("\n## "), "{unreleased}");
    assert!(text("CHANGELOG.md").contains(unreleased.trim()));
    assert!(!notes("9.9.9").status.success(), "an unknown version fails");
}

/// The arguments of an instruction in the Dockerfile.
fn instructions(word: &str) -> Vec<String> {
    let file = text("Dockerfile");
    let lines = file.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    lines.map(str::to_owned).collect()
}

#[test]
fn image_uses_pinned_rust_and_runs_as_non_root() {
    let toolchain = text("rust-toolchain.toml");
    let version = toolchain.split('"').nth(1).unwrap();
    let stages = instructions("FROM");
    assert!(stages[0].starts_with(&format!("rust:{version}-")), "{stages:?}");
    // The chart uses the same user.
    let user = yaml(&format!("{CHART}/values.yaml"))["podSecurityContext"]["runAsUser"].to_string();
    assert_eq!(instructions("USER"), [format!("{user}:{user}")]);
    assert_eq!(instructions("ENTRYPOINT"), [r#"["/drift-exporter"]"#]);
    // The release workflow sets the labels.
    let release = text(".github/workflows/release.yaml");
    for word in ["source", "version", "revision"] {
        let argument = word.to_uppercase();
        assert!(text("Dockerfile").contains(&format!("org.opencontainers.image.{word}=\"${{{argument}}}\"")));
        assert!(release.contains(&format!("\n          {argument}=${{{{ github.")), "{argument}");
    }
}

#[test]
fn image_build_context_is_complete_for_cargo() {
    let folder = tempfile::tempdir().unwrap();
    let ignored = text(".dockerignore");
    assert!(ignored.lines().any(|line| line == "*"), "{ignored}");
    for name in ignored.lines().filter_map(|line| line.strip_prefix('!')) {
        let (from, to) = (path(name), folder.path().join(name));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        assert!(from.exists(), "{name}");
        std::os::unix::fs::symlink(from, to).unwrap();
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--locked", "--format-version=1"]);
    let output = cargo.current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
