//! A thousand secrets in states and live objects: the exporter exposes none of them.

use std::{
    collections::HashSet,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    memory::documents,
    support::{
        cluster::{Cluster, User},
        exporter::Exporter,
        memory::memory_of,
        objects::{create_namespace, grant},
        wait::{PATIENCE, eventually},
    },
};

/// Number of objects of each kind.
const EACH: usize = 70;

/// Secrets that the test created.
#[derive(Default)]
pub(crate) struct Canaries {
    all: Vec<String>,
    /// Secrets of which the cache holds only digests.
    redacted: Vec<String>,
    /// Secrets in live objects without redaction: the cache holds them.
    retained: Vec<String>,
}

impl Canaries {
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn add(&mut self) -> String {
        let canary: String = std::iter::repeat_with(fastrand::alphanumeric).take(24).collect();
        self.all.push(canary.clone());
        canary
    }

    pub(crate) fn add_redacted(&mut self) -> String {
        let canary = self.add();
        self.redacted.push(canary.clone());
        canary
    }

    /// Only the secrets that stay redacted with any settings.
    pub(crate) fn into_redacted(self) -> Self {
        Self { all: self.redacted, ..Self::default() }
    }

    fn add_retained(&mut self) -> String {
        let canary = self.add();
        self.retained.push(canary.clone());
        canary
    }

    /// Asserts that no cached document in the process memory contains a redacted secret. Finding all retained secrets
    /// proves that the search covers every document. Freed buffers outside of documents may still contain a secret.
    fn assert_not_in_memory(&self, pid: u32) {
        let memory = memory_of(pid);
        let documents: Vec<Vec<u8>> =
            documents(&memory).iter().map(|document| document.to_string().into_bytes()).collect();
        let found = |search_patterns: &HashSet<Vec<u8>>, texts: &[Vec<u8>]| -> usize {
            let windows = texts.iter().flat_map(|text| text.windows(WINDOW));
            windows.filter(|window| search_patterns.contains(*window)).collect::<HashSet<_>>().len()
        };
        let plain = |canaries: &[String]| -> HashSet<Vec<u8>> {
            canaries.iter().map(|canary| canary.as_bytes()[..WINDOW].to_vec()).collect()
        };
        assert_eq!(
            found(&plain(&self.retained), &documents),
            self.retained.len(),
            "{} documents",
            documents.len()
        );
        let redacted = search_patterns(&self.redacted);
        for document in &documents {
            let is_redacted = |window: &[u8]| redacted.contains(window);
            let text = || String::from_utf8_lossy(document).into_owned();
            assert!(
                !document.windows(WINDOW).any(is_redacted),
                "a cached document contains a secret: {}",
                text()
            );
        }
        println!(
            "{} documents in {} MiB of memory contain none of {} redacted values; {} of these are in freed buffers",
            documents.len(),
            memory.iter().map(Vec::len).sum::<usize>() >> 20,
            self.redacted.len(),
            found(&plain(&self.redacted), &memory)
        );
    }

    /// Asserts that no endpoint, log or file of a running exporter contains a secret.
    #[track_caller]
    pub(crate) fn assert_not_exposed(&self, exporter: &Exporter, history: &Path) {
        self.assert_not_in("the metrics page", &exporter.metrics());
        let mut paths: Vec<String> =
            ["/", "/v1/resources?namespace=*", "/v1/history", "/v1/status", "/v1/rules"]
                .map(ToOwned::to_owned)
                .to_vec();
        for (at, kind) in ["secret", "configmap", "deployment.apps", "widget.example.com"].iter().enumerate()
        {
            paths.push(format!("/v1/resources/{kind}/shop/object-{at}"));
            paths.push(format!("/objects/{kind}/shop/object-{at}"));
        }
        for path in paths {
            let answer = exporter.get(&path).unwrap();
            assert_eq!(answer.status, 200, "{path}");
            self.assert_not_in(&path, &answer.text());
        }
        self.assert_not_in("the stream of events", &read_event_stream(exporter));
        for kind in ["secret", "configmap", "deployment", "widget"] {
            let server = format!("http://127.0.0.1:{}", exporter.port);
            let object = format!("{kind}/object-2");
            let output = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
                .args(["explain", "--server", &server, &object, "-n", "shop"])
                .output()
                .unwrap();
            self.assert_not_in(
                "an explanation",
                &String::from_utf8([output.stdout, output.stderr].concat()).unwrap(),
            );
        }
        let log = exporter.logged();
        assert!(log.contains("DEBUG"), "the log level is debug");
        self.assert_not_in("the log", &log);
        self.assert_not_in("the history file", &fs::read_to_string(history).unwrap());
    }

