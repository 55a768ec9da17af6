//! The table of Terraform types matches the provider's schema and the API server.

use std::{fs, path::Path, process::Command};

use crate::support::{
    cluster::{Cluster, User},
    terraform::{Provider, Terraform},
};

#[test]
fn table_is_current() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/diff/terraform/table");
    let configuration = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/oracle/current");
    let cluster = Cluster::start();
    let terraform = Terraform::init(&configuration, Provider::Current, &cluster.kubeconfig(User::Admin));
    let request = http::Request::get("/openapi/v2").body(Vec::new()).unwrap();
    let openapi = cluster.block_on(cluster.client().request_text(request)).unwrap();
    let file = |name: &str| cluster.folder().join(name);
    fs::write(file("schema.json"), terraform.schema()).unwrap();
    fs::write(file("openapi.json"), openapi).unwrap();
    let output = Command::new(table.join("derive"))
        .args([file("schema.json"), file("openapi.json"), table.join("exceptions")])
        .output()
        .expect("python3 runs the script");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let derived = String::from_utf8(output.stdout).unwrap();
    if std::env::var_os("UPDATE_TABLE").is_some() {
        fs::write(table.join("types"), &derived).unwrap();
    }
    let committed = fs::read_to_string(table.join("types")).unwrap();
    assert!(committed == derived, "src/diff/terraform/table/types is outdated: run make terraform-table");
}
