//! The command `drift-exporter demo`.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    demo::Demo,
    memory::memory_kib,
    wait::{PATIENCE, eventually},
};

/// Patches an object in the embedded API server and returns the status line.
pub(crate) fn patch(port: u16, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "PATCH {path} HTTP/1.1\r\nhost: localhost\r\nuser-agent: kubectl/v1.36\r\nconnection: close\r\n\
         content-type: application/merge-patch+json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

const SCALE: &str = "/apis/apps/v1/namespaces/shop/deployments/web/scale";
const WEB: &str = "/objects/deployment.apps/shop/web";

/// `make bench` measures the wall-clock time to the first page.
#[test]
fn first_page_is_cheap_and_interrupt_cleans_up() {
    let mut demo = Demo::start(&["--no-story"]);
    assert!(demo.first_page < Duration::from_secs(2), "{:?} of CPU time", demo.first_page);
    let page = demo.get("/").text();
    assert!(page.contains("<a href=\"/objects/deployments.apps/shop/web\">web</a>"), "{page}");
    // Mapped files do not count: a test binary is three times the size of a release binary.
    let memory = memory_kib(demo.running.pid(), "RssAnon");
    assert!(memory < 16 << 10, "{} MiB", memory >> 10);
    assert_clean_exit(&mut demo, "INT");
}

#[test]
fn hangup_cleans_up() {
    assert_clean_exit(&mut Demo::start(&["--no-story"]), "HUP");
}

#[track_caller]
fn assert_clean_exit(demo: &mut Demo, signal: &str) {
    let folder = demo.kubeconfig.parent().unwrap().to_owned();
    assert!(folder.exists());
    demo.running.signal(signal);
    assert_eq!(demo.running.wait(), Some(0), "{}", demo.output());
    assert!(!folder.exists(), "{}", folder.display());
}

#[test]
fn memory_stays_bounded_under_many_changes() {
    let demo = Demo::start(&["--speed", "100"]);
    let api = demo.api_port();
    // More changes than the history keeps, while the story runs once per second.
    for round in 0..5000 {
        let label = format!(r#"{{"metadata":{{"labels":{{"round":"{round}"}}}}}}"#);
        assert_eq!(patch(api, "/apis/apps/v1/namespaces/shop/deployments/web", &label), "HTTP/1.1 200 OK");
    }
    let memory = memory_kib(demo.running.pid(), "RssAnon");
    assert!(memory < 20 << 10, "{} MiB", memory >> 10);
}

#[test]
fn low_file_limit_queues_connections_and_keeps_the_page_up() {
    let demo = Demo::start_after("ulimit -n 128", &["--no-story"]);
    let api = demo.api_port();
    let watch = "GET /api/v1/services?watch=1 HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut watchers: Vec<TcpStream> = (0..110)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", api)).unwrap();
            stream.write_all(watch.as_bytes()).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        })
        .collect();
    // The server accepts each connection and either responds or closes it to accept another one.
    for watcher in &mut watchers {
        let silent = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!watcher.read(&mut [0]).is_err_and(silent), "a watcher got no response");
    }
    assert_eq!(demo.get("/").status, 200);
    assert!(!demo.output().contains("Too many open files"), "{}", demo.output());
    drop(watchers);
    eventually("the server accepts connections again", || {
        patch(api, SCALE, r#"{"spec":{"replicas":7}}"#).contains("200").then_some(())
    });
}

#[test]
fn unwritable_directory_error_suggests_tmpdir() {
    let output = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
        .args(["demo", "--web.listen-address", "127.0.0.1:0"])
        .env("TMPDIR", "/nonesuch/folder")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("/nonesuch/folder") && stderr.contains("set TMPDIR"), "{stderr}");
}

