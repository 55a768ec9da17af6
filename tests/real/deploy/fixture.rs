//! A cluster with the CRDs of the Prometheus Operator and the chart installed by real Helm.

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

/// Namespaces of the tested values.
const NAMESPACES: [&str; 9] =
    ["terraform", "payments", "charted", "applied", "written", "monitoring", "shop", "ops", "elsewhere"];

pub(super) struct DeployFixture {
    pub(super) cluster: Cluster,
    pub(super) kubectl: Kubectl,
    pub(super) helm: Helm,
}

/// A permission that the chart grants: one verb on one resource.
#[derive(Clone, Debug)]
pub(super) struct Permission {
    /// `ClusterRole` or `Role`.
    kind: String,
    namespace: Option<String>,
    rule: usize,
    group: String,
    resource: String,
    name: Option<String>,
    verb: String,
}

impl Permission {
    /// Whether the verb sends an object to the API server.
    pub(super) fn writes(&self) -> bool {
        !["get", "list", "watch"].contains(&&*self.verb)
    }
}

impl DeployFixture {
    pub(super) fn start() -> Self {
        let cluster = Cluster::start();
        let admin = cluster.kubeconfig(User::Admin);
        let fixture = Self { kubectl: Kubectl::new(&admin), helm: Helm::new(&admin, "secret"), cluster };
        for kind in ["servicemonitors", "podmonitors", "prometheusrules"] {
            let file = program("prometheus-operator", &format!("monitoring.coreos.com_{kind}.yaml"));
            fixture.kubectl.run(&["create", "-f", &file.display().to_string()], "");
            fixture.kubectl.run(
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
        fixture.create(&namespaces);
        fixture
    }

    pub(super) fn create(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.kubectl.run(&["create", "--validate=strict", "-f", "-"], &list.to_string());
    }

    /// Installs the chart, and returns the output of Helm.
    pub(super) fn install(&self, values: &str) -> String {
        let file = self.cluster.folder().join("values.yaml");
        fs::write(&file, values).expect("values can be written");
        let (chart, file) = (folder().display().to_string(), file.display().to_string());
        self.helm.run(&["install", NAME, &chart, "-n", NAME, "-f", &file])
    }

    /// A kubeconfig with the token of a service account, as a pod has it.
    pub(super) fn kubeconfig(&self, account: &str, namespace: &str) -> PathBuf {
        let file = self.cluster.folder().join(format!("{account}.{namespace}.kubeconfig"));
        let admin = fs::read_to_string(self.cluster.kubeconfig(User::Admin)).expect("a kubeconfig");
        fs::write(&file, admin.replace("admin-token", &self.token(account, namespace))).expect("written");
        file
    }

    /// A token of a service account, by a `TokenRequest`.
    pub(super) fn token(&self, account: &str, namespace: &str) -> String {
        self.kubectl.run(&["create", "token", account, "-n", namespace], "").trim().to_owned()
    }

    /// Starts the exporter like the Deployment, with the settings of the ConfigMap and the token of the service account. `volumes` maps
    /// mount paths in the settings to local folders.
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
            .filter(|argument| {
                *argument != "run"
                    && !argument.starts_with("--web.listen-address")
                    && !argument.starts_with("--web.health-address")
            })
            .map(|argument| {
                argument.replace("/etc/drift-exporter/settings/settings.yaml", &file.display().to_string())
            })
            .collect();
        let account = pod["serviceAccountName"].as_str().expect("an account");
        let flags: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let _ = fs::remove_file(self.cluster.folder().join("exporter.log"));
        Exporter::start(&self.kubeconfig(account, NAME), self.cluster.folder(), &flags)
    }

    /// The roles of the chart.
    fn roles(&self) -> Vec<Value> {
        let mine = format!("app.kubernetes.io/instance={NAME}");
        let roles = self.kubectl.run(&["get", "clusterroles,roles", "-A", "-l", &mine, "-o", "json"], "");
        let roles: Value = serde_json::from_str(&roles).expect("roles");
        roles["items"].as_array().expect("roles").clone()
    }

    /// Every permission on resources that the chart grants.
    pub(super) fn permissions(&self) -> Vec<Permission> {
        let words = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut permissions = Vec::new();
        for role in self.roles() {
            for (at, rule) in role["rules"].as_array().expect("rules").iter().enumerate() {
                for resource in words(&rule["resources"]) {
                    permissions.extend(words(&rule["verbs"]).into_iter().map(|verb| Permission {
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
        permissions
    }

    /// Runs an action while one permission is missing.
    pub(super) fn without<T>(&self, permission: &Permission, act: impl FnOnce() -> T) -> T {
        let roles = self.roles();
        let role = roles.iter().find(|role| {
            role["kind"] == permission.kind.as_str()
                && role["metadata"]["namespace"].as_str() == permission.namespace.as_deref()
                && !role["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-metrics"))
        });
        let role = role.expect("the role");
        let all = role["rules"].as_array().expect("rules");
        let mut others = all.clone();
        let mut rest = others[permission.rule].clone();
        let keep =
            |list: &mut Value, one: &str| list.as_array_mut().expect("a list").retain(|item| item != one);
        keep(&mut others[permission.rule]["resources"], &permission.resource);
        rest["resources"] = json!([permission.resource]);
        keep(&mut rest["verbs"], &permission.verb);
        others.push(rest);
        others.retain(|rule| rule["resources"] != json!([]) && rule["verbs"] != json!([]));
        self.set_rules(role, &others, permission, "no");
        let outcome = act();
        self.set_rules(role, all, permission, "yes");
        outcome
    }

    /// Changes a role, and waits until the API server applies it.
    fn set_rules(&self, role: &Value, rules: &[Value], permission: &Permission, expected: &str) {
        let role = role["metadata"]["name"].as_str().expect("a name");
        let namespace = permission.namespace.as_deref().unwrap_or("default");
        let patch = json!({"rules": rules}).to_string();
        self.kubectl
            .run(&["patch", &permission.kind, role, "-n", namespace, "--type=merge", "-p", &patch], "");
        let account = format!("--as=system:serviceaccount:{NAME}:{NAME}");
        let resource = format!("{}.{}", permission.resource, permission.group);
        let name = permission.name.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        let object = format!("{}{name}", resource.trim_end_matches('.'));
        let question = ["auth", "can-i", &permission.verb, &object, "-n", namespace, &account];
        eventually(&format!("{permission:?}: {expected}"), || {
            (self.kubectl.answer(&question).trim() == expected).then_some(())
        });
    }
}
