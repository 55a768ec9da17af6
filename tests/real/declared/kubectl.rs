//! The real kubectl: apply and diff.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use serde_json::Value;

use super::objects::NAMESPACE;
use crate::support::{
    cluster::{Cluster, User},
    parts::program,
};

pub(super) struct Kubectl {
    kubeconfig: PathBuf,
    folder: PathBuf,
}

/// Number of objects per process.
const BATCH: usize = 80;

impl Kubectl {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let folder = cluster.folder().join("manifests");
        fs::create_dir_all(&folder).unwrap();
        let kubeconfig = folder.join("kubeconfig");
        fs::copy(cluster.kubeconfig(User::Admin), &kubeconfig).unwrap();
        let kubectl = Self { kubeconfig, folder };
        // A `--namespace` flag would reject objects in other namespaces.
        let set = kubectl
            .command()
            .args(["config", "set-context", "--current", "--namespace", NAMESPACE])
            .output()
            .expect("kubectl can be run");
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        kubectl
    }

    /// Whether any object differs from the manifest of a release.
    pub(super) fn diff_release(&self, manifest: &str) -> Result<bool, String> {
        let file = self.folder.join("release.yaml");
        fs::write(&file, manifest).unwrap();
        let Output { status, stderr, .. } = self.run(&["diff"], &file);
        match status.code() {
            Some(code @ (0 | 1)) => Ok(code == 1),
            Some(_) | None => Err(String::from_utf8_lossy(&stderr).into_owned()),
        }
    }

    /// Applies or creates documents.
    #[track_caller]
    pub(super) fn send(&self, arguments: &[&str], documents: &[String]) {
        let file = self.folder.join("sent.yaml");
        fs::write(&file, documents.join("\n---\n")).unwrap();
        let Output { status, stderr, .. } = self.run(arguments, &file);
        assert!(status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&stderr));
    }

    /// The documents that an apply would change, and those that kubectl cannot compare.
    pub(super) fn diff(&self, arguments: &[&str], documents: &[DiffInput]) -> DiffResult {
        let chunks: Vec<_> = documents.chunks(BATCH).enumerate().collect();
        let judge = |(number, chunk): &(usize, &[DiffInput])| self.diff_some(arguments, *number, chunk);
        let mut all = DiffResult::default();
        for pair in chunks.chunks(2) {
            thread::scope(|scope| {
                let running: Vec<_> = pair.iter().map(|chunk| scope.spawn(|| judge(chunk))).collect();
                for result in running {
                    all.add(result.join().unwrap());
                }
            });
        }
        all
    }

    fn diff_some(&self, arguments: &[&str], number: usize, documents: &[DiffInput]) -> DiffResult {
        let file = self.folder.join(format!("judged-{number}.yaml"));
        let texts: Vec<&str> = documents.iter().map(|input| input.text.as_str()).collect();
        fs::write(&file, texts.join("\n---\n")).unwrap();
        let Output { status, stdout, stderr } = self.run(&[&["diff"], arguments].concat(), &file);
        if status.code().is_some_and(|code| code < 2) {
            let differ = String::from_utf8_lossy(&stdout).lines().filter_map(file_of_line).collect();
            return DiffResult { differ, undecided: BTreeSet::new() };
        }
        let message = String::from_utf8_lossy(&stderr);
        println!("kubectl diff: {message}");
        if let [only] = documents {
            return DiffResult { differ: BTreeSet::new(), undecided: [only.file.clone()].into() };
        }
        // One invalid document fails the whole diff. The message usually contains its name, which may be ambiguous.
        let is_named = |input: &DiffInput| message.contains(&format!("\"{}\"", input.name));
        let (named, mut others): (Vec<DiffInput>, Vec<DiffInput>) =
            documents.iter().cloned().partition(is_named);
        let mut parts: Vec<Vec<DiffInput>> = named.into_iter().map(|input| vec![input]).collect();
        if parts.is_empty() {
            parts.push(others.split_off(others.len() / 2));
        }
        parts.push(others);
        let mut result = DiffResult::default();
        for part in parts.iter().filter(|part| !part.is_empty()) {
            result.add(self.diff_some(arguments, number, part));
        }
        result
    }

    fn run(&self, arguments: &[&str], file: &Path) -> Output {
        self.command().args(arguments).arg("--filename").arg(file).output().expect("kubectl can be run")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(program("kube-apiserver", "kubectl"));
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            // Some objects differ only in their generation.
            .env("KUBECTL_EXTERNAL_DIFF", "diff -q -N -Igeneration");
        command
    }
}

/// A document for kubectl diff.
#[derive(Clone)]
pub(super) struct DiffInput {
    /// The name of the file that kubectl compares.
    pub(super) file: String,
    pub(super) name: String,
    pub(super) text: String,
}

impl DiffInput {
    pub(super) fn new(document: &Value, live: &Value, text: String) -> Self {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = word(&document["apiVersion"]).replace('/', ".");
        let (kind, metadata) = (word(&document["kind"]), &live["metadata"]);
        let name = word(&metadata["name"]);
        Self { file: format!("{version}.{kind}.{}.{name}", word(&metadata["namespace"])), name, text }
    }
}

/// The result of kubectl diff by file name.
#[derive(Default)]
pub(super) struct DiffResult {
    pub(super) differ: BTreeSet<String>,
    pub(super) undecided: BTreeSet<String>,
}

impl DiffResult {
    fn add(&mut self, other: Self) {
        self.differ.extend(other.differ);
        self.undecided.extend(other.undecided);
    }
}

/// Parses `Files /tmp/LIVE-1/apps.v1.Deployment.shop.web and … differ`.
fn file_of_line(line: &str) -> Option<String> {
    let file = line.strip_prefix("Files ")?.split_once(" and ")?.0.rsplit('/').next()?;
    Some(file.to_owned())
}
