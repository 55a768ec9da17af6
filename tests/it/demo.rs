//! `drift-exporter demo`, as people run it.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};

use crate::programs::{
    demo::Demo,
    wait::{PATIENCE, eventually},
};

/// Sends a request to the embedded API server, and gives the status line.
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

/// `VmHWM` is the most that it ever had in memory, `RssAnon` what it has now without the program's own file.
fn memory(demo: &Demo, which: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", demo.running.pid())).unwrap();
    let (_, line) =
        status.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| *name == which).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

const SCALE: &str = "/apis/apps/v1/namespaces/shop/deployments/web/scale";
const WEB: &str = "/objects/deployment.apps/shop/web";

/// `make bench` measures how long it takes to the first page on a clock.
#[test]
fn the_first_page_takes_less_than_two_seconds_of_cpu_time_and_ctrl_c_leaves_nothing_behind() {
    let mut demo = Demo::start(&["--no-story"]);
    assert!(demo.first_page < Duration::from_secs(2), "{:?} of CPU time", demo.first_page);
    let page = demo.get("/").text();
    assert!(page.contains("<a href=\"/objects/deployments.apps/shop/web\">web</a>"), "{page}");
    // The file of a build for tests is three times as large as that of a release: what it maps is left out.
    let memory = memory(&demo, "RssAnon");
    assert!(memory < 16 << 20, "{} MiB", memory >> 20);
    leaves_nothing_behind(&mut demo, "INT");
}

#[test]
fn a_closed_terminal_ends_it_as_well() {
    leaves_nothing_behind(&mut Demo::start(&["--no-story"]), "HUP");
}

#[track_caller]
fn leaves_nothing_behind(demo: &mut Demo, signal: &str) {
    let folder = demo.kubeconfig.parent().unwrap().to_owned();
    assert!(folder.exists());
    demo.running.signal(signal);
    assert_eq!(demo.running.wait(), Some(0), "{}", demo.said());
    assert!(!folder.exists(), "{}", folder.display());
}

