//! `drift-exporter baseline`, and the published baseline in the Terraform source.

use std::{
    io::{Read as _, Write as _},
    process::{Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use drift_exporter::{
    config::{BaselineLimits, Settings},
    diff::Comparison,
    sources::terraform::{PART_LIMIT, PublishedBaseline, decode},
    types::{
        BaselineFault, BaselineOrigin, DeclaredBody, GroupKind, RedactionKey, SkipReason, Source,
        TrustedNamespaces, UnknownReason,
    },
};
use serde_json::{Value, json};

use crate::{
    cli_flags::{CommandOutput, run},
    support::{
        api_server::ApiServer,
        diff::{diff, paths as paths_of},
        source::{SourceEvent, SourceFixture},
    },
};

pub(crate) fn publish(state: &Value, flags: &[&str]) -> CommandOutput {
    run(&[&["baseline", "--name", "shop-prod"], flags].concat(), &state.to_string(), &[])
}

/// The printed Secrets.
pub(crate) fn secrets(ended: &CommandOutput) -> Vec<Value> {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let documents = ended.stdout.split("---\n").filter(|text| !text.is_empty());
    documents.map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

/// The decompressed baseline of these Secrets.
fn inflated(secrets: &[Value]) -> String {
    let pieces =
        secrets.iter().map(|secret| STANDARD.decode(secret["data"]["baseline"].as_str().unwrap()).unwrap());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&pieces.collect::<Vec<_>>().concat()[..]).read_to_string(&mut text).unwrap();
    text
}

fn state(serial: u64, resources: &Value) -> Value {
    json!({"version": 4, "terraform_version": "1.11.4", "serial": serial, "lineage": "l-1", "outputs": {}, "resources": resources})
}

fn resource(resource_type: &str, name: &str, attributes: &Value) -> Value {
    json!({"mode": "managed", "type": resource_type, "name": name, "instances": [{"attributes": attributes}]})
}

fn config_map(name: &str, value: &str) -> Value {
    let attributes = json!({"id": format!("shop/{name}"), "data": {"a": value}, "metadata": [{"name": name, "namespace": "shop", "uid": "u-1"}]});
    resource("kubernetes_config_map_v1", name, &attributes)
}

fn secret() -> Value {
    let attributes = json!({"id": "shop/s", "data": {"token": "canary"}, "metadata": [{"name": "s", "namespace": "shop"}]});
    resource("kubernetes_secret_v1", "s", &attributes)
}

/// Resources with about this many KiB of incompressible data.
fn incompressible(kibibytes: usize) -> Value {
    let mut random = fastrand::Rng::with_seed(7);
    let noise = |at: usize| {
        let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(1024).collect();
        let mut map = config_map(&format!("noise-{at}"), "");
        // Data would be published as digests only.
        map["instances"][0]["attributes"]["metadata"][0]["labels"] = json!({"noise": STANDARD.encode(bytes)});
        map
    };
    (0..kibibytes).map(noise).collect()
}

pub(crate) fn put(server: &ApiServer, secrets: &[Value]) {
    for secret in secrets {
        let mut secret = secret.clone();
        secret["metadata"]["namespace"] = json!("terraform");
        server.put("secrets", secret);
    }
}

fn start_source(server: &ApiServer) -> SourceFixture {
    let mut settings = Settings { sources: vec![Source::Terraform], ..Settings::default() };
    settings.trust(&TrustedNamespaces::new(["terraform"]));
    SourceFixture::start(server, settings)
}

/// The names after a start in which `aaa` and `terraform` have a baseline of the same name, created on these days.
async fn names_of(days: [u8; 2], trusted: &[&str]) -> Vec<String> {
    let secrets = secrets(&publish(&state(1, &json!([config_map("a", "b")])), &[]));
    let server = ApiServer::with_source_kinds();
    for (namespace, day) in ["aaa", "terraform"].into_iter().zip(days) {
        let mut secret = secrets[0].clone();
        secret["metadata"]["namespace"] = json!(namespace);
        secret["metadata"]["creationTimestamp"] = json!(format!("2026-01-0{day}T00:00:00Z"));
        server.put("secrets", secret);
    }
    let mut settings = Settings { sources: vec![Source::Terraform], ..Settings::default() };
    settings.trust(&TrustedNamespaces::new(trusted.iter().copied()));
    let mut source = SourceFixture::start(&server, settings);
    let names = [source.next_baseline().await, source.next_baseline().await];
    let mut names = names.map(|baseline| baseline.name.to_string()).to_vec();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn baseline_of_another_namespace_does_not_take_over_a_name() {
    let (aaa, terraform) = (["aaa/shop-prod", "shop-prod"], ["shop-prod", "terraform/shop-prod"]);
    assert_eq!(names_of([2, 1], &[]).await, aaa, "the older one keeps its name after a restart");
    assert_eq!(names_of([1, 2], &[]).await, terraform);
    assert_eq!(names_of([1, 2], &["terraform"]).await, aaa, "the trusted one comes first");
    assert_eq!(names_of([2, 1], &["terraform", "aaa"]).await, aaa);
}

#[tokio::test(start_paused = true)]
async fn published_baseline_round_trips() {
    let unknown_resource = resource("kubernetes_thing", "t", &json!({}));
    let ended = publish(&state(7, &json!([config_map("a", "b"), secret(), unknown_resource])), &[]);
    assert_eq!(
        ended.stderr,
        "drift-exporter: 2 objects of 2 types, 1 resource left out: kubernetes_thing (unknown_type) 1\n"
    );
    let secrets = secrets(&ended);
    let metadata = &secrets[0]["metadata"];
    assert_eq!(
        (secrets.len(), &metadata["name"], metadata.get("namespace")),
        (1, &json!("drift-baseline-shop-prod"), None)
    );
    let labels = json!({"tfdrift.jin.dev/baseline": "true", "tfdrift.jin.dev/baseline-name": "shop-prod", "app.kubernetes.io/managed-by": "drift-exporter"});
    assert_eq!(metadata["labels"], labels);
    assert_eq!(metadata["annotations"]["tfdrift.jin.dev/serial"], "7");
    let server = ApiServer::with_source_kinds();
    put(&server, &secrets);
    let mut source = start_source(&server);
    let baseline = source.next_baseline().await;
    source.expect_up().await;
    assert_eq!(
        (baseline.origin, &*baseline.name, baseline.fault.as_ref()),
        (BaselineOrigin::Published, "shop-prod", None)
    );
    let version = baseline.version.as_ref().unwrap();
    assert_eq!((version.serial, &*version.lineage, &*version.tool_version), (7, "l-1", "1.11.4"));
    assert!(version.written.is_some());
    assert_eq!(baseline.skipped.listed()[0].reason, SkipReason::UnknownType);
    assert_eq!(baseline.objects[0].uid.as_deref(), Some("u-1"));
    let live = json!({"kind": "Secret", "metadata": {"name": "s"}, "data": {"token": "Y2FuYXJ5"}});
    assert_eq!(diff(&baseline.objects[1], &live), Comparison::default());
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let wanted = source.requirements();
    let keys = |kind: &str| wanted.documents[&GroupKind::new("", kind).into_owned()].keys();
    assert_eq!((keys("Secret").len(), &keys("Secret")[1]), (2, &baseline.objects[1].key));
    assert_eq!(keys("ConfigMap"), &keys("Secret")[..1], "nothing in it is redacted");
    let secret = wanted.kinds.iter().find(|kind| kind.to_string() == "v1 Secret").unwrap();
    assert_eq!(secret.name.as_deref(), Some("s"));
}

#[tokio::test(start_paused = true)]
async fn parts_of_different_publications_are_not_combined() {
    let long = secrets(&publish(&state(7, &incompressible(260)), &["-n", "terraform"]));
    assert!(long.len() > 1, "{}", long.len());
    for secret in &long {
        assert!(secret["data"]["baseline"].as_str().unwrap().len() <= PART_LIMIT.div_ceil(3) * 4);
        // `kubectl apply` copies all of it into an annotation.
        assert!(secret.to_string().len() < 256 << 10);
        assert_eq!(secret["metadata"]["namespace"], "terraform");
    }
    let server = ApiServer::with_source_kinds();
    put(&server, &long);
    let mut source = start_source(&server);
    assert_eq!(source.next_baseline().await.objects.len(), 260);
    source.expect_up().await;
    // Published again and half applied: incomplete, and the last declared objects stay.
    let other = secrets(&publish(&state(8, &incompressible(261)), &[]));
    put(&server, &other[..1]);
    source.expect_no_event(3).await;
    let incomplete = source.next_baseline().await;
    assert_eq!(
        (incomplete.fault.as_ref().unwrap().fault, incomplete.objects.len()),
        (BaselineFault::Incomplete, 260)
    );
    put(&server, &other[1..]);
    assert_eq!(source.next_baseline().await.objects.len(), 261);
    // A shorter publication ignores left-over parts of the longer one.
    put(&server, &secrets(&publish(&state(9, &json!([config_map("a", "b")])), &[])));
    let short = source.next_baseline().await;
    assert_eq!((short.fault.as_ref(), short.objects.len()), (None, 1));
    source.expect_no_event(10).await;
    server.delete("secrets", "terraform", "drift-baseline-shop-prod");
    assert!(matches!(source.next().await, SourceEvent::Removed(name) if name == "shop-prod"));
    source.expect_no_event(10).await;
}

#[test]
fn invalid_state_is_rejected_with_a_reason() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep = format!(
        r#"{{"version":4,"resources":[{{"mode":"managed","type":"kubernetes_role","name":"a","instances":[{{"attributes":{deep}}}]}}]}}"#
    );
    let bucket = state(1, &json!([resource("aws_s3_bucket", "b", &json!({"id": "canary"}))])).to_string();
    for (input, message) in [
        ("", "the state is truncated"),
        ("hello", "not a Terraform state"),
        ("{}", "not a Terraform state"),
        (r#"{"version":3,"modules":[]}"#, "Terraform 0.12 and later"),
        (r#"{"encrypted_data":"x","encryption_version":"v0"}"#, "encrypted"),
        (&deep, "the state is too large"),
        (&bucket, "contains no Kubernetes resource"),
    ] {
        let ended = run(&["baseline", "--name", "shop"], input, &[]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains(message) && !ended.stderr.contains("canary"), "{}", ended.stderr);
    }
    for (flags, message) in [
        (&["--name", "Shop"][..], "lower-case"),
        (&["--name", "shop-part-1"], "part of another"),
        (&[], "--name"),
        (&["--name", "shop", "-f", "/nonexistent.tfstate"], "cannot read /nonexistent.tfstate"),
        (&["--name", "shop", "--prefix", "a_b"], "DNS name"),
    ] {
        let ended = run(&[&["baseline"], flags].concat(), "{}", &[]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
}

#[test]
fn terraform_show_output_is_published_as_json() {
    let values = json!({"data": {"a": "b"}, "metadata": [{"name": "a", "namespace": "shop"}]});
    let shown = json!({"address": "kubernetes_config_map_v1.a", "mode": "managed", "type": "kubernetes_config_map_v1", "name": "a", "values": values});
    let shown = json!({"format_version": "1.0", "values": {"root_module": {"resources": [shown]}}});
    let ended = publish(&shown, &["-o", "json"]);
    let secret: Value = serde_json::from_str(&ended.stdout).unwrap();
    let published =
        PublishedBaseline::read(inflated(&[secret]).as_bytes(), &BaselineLimits::default()).unwrap();
    assert_eq!(&*published.state.objects[0].address, "kubernetes_config_map_v1.a");
    let newer = r#"{"drift_baseline":2,"name":"a"}"#;
    let newer = PublishedBaseline::read(newer.as_bytes(), &BaselineLimits::default());
    assert_eq!(newer.map(|_| ()).map_err(BaselineFault::from), Err(BaselineFault::UnsupportedVersion));
}

/// The prefix of all canaries: nine bytes, so that it is found in base64 too.
const CANARY: &str = "kanarie7Q";

/// A state with a thousand secret values in every place that a state has.
fn canaries() -> (Value, Vec<String>) {
    let mut random = fastrand::Rng::with_seed(11);
    let mut planted: Vec<String> = Vec::new();
    let mut plant = || {
        let rest: String = std::iter::repeat_with(|| random.alphanumeric()).take(11).collect();
        planted.push(format!("{CANARY}{rest}"));
        planted.last().unwrap().clone()
    };
    let mut outputs = serde_json::Map::new();
    let mut resources = Vec::new();
    let mark = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({"type": "get_attr", "value": name})).collect()
    };
    for at in 0..100 {
        outputs.insert(format!("o{at}"), json!({"value": plant(), "type": "string"}));
        let mut map = config_map(&format!("private-{at}"), "b");
        map["instances"][0]["private"] = json!(plant());
        resources.push(map);
        resources.push(resource(
            "aws_db_instance",
            &format!("db{at}"),
            &json!({"password": plant(), "tags": {"a": plant()}}),
        ));
        let name = format!("s{at}");
        let metadata = json!([{"name": name, "namespace": "shop"}]);
        resources.push(resource(
            "kubernetes_secret",
            &name,
            &json!({"metadata": metadata, "data": {"a": plant()}, "binary_data": {"b": STANDARD.encode(plant())}}),
        ));
        let env = json!([{"name": "PASSWORD", "value": plant()}, {"name": "OTHER", "value_from": []}]);
        let pod = json!({"container": [{"name": "web", "env": env}]});
        let mut deployment = resource(
            "kubernetes_deployment",
            &name,
            &json!({"metadata": metadata, "spec": [{"template": [{"spec": [pod]}]}]}),
        );
        deployment["instances"][0]["sensitive_attributes"] =
            json!([mark(&["spec", "template", "spec", "container", "env", "value"])]);
        resources.push(deployment);
        let users = json!([{"name": "a", "password": plant()}, {"name": "b"}]);
        let object = json!({"apiVersion": "example.com/v1", "kind": "Database", "metadata": {"name": name, "namespace": "shop"}, "spec": {"users": users}});
        let mut manifest = resource(
            "kubernetes_manifest",
            &name,
            &json!({"manifest": {"value": object, "type": []}, "object": {"value": object, "type": ["object", {}]}}),
        );
        manifest["instances"][0]["sensitive_attributes"] =
            json!([mark(&["manifest", "spec", "users", "password"])]);
        resources.push(manifest);
        let last_applied = json!({"kubectl.kubernetes.io/last-applied-configuration": plant()});
        let yaml = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("y{at}"), "namespace": "shop", "annotations": last_applied}, "stringData": {"a": plant()}});
        resources.push(resource("kubectl_manifest", &name, &json!({"yaml_body": yaml.to_string()})));
    }
    let mut state = state(1, &resources.into());
    state["outputs"] = outputs.into();
    (state, planted)
}

#[test]
fn thousand_secret_values_are_never_exposed() {
    let (state, planted) = canaries();
    assert_eq!(planted.len(), 1000);
    let assert_clean = |text: &str, what: &str| {
        for canary in [CANARY.to_owned(), STANDARD.encode(CANARY)] {
            assert!(!text.contains(&canary), "{canary} in {what}: {}", &text[..text.len().min(2000)]);
        }
    };
    let ended = publish(&state, &[]);
    let text = inflated(&secrets(&ended));
    assert_clean(&text, "the published baseline");
    assert_clean(&ended.stdout, "the Secrets");
    assert_clean(&ended.stderr, "stderr");
    let published = PublishedBaseline::read(text.as_bytes(), &BaselineLimits::default()).unwrap();
    assert_clean(&format!("{published:?} {:?}", published.state), "the published baseline's debug text");
    let read = decode(state.to_string().as_bytes(), &RedactionKey::new([1; 32])).unwrap();
    assert_eq!(read.objects.len(), 500);
    assert_clean(&format!("{read:?}"), "the state's debug text");
    // Live objects with canaries in other fields.
    let env = json!([{"name": "PASSWORD", "value": planted[0]}]);
    let users = json!([{"name": "a", "password": planted[1]}, {"name": "b"}]);
    let last_applied = json!({"kubectl.kubernetes.io/last-applied-configuration": planted[2]});
    let data = json!({"a": STANDARD.encode(&planted[3]), "more": STANDARD.encode(&planted[4])});
    let template = json!({"spec": {"containers": [{"name": "web", "env": env}]}});
    for object in read.objects.iter().filter(|object| &*object.object.kind != "ConfigMap") {
        let mut live = json!({"metadata": {"annotations": last_applied}});
        match &*object.object.kind {
            "Secret" => live["data"] = data.clone(),
            "Deployment" => live["spec"] = json!({"template": template}),
            _ => live["spec"] = json!({"users": users}),
        }
        let comparison = diff(object, &live);
        assert!(!comparison.findings.is_empty());
        assert_clean(&format!("{comparison:?}"), "findings");
    }
}

#[test]
fn published_baseline_diffs_like_the_state_without_secret_values() {
    let env = |value: &str| json!([{"name": "TOKEN", "value": value}]);
    let attributes = json!({"metadata": [{"name": "web", "namespace": "shop", "annotations": {"note": "hunter2"}}], "spec": [{"replicas": "2", "strategy": [{}],
        "template": [{"metadata": [{"annotations": {"note": "hunter2"}}], "spec": [{"container": [
            {"name": "web", "image": "nginx", "env": env("hunter2"), "args": ["--key", "hunter2"], "command": ["sh"],
                "resources": [{}]}]}]}]}]});
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop",
        "annotations": {"note": "hunter2"}}, "spec": {"size": "500m", "users": [{"name": "a", "token": "hunter2"}], "list": ["hunter2"]}});
    let manifest =
        json!({"manifest": {"type": [], "value": widget}, "object": {"type": [], "value": widget}});
    let resources = json!([
        resource("kubernetes_deployment_v1", "web", &attributes),
        resource("kubernetes_manifest", "w", &manifest),
        config_map("c", "hunter2"),
    ]);
    let published = inflated(&secrets(&publish(&state(1, &resources), &[])));
    assert!(!published.contains("hunter2"), "{published}");
    let read = PublishedBaseline::read(published.as_bytes(), &BaselineLimits::default()).unwrap();

    let container = |secret: &str| json!({"name": "web", "image": "nginx", "env": env(secret), "args": ["--key", secret], "command": ["sh"]});
    let web = |secret: &str, key: &str| {
        json!({"kind": "Deployment", "metadata": {"name": "web", "annotations": {"note": key}}, "spec": {"replicas": 2, "template": {
        "metadata": {"annotations": {"note": key}}, "spec": {"containers": [container(secret)]}}}})
    };
    let mut other = widget.clone();
    other["spec"]["users"][0]["token"] = json!("hunter3");
    other["spec"]["list"] = json!(["hunter3"]);
    let map = |value: &str| json!({"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": value}});
    for (at, live, paths) in [
        (0, web("hunter2", "hunter2"), &[][..]),
        (1, widget, &[]),
        (2, map("hunter2"), &[]),
        (
            0,
            web("hunter3", "hunter3"),
            &[
                "metadata.annotations.note",
                "spec.template.metadata.annotations.note",
                "spec.template.spec.containers[name=web].args",
                "spec.template.spec.containers[name=web].env[name=TOKEN].value",
            ],
        ),
        (1, other, &["spec.list", "spec.users[name=a].token"]),
        (2, map("hunter3"), &["data.a"]),
    ] {
        let comparison = diff(&read.state.objects[at], &live);
        let mut found: Vec<&str> = paths_of(&comparison.findings);
        found.sort_unstable();
        assert_eq!(found, paths);
        assert!(!format!("{:?}", comparison.findings).contains("hunter"), "{:?}", comparison.findings);
    }
}

