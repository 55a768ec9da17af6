//! The objects that Helm renders from the chart.

use std::{fs, path::Path};

use drift_exporter::{
    config::{Overrides, Pem, load, load_web},
    types::Source,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::{
    chart::{ci_values, folder, helm, kinds, one, render, render_as, render_from},
    parts::program,
};

fn ci(name: &str) -> Vec<Value> {
    render(&fs::read_to_string(folder().join(format!("ci/{name}-values.yaml"))).expect("values"))
}

fn container(objects: &[Value]) -> &Value {
    &one(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}

#[test]
fn helm_lint_accepts_all_values() {
    let chart = folder().display().to_string();
    for file in ci_values() {
        let values = fs::read_to_string(&file).expect("values");
        let output = helm(&["lint", "--strict", "--kube-version", "1.36.3", &chart], &values);
        assert!(output.status.success(), "{file:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn packaged_chart_renders_the_same_objects() {
    let out = tempfile::tempdir().expect("a folder");
    let (chart, to) = (folder().display().to_string(), out.path().display().to_string());
    let mut package = std::process::Command::new(program("helm", "helm"));
    assert!(package.args(["package", &chart, "-d", &to]).output().expect("helm can be run").status.success());
    let packed = out.path().join(format!("drift-exporter-{}.tgz", env!("CARGO_PKG_VERSION")));
    let values = fs::read_to_string(folder().join("ci/operator-values.yaml")).expect("values");
    assert_eq!(render_from(&packed, &values), render(&values));
}

#[test]
fn defaults_watch_two_kinds() {
    let objects = ci("defaults");
    assert_eq!(
        kinds(&objects),
        ["ServiceAccount", "ConfigMap", "ClusterRole", "ClusterRoleBinding", "Service", "Deployment"]
    );
    let container = container(&objects);
    assert_eq!(container["image"], "registry.example.com/drift-exporter:0.1.0");
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(
        container["livenessProbe"]["httpGet"],
        json!({"path": "/livez", "port": "health", "scheme": "HTTP"})
    );
    assert_eq!(
        container["readinessProbe"]["httpGet"],
        json!({"path": "/readyz", "port": "health", "scheme": "HTTP"})
    );
    for probe in ["livenessProbe", "readinessProbe"] {
        assert!(container[probe]["timeoutSeconds"].is_u64(), "{probe} has an explicit time-out");
    }
    assert!(words(&container["args"]).contains(&"--web.health-address=:10375"));
    assert_eq!(container["ports"][1], json!({"name": "health", "containerPort": 10375}));
    let pod = &one(&objects, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], true);
    assert_eq!(
        one(&objects, "ServiceAccount")["automountServiceAccountToken"],
        false,
        "no other container has its token"
    );
    // The whole folder is mounted and watched, so new settings need no restart.
    assert_eq!(words(&container["args"])[1], "--config.file=/etc/drift-exporter/settings/settings.yaml");
    assert!(
        container["volumeMounts"].as_array().expect("mounts").iter().all(|mount| mount["subPath"].is_null())
    );
}

#[test]
fn exporter_accepts_the_settings_of_all_values() {
    for file in ci_values() {
        let objects = render(&fs::read_to_string(&file).expect("values"));
        let config_map = objects.iter().find(|object| object["data"]["settings.yaml"].is_string());
        let text = config_map.expect("settings")["data"]["settings.yaml"].as_str().expect("text");
        load(text, &Overrides::default(), Timestamp::UNIX_EPOCH)
            .unwrap_or_else(|problems| panic!("{file:?}: {problems:?}"));
    }
    let settings = "addresses: {grafana: 'https://grafana.acme.io'}\nsettings: {api: {values: full}}";
    let objects = render(settings);
    let text = one(&objects, "ConfigMap")["data"]["settings.yaml"].as_str().expect("text").to_owned();
    assert_eq!(text, "api:\n  grafana_url: https://grafana.acme.io\n  values: full\n");
}

#[test]
fn monitors_set_honor_labels() {
    let objects = ci("operator");
    let monitor = one(&objects, "ServiceMonitor");
    assert_eq!(monitor["metadata"]["labels"]["release"], "kube-prometheus-stack");
    assert_eq!(monitor["metadata"]["labels"]["team"], "platform");
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!(
        *endpoint,
        json!({"port": "http", "path": "/metrics", "honorLabels": true, "scheme": "http", "interval": "30s",
            "relabelings": [{"targetLabel": "cluster", "replacement": "prod"}]})
    );
    let selected = monitor["spec"]["selector"]["matchLabels"].as_object().expect("labels");
    let labels = &one(&objects, "Service")["metadata"]["labels"];
    assert!(selected.iter().all(|(name, value)| labels[name] == *value), "{selected:?} {labels}");
    // Without a namespace selector, the monitor selects its own namespace, also after kustomize changes it.
    assert!(monitor["spec"]["namespaceSelector"].is_null(), "{monitor}");
    let elsewhere = render("serviceMonitor: {enabled: true, namespace: monitoring}");
    let selected = &one(&elsewhere, "ServiceMonitor")["spec"]["namespaceSelector"];
    assert_eq!(*selected, json!({"matchNames": ["drift-exporter"]}));
    let objects = ci("namespaced");
    let monitor = &one(&objects, "PodMonitor")["spec"];
    assert_eq!(monitor["podMetricsEndpoints"][0]["honorLabels"], true);
    let pod = &one(&objects, "Deployment")["spec"]["template"]["metadata"]["labels"];
    assert_eq!(monitor["selector"]["matchLabels"], *pod);
}

#[test]
fn alert_rules_match_the_repository_with_configured_links() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut expected = Vec::new();
    for name in ["baselines", "exporter", "objective", "resources"] {
        let text = fs::read_to_string(root.join(format!("alerts/rules/{name}.yaml"))).expect("rules");
        let linked = text
            .replace("https://drift.example.com", "https://drift.acme.io")
            .replace("https://grafana.example.com", "https://grafana.acme.io")
            .replace("https://runbooks.example.com/drift-exporter", "https://wiki.acme.io/drift");
        let file: Value = serde_saphyr::from_str(&linked).expect("rules");
        expected.extend(file["groups"].as_array().expect("groups").clone());
    }
    for group in &mut expected {
        group["rules"].as_array_mut().expect("rules").retain(|rule| rule["alert"] != "DriftAbsorbed");
    }
    let objects = ci("operator");
    let rule = one(&objects, "PrometheusRule");
    assert_eq!(rule["spec"]["groups"], Value::Array(expected));
    assert!(
        rule.to_string().contains("{{ $labels.kind }}") && !rule.to_string().contains("example.com"),
        "{rule}"
    );
    // Without addresses, the links are the placeholders of the guide.
    let placeholders = render("prometheusRule: {enabled: true}");
    assert!(one(&placeholders, "PrometheusRule").to_string().contains("https://drift.example.com/"));
}

#[test]
fn each_dashboard_is_a_config_map_with_the_sidecar_label() {
    let copy = tempfile::tempdir().expect("a folder");
    let chart = copy.path().join("chart");
    let status = std::process::Command::new("cp").arg("-r").arg(folder()).arg(&chart).status();
    assert!(status.is_ok_and(|status| status.success()));
    fs::create_dir_all(chart.join("dashboards")).expect("a folder");
    let dashboard = r#"{"title": "Try", "legendFormat": "{{namespace}} {{ .Values }}", "link": "https://drift.example.com/x"}"#.to_owned() + "\n";
    fs::write(chart.join("dashboards/try.json"), &dashboard).expect("written");
    let there = fs::read_dir(chart.join("dashboards")).expect("a folder").count();
    let values = "dashboards: {enabled: true, namespace: grafana, annotations: {grafana_folder: Drift}}\naddresses: {page: 'https://drift.acme.io'}\n";
    let objects = render_from(&chart, values);
    let found: Vec<&Value> =
        objects.iter().filter(|object| object["metadata"]["labels"]["grafana_dashboard"] == "1").collect();
    assert_eq!(found.len(), there);
    let try_dashboard = found
        .iter()
        .find(|object| object["metadata"]["name"] == "drift-exporter-try")
        .expect("the dashboard");
    assert_eq!(try_dashboard["data"]["try.json"], dashboard.replace("drift.example.com", "drift.acme.io"));
    assert_eq!(try_dashboard["metadata"]["namespace"], "grafana");
    assert_eq!(try_dashboard["metadata"]["annotations"]["grafana_folder"], "Drift");
}

#[test]
fn certificate_enables_tls_everywhere() {
    let objects = ci("guarded");
    let container = container(&objects);
    assert_eq!(container["livenessProbe"]["httpGet"]["scheme"], "HTTP", "probes have a port of their own");
    let arguments = words(&container["args"]);
    assert!(arguments.contains(&"--web.auth=kubernetes"), "{arguments:?}");
    assert!(arguments.contains(&"--web.config.file=/etc/drift-exporter/web/web-config.yml"), "{arguments:?}");
    let image = container["image"].as_str().expect("an image");
    assert!(image.starts_with("registry.example.com/drift-exporter@sha256:"), "{image}");
    let endpoint = &one(&objects, "ServiceMonitor")["spec"]["endpoints"][0];
    assert_eq!(endpoint["scheme"], "https");
    assert_eq!(endpoint["bearerTokenFile"], "/var/run/secrets/kubernetes.io/serviceaccount/token");
    let web = one(&objects, "Secret")["stringData"]["web-config.yml"].as_str().expect("a file").to_owned();
    let files = "cert_file: /etc/drift-exporter/tls/tls.crt\n  key_file: /etc/drift-exporter/tls/tls.key\n";
    assert_eq!(web, format!("tls_server_config:\n  {files}"));
    load_web(&web, Path::new("/etc/drift-exporter/web")).unwrap_or_else(|problems| panic!("{problems:?}"));
    let volumes = &one(&objects, "Deployment")["spec"]["template"]["spec"]["volumes"];
    assert_eq!(
        volumes[2],
        json!({"name": "tls", "secret": {"secretName": "drift-exporter-tls", "defaultMode": 0o440}})
    );
}

#[test]
fn certificate_is_served_with_any_other_settings() {
    let served = |values: &str| {
        let objects = render(values);
        assert_eq!(one(&objects, "ServiceMonitor")["spec"]["endpoints"][0]["scheme"], "https", "{values}");
        objects
    };
    for (config, certificate) in [
        ("{http_server_config: {headers: {X-Frame-Options: deny}}}", "/etc/drift-exporter/tls/tls.crt"),
        ("{tls_server_config: {min_version: TLS13}}", "/etc/drift-exporter/tls/tls.crt"),
        ("{tls_server_config: }", "/etc/drift-exporter/tls/tls.crt"),
        ("{tls_server_config: {cert_file: /own.crt, key_file: /own.key}}", "/own.crt"),
    ] {
        let values = format!("web: {{tlsSecret: mine, config: {config}}}\nserviceMonitor: {{enabled: true}}");
        let objects = served(&values);
        let web = one(&objects, "Secret")["stringData"]["web-config.yml"].as_str().expect("a file");
        let web = load_web(web, Path::new("/")).unwrap_or_else(|problems| panic!("{values}: {problems:?}"));
        assert_eq!(web.tls.expect("TLS").certificate, Pem::File(certificate.into()), "{values}");
    }
    served("web: {tlsSecret: mine, existingSecret: other}\nserviceMonitor: {enabled: true}");
    let unserved =
        render("web: {config: {tls_server_config: {min_version: TLS13}}}\nserviceMonitor: {enabled: true}");
    let scheme = &one(&unserved, "ServiceMonitor")["spec"]["endpoints"][0]["scheme"];
    assert_eq!(scheme, "http", "no certificate, no TLS");
}

#[test]
fn names_stay_strings_in_yaml() {
    let values = "settings: {namespaces: [\"no\", \"123\"], sources: {terraform: {namespaces: [\"1e3\"]}}}\n\
                  web: {tlsSecret: \"77\"}\nserviceMonitor: {enabled: true, namespace: \"8\"}\nprometheusRule: {enabled: true}\n\
                  dashboards: {enabled: true}\nnetworkPolicy: {enabled: true}\npodDisruptionBudget: {enabled: true}\npriorityClassName: \"1\"\n";
    for more in ["", "fullnameOverride: \"456\"\nnameOverride: \"on\"\nserviceAccount: {name: \"9\"}\n"] {
        for object in render_as("123", "456", &format!("{values}{more}")) {
            let metadata = &object["metadata"];
            let labels = metadata["labels"].as_object().expect("labels").values();
            assert!(metadata["name"].is_string() && labels.into_iter().all(Value::is_string), "{object:#}");
            assert!(metadata["namespace"].is_string() || metadata["namespace"].is_null(), "{object:#}");
            for pointer in [
                "/roleRef/name",
                "/subjects/0/name",
                "/subjects/0/namespace",
                "/spec/namespaceSelector/matchNames/0",
                "/spec/selector/matchLabels/app.kubernetes.io~1instance",
                "/spec/selector/matchLabels/app.kubernetes.io~1name",
                "/spec/template/spec/serviceAccountName",
                "/spec/template/spec/priorityClassName",
                "/spec/template/spec/volumes/0/configMap/name",
                "/spec/template/spec/volumes/1/secret/secretName",
                "/spec/template/spec/volumes/2/secret/secretName",
            ] {
                assert!(object.pointer(pointer).is_none_or(Value::is_string), "{pointer}: {object:#}");
            }
        }
    }
}

#[test]
fn object_labels_override_common_labels() {
    let objects = render(
        "commonLabels: {team: platform, a: b}\nserviceMonitor: {enabled: true, labels: {team: metrics}}",
    );
    let labels = &one(&objects, "ServiceMonitor")["metadata"]["labels"];
    assert_eq!((&labels["team"], &labels["a"]), (&json!("metrics"), &json!("b")));
    assert_eq!(one(&objects, "Service")["metadata"]["labels"]["team"], "platform");
}

#[test]
fn passwords_are_stored_in_a_secret() {
    let objects = ci("passwords");
    let web = one(&objects, "Secret")["stringData"]["web-config.yml"].as_str().expect("a file");
    load_web(web, Path::new("/etc/drift-exporter/web")).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert!(
        objects
            .iter()
            .filter(|object| object["kind"] != "Secret")
            .all(|object| !object.to_string().contains("$2y$"))
    );
    assert_eq!(one(&objects, "ServiceMonitor")["spec"]["endpoints"][0]["scheme"], "http");
    assert_eq!(container(&objects)["livenessProbe"], json!({"tcpSocket": {"port": "http"}}));
    let given = render("web: {existingSecret: mine, scheme: https}\nserviceMonitor: {enabled: true}");
    assert!(!kinds(&given).contains(&"Secret"));
    assert_eq!(
        one(&given, "Deployment")["spec"]["template"]["spec"]["volumes"][1]["secret"]["secretName"],
        "mine"
    );
    assert_eq!(one(&given, "ServiceMonitor")["spec"]["endpoints"][0]["scheme"], "https");
}

#[test]
fn network_policy_allows_only_scrapes_and_the_api_server() {
    let objects = ci("operator");
    let policy = &one(&objects, "NetworkPolicy")["spec"];
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["ingress"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        policy["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"],
        "monitoring"
    );
    let ports = |rule: &Value| -> Vec<u64> {
        rule["ports"].as_array().expect("ports").iter().filter_map(|port| port["port"].as_u64()).collect()
    };
    let egress: Vec<Vec<u64>> = policy["egress"].as_array().expect("rules").iter().map(ports).collect();
    assert_eq!(egress, [vec![53, 53], vec![443, 6443]]);
    assert_eq!(one(&objects, "PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
}

/// The examples of values in a guide.
fn values_of_guide(name: &str) -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let guide = fs::read_to_string(guide).expect("the guide");
    let examples = guide.split("```yaml\n# values.yaml\n").skip(1);
    examples.map(|example| example.split("```").next().expect("an end").to_owned()).collect()
}

#[test]
fn chart_accepts_the_values_of_the_guides() {
    let (install, quickstart) = (values_of_guide("docs/install.md"), values_of_guide("docs/quickstart.md"));
    assert!(install.len() > 5 && quickstart.len() == 1, "{install:?} {quickstart:?}");
    for values in install.iter().chain(&quickstart) {
        let objects = render(values);
        let text = objects.iter().find_map(|object| object["data"]["settings.yaml"].as_str());
        load(text.expect("settings"), &Overrides::default(), Timestamp::UNIX_EPOCH)
            .unwrap_or_else(|problems| panic!("{values}: {problems:?}"));
        let containers = one(&objects, "Deployment")["spec"]["template"]["spec"]["containers"].as_array();
        for beside in containers.expect("containers").iter().skip(1) {
            // git-sync stores its credentials in /tmp, and its root file system is read-only.
            let mounts = beside["volumeMounts"].as_array().expect("mounts");
            assert!(mounts.iter().any(|mount| mount["mountPath"] == "/tmp"), "{beside}");
        }
    }
    // The quick start covers a source with field differences, a scrape, and alert rules.
    let objects = render(&quickstart[0]);
    assert!(["ServiceMonitor", "PrometheusRule"].iter().all(|kind| kinds(&objects).contains(kind)));
    let settings = one(&objects, "ConfigMap")["data"]["settings.yaml"].as_str().expect("settings");
    let sources =
        load(settings, &Overrides::default(), Timestamp::UNIX_EPOCH).expect("settings").settings.sources;
    assert!(sources.contains(&Source::LastApplied), "{sources:?}");
}
