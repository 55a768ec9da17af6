//! Declared and live values per field, and commands to inspect, revert or accept a difference.

use drift_exporter::{
    config::{Settings, ShownValues},
    rules::{RuleConfig, RuleSet, RuleSpec},
    types::{Kind, Source, WantedKind},
};
use serde_json::{Value, json};

use super::{assert_contains, assert_not_contains, between};
use crate::support::{
    api_server::ApiServer,
    exporter_fixture::ExporterFixture,
    live_objects::{deployment, edited},
};

/// A Deployment with a last-applied annotation and a live spec.
fn applied(name: &str, declared: &Value, live: Value) -> Value {
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": declared,
        "metadata": {"namespace": "shop", "name": name}});
    let mut object = edited(deployment(name), 1);
    object["spec"] = live;
    object["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()});
    object
}

fn with_script(replicas: u32, script: &str) -> Value {
    json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "a:1", "command": ["sh", "-c", script]}]}}})
}

async fn start_with_drift(settings: Settings) -> ExporterFixture {
    let script: Vec<String> = (0..20).map(|line| format!("echo {line}")).collect();
    let changed = script.join("\n").replace("echo 10", "echo <ten>");
    let api = ApiServer::default();
    api.put("deployments", applied("web", &with_script(3, &script.join("\n")), with_script(5, &changed)));
    let settings = Settings {
        sources: vec![Source::LastApplied],
        kinds: vec![WantedKind::exactly(&Kind::deployment())],
        ..settings
    };
    let exporter = ExporterFixture::ready_with(&api, settings).await;
    exporter.wait_idle().await;
    exporter
}

#[tokio::test(start_paused = true)]
async fn difference_shows_values_tool_and_time() {
    let exporter =
        start_with_drift(Settings { shown_values: ShownValues::Full, ..Settings::default() }).await;
    let page = exporter.get("/objects/deployment/shop/web").await;
    let text = page.text();
    let replicas = between(&text, "<code class=\"path\">spec.replicas</code>", "</tbody>");
    for part in [
        "<td class=\"old\" data-label=\"Declared\"><code><del>3</del></code></td>",
        "<td class=\"new\" data-label=\"Actual\"><code><ins>5</ins></code></td>",
        "by kubectl",
        "<time",
    ] {
        assert!(replicas.contains(part), "no {part} in {replicas}");
    }
}

#[tokio::test(start_paused = true)]
async fn object_page_shows_commands_to_inspect_revert_and_accept() {
    let exporter = start_with_drift(Settings::default()).await;
    let page = exporter.get("/objects/deployment/shop/web").await;
    for command in [
        "kubectl -n shop get deployments.apps web -o yaml --show-managed-fields",
        "drift-exporter explain -n shop deployments.apps/web",
        "kubectl -n shop apply view-last-applied deployments.apps/web -o yaml | kubectl diff -f -",
        "kubectl -n shop apply view-last-applied deployments.apps/web -o yaml | kubectl apply -f -",
        "kubectl -n shop apply edit-last-applied deployments.apps/web",
    ] {
        assert_contains(&page, &format!("<pre data-copy><code>{command}</code></pre>"));
    }
    for title in ["Inspect", "Revert", "Accept"] {
        assert_contains(&page, &format!("<h3>{title}</h3>"));
    }
}

#[tokio::test(start_paused = true)]
async fn suggested_rule_accepts_the_drift() {
    let exporter = start_with_drift(Settings::default()).await;
    let page = exporter.get("/objects/deployment/shop/web").await.text();
    let yaml = between(&page, "<pre data-copy><code>- name: accepted-", "</code>");
    let yaml = format!("- name: accepted-{yaml}").replace("&quot;", "\"").replace("&gt;", ">");
    let rules: Vec<RuleSpec> = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(rules.len(), 2, "{yaml}");
    let pinned: Vec<usize> = rules.iter().map(|rule| rule.matches.values.len()).collect();
    assert_eq!(pinned.iter().sum::<usize>(), 1, "redacted values are not pinned: {yaml}");
    let rules = RuleSet::compile(&RuleConfig { rules, ..RuleConfig::default() }).unwrap();
    exporter.rules(rules).await;
    let page = exporter.get("/objects/deployment/shop/web").await;
    assert_contains(&page, "It differs, and rules ignore all of it.");
    assert_not_contains(&page, "<h3>Revert</h3>");
}

#[tokio::test(start_paused = true)]
async fn timeline_shows_past_verdicts() {
    let exporter = start_with_drift(Settings::default()).await;
    let quiet = exporter.get("/objects/deployment/shop/web").await;
    assert_contains(&quiet, "aria-label=\"last_applied: drifted for");
    exporter.api.put("deployments", applied("web", &with_script(3, "x"), with_script(3, "x")));
    exporter.wait_idle().await;
    let page = exporter.get("/objects/deployment/shop/web").await;
    let text = page.text();
    let lane = between(&text, "aria-label=\"last_applied: ", "</svg>");
    assert!(lane.contains("drifted for") && lane.contains(", then in sync for"), "{lane}");
    assert!(lane.contains("class=\"fill-drifted\"") && lane.contains("class=\"fill-in_sync\""), "{lane}");
    assert!(lane.contains("class=\"onset\""), "{lane}");
    assert_not_contains(&page, "style=");
}

#[tokio::test(start_paused = true)]
async fn object_page_links_to_grafana_if_configured() {
    let plain = start_with_drift(Settings::default()).await;
    assert_not_contains(&plain.get("/objects/deployment/shop/web").await, "Grafana");
    let grafana_url = Some("https://grafana.example.com/team".into());
    let exporter = start_with_drift(Settings { grafana_url, ..Settings::default() }).await;
    let url = "https://grafana.example.com/team/d/drift-exporter-object?var-group=apps&amp;var-kind=Deployment&amp;var-namespace=shop&amp;var-name=web";
    assert_contains(&exporter.get("/objects/deployment/shop/web").await, &format!("href=\"{url}\""));
}
