//! Hundreds of secrets in manifests and last-applied annotations: the exporter exposes none of them.

use std::{fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    canaries::{Canaries, install_widgets, post, resource, sensitive_attribute},
    support::{
        cluster::{Cluster, User},
        exporter::Exporter,
        objects::{create_namespace, grant},
        wait::eventually,
    },
};

/// Number of objects of each kind.
const EACH: usize = 40;
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Live objects, manifests and last-applied annotations. Every value is a different secret, so every object drifts.
struct ObjectFactory<'a> {
    cluster: &'a Cluster,
    canaries: &'a mut Canaries,
    manifests: Vec<String>,
    resources: Vec<Value>,
}

impl ObjectFactory<'_> {
    fn add(&mut self, at: usize) {
        let name = format!("object-{at}");
        let secret = |canaries: &mut Canaries| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "annotations": {"note": canaries.add_redacted()}},
                "stringData": {"password": canaries.add_redacted()}, "data": {"other": STANDARD.encode(canaries.add_redacted()), "broken": canaries.add_redacted() + "!"}})
        };
        let mut live = secret(self.canaries);
        live["data"].as_object_mut().unwrap().remove("broken");
        self.make("/api/v1/namespaces/shop/secrets", live, secret);

        let map = |canaries: &mut Canaries| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": canaries.add()}});
        let live = map(self.canaries);
        self.make("/api/v1/namespaces/shop/configmaps", live, map);

        // One sensitive variable makes all variables of the container sensitive, also a removed one.
        let deployment = |canaries: &mut Canaries| {
            let variable =
                |name: &str, canaries: &mut Canaries| json!({"name": name, "value": canaries.add_redacted()});
            let env =
                json!([variable("ONE", canaries), variable("OTHER", canaries), variable("GONE", canaries)]);
            let container = json!({"name": "web", "image": "nginx", "env": env, "args": [canaries.add()]});
            let template =
                json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}});
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "annotations": {"note": canaries.add()}},
                "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}})
        };
        let mut live = deployment(self.canaries);
        let container = &mut live["spec"]["template"]["spec"]["containers"][0];
        container["env"].as_array_mut().unwrap().pop();
        let live = self.make("/apis/apps/v1/namespaces/shop/deployments", live, deployment);
        self.declare_deployment(&name, &live);

        let widget = |canaries: &mut Canaries| {
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
                "spec": {"password": canaries.add(), "users": [{"name": "a", "token": canaries.add()}]}})
        };
        let live = widget(self.canaries);
        self.make("/apis/example.com/v1/namespaces/shop/widgets", live, widget);
    }

    /// Creates an object with a last-applied annotation, and declares it in a manifest.
    fn make(&mut self, path: &str, mut live: Value, declare: impl Fn(&mut Canaries) -> Value) -> Value {
        self.manifests.push(declare(self.canaries).to_string());
        let mut applied = declare(self.canaries);
        applied["metadata"]["namespace"] = json!("shop");
        let annotations = &mut live["metadata"]["annotations"];
        if annotations.is_null() {
            *annotations = json!({});
        }
        annotations[LAST_APPLIED] = applied.to_string().into();
        post(self.cluster, path, &live)
    }

    /// Declares the variables of a Deployment as sensitive in a state.
    fn declare_deployment(&mut self, name: &str, live: &Value) {
        let env = json!([{"name": "ONE", "value": self.canaries.add_redacted()}, {"name": "OTHER", "value": self.canaries.add_redacted()}]);
        let container = json!([{"name": "web", "image": "nginx", "env": env}]);
        let metadata = json!([{"name": name, "namespace": "shop", "uid": live["metadata"]["uid"]}]);
        let attributes =
            json!({"metadata": metadata, "spec": [{"template": [{"spec": [{"container": container}]}]}]});
        let sensitive = sensitive_attribute(&[
            ("spec", 0),
            ("template", 0),
            ("spec", 0),
            ("container", 0),
            ("env", 0),
            ("value", 1),
        ]);
        self.resources.push(resource(
            "kubernetes_deployment_v1",
            name,
            self.canaries,
            &attributes,
            &sensitive,
        ));
    }

    /// Creates objects that are in sync.
    fn add_in_sync(&mut self) {
        for (kind, plural) in [("ConfigMap", "configmaps"), ("Secret", "secrets")] {
            let secret = if kind == "Secret" { self.canaries.add_redacted() } else { self.canaries.add() };
            let data = json!({"a": STANDARD.encode(secret)});
            let in_sync_object =
                json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "calm"}, "data": data});
            post(self.cluster, &format!("/api/v1/namespaces/shop/{plural}"), &in_sync_object);
            self.manifests.push(in_sync_object.to_string());
        }
    }

    /// An error message must not quote a secret, neither nearby nor as the invalid value.
    fn write_broken_manifests(&mut self, folder: &Path) {
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: broken}\n";
        let mut number = 0;
        let mut write = |text: Vec<u8>| {
            number += 1;
            fs::write(folder.join(format!("broken-{number}.yaml")), text).unwrap();
        };
        let mut one = || self.canaries.add_redacted();
        for text in [
            format!("{secret}stringData: {{a: {{{{ .Values.a }}}}, b: {}}}\n", one()),
            format!("{secret}stringData: {{a: \"{}\n", one()),
            format!("{secret}stringData:\n\ta: {}\n", one()),
            format!("{secret}stringData:\n  a: {}\n b: {}\n", one(), one()),
            format!("{secret}stringData: {{a: *{}}}\n", one()),
            format!("{secret}stringData: {{? [{}] : a}}\n", one()),
            format!("{secret}{}\n", one()),
            format!("{}\n", one()),
            format!("- {}\n", one()),
            format!("apiVersion: v1\nkind: Secret\nstringData: {{a: {}}}\n", one()),
            format!("apiVersion: v1\nkind: {{a: {}}}\nmetadata: {{name: a}}\n", one()),
            format!("{{\"kind\": \"Secret\", \"stringData\": {{\"a\": \"{}\",}}\n", one()),
            // Secrets that no API server accepts.
            format!("{}data: {}\n", secret.replace("broken", "text"), one()),
            format!("{}data: [{}]\n", secret.replace("broken", "list"), one()),
            format!("{}stringData: {{a: {{b: {}}}}}\n", secret.replace("broken", "map"), one()),
            format!("{}password: {}\n", secret.replace("broken", "stray"), one()),
        ] {
            write(text.into_bytes());
        }
        write([secret.as_bytes(), b"stringData: {a: \xff", one().as_bytes(), b"}\n"].concat());
        // A second manifest of an existing object.
        let again = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "object-0"}, "stringData": {"password": one()}});
        fs::write(folder.join("z-again.yaml"), again.to_string()).unwrap();
        for name in ["text", "list", "map", "stray"] {
            let live =
                json!({"metadata": {"name": name, "namespace": "shop"}, "stringData": {"password": one()}});
            post(self.cluster, "/api/v1/namespaces/shop/secrets", &live);
        }
    }

    /// Annotations that are not JSON, truncated, or of another object.
    fn write_broken_annotations(&mut self) {
        let document = |name: &str, secret: String| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": secret}}).to_string()
        };
        let whole = document("other", self.canaries.add());
        let cut = document("cut", self.canaries.add());
        let texts = [
            self.canaries.add(),
            whole,
            cut[..cut.len() - 3].to_owned(),
            format!("{{\"apiVersion\": \"v1\", \"{}\": tru}}", self.canaries.add()),
            format!("[\"{}\"]", self.canaries.add()),
        ];
        for (number, text) in texts.into_iter().enumerate() {
            let live = json!({"metadata": {"name": format!("corrupt-{number}"), "annotations": {LAST_APPLIED: text}}, "data": {"a": "b"}});
            post(self.cluster, "/api/v1/namespaces/shop/configmaps", &live);
        }
    }
}

