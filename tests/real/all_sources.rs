//! Five sources on one API server: each edit drifts one claim, and each revert ends it.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    helm::Helm,
    objects::create_namespace,
    parts::program,
    terraform::{Provider, Terraform},
    wait::eventually,
};

const SETTINGS: &str = "\
sources:
  terraform: {trusted_namespaces: [terraform]}
  helm: {}
  last_applied: {}
  manifest: {paths: [MANIFESTS], namespace: written}
  status_hash: []
";

/// An edit and its revert, each as arguments of kubectl, and the expected claim.
struct Edit {
    source: &'static str,
    object: &'static str,
    field: &'static str,
    change: &'static [&'static str],
    revert: &'static [&'static str],
}

const EDITS: &[Edit] = &[
    Edit {
        source: "terraform",
        object: "deployment/checkout-eu",
        field: "replicas",
        change: &["scale", "deployment", "checkout-eu", "-n", "payments", "--replicas=5"],
        revert: &["scale", "deployment", "checkout-eu", "-n", "payments", "--replicas=2"],
    },
    Edit {
        source: "helm",
        object: "service/shop-web",
        field: "ports",
        change: &[
            "patch",
            "service",
            "shop-web",
            "-n",
            "charted",
            "-p",
            r#"{"spec":{"ports":[{"port":80,"targetPort":9}]}}"#,
        ],
        revert: &[
            "patch",
            "service",
            "shop-web",
            "-n",
            "charted",
            "-p",
            r#"{"spec":{"ports":[{"port":80,"targetPort":"http"}]}}"#,
        ],
    },
    Edit {
        source: "last_applied",
        object: "deployment/api",
        field: "image",
        change: &["set", "image", "deployment/api", "api=nginx:9", "-n", "applied"],
        revert: &["set", "image", "deployment/api", "api=nginx:1", "-n", "applied"],
    },
    Edit {
        source: "manifest",
        object: "configmap/config",
        field: "data",
        change: &["patch", "configmap", "config", "-n", "written", "-p", r#"{"data":{"a":"other"}}"#],
        revert: &["patch", "configmap", "config", "-n", "written", "-p", r#"{"data":{"a":"b"}}"#],
    },
    Edit {
        source: "status_hash",
        object: "simpleresource/db",
        field: "hash",
        change: &[
            "patch",
            "simpleresource",
            "db",
            "-n",
            "operated",
            "--type=merge",
            "-p",
            r#"{"spec":{"length":9}}"#,
        ],
        revert: &[
            "patch",
            "simpleresource",
            "db",
            "-n",
            "operated",
            "--type=merge",
            "-p",
            r#"{"spec":{"length":8}}"#,
        ],
    },
];

struct FiveSourcesFixture {
    cluster: Cluster,
}

impl FiveSourcesFixture {
    #[track_caller]
    fn kubectl(&self, arguments: &[&str], input: &str) {
        let mut child = Command::new(program("kube-apiserver", "kubectl"))
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.cluster.kubeconfig(User::Admin))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
    }

    fn make_objects(&self, manifests: &Path) -> Terraform {
        let client = self.cluster.client();
        self.cluster.block_on(async {
            for name in ["payments", "terraform", "charted", "applied", "written", "operated"] {
                create_namespace(&client, name).await;
            }
        });
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let kubeconfig = self.cluster.kubeconfig(User::Admin);
        let terraform = Terraform::init(&root.join("src/demo/terraform"), Provider::Current, &kubeconfig);
        terraform.apply();
        let chart = root.join("tests/real/chart").display().to_string();
        Helm::new(&kubeconfig, "secret").run(&["install", "shop", &chart, "-n", "charted"]);
        let pod = json!({"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [{"name": "api", "image": "nginx:1"}]}});
        let api = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api", "namespace": "applied"},
            "spec": {"selector": {"matchLabels": {"app": "api"}}, "template": pod}});
        self.kubectl(&["apply", "-f", "-"], &api.to_string());
        let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {a: b}\n";
        fs::write(manifests.join("config.yaml"), config).unwrap();
        self.kubectl(&["create", "-n", "written", "-f", "-"], config);
        self.record_applied_hash();
        terraform
    }

    /// Creates a custom resource, and records the applied hash as its operator does.
    fn record_applied_hash(&self) {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}});
        let version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}});
        let names =
            json!({"plural": "simpleresources", "singular": "simpleresource", "kind": "SimpleResource"});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "simpleresources.infra.opr8r"},
            "spec": {"group": "infra.opr8r", "scope": "Namespaced", "names": names, "versions": [version]}});
        self.kubectl(&["create", "-f", "-"], &definition.to_string());
        self.kubectl(&["wait", "--for=condition=Established", "crd/simpleresources.infra.opr8r"], "");
        let resource = json!({"apiVersion": "infra.opr8r/v1alpha1", "kind": "SimpleResource",
            "metadata": {"name": "db", "namespace": "operated"}, "spec": {"prefix": "shop", "length": 8, "vars": {"a": "b"}}});
        self.kubectl(&["create", "-f", "-"], &resource.to_string());
        let digits =
            |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap());
        let hash: String = Sha256::digest("8:shopa=b").iter().flat_map(digits).collect();
        let status = json!({"status": {"phase": "Ready", "lastAppliedHash": hash}}).to_string();
        let patch =
            ["patch", "simpleresource", "db", "-n", "operated", "--subresource=status", "--type=merge", "-p"];
        self.kubectl(&[&patch[..], &[&status]].concat(), "");
    }
}