    /// Asserts that a text contains no secret, neither plain nor in base64 at any offset.
    #[track_caller]
    pub(crate) fn assert_not_in(&self, place: &str, text: &str) {
        assert!(!text.is_empty(), "{place} is empty");
        let search_patterns = search_patterns(&self.all);
        for (at, window) in text.as_bytes().windows(WINDOW).enumerate() {
            let around = || String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(200)..at + WINDOW]);
            assert!(!search_patterns.contains(window), "{place} contains a secret: {}", around());
        }
    }
}

/// The event stream from the first transition to the last.
fn read_event_stream(exporter: &Exporter) -> String {
    let last = exporter.get("/v1/history").unwrap().json()["last"].to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", exporter.port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /v1/events?since=0 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let (mut events, mut line) = (String::new(), String::new());
    let mut lines = BufReader::new(stream);
    let mut is_last = false;
    // Each event ends with an empty line.
    while !(is_last && line == "\n") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended before {last}: {events}");
        is_last |= line == format!("id: {last}\n");
        events.push_str(&line);
    }
    events
}

/// The prefixes to search for: each secret plain, and in base64 at any offset.
fn search_patterns(canaries: &[String]) -> HashSet<Vec<u8>> {
    let mut search_patterns: HashSet<Vec<u8>> = HashSet::new();
    for canary in canaries {
        let shifted = |before: &str| STANDARD.encode(format!("{before}{canary}"))[4..].to_owned();
        let encoded = [STANDARD.encode(canary), shifted("x"), shifted("xx")];
        search_patterns.extend(
            [canary].into_iter().chain(&encoded).map(|pattern| pattern.as_bytes()[..WINDOW].to_vec()),
        );
    }
    search_patterns
}

/// Length of a searched prefix: long enough to exclude random matches.
const WINDOW: usize = 16;

pub(crate) fn post(cluster: &Cluster, url: &str, object: &Value) -> Value {
    let request = http::Request::post(url).body(object.to_string().into_bytes()).unwrap();
    cluster.block_on(cluster.client().request(request)).unwrap()
}

pub(crate) fn resource(
    kind: &str,
    name: &str,
    canaries: &mut Canaries,
    attributes: &Value,
    sensitive: &Value,
) -> Value {
    json!({"mode": "managed", "type": kind, "name": name, "provider": "provider[\"registry.terraform.io/hashicorp/kubernetes\"]",
        "instances": [{"schema_version": 1, "attributes": attributes, "sensitive_attributes": sensitive, "private": canaries.add_redacted()}]})
}

/// The metadata of a live object. The last-applied annotation is redacted where any field is.
fn live_metadata(name: &str, canaries: &mut Canaries, is_sensitive: bool) -> Value {
    let copy = if is_sensitive { canaries.add_redacted() } else { canaries.add_retained() };
    json!({"name": name, "namespace": "shop", "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": copy, "note": canaries.add_retained()}})
}

fn declared_metadata(live: &Value, canaries: &mut Canaries) -> Value {
    let metadata = &live["metadata"];
    json!([{"name": metadata["name"], "namespace": "shop", "uid": metadata["uid"], "annotations": {"note": canaries.add(),
        "kubectl.kubernetes.io/last-applied-configuration": canaries.add_redacted()}}])
}

/// The path of a sensitive attribute, with an index before each name but the first.
pub(crate) fn sensitive_attribute(names: &[(&str, usize)]) -> Value {
    let steps = names.iter().enumerate().flat_map(|(at, (name, index))| {
        let index = json!({"type": "index", "value": {"value": index, "type": "number"}});
        (at > 0).then_some(index).into_iter().chain([json!({"type": "get_attr", "value": name})])
    });
    json!([steps.collect::<Vec<_>>()])
}