/// The lines of `/v1/events`, starting now.
fn events(demo: &Demo) -> impl Iterator<Item = String> {
    let mut stream = TcpStream::connect(("127.0.0.1", demo.port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.find(|line| line == "event: changed").unwrap();
    lines
}

/// `make bench` measures the time until an edit is visible.
#[test]
fn edit_shows_on_the_page_and_revert_ends_the_episode() {
    let demo = Demo::start(&["--no-story"]);
    let (api, mut events) = (demo.api_port(), events(&demo));
    for replicas in [7, 3, 8, 3] {
        assert_eq!(patch(api, SCALE, &format!(r#"{{"spec":{{"replicas":{replicas}}}}}"#)), "HTTP/1.1 200 OK");
        let (word, verdict) = if replicas == 3 { ("in sync", "in_sync") } else { ("drifted", "drifted") };
        events.find(|line| line == "event: transition").unwrap();
        let data = events.find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).unwrap();
        let transition: Value = serde_json::from_str(&data).unwrap();
        assert_eq!((&transition["name"], &transition["to"]), (&"web".into(), &verdict.into()));
        // A page loaded after the event shows at least its state.
        let page = demo.get(WEB).text().to_lowercase();
        let headline = page.split("id=\"headline-annotation\"").nth(1).unwrap().split("</p>").next().unwrap();
        assert!(headline.contains(word), "{headline}");
    }
    let resolved = demo.transitions().into_iter().next().unwrap();
    assert_eq!(
        (&resolved["name"], &resolved["from"], &resolved["to"]),
        (&"web".into(), &"drifted".into(), &"in_sync".into())
    );
    assert!(demo.get(WEB).text().contains("kubectl"));
}

/// Actors and resolution causes of the story.
const STORY_TRANSITIONS: &[&str] = &[
    "catalog kubectl",
    "catalog reverted",
    "checkout kubectl",
    "checkout absorbed",
    "search autoscaler",
    "search reverted",
    "ledger kubectl",
    "ledger reverted",
    "cart kubectl",
    "cart deleted",
    "Deployment checkout-eu kubectl",
    "Deployment checkout-eu reverted",
    "Deployment checkout-us autoscaler",
    "Deployment checkout-us reverted",
    "Deployment refunds kubectl",
    "Deployment refunds absorbed",
    "ConfigMap exchange-rates kubectl",
    "ConfigMap exchange-rates reverted",
    "Secret psp-credentials kubectl",
    "Secret psp-credentials reverted",
    "NetworkPolicy refunds none",
    "banner kubectl",
    "banner reverted",
    "notifier kubectl",
    "notifier reverted",
];

#[test]
fn story_covers_every_resolution_cause_and_repeats() {
    let demo = Demo::start(&["--speed", "10"]);
    let seen = eventually("the story has run once", || {
        let transitions = demo.transitions();
        let text = |transition: &serde_json::Value, name: &str| {
            let kind =
                if transition["source"] == "terraform" { transition["kind"].as_str().unwrap() } else { "" };
            let object = format!("{kind} {}", transition["name"].as_str().unwrap());
            format!("{} {}", object.trim(), transition[name].as_str().unwrap_or("-"))
        };
        let rounds =
            transitions.iter().filter(|transition| text(transition, "cause") == "catalog reverted").count();
        let seen: BTreeSet<String> = transitions
            .iter()
            .flat_map(|transition| [text(transition, "cause"), text(transition, "actor")])
            .collect();
        (rounds >= 2).then_some(seen)
    });
    let has_no_actor = |entry: &&String| entry.ends_with(" none") && *entry != "NetworkPolicy refunds none";
    assert_eq!(seen.iter().find(has_no_actor), None, "only the deletion has no actor: {seen:?}");
    for wanted in STORY_TRANSITIONS {
        assert!(seen.contains(*wanted), "{wanted} is not among {seen:?}");
    }
    // Terraform and Helm change the declared state, so they never cause drift.
    let by_declaring_tool = |entry: &&String| entry.ends_with(" terraform") || entry.ends_with(" helm");
    assert_eq!(seen.iter().find(by_declaring_tool), None, "{seen:?}");
    let output = demo.output();
    for wanted in [
        "alice",
        "bob",
        "autoscaler",
        "carol",
        "dave",
        "erin",
        "frank",
        "terraform",
        "helm",
        "> drift",
        "> reverted",
        "> absorbed",
    ] {
        assert!(output.contains(wanted), "{wanted} is not in\n{output}");
    }
    assert!(!output.contains("failed"), "{output}");
}

#[test]
fn helm_release_is_in_sync_and_pages_show_it() {
    let demo = Demo::start(&["--no-story"]);
    let claims = || -> Vec<String> {
        let all = demo
            .get("/v1/resources?namespace=platform&fields=resourceName,source,verdict,address,state")
            .json();
        let helm_claims =
            all["resources"].as_array().unwrap().iter().filter(|claim| claim["source"] == "helm");
        let words = ["resourceName", "verdict", "address", "state"];
        helm_claims.map(|claim| words.map(|word| claim[word].as_str().unwrap_or("-")).join(" ")).collect()
    };
    let wanted = [
        "notifier-messages in_sync notifier/templates/messages.yaml platform/notifier",
        "notifier in_sync notifier/templates/deployment.yaml platform/notifier",
        "notifier in_sync notifier/templates/service.yaml platform/notifier",
    ];
    let wanted: BTreeSet<String> = wanted.map(ToOwned::to_owned).into();
    eventually("all claims of the release are in sync", || {
        (claims().into_iter().collect::<BTreeSet<_>>() == wanted).then_some(())
    });
    let page = demo.get("/sources").text();
    for word in ["Helm releases", "platform/notifier", "notifier-0.4.1", "deployed"] {
        assert!(page.contains(word), "{word} is not on the page");
    }
    let page = demo.get("/objects/deployment.apps/platform/notifier").text();
    for word in ["in release platform/notifier", "helm get manifest -n platform notifier"] {
        assert!(page.contains(word), "{word} is not on the page of the object");
    }
    let rollback = "helm rollback -n platform notifier 1";
    assert!(!page.contains(rollback), "without drift the page suggests no rollback");
    let path = "/apis/apps/v1/namespaces/platform/deployments/notifier?fieldManager=kubectl-edit";
    assert_eq!(patch(demo.api_port(), path, r#"{"spec":{"replicas":7}}"#), "HTTP/1.1 200 OK");
    eventually("the page suggests a rollback", || {
        demo.get("/objects/deployment.apps/platform/notifier").text().contains(rollback).then_some(())
    });
}

#[test]
fn last_applied_drift_has_field_and_manager_and_reverts() {
    const GREETING: &str = "spec.template.spec.containers[name=banner].env[name=GREETING].value";
    let demo = Demo::start(&["--no-story"]);
    let (api, path) =
        (demo.api_port(), "/apis/apps/v1/namespaces/marketing/deployments/banner?fieldManager=");
    let set = |manager: &str, greeting: &str| {
        let image = "registry.example/banner:1.3.0";
        let container = json!({"name": "banner", "image": image, "ports": [{"containerPort": 8085}], "env": [{"name": "GREETING", "value": greeting}]});
        let change = json!({"spec": {"template": {"spec": {"containers": [container]}}}}).to_string();
        assert_eq!(patch(api, &format!("{path}{manager}"), &change), "HTTP/1.1 200 OK");
    };
    let claim = |verdict: &str| {
        eventually("the claim of kubectl", || {
            let object = demo.get("/v1/resources/deployment.apps/marketing/banner").json();
            let claims = object["claims"].as_array()?;
            assert_eq!(claims.len(), 1, "{object}");
            assert_eq!(claims[0]["source"], "last_applied");
            (claims[0]["verdict"] == verdict).then(|| claims[0].clone())
        })
    };
    claim("in_sync");
    set("kubectl-edit", "Closed");
    let drifted = claim("drifted");
    let difference = &drifted["differences"][0];
    assert_eq!(drifted["differences"].as_array().map(Vec::len), Some(1), "{drifted}");
    assert_eq!(
        [&difference["path"], &difference["field"], &difference["actor"], &difference["manager"]],
        [GREETING, "env", "kubectl", "kubectl-edit"]
    );
    let page = demo.get("/objects/deployment.apps/marketing/banner").text();
    for word in [GREETING, "last_applied", "kubectl-edit"] {
        assert!(page.contains(word), "{word} is not on the page of the object");
    }
    let series =
        "{group=\"apps\",kind=\"Deployment\",namespace=\"marketing\",name=\"banner\",source=\"last_applied\"";
    let metrics = demo.get("/metrics").text();
    assert!(metrics.contains(&format!("drift_resource_drifted{series}}} 1\n")), "{metrics}");
    let onset = format!("drift_resource_drifted_timestamp_seconds{series}");
    let onset = metrics.lines().find(|line| line.starts_with(&onset)).unwrap();
    assert!(onset.contains("actor=\"kubectl\"") && onset.contains("field=\"env\""), "{onset}");
    set("kubectl-edit", "Free shipping on Fridays");
    claim("in_sync");
    let resolved = demo.transitions().into_iter().next().unwrap();
    assert_eq!((&resolved["name"], &resolved["cause"]), (&"banner".into(), &"reverted".into()));
}

#[test]
fn port_in_use_error_suggests_listen_address() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
        .args(["demo", "--web.listen-address", &address])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains(&address) && stderr.contains("--web.listen-address"), "{stderr}");
}
