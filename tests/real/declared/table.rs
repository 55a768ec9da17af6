//! The table of the API server's treatment of declared fields matches its schemas and answers.

use std::{
    collections::HashMap,
    fs,
    path::Path,
    process::{Command, Output},
};

use drift_exporter::diff::manifest::Schemas;
use http::Request;
use serde_json::{Map, Value};

use crate::support::cluster::{Cluster, Setup};

const FOLDER: &str = "src/diff/manifest/table";

#[test]
fn table_is_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    let cluster = Cluster::start_with(Setup { audit: "Request", ..Setup::default() });
    let write = |name: &str, value: &Value| {
        let file = cluster.folder().join(name);
        fs::write(&file, value.to_string()).unwrap();
        file
    };
    let openapi = write("openapi.json", &documents(&cluster));
    let derive = |mode: &str, files: &[&Path]| {
        let Output { status, stdout, stderr } = Command::new(folder.join("derive"))
            .arg(mode)
            .args(files)
            .output()
            .expect("python3 runs the script");
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    };
    let questions: Vec<Value> = serde_json::from_str(&derive("ask", &[&openapi])).unwrap();
    let answers = write("answers.json", &dry_run_all(&cluster, &questions));
    let derived = derive("write", &[&openapi, &answers, &folder.join("exceptions")]);
    if std::env::var_os("UPDATE_TABLE").is_some() {
        fs::write(folder.join("schemas"), &derived).unwrap();
    }
    let committed = fs::read_to_string(folder.join("schemas")).unwrap();
    assert!(committed == derived, "{FOLDER}/schemas is outdated: run make declared-table");
    println!("{} questions, {} bytes", questions.len(), derived.len());
}

/// All documents below `/openapi/v3`, by name.
fn documents(cluster: &Cluster) -> Value {
    let client = cluster.client();
    let get = |path: &str| -> Value {
        let request = Request::get(path).body(Vec::new()).unwrap();
        cluster.block_on(client.request(request)).unwrap()
    };
    let index = get("/openapi/v3");
    let names = index["paths"].as_object().unwrap().keys();
    let of_versions = names.filter(|name| *name == "api/v1" || name.split('/').count() == 3);
    let documents: Map<String, Value> =
        of_versions.map(|name| (name.clone(), get(&format!("/openapi/v3/{name}")))).collect();
    for (name, document) in documents.iter().filter(|(name, _)| name.starts_with("api")) {
        let read = Schemas::from_openapi(document.to_string().as_bytes(), |_| true);
        assert!(read.is_ok(), "{name}: {read:?}");
    }
    documents.into()
}

/// The dry-run requests as the API server decoded them.
fn dry_run_all(cluster: &Cluster, questions: &[Value]) -> Value {
    let client = cluster.client();
    for (number, question) in questions.iter().enumerate() {
        let request = Request::post(format!("{}?dryRun=All", question["path"].as_str().unwrap()))
            .header("content-type", "application/json")
            .header("audit-id", format!("question-{number}"))
            .body(question["body"].to_string().into_bytes())
            .unwrap();
        // The request usually fails: only the decoded object counts.
        let _: Result<Value, _> = cluster.block_on(client.request(request));
    }
    let mut read: HashMap<String, Value> = cluster
        .audit_events()
        .into_iter()
        .filter_map(|mut entry| Some((entry["auditID"].as_str()?.to_owned(), entry["requestObject"].take())))
        .collect();
    let answers = (0..questions.len()).map(|number| {
        let answer = read.remove(&format!("question-{number}")).unwrap_or_default();
        assert!(answer.is_object(), "no answer to {}", questions[number]);
        answer
    });
    answers.collect()
}