fn make_secret(cluster: &Cluster, canaries: &mut Canaries, name: &str) -> Value {
    // Annotations of Secrets are redacted too.
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": canaries.add_redacted(), "note": canaries.add_redacted()});
    let metadata = json!({"name": name, "namespace": "shop", "annotations": annotations});
    let live = json!({"metadata": metadata, "stringData": {"password": canaries.add_redacted()}});
    let live = post(cluster, "/api/v1/namespaces/shop/secrets", &live);
    let attributes = json!({"metadata": declared_metadata(&live, canaries), "data": {"password": canaries.add_redacted()}});
    resource("kubernetes_secret_v1", name, canaries, &attributes, &json!([]))
}

fn make_config_map(cluster: &Cluster, canaries: &mut Canaries, name: &str, is_sensitive: bool) -> Value {
    let value = if is_sensitive { canaries.add_redacted() } else { canaries.add_retained() };
    let live = json!({"metadata": live_metadata(name, canaries, is_sensitive), "data": {"key": value}});
    let live = post(cluster, "/api/v1/namespaces/shop/configmaps", &live);
    let value = if is_sensitive { canaries.add_redacted() } else { canaries.add() };
    let attributes = json!({"metadata": declared_metadata(&live, canaries), "data": {"key": value}});
    let sensitive = if is_sensitive { sensitive_attribute(&[("data", 0)]) } else { json!([]) };
    resource("kubernetes_config_map_v1", name, canaries, &attributes, &sensitive)
}

fn make_deployment(cluster: &Cluster, canaries: &mut Canaries, name: &str) -> Value {
    // One sensitive variable makes all variables of the container sensitive.
    let env = |canaries: &mut Canaries| json!([{"name": "ONE", "value": canaries.add_redacted()}, {"name": "OTHER", "value": canaries.add_redacted()}]);
    let container =
        json!({"name": "web", "image": "nginx", "env": env(canaries), "args": [canaries.add_retained()]});
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}});
    let spec = json!({"selector": {"matchLabels": {"app": name}}, "template": template});
    let live = json!({"metadata": live_metadata(name, canaries, true), "spec": spec});
    let live = post(cluster, "/apis/apps/v1/namespaces/shop/deployments", &live);
    let container =
        json!([{"name": "web", "image": "nginx", "env": env(canaries), "args": [canaries.add()]}]);
    let spec = json!([{"template": [{"spec": [{"container": container}]}]}]);
    let attributes = json!({"metadata": declared_metadata(&live, canaries), "spec": spec});
    let sensitive = sensitive_attribute(&[
        ("spec", 0),
        ("template", 0),
        ("spec", 0),
        ("container", 0),
        ("env", 0),
        ("value", 1),
    ]);
    resource("kubernetes_deployment_v1", name, canaries, &attributes, &sensitive)
}

fn make_widget(cluster: &Cluster, canaries: &mut Canaries, name: &str) -> Value {
    let spec = |canaries: &mut Canaries, size: String| json!({"password": canaries.add_redacted(), "size": size, "users": [{"name": "a", "token": canaries.add_redacted()}]});
    let size = canaries.add_retained();
    let live = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": live_metadata(name, canaries, true),
        "spec": spec(canaries, size)});
    post(cluster, "/apis/example.com/v1/namespaces/shop/widgets", &live);
    let whole = |canaries: &mut Canaries| {
        let size = canaries.add();
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "shop"},
            "spec": spec(canaries, size)})
    };
    let (object, manifest) = (whole(canaries), whole(canaries));
    let attributes =
        json!({"object": {"type": [], "value": object}, "manifest": {"type": [], "value": manifest}});
    let step = |name: &str| json!({"type": "get_attr", "value": name});
    let path = |names: &[&str]| names.iter().map(|name| step(name)).collect::<Value>();
    let sensitive =
        json!([path(&["manifest", "spec", "password"]), path(&["manifest", "spec", "users", "token"])]);
    resource("kubernetes_manifest", name, canaries, &attributes, &sensitive)
}

