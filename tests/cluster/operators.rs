//! A custom resource whose operator records the applied hash in its status, on a real API server. The test is the operator.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use drift_exporter::{
    diff::{Algorithm, fingerprint},
    types::Kind,
};
use k8s_openapi::{
    api::batch::v1::Job, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    fixture::DRIFTED,
    support::{
        cluster::{Cluster, User},
        exporter::Exporter,
        objects::{create_namespace, from_json, grant},
        parts::program,
        wait::eventually,
    },
};

const SECOND: Duration = Duration::from_secs(1);
const DB: &[(&str, &str)] =
    &[("kind", "SimpleResource"), ("namespace", "shop"), ("name", "db"), ("source", "status_hash")];
const OF_DB: &[(&str, &str)] = &[("namespace", "shop"), ("name", "db")];

fn kind() -> Kind {
    Kind {
        plural: "simpleresources".into(),
        ..Kind::undiscovered("infra.opr8r", "v1alpha1", "SimpleResource")
    }
}

/// A cluster with the operator's CRD and one custom resource.
struct OperatorFixture {
    cluster: Cluster,
    resources: Api<DynamicObject>,
    jobs: Api<Job>,
}

impl OperatorFixture {
    fn start() -> Self {
        let cluster = Cluster::start();
        let client = cluster.client();
        let rules = json!([
            {"apiGroups": ["infra.opr8r"], "resources": ["simpleresources"], "verbs": ["list", "watch"]},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "watch"]},
        ]);
        let kind = kind();
        let resource = ApiResource {
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            api_version: kind.api_version(),
            kind: kind.kind.to_string(),
            plural: kind.plural.to_string(),
        };
        let resources = Api::namespaced_with(client.clone(), "shop", &resource);
        cluster.block_on(async {
            grant(&client, "drift-exporter", rules).await;
            create_namespace(&client, "shop").await;
            install(&client, &kind).await;
            create(&resources).await;
        });
        Self { resources, jobs: Api::namespaced(client, "shop"), cluster }
    }

    #[track_caller]
    fn kubectl(&self, arguments: &[&str]) {
        let output = Command::new(program("kube-apiserver", "kubectl"))
            .args(arguments)
            .args(["--namespace", "shop", "--kubeconfig"])
            .arg(self.cluster.kubeconfig(User::Admin))
            .output()
            .expect("kubectl can be run");
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn edit(&self, length: u32) {
        let change = json!({"spec": {"length": length}}).to_string();
        self.kubectl(&["patch", "simpleresource", "db", "--type=merge", "--patch", &change]);
    }

    /// Writes the status through its subresource, with the operator's field manager.
    fn set_status(&self, status: &Value) {
        let parameters = PatchParams { field_manager: Some("manager".to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({"status": status}));
        let written = self.cluster.block_on(self.resources.patch_status("db", &parameters, &patch));
        written.expect("the status can be written");
    }

    /// The hash that the operator would record now.
    fn hash(&self) -> String {
        let object = self.cluster.block_on(self.resources.get("db")).expect("it is there");
        let text = serde_json::to_string(&object).expect("an object is JSON");
        fingerprint(Algorithm::Opr8rV1, &kind(), &text, "tfdrift.jin.dev").expect("a hash").to_string()
    }

    fn exporter(&self) -> Exporter {
        let flags = ["--sources", "status_hash"];
        Exporter::start(&self.cluster.kubeconfig(User::Exporter), self.cluster.folder(), &flags).ready()
    }

    /// Creates a Job as opr8r does, and sets its status as the Job controller would.
    fn run_job(&self, name: &str, status: &Value) {
        let job: Job = from_json(json!({
            "metadata": {"name": name, "labels": {"app": "terraform", "infra.opr8r/simpleresource": "db"}},
            "spec": {"backoffLimit": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "terraform", "image": "terraform"}]}}},
        }));
        self.cluster.block_on(async {
            self.jobs.create(&PostParams::default(), &job).await.expect("the Job can be made");
            let patch = Patch::Merge(json!({"status": status}));
            self.jobs
                .patch_status(name, &PatchParams::default(), &patch)
                .await
                .expect("its status can be written");
        });
    }
}

