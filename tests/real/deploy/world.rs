//! A cluster that knows the Prometheus Operator's kinds, with the chart installed by real Helm.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::support::{
    chart::{NAME, folder},
    cluster::{Cluster, User},
    exporter::Exporter,
    helm::Helm,
    kubectl::Kubectl,
    parts::program,
    wait::eventually,
};

/// Namespaces that values to try speak of.
const NAMESPACES: [&str; 9] =
    ["terraform", "payments", "charted", "applied", "written", "monitoring", "shop", "ops", "elsewhere"];

pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) kubectl: Kubectl,
    pub(super) helm: Helm,
}

/// A right that the chart has given: one verb on one resource.
#[derive(Clone, Debug)]
pub(super) struct Right {
    /// `ClusterRole` or `Role`.
    kind: String,
    namespace: Option<String>,
    rule: usize,
    group: String,
    resource: String,
    name: Option<String>,
    verb: String,
}

impl Right {
    /// Whether something is sent to be kept or answered with it, instead of read.
    pub(super) fn writes(&self) -> bool {
        !["get", "list", "watch"].contains(&&*self.verb)
    }
}

impl World {
    pub(super) fn open() -> Self {
        let cluster = Cluster::start();
        let admin = cluster.kubeconfig(User::Admin);
        let world = Self { kubectl: Kubectl::new(&admin), helm: Helm::new(&admin, "secret"), cluster };
        for kind in ["servicemonitors", "podmonitors", "prometheusrules"] {
            let file = program("prometheus-operator", &format!("monitoring.coreos.com_{kind}.yaml"));
            world.kubectl.run(&["create", "-f", &file.display().to_string()], "");
            world.kubectl.run(
                &["wait", "--for=condition=Established", &format!("crd/{kind}.monitoring.coreos.com")],
                "",
            );
        }
        let restricted = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let mut namespaces = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME, "labels": restricted}}),
        ];
        namespaces.extend(
            NAMESPACES
                .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})),
        );
        world.create(&namespaces);
        world
    }

    /// Creates objects.
    pub(super) fn create(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.kubectl.run(&["create", "--validate=strict", "-f", "-"], &list.to_string());
    }

    /// Installs the chart, and gives what Helm says then.
    pub(super) fn install(&self, values: &str) -> String {
        let file = self.cluster.folder().join("values.yaml");
        fs::write(&file, values).expect("values can be written");
        let (chart, file) = (folder().display().to_string(), file.display().to_string());
        self.helm.run(&["install", NAME, &chart, "-n", NAME, "-f", &file])
    }

    /// A kubeconfig with the token of an account, as a pod has one.
    pub(super) fn kubeconfig(&self, account: &str, namespace: &str) -> PathBuf {
        let file = self.cluster.folder().join(format!("{account}.{namespace}.kubeconfig"));
        let admin = fs::read_to_string(self.cluster.kubeconfig(User::Admin)).expect("a kubeconfig");
        fs::write(&file, admin.replace("admin-token", &self.token(account, namespace))).expect("written");
        file
    }

    /// A token of an account, by a `TokenRequest`.
    pub(super) fn token(&self, account: &str, namespace: &str) -> String {
        self.kubectl.run(&["create", "token", account, "-n", namespace], "").trim().to_owned()
    }

    /// Starts the exporter as the Deployment does, with the settings of the ConfigMap and the token of the account. Paths in the settings that
    /// a volume would bring are elsewhere here.
    pub(super) fn exporter(&self, volumes: &[(&str, &str)]) -> Exporter {
        let read = |what: &str| -> Value {
            let text = self.kubectl.run(&["get", what, NAME, "-n", NAME, "-o", "json"], "");
            serde_json::from_str(&text).expect("an object")
        };
        let mut settings = read("configmap")["data"]["settings.yaml"].as_str().expect("settings").to_owned();
        for (mounted, here) in volumes {
            settings = settings.replace(mounted, here);
        }
        let file = self.cluster.folder().join("settings.yaml");
        fs::write(&file, settings).expect("settings can be written");
        let pod = &read("deployment")["spec"]["template"]["spec"];
        let arguments = pod["containers"][0]["args"].as_array().expect("arguments").iter();
        let arguments: Vec<String> = arguments
            .filter_map(Value::as_str)
            .filter(|argument| *argument != "run" && !argument.starts_with("--web.listen-address"))
            .map(|own| own.replace("/etc/drift-exporter/settings/settings.yaml", &file.display().to_string()))
            .collect();
        let account = pod["serviceAccountName"].as_str().expect("an account");
        let flags: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let _ = fs::remove_file(self.cluster.folder().join("exporter.log"));
        Exporter::start(&self.kubeconfig(account, NAME), self.cluster.folder(), &flags)
    }

    /// The roles that the chart has made.
    fn roles(&self) -> Vec<Value> {
        let mine = format!("app.kubernetes.io/instance={NAME}");
        let roles = self.kubectl.run(&["get", "clusterroles,roles", "-A", "-l", &mine, "-o", "json"], "");
        let roles: Value = serde_json::from_str(&roles).expect("roles");
        roles["items"].as_array().expect("roles").clone()
    }

    /// Every right that the chart has given on resources.
    pub(super) fn rights(&self) -> Vec<Right> {
        let words = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut rights = Vec::new();
        for role in self.roles() {
            for (at, rule) in role["rules"].as_array().expect("rules").iter().enumerate() {
                for resource in words(&rule["resources"]) {
                    rights.extend(words(&rule["verbs"]).into_iter().map(|verb| Right {
                        kind: role["kind"].as_str().expect("a kind").to_owned(),
                        namespace: role["metadata"]["namespace"].as_str().map(str::to_owned),
                        rule: at,
                        group: words(&rule["apiGroups"]).join(","),
                        resource: resource.clone(),
                        name: words(&rule["resourceNames"]).into_iter().next(),
                        verb,
                    }));
                }
            }
        }
        rights
    }

    /// Does something while one right is missing.
    pub(super) fn without<T>(&self, right: &Right, act: impl FnOnce() -> T) -> T {
        let roles = self.roles();
        let role = roles.iter().find(|own| {
            own["kind"] == right.kind.as_str()
                && own["metadata"]["namespace"].as_str() == right.namespace.as_deref()
                && !own["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-metrics"))
        });
        let role = role.expect("the role");
        let all = role["rules"].as_array().expect("rules");
        let mut others = all.clone();
        let mut rest = others[right.rule].clone();
        let keep =
            |list: &mut Value, one: &str| list.as_array_mut().expect("a list").retain(|own| own != one);
        keep(&mut others[right.rule]["resources"], &right.resource);
        rest["resources"] = json!([right.resource]);
        keep(&mut rest["verbs"], &right.verb);
        others.push(rest);
        others.retain(|rule| rule["resources"] != json!([]) && rule["verbs"] != json!([]));
        self.set_rules(role, &others, right, "no");
        let outcome = act();
        self.set_rules(role, all, right, "yes");
        outcome
    }

    /// Changes a role, and waits until the API server goes by it.
    fn set_rules(&self, role: &Value, rules: &[Value], right: &Right, wanted: &str) {
        let role = role["metadata"]["name"].as_str().expect("a name");
        let namespace = right.namespace.as_deref().unwrap_or("default");
        let patch = json!({"rules": rules}).to_string();
        self.kubectl.run(&["patch", &right.kind, role, "-n", namespace, "--type=merge", "-p", &patch], "");
        let account = format!("--as=system:serviceaccount:{NAME}:{NAME}");
        let resource = format!("{}.{}", right.resource, right.group);
        let name = right.name.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        let object = format!("{}{name}", resource.trim_end_matches('.'));
        let question = ["auth", "can-i", &right.verb, &object, "-n", namespace, &account];
        eventually(&format!("{right:?}: {wanted}"), || {
            (self.kubectl.answer(&question).trim() == wanted).then_some(())
        });
    }
}