#[test]
fn it_stays_small_however_much_happens() {
    let demo = Demo::start(&["--speed", "100"]);
    let api = demo.api_port();
    // More than is remembered, while the story plays a round a second.
    for round in 0..5000 {
        let label = format!(r#"{{"metadata":{{"labels":{{"round":"{round}"}}}}}}"#);
        assert_eq!(patch(api, "/apis/apps/v1/namespaces/shop/deployments/web", &label), "HTTP/1.1 200 OK");
    }
    let memory = memory(&demo, "RssAnon");
    assert!(memory < 20 << 20, "{} MiB", memory >> 20);
}

#[test]
fn where_few_files_may_be_open_connections_wait_and_the_page_goes_on() {
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
    // Each of them is accepted, and answered or closed for another one.
    for watcher in &mut watchers {
        let silent = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!watcher.read(&mut [0]).is_err_and(silent), "a watcher still waits");
    }
    assert_eq!(demo.get("/").status, 200);
    assert!(!demo.said().contains("Too many open files"), "{}", demo.said());
    drop(watchers);
    eventually("there is room again", || {
        patch(api, SCALE, r#"{"spec":{"replicas":7}}"#).contains("200").then_some(())
    });
}

#[test]
fn a_folder_that_cannot_be_written_to_is_named_with_what_to_do() {
    let ended = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
        .args(["demo", "--web.listen-address", "127.0.0.1:0"])
        .env("TMPDIR", "/nonesuch/folder")
        .output()
        .unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(stderr.contains("/nonesuch/folder") && stderr.contains("set TMPDIR"), "{stderr}");
}

/// The lines of `/v1/events` from now on.
fn events(demo: &Demo) -> impl Iterator<Item = String> {
    let mut stream = TcpStream::connect(("127.0.0.1", demo.port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.find(|line| line == "event: changed").unwrap();
    lines
}

/// `make bench` measures how long it takes until an edit is visible.
#[test]
fn an_edit_is_on_the_page_with_its_event_and_its_tool_and_the_way_back_is_an_episode_in_the_history() {
    let demo = Demo::start(&["--no-story"]);
    let (api, mut events) = (demo.api_port(), events(&demo));
    for replicas in [7, 3, 8, 3] {
        assert_eq!(patch(api, SCALE, &format!(r#"{{"spec":{{"replicas":{replicas}}}}}"#)), "HTTP/1.1 200 OK");
        let (word, verdict) = if replicas == 3 { ("in sync", "in_sync") } else { ("drifted", "drifted") };
        events.find(|line| line == "event: transition").unwrap();
        let data = events.find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).unwrap();
        let transition: Value = serde_json::from_str(&data).unwrap();
        assert_eq!((&transition["name"], &transition["to"]), (&"web".into(), &verdict.into()));
        // No page that is loaded after the event is older than it.
        let page = demo.get(WEB).text().to_lowercase();
        let headline = page.split("id=\"headline-annotation\"").nth(1).unwrap().split("</p>").next().unwrap();
        assert!(headline.contains(word), "{headline}");
    }
    let ended = demo.transitions().into_iter().next().unwrap();
    assert_eq!(
        (&ended["name"], &ended["from"], &ended["to"]),
        (&"web".into(), &"drifted".into(), &"in_sync".into())
    );
    assert!(demo.get(WEB).text().contains("kubectl"));
}

/// Who makes what drift in the story, and how that ends.
const TURNS: &[&str] = &[
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
fn the_story_goes_through_every_end_of_an_episode_and_begins_again() {
    let demo = Demo::start(&["--speed", "10"]);
    let seen = eventually("a whole round", || {
        let transitions = demo.transitions();
        let text = |transition: &serde_json::Value, name: &str| {
            let kind =
                if transition["source"] == "terraform" { transition["kind"].as_str().unwrap() } else { "" };
            let object = format!("{kind} {}", transition["name"].as_str().unwrap());
            format!("{} {}", object.trim(), transition[name].as_str().unwrap_or("-"))
        };
        let rounds = transitions.iter().filter(|own| text(own, "cause") == "catalog reverted").count();
        let seen: BTreeSet<String> =
            transitions.iter().flat_map(|own| [text(own, "cause"), text(own, "actor")]).collect();
        (rounds >= 2).then_some(seen)
    });
    let nobodys = |own: &&String| own.ends_with(" none") && *own != "NetworkPolicy refunds none";
    assert_eq!(seen.iter().find(nobodys), None, "of what was deleted nobody knows by whom: {seen:?}");
    for wanted in TURNS {
        assert!(seen.contains(*wanted), "{wanted} is not among {seen:?}");
    }
    // What Terraform and Helm do is what is declared from then on.
    let is_tools_own = |own: &&String| own.ends_with(" terraform") || own.ends_with(" helm");
    assert_eq!(seen.iter().find(is_tools_own), None, "{seen:?}");
    let said = demo.said();
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
        assert!(said.contains(wanted), "{wanted} is not in\n{said}");
    }
    assert!(!said.contains("failed"), "{said}");
}

#[test]
fn what_helm_manages_is_as_its_release_says_and_both_are_told() {
    let demo = Demo::start(&["--no-story"]);
    let claims = || -> Vec<String> {
        let all = demo
            .get("/v1/resources?namespace=platform&fields=resourceName,source,verdict,address,state")
            .json();
        let own = all["resources"].as_array().unwrap().iter().filter(|own| own["source"] == "helm");
        let words = ["resourceName", "verdict", "address", "state"];
        own.map(|own| words.map(|word| own[word].as_str().unwrap_or("-")).join(" ")).collect()
    };
    let wanted = [
        "notifier-messages in_sync notifier/templates/messages.yaml platform/notifier",
        "notifier in_sync notifier/templates/deployment.yaml platform/notifier",
        "notifier in_sync notifier/templates/service.yaml platform/notifier",
    ];
    let wanted: BTreeSet<String> = wanted.map(ToOwned::to_owned).into();
    eventually("all of it is as declared", || {
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
    let again = "helm rollback -n platform notifier 1";
    assert!(!page.contains(again), "nothing has to be put back");
    let path = "/apis/apps/v1/namespaces/platform/deployments/notifier?fieldManager=kubectl-edit";
    assert_eq!(patch(demo.api_port(), path, r#"{"spec":{"replicas":7}}"#), "HTTP/1.1 200 OK");
    eventually("the page says how to put it back", || {
        demo.get("/objects/deployment.apps/platform/notifier").text().contains(again).then_some(())
    });
}

#[test]
fn what_kubectl_applied_drifts_with_its_field_and_tool_and_goes_back() {
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
    let ended = demo.transitions().into_iter().next().unwrap();
    assert_eq!((&ended["name"], &ended["cause"]), (&"banner".into(), &"reverted".into()));
}

#[test]
fn a_port_that_is_taken_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
        .args(["demo", "--web.listen-address", &address])
        .output()
        .unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(stderr.contains(&address) && stderr.contains("--web.listen-address"), "{stderr}");
}