fn get_json(exporter: &Exporter, path: &str) -> Value {
    serde_json::from_str(&exporter.get(path).unwrap().text()).unwrap()
}

/// All drifted claims: source, object, field class, actor.
fn drifted_claims(exporter: &Exporter) -> Vec<[String; 4]> {
    let all = get_json(exporter, "/v1/resources?namespace=*&limit=1000");
    let claims = all["resources"].as_array().unwrap().iter().filter(|claim| claim["driftDetected"] == true);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut drifted: Vec<[String; 4]> = claims
        .map(|claim| {
            let object = format!("{}/{}", text(&claim["resourceType"]), text(&claim["resourceName"]));
            [text(&claim["source"]), object, text(&claim["differences"][0]["field"]), text(&claim["actor"])]
        })
        .collect();
    drifted.sort();
    drifted
}

#[test]
fn each_source_reports_its_edit_until_reverted() {
    let fixture = FiveSourcesFixture { cluster: Cluster::start() };
    let folder = tempfile::tempdir().unwrap();
    let _terraform = fixture.make_objects(folder.path());
    let settings = fixture.cluster.folder().join("sources.yaml");
    fs::write(&settings, SETTINGS.replace("MANIFESTS", &folder.path().display().to_string())).unwrap();
    let flags = ["--config.file", settings.to_str().unwrap()];
    let kubeconfig = fixture.cluster.kubeconfig(User::Admin);
    let exporter = Exporter::start(&kubeconfig, fixture.cluster.folder(), &flags).ready();
    for edit in EDITS {
        eventually(edit.source, || {
            let (kind, name) = edit.object.split_once('/').unwrap();
            let namespace = edit.change.iter().skip_while(|word| **word != "-n").nth(1).unwrap();
            let answer = exporter.get(&format!("/v1/resources/{kind}/{namespace}/{name}"))?;
            let object: Value = serde_json::from_str(&answer.text()).ok()?;
            let claims = object["claims"].as_array()?;
            claims
                .iter()
                .find(|claim| claim["source"] == edit.source && claim["verdict"] == "in_sync")
                .map(drop)
        });
    }
    assert_eq!(drifted_claims(&exporter), Vec::<[String; 4]>::new(), "nothing was edited");

    EDITS.iter().for_each(|edit| fixture.kubectl(edit.change, ""));
    let mut expected: Vec<[String; 4]> = EDITS
        .iter()
        .map(|edit| [edit.source, edit.object, edit.field, "kubectl"].map(str::to_owned))
        .collect();
    expected.sort();
    eventually("five claims drift", || (drifted_claims(&exporter).len() == 5).then_some(()));
    assert_eq!(drifted_claims(&exporter), expected);

    EDITS.iter().for_each(|edit| fixture.kubectl(edit.revert, ""));
    eventually("nothing drifts", || drifted_claims(&exporter).is_empty().then_some(()));
    let history = get_json(&exporter, "/v1/history?limit=1000");
    let ends =
        history["transitions"].as_array().unwrap().iter().filter(|transition| !transition["cause"].is_null());
    let mut causes: Vec<(&str, &str)> = ends
        .map(|transition| (transition["source"].as_str().unwrap(), transition["cause"].as_str().unwrap()))
        .collect();
    causes.sort_unstable();
    let mut all: Vec<(&str, &str)> = EDITS.iter().map(|edit| (edit.source, "reverted")).collect();
    all.sort_unstable();
    assert_eq!(causes, all);
}