#[test]
fn published_type_that_this_version_cannot_compare_is_unknown() {
    let published = inflated(&secrets(&publish(&state(1, &json!([config_map("a", "b")])), &[])));
    let newer = published.replace("kubernetes_config_map_v1", "kubernetes_config_map_v9");
    let read = |text: &str| {
        let read = PublishedBaseline::read(text.as_bytes(), &BaselineLimits::default()).unwrap();
        read.state.objects[0].body.clone()
    };
    assert!(matches!(read(&published), DeclaredBody::Attributes(_)));
    assert_eq!(read(&newer), DeclaredBody::Opaque(UnknownReason::NewerSchema));
}

#[test]
fn state_is_streamed_and_never_held_in_memory() {
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -d 32768 && exec \"$0\" baseline --name shop-prod"])
        .arg(env!("CARGO_BIN_EXE_drift-exporter"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let other = resource("aws_instance", "other", &json!({"user_data": "x".repeat(1 << 20)})).to_string();
    let mut input = child.stdin.take().unwrap();
    write!(input, r#"{{"version": 4, "serial": 1, "lineage": "l-1", "outputs": {{"a": {other}"#).unwrap();
    // 96 MiB of input with a limit of 32 MiB.
    for at in 0..48 {
        write!(input, r#", "a{at}": {other}"#).unwrap();
    }
    write!(input, r#"}}, "resources": [{}"#, config_map("config", "a")).unwrap();
    for _ in 0..48 {
        write!(input, ", {other}").unwrap();
    }
    write!(input, "]}}").unwrap();
    drop(input);
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(stderr, "drift-exporter: 1 object of 1 type, 0 resources left out\n");
}