#[test]
fn secrets_of_manifests_and_last_applied_annotations_are_never_exposed() {
    let cluster = Cluster::start();
    let client = cluster.client();
    install_widgets(&cluster);
    cluster.block_on(async {
        create_namespace(&client, "shop").await;
        let rules = json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        ]);
        grant(&client, "exporter", rules).await;
    });
    let mut canaries = Canaries::default();
    let folder = |name: &str| {
        let folder = cluster.folder().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    };
    let (manifests, states) = (folder("manifests"), folder("states"));
    let mut factory = ObjectFactory {
        cluster: &cluster,
        canaries: &mut canaries,
        manifests: Vec::new(),
        resources: Vec::new(),
    };
    (0..EACH).for_each(|at| factory.add(at));
    factory.add_in_sync();
    factory.write_broken_manifests(&manifests);
    factory.write_broken_annotations();
    fs::write(manifests.join("objects.yaml"), factory.manifests.join("\n---\n")).unwrap();
    let state = json!({"version": 4, "serial": 1, "lineage": "canaries", "outputs": {}, "resources": factory.resources});
    fs::write(states.join("shop.tfstate"), state.to_string()).unwrap();
    assert!(canaries.count() >= 1_000, "{}", canaries.count());

    let (history, settings) = (cluster.folder().join("history"), cluster.folder().join("settings.yaml"));
    let configure = |values: &str| {
        let sources = json!({"manifest": {"paths": [manifests], "namespace": "shop"}, "last_applied": {},
            "terraform": {"files": [states], "this_cluster": true}});
        let kinds = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}, {"apiVersion": "v1", "kind": "ConfigMap"},
            {"apiVersion": "example.com/v1", "kind": "Widget"}]);
        let settings_text =
            json!({"sources": sources, "kinds": kinds, "log": {"level": "trace"}, "api": {"values": values}});
        fs::write(&settings, settings_text.to_string()).unwrap();
    };
    configure("digest");
    let flags = [
        "--config.file",
        settings.to_str().unwrap(),
        "--history.file",
        history.to_str().unwrap(),
        "--events",
    ];
    let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), &flags).ready();
    let count = |source: &str, kind: &str, verdict: &str| {
        let labels = [("kind", kind), ("source", source), ("verdict", verdict)];
        exporter.sample("drift_resources", &labels)
    };
    for (source, kind) in [
        ("manifest", "Secret"),
        ("manifest", "ConfigMap"),
        ("manifest", "Deployment"),
        ("manifest", "Widget"),
        ("last_applied", "ConfigMap"),
        ("last_applied", "Deployment"),
        ("last_applied", "Widget"),
        ("terraform", "Deployment"),
    ] {
        eventually(&format!("every {kind} differs from {source}"), || {
            (count(source, kind, "drifted") >= Some(EACH as f64)).then_some(())
        });
    }
    assert_eq!(count("last_applied", "ConfigMap", "unknown"), Some(5.0), "corrupt annotations are unknown");
    for verdict in ["drifted", "in_sync", "unknown", "missing"] {
        assert_eq!(count("last_applied", "Secret", verdict), None, "Secrets are never asked");
    }
    let status = exporter.get("/v1/status").unwrap().json();
    let baselines = status["baselines"].as_array().unwrap();
    let manifest = baselines.iter().find(|baseline| baseline["origin"] == "manifests").unwrap();
    let skipped = |reason: &str| {
        let skipped = manifest["skipped"].as_array().unwrap().iter();
        skipped.filter(|skipped_object| skipped_object["reason"] == reason).count()
    };
    assert_eq!(
        ["not_yaml", "no_identity", "unreadable", "duplicate"].map(skipped),
        [8, 4, 1, 1],
        "{}",
        manifest["skipped"]
    );
    // A new difference adds a transition to the history, and an Event.
    for kind in ["configmaps", "secrets"] {
        let secret = if kind == "secrets" { canaries.add_redacted() } else { canaries.add() };
        let change = json!({"data": {"a": STANDARD.encode(secret)}}).to_string();
        let request = http::Request::patch(format!("/api/v1/namespaces/shop/{kind}/calm"))
            .header("content-type", "application/merge-patch+json")
            .body(change.into_bytes())
            .unwrap();
        cluster.block_on(client.request::<Value>(request)).unwrap();
    }
    let events = eventually("there are a history and Events", || {
        let request = http::Request::get("/apis/events.k8s.io/v1/events").body(Vec::new()).unwrap();
        let events = cluster.block_on(client.request_text(request)).unwrap();
        let history = fs::read_to_string(&history).ok()?;
        let is_told = |text: &str| text.contains("\"Secret\"") && text.contains("\"ConfigMap\"");
        (is_told(&events) && is_told(&history)).then_some(events)
    });
    canaries.assert_not_in("the Events", &events);
    canaries.assert_not_exposed(&exporter, &history);

    // `values: full` does not reveal these.
    configure("full");
    let shown = "/v1/resources/configmap/shop/object-1";
    eventually("values are shown", || (!exporter.get(shown)?.text().contains("hmac:")).then_some(()));
    canaries.into_redacted().assert_not_exposed(&exporter, &history);
}
