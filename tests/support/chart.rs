//! The chart, rendered by real Helm.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use super::parts::program;

/// Release and namespace of the rendered chart.
pub const NAME: &str = "drift-exporter";

/// The folder of the chart.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart/drift-exporter")
}

/// The values files for tests of the chart.
pub fn ci_values() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder().join("ci")).expect("values to try");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(files.len() > 3, "{files:?}");
    files
}

/// The output of a Helm command with values on its standard input.
pub fn helm(arguments: &[&str], values: &str) -> Output {
    let mut child = Command::new(program("helm", "helm"))
        .args(arguments)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("helm can be run");
    child.stdin.take().expect("a pipe").write_all(values.as_bytes()).expect("helm reads values");
    child.wait_with_output().expect("helm ends")
}

fn template(release: &str, namespace: &str, chart: &Path, values: &str) -> Output {
    let chart = chart.display().to_string();
    // Helm's default version is the one that it was built with; this is the version of the API server in `parts`.
    helm(&["template", release, &chart, "-n", namespace, "--kube-version", "1.36.3"], values)
}

#[track_caller]
fn rendered(output: Output, values: &str) -> Vec<Value> {
    assert!(output.status.success(), "{values}\n{}", String::from_utf8_lossy(&output.stderr));
    objects(&String::from_utf8(output.stdout).expect("text"))
}

/// The objects of a rendered chart.
#[track_caller]
pub fn render_from(chart: &Path, values: &str) -> Vec<Value> {
    rendered(template(NAME, NAME, chart, values), values)
}

/// The objects of our chart for another release.
#[track_caller]
pub fn render_as(release: &str, namespace: &str, values: &str) -> Vec<Value> {
    rendered(template(release, namespace, &folder(), values), values)
}

/// The objects of our chart.
#[track_caller]
pub fn render(values: &str) -> Vec<Value> {
    render_from(&folder(), values)
}

/// The error message of our chart for these values.
#[track_caller]
pub fn refusal(values: &str) -> String {
    let output = template(NAME, NAME, &folder(), values);
    assert!(!output.status.success(), "taken: {values}");
    String::from_utf8(output.stderr).expect("text")
}

/// The objects in a file.
pub fn objects(text: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    all.into_iter().filter(|object| !object.is_null()).collect()
}

/// The only object of a kind.
#[track_caller]
pub fn one<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let found: Vec<&Value> = objects.iter().filter(|object| object["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind} in {:?}", kinds(objects));
    found[0]
}

/// The kinds of objects in their order.
pub fn kinds(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|object| object["kind"].as_str().expect("a kind")).collect()
}