async fn install(client: &Client, kind: &Kind) {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let spec = json!({"type": "object", "required": ["length"], "properties": {
        "length": {"type": "integer", "minimum": 1, "maximum": 100}, "prefix": text, "vars": texts}});
    let status = json!({"type": "object", "properties": {
        "phase": text, "message": text, "outputs": texts, "lastAppliedHash": text}});
    let schema =
        json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}});
    let definition: CustomResourceDefinition = from_json(json!({
        "metadata": {"name": kind.to_string()},
        "spec": {"group": &*kind.group, "scope": "Namespaced",
            "names": {"kind": &*kind.kind, "plural": &*kind.plural, "singular": "simpleresource"},
            "versions": [{"name": &*kind.version, "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}]},
    }));
    let api = Api::all(client.clone());
    api.create(&PostParams::default(), &definition).await.expect("the kind can be installed");
}

async fn create(resources: &Api<DynamicObject>) {
    let object: DynamicObject = from_json(json!({
        "apiVersion": "infra.opr8r/v1alpha1", "kind": "SimpleResource", "metadata": {"name": "db"},
        "spec": {"length": 16, "prefix": "test", "vars": {"upper": "true", "special": "true"}},
    }));
    // A new CRD is not served at once.
    while resources.create(&PostParams::default(), &object).await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn claim(exporter: &Exporter) -> Value {
    let answer = exporter.get("/v1/resources/simpleresource.infra.opr8r/shop/db").expect("it answers");
    let object: Value = serde_json::from_slice(&answer.body).expect("JSON");
    object["claims"][0].clone()
}

#[track_caller]
fn wait_for_verdict(exporter: &Exporter, verdict: &str) -> Value {
    eventually(&format!("it is {verdict}"), || {
        let claim = claim(exporter);
        (claim["verdict"] == verdict).then_some(claim)
    })
}

#[test]
fn unapplied_edit_is_drift_and_operator_failures_are_unknown() {
    let fixture = OperatorFixture::start();
    let exporter = fixture.exporter();
    let claim_now = wait_for_verdict(&exporter, "unknown");
    assert_eq!(claim_now["reason"], "no_status", "the operator has not written a status yet");

    // The input is the example in opr8r's documentation: 16:testspecial=trueupper=true
    let first = "d524c7dccfac7a9fd92f621a20c70bb526568aeb2c8df09d39443242521fe0dd";
    assert_eq!(fixture.hash(), first);
    fixture.set_status(
        &json!({"phase": "Ready", "lastAppliedHash": first, "outputs": {"password": "hunter2", "id": "7"}}),
    );
    let claim_now = wait_for_verdict(&exporter, "in_sync");
    assert_eq!((&claim_now["phase"], &claim_now["outputs"]), (&json!("Ready"), &json!(["id", "password"])));
    assert_eq!(exporter.sample(DRIFTED, DB), Some(0.0));

    // managedFields has times in seconds.
    std::thread::sleep(SECOND + SECOND / 10);
    let started = Instant::now();
    fixture.edit(20);
    exporter.wait_for(DRIFTED, DB, Some(1.0));
    println!("seen {:?} after kubectl was started", started.elapsed());
    let claim_now = claim(&exporter);
    assert_eq!(
        (&claim_now["actor"], &claim_now["manager"]),
        (&json!("kubectl"), &json!("kubectl-patch")),
        "{claim_now}"
    );
    assert_eq!(claim_now["differences"][0]["expected"], first);
    assert_eq!(claim_now["differences"][0]["actual"], fixture.hash());

    fixture.set_status(&json!({"phase": "Applying", "message": "Running Terraform apply"}));
    let claim_now = wait_for_verdict(&exporter, "in_flight");
    assert_eq!(
        (&claim_now["driftDetected"], &claim_now["actor"]),
        (&json!(true), &json!("kubectl")),
        "{claim_now}"
    );
    fixture.set_status(&json!({"phase": "Error", "message": "Terraform apply failed: job x failed"}));
    let claim_now = wait_for_verdict(&exporter, "unknown");
    assert_eq!(
        (&claim_now["reason"], &claim_now["message"]),
        (&json!("phase_error"), &json!("Terraform apply failed: job x failed"))
    );
    fixture.set_status(
        &json!({"phase": "Ready", "message": "SimpleResource is ready", "lastAppliedHash": fixture.hash()}),
    );
    wait_for_verdict(&exporter, "in_sync");
    let resolved = |cause| {
        exporter.sample(
            "drift_resolutions_total",
            &[("kind", "SimpleResource"), ("source", "status_hash"), ("cause", cause)],
        )
    };
    assert_eq!((resolved("absorbed"), resolved("reverted")), (Some(1.0), Some(0.0)));

    std::thread::sleep(SECOND + SECOND / 10);
    fixture.edit(30);
    exporter.wait_for(DRIFTED, DB, Some(1.0));
    fixture.edit(20);
    exporter.wait_for(DRIFTED, DB, Some(0.0));
    assert_eq!((resolved("absorbed"), resolved("reverted")), (Some(1.0), Some(1.0)));

    let page = exporter.metrics() + &exporter.get("/v1/resources?namespace=shop").expect("it answers").text();
    assert!(!page.contains("hunter2"));
    let requests = fixture.cluster.requests_by(User::Exporter);
    assert!(
        requests.iter().all(|(verb, _)| ["list", "watch", "get"].contains(&verb.as_str())),
        "{requests:?}"
    );
}

#[test]
fn removed_field_is_drift() {
    let fixture = OperatorFixture::start();
    fixture.set_status(&json!({"phase": "Ready", "lastAppliedHash": fixture.hash()}));
    let exporter = fixture.exporter();
    wait_for_verdict(&exporter, "in_sync");
    let patch = json!([{"op": "remove", "path": "/spec/vars/upper"}]).to_string();
    fixture.kubectl(&["patch", "simpleresource", "db", "--type=json", "--patch", &patch]);
    exporter.wait_for(DRIFTED, DB, Some(1.0));
    assert_eq!(claim(&exporter)["verdict"], "drifted");
}

#[test]
fn failed_job_is_exposed_by_metrics_and_api() {
    let fixture = OperatorFixture::start();
    fixture.set_status(&json!({"phase": "Error", "message": "Terraform apply failed: job x failed"}));
    let exporter = fixture.exporter();
    let metric = |name: &str| format!("drift_terraform_job_{name}");
    fixture.run_job("terraform-apply-db-1", &json!({"startTime": "2026-01-01T00:00:00Z", "active": 1}));
    exporter.wait_for(&metric("start_timestamp_seconds"), OF_DB, Some(1_767_225_600.0));
    assert_eq!(exporter.sample(&metric("last_result"), OF_DB), None);
    assert_eq!(exporter.sample(&metric("duration_seconds"), OF_DB), None);

    let condition = |name: &str| {
        json!({"type": name, "status": "True", "reason": "BackoffLimitExceeded",
        "message": "Job has reached the specified backoff limit",
        "lastProbeTime": "2026-01-01T01:00:42Z", "lastTransitionTime": "2026-01-01T01:00:42Z"})
    };
    let failed = json!({"startTime": "2026-01-01T01:00:00Z", "failed": 2, "conditions": [condition("FailureTarget"), condition("Failed")]});
    fixture.run_job("terraform-apply-db-2", &failed);
    exporter.wait_for(&metric("last_result"), OF_DB, Some(0.0));
    assert_eq!(exporter.sample(&metric("duration_seconds"), OF_DB), Some(42.0));
    let job = claim(&exporter)["job"].clone();
    assert_eq!(
        (&job["name"], &job["result"], &job["reason"]),
        (&json!("terraform-apply-db-2"), &json!("failed"), &json!("BackoffLimitExceeded"))
    );
    let object = exporter.get("/v1/resources/job.batch/shop/terraform-apply-db-2").expect("it answers");
    let object: Value = serde_json::from_slice(&object.body).expect("JSON");
    assert_eq!(object["claims"][0]["job"], job);
    let requests = fixture.cluster.requests_by(User::Exporter);
    assert!(
        requests.iter().all(|(verb, _)| ["list", "watch", "get"].contains(&verb.as_str())),
        "{requests:?}"
    );
}

#[test]
fn check_reports_missing_permissions() {
    let cluster = Cluster::start();
    cluster.block_on(install(&cluster.client(), &kind()));
    let settings = cluster.folder().join("settings.yaml");
    std::fs::write(&settings, "sources: {status_hash: []}\nnamespaces: [shop]\n").expect("it can be written");
    let output = eventually("the kind is there", || {
        let output = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
            .args(["check", "--config.file"])
            .arg(&settings)
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig(User::Exporter))
            .output()
            .expect("it can be run");
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        output.contains("simpleresources").then_some(output)
    });
    for rule in [
        "Add to its Role in namespace shop:",
        "- apiGroups: [\"batch\"]\n  resources: [jobs]\n  verbs: [list, watch]",
        "- apiGroups: [\"infra.opr8r\"]\n  resources: [simpleresources]\n  verbs: [list, watch]",
    ] {
        assert!(output.contains(rule), "{output}");
    }
}