/// Creates objects and the state that declares them. Every value is a different secret, so every object drifts.
fn make_objects(cluster: &Cluster, canaries: &mut Canaries) -> Vec<u8> {
    let mut resources = Vec::new();
    for at in 0..EACH {
        let name = format!("object-{at}");
        resources.extend([
            make_secret(cluster, canaries, &name),
            make_config_map(cluster, canaries, &name, at % 2 == 0),
            make_deployment(cluster, canaries, &name),
            make_widget(cluster, canaries, &name),
        ]);
        let attributes = json!({"password": canaries.add_redacted()});
        resources.push(resource("aws_db_instance", &name, canaries, &attributes, &json!([])));
    }
    let outputs: Value =
        (0..EACH).map(|at| (format!("out{at}"), json!({"value": canaries.add_redacted()}))).collect();
    json!({"version": 4, "serial": 1, "lineage": "canaries", "outputs": outputs, "resources": resources})
        .to_string()
        .into_bytes()
}

pub(crate) fn install_widgets(cluster: &Cluster) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names =
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}});
    post(cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
    let client = cluster.client();
    eventually("widgets are served", || {
        let request = http::Request::get("/apis/example.com/v1/widgets").body(Vec::new()).unwrap();
        cluster.block_on(client.request::<Value>(request)).ok()
    });
}

#[test]
fn secrets_of_states_and_live_objects_are_never_exposed() {
    let cluster = Cluster::start();
    let client = cluster.client();
    install_widgets(&cluster);
    cluster.block_on(async {
        create_namespace(&client, "shop").await;
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"]}]);
        grant(&client, "exporter", rules).await;
    });
    let mut canaries = Canaries::default();
    let state = make_objects(&cluster, &mut canaries);
    assert!(canaries.all.len() >= 1_000, "{}", canaries.all.len());
    let states = cluster.folder().join("states");
    fs::create_dir(&states).unwrap();
    let file = states.join("shop.tfstate");
    fs::write(&file, &state).unwrap();
    let history = cluster.folder().join("history");
    let settings = cluster.folder().join("settings.yaml");
    let sources = json!({"annotation": {}, "terraform": {"files": [states], "this_cluster": true}});
    fs::write(&settings, json!({"sources": sources, "log": {"level": "trace"}}).to_string()).unwrap();
    let flags = ["--config.file", settings.to_str().unwrap(), "--history.file", history.to_str().unwrap()];
    let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), &flags).ready();
    let differ = |kind: &str| {
        let labels = [("kind", kind), ("source", "terraform"), ("verdict", "drifted")];
        exporter.sample("drift_resources", &labels)
    };
    for kind in ["Secret", "ConfigMap", "Deployment", "Widget"] {
        eventually(&format!("every {kind} differs"), || (differ(kind) == Some(EACH as f64)).then_some(()));
    }
    // The error message of a malformed state must not quote a nearby secret.
    let cut = state.windows(8).position(|part| part == b"\"value\":").unwrap() + 20;
    fs::write(states.join("broken.tfstate"), &state[..cut]).unwrap();
    fs::write(&file, &state[..state.len() - 5]).unwrap();
    for broken in ["shop.tfstate", "broken.tfstate"] {
        let name = states.join(broken).display().to_string();
        let labels = [("state", name.as_str())];
        exporter.wait_for("drift_terraform_state_readable", &labels, Some(0.0));
    }

    canaries.assert_not_exposed(&exporter, &history);
    canaries.assert_not_in_memory(exporter.running.pid());

    for input in [&state[..], &state[..cut]] {
        let mut baseline = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
            .args(["baseline", "--name", "shop"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        baseline.stdin.take().unwrap().write_all(input).unwrap();
        let output = baseline.wait_with_output().unwrap();
        canaries
            .assert_not_in("the error message of the command", &String::from_utf8(output.stderr).unwrap());
        let published = String::from_utf8(output.stdout).unwrap();
        if output.status.success() {
            let document: Value = serde_saphyr::from_str(&published).unwrap();
            let packed = STANDARD.decode(document["data"]["baseline"].as_str().unwrap()).unwrap();
            let mut text = String::new();
            std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed[..]), &mut text).unwrap();
            canaries.assert_not_in("the published baseline", &(published + &text));
        }
    }
}
