//! The real kubectl, which applies, and judges.

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

/// How many objects one process is asked about.
const AT_ONCE: usize = 80;

impl Kubectl {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let folder = cluster.folder().join("manifests");
        fs::create_dir_all(&folder).unwrap();
        let kubeconfig = folder.join("kubeconfig");
        fs::copy(cluster.kubeconfig(User::Admin), &kubeconfig).unwrap();
        let kubectl = Self { kubeconfig, folder };
        // With a flag, nothing in other namespaces could be asked about.
        let set = kubectl
            .command()
            .args(["config", "set-context", "--current", "--namespace", NAMESPACE])
            .output()
            .expect("kubectl can be run");
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        kubectl
    }

    /// Whether something differs from the manifest of a release, all of it at once.
    pub(super) fn diff_release(&self, manifest: &str) -> Result<bool, String> {
        let file = self.folder.join("release.yaml");
        fs::write(&file, manifest).unwrap();
        let Output { status, stderr, .. } = self.run(&["diff"], &file);
        match status.code() {
            Some(code @ (0 | 1)) => Ok(code == 1),
            Some(_) | None => Err(String::from_utf8_lossy(&stderr).into_owned()),
        }
    }

    /// Applies documents, or creates them.
    #[track_caller]
    pub(super) fn send(&self, arguments: &[&str], documents: &[String]) {
        let file = self.folder.join("sent.yaml");
        fs::write(&file, documents.join("\n---\n")).unwrap();
        let Output { status, stderr, .. } = self.run(arguments, &file);
        assert!(status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&stderr));
    }

    /// Which of the documents an apply would change, and about which kubectl cannot tell.
    pub(super) fn diff(&self, arguments: &[&str], documents: &[Asked]) -> Judged {
        let chunks: Vec<_> = documents.chunks(AT_ONCE).enumerate().collect();
        let judge = |(number, chunk): &(usize, &[Asked])| self.diff_some(arguments, *number, chunk);
        let mut all = Judged::default();
        for pair in chunks.chunks(2) {
            thread::scope(|scope| {
                let running: Vec<_> = pair.iter().map(|chunk| scope.spawn(|| judge(chunk))).collect();
                for judged in running {
                    all.add(judged.join().unwrap());
                }
            });
        }
        all
    }

    fn diff_some(&self, arguments: &[&str], number: usize, documents: &[Asked]) -> Judged {
        let file = self.folder.join(format!("judged-{number}.yaml"));
        let texts: Vec<&str> = documents.iter().map(|asked| asked.text.as_str()).collect();
        fs::write(&file, texts.join("\n---\n")).unwrap();
        let Output { status, stdout, stderr } = self.run(&[&["diff"], arguments].concat(), &file);
        if status.code().is_some_and(|code| code < 2) {
            let differ = String::from_utf8_lossy(&stdout).lines().filter_map(named).collect();
            return Judged { differ, untold: BTreeSet::new() };
        }
        let said = String::from_utf8_lossy(&stderr);
        println!("kubectl diff: {said}");
        if let [only] = documents {
            return Judged { differ: BTreeSet::new(), untold: [only.file.clone()].into() };
        }
        // What cannot be applied any more ends it all. Mostly its name is told, which others may have too.
        let is_named = |asked: &Asked| said.contains(&format!("\"{}\"", asked.name));
        let (named, mut others): (Vec<Asked>, Vec<Asked>) = documents.iter().cloned().partition(is_named);
        let mut parts: Vec<Vec<Asked>> = named.into_iter().map(|asked| vec![asked]).collect();
        if parts.is_empty() {
            parts.push(others.split_off(others.len() / 2));
        }
        parts.push(others);
        let mut judged = Judged::default();
        for part in parts.iter().filter(|part| !part.is_empty()) {
            judged.add(self.diff_some(arguments, number, part));
        }
        judged
    }

    fn run(&self, arguments: &[&str], file: &Path) -> Output {
        self.command().args(arguments).arg("--filename").arg(file).output().expect("kubectl can be run")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(program("kube-apiserver", "kubectl"));
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            // Some are written anew without any change but of this.
            .env("KUBECTL_EXTERNAL_DIFF", "diff -q -N -Igeneration");
        command
    }
}

/// A document that kubectl is asked about.
#[derive(Clone)]
pub(super) struct Asked {
    /// What kubectl calls the file in which it compares it.
    pub(super) file: String,
    /// The object's name.
    pub(super) name: String,
    /// The document as YAML.
    pub(super) text: String,
}

impl Asked {
    pub(super) fn new(document: &Value, live: &Value, text: String) -> Self {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = word(&document["apiVersion"]).replace('/', ".");
        let (kind, metadata) = (word(&document["kind"]), &live["metadata"]);
        let name = word(&metadata["name"]);
        Self { file: format!("{version}.{kind}.{}.{name}", word(&metadata["namespace"])), name, text }
    }
}

/// What kubectl says about some documents, by the names of their files.
#[derive(Default)]
pub(super) struct Judged {
    pub(super) differ: BTreeSet<String>,
    pub(super) untold: BTreeSet<String>,
}

impl Judged {
    fn add(&mut self, other: Self) {
        self.differ.extend(other.differ);
        self.untold.extend(other.untold);
    }
}

/// `Files /tmp/LIVE-1/apps.v1.Deployment.shop.web and … differ`.
fn named(line: &str) -> Option<String> {
    let file = line.strip_prefix("Files ")?.split_once(" and ")?.0.rsplit('/').next()?;
    Some(file.to_owned())
}
