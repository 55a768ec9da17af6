//! `get`, `diff` and `explain` on a fake exporter.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    cli_flags::{CommandOutput, run},
    support::{demo::UNCHANGED, wait::eventually},
};

/// Serves status and body that `respond` returns for a path and the number of earlier requests; returns the address.
pub(crate) fn fake_exporter(respond: impl Fn(&str, usize) -> (u16, String) + Send + 'static) -> String {
    fake_exporter_with_pace(respond, |_| {})
}

/// The same; calls `pace` before each event.
fn fake_exporter_with_pace(
    respond: impl Fn(&str, usize) -> (u16, String) + Send + 'static,
    pace: impl Fn(usize) + Clone + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut request_counts: BTreeMap<String, usize> = BTreeMap::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let path = path_of(&mut stream);
            let times =
                request_counts.entry(path.split('?').next().unwrap_or_default().to_owned()).or_default();
            let (status, body) = respond(&path, *times);
            *times += 1;
            let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            let pace = Some(pace.clone()).filter(|_| path == "/v1/events");
            std::thread::spawn(move || {
                for (at, frame) in body.split_inclusive("\n\n").enumerate() {
                    pace.iter().for_each(|pace| pace(at));
                    let _ = stream.write_all(frame.as_bytes());
                }
            });
        }
    });
    address
}

/// The path of a request.
fn path_of(stream: &mut TcpStream) -> String {
    let mut request = vec![0; 4096];
    let read = stream.read(&mut request).unwrap_or(0);
    String::from_utf8_lossy(&request[..read]).split(' ').nth(1).unwrap_or_default().to_owned()
}

/// A claim as the API returns it.
pub(crate) fn claim(namespace: &str, name: &str, drifted: bool) -> Value {
    let difference = json!({"path": "spec.replicas", "expected": "3", "actual": "7", "actor": "kubectl",
        "manager": "kubectl-edit", "onset": "2026-01-01T00:00:00Z", "rules": [], "ignoredBy": null});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "resourceName": name,
        "source": "terraform", "verdict": if drifted { "drifted" } else { "in_sync" }, "reason": null,
        "driftDetected": drifted, "onset": null, "severity": null, "expectation": null, "advice": null,
        "actor": null, "manager": null, "declaredBy": [], "ignored": [], "blindFields": [],
        "differences": if drifted { vec![difference] } else { vec![] }, "phase": "Running", "message": "",
    })
}

pub(crate) fn list(claims: &[Value]) -> String {
    json!({"resources": claims, "total": claims.len(), "namespace": "shop"}).to_string()
}

/// The status of an exporter that watches Deployments.
pub(crate) fn status() -> String {
    let stream =
        json!({"group": "apps", "kind": "Deployment", "state": "up", "reason": null, "message": null});
    json!({"ready": true, "streams": [stream], "sources": []}).to_string()
}

#[test]
fn watch_flag_retries_until_unauthorized() {
    let changed = "event: changed\ndata: {}\n\n".to_owned();
    let server =
        fake_exporter(move |path, times| match (path.split('?').next().unwrap_or_default(), times) {
            ("/v1/status", _) => (200, status()),
            ("/v1/resources", 0) => (200, list(&[claim("shop", "web", false)])),
            // One failed response does not end the command.
            ("/v1/resources", 1) => (503, json!({"detail": "in a moment"}).to_string()),
            ("/v1/resources", _) => (200, list(&[claim("shop", "web", true)])),
            ("/v1/events", 0) => (200, "retry: 1000\n\n".to_owned()),
            ("/v1/events", 1) => (503, json!({"detail": "restarting"}).to_string()),
            ("/v1/events", 2) => (200, changed.clone()),
            ("/v1/events", _) => (401, json!({"detail": "who are you?"}).to_string()),
            (other, _) => panic!("{other}"),
        });
    let ended = run(&["get", "-n", "shop", "-w", "--server", &server], "", &[]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert_eq!(ended.stdout.matches("drifted").count(), 1, "{}", ended.stdout);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let again = |line: &str, status: &str| line.contains(status) && line.ends_with("; retrying");
    assert!(again(lines[1], "503") && again(lines[2], "503"), "{}", ended.stderr);
    assert!(lines[3].contains("401") && lines[3].contains("authenticate with --token-file"), "{}", lines[3]);
    assert_eq!(lines.len(), 4, "{}", ended.stderr);
}

#[test]
fn watch_flag_with_labels_limits_requests_to_the_cluster() {
    let demo = UNCHANGED.get();
    let kubeconfig = demo.kubeconfig.display().to_string();
    // The times of the first `changed` event and of each list request.
    let (first_change, requests): (Arc<OnceLock<Instant>>, Arc<Mutex<Vec<Instant>>>) = Default::default();
    let (reported, recorded, seen) = (first_change.clone(), requests.clone(), requests.clone());
    let respond = move |path: &str, times: usize| match (path.split('?').next().unwrap_or_default(), times) {
        ("/v1/status", _) => (200, status()),
        ("/v1/resources", _) => {
            recorded.lock().unwrap().push(Instant::now());
            (200, list(&[claim("shop", "web", true)]))
        }
        ("/v1/events", 0) => {
            reported.get_or_init(Instant::now);
            (200, "event: changed\ndata: {}\n\n".repeat(25))
        }
        (_, _) => (401, json!({"detail": "who are you?"}).to_string()),
    };
    // The client requests the first change before the server sends the others, ten per second.
    let server = fake_exporter_with_pace(respond, move |at| {
        std::thread::sleep(Duration::from_millis(100));
        if at > 0 {
            eventually("a request after the first change", || (seen.lock().unwrap().len() > 1).then_some(()));
        }
    });
    let arguments = ["get", "-n", "shop", "-w", "-l", "app!=nonesuch", "-o", "name", "--server", &server];
    let ended = run(&arguments, "", &[("DRIFT_KUBECONFIG", &kubeconfig)]);
    assert_eq!((ended.code, &*ended.stdout), (Some(2), "deployment.apps/web\n"), "{}", ended.stderr);
    // One request at the start, one after the first change, then at most one in three seconds. A request may reach a busy server
    // late, so the test compares each with the first change and not with the previous request.
    let (first_change, requests) = (first_change.get().unwrap(), requests.lock().unwrap());
    assert!(requests.len() >= 3, "later changes cause a request too: {requests:?}");
    for (request, intervals) in requests[1..].iter().zip(0..) {
        assert!(
            *request - *first_change >= Duration::from_secs(3) * intervals,
            "{first_change:?} {requests:?}"
        );
    }
}

#[test]
fn only_401_suggests_to_authenticate() {
    for (status, hinted) in [(401, true), (403, false)] {
        let detail = "namespace `default` is not among those this exporter watches";
        let server = fake_exporter(move |_, _| (status, json!({"detail": detail}).to_string()));
        let ended = run(&["get", "--server", &server], "", &[]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(detail), "{}", ended.stderr);
        assert_eq!(ended.stderr.contains("--token-file"), hinted, "{}", ended.stderr);
    }
}

#[test]
fn drifted_claim_that_turns_stale_is_unknown() {
    let unknown_claim = json!({"verdict": "unknown", "reason": "stale", "severity": "warning"});
    let mut resource = claim("shop", "web", true);
    resource.as_object_mut().unwrap().extend(unknown_claim.as_object().unwrap().clone());
    let server = fake_exporter(move |path, _| match path.split('?').next().unwrap_or_default() {
        "/v1/status" => (200, status()),
        _ => (200, list(std::slice::from_ref(&resource))),
    });
    let got = run(&["get", "-n", "shop", "--server", &server], "", &[]);
    assert_eq!(got.code, Some(0), "{}", got.stderr);
    assert_eq!(got.stderr, "none of 1 declared object drifted, 1 unknown\n");
    assert!(got.stdout.contains("unknown"), "{}", got.stdout);
    let differs = run(&["diff", "-n", "shop", "--server", &server], "", &[]);
    assert_eq!((differs.code, &*differs.stdout), (Some(0), ""), "{}", differs.stderr);
    assert!(differs.stderr.contains("cannot be compared: its watch is down"), "{}", differs.stderr);
}

#[test]
fn fields_and_words_of_a_newer_exporter_are_accepted() {
    let mut newer = claim("shop", "web", true);
    for (field, word) in [
        ("source", "pulumi"),
        ("verdict", "paused"),
        ("reason", "frozen"),
        ("severity", "fatal"),
        ("expectation", "wanted"),
        ("advice", "wait"),
        ("actor", "robot"),
    ] {
        newer[field] = word.into();
    }
    newer["differences"][0]["actor"] = "robot".into();
    newer["differences"][0]["severity"] = "fatal".into();
    newer["healthStatus"] = "Sleepy".into();
    newer["job"] = json!({"name": "apply", "result": "queued", "attempts": 3});
    newer["added"] = json!({"in": "a later version"});
    let stream =
        json!({"group": "apps", "kind": "Deployment", "state": "down", "reason": "quarantined", "shard": 3});
    let source = json!({"source": "pulumi", "state": "down", "reason": "locked"});
    let status = json!({"ready": true, "streams": [stream], "sources": [source], "added": 1}).to_string();
    let object = json!({"kind": "Deployment", "namespace": "shop", "name": "web", "exists": true, "claims": [newer.clone()]});
    let server = fake_exporter(move |path, _| match path.split('?').next().unwrap_or_default() {
        "/v1/status" => (200, status.clone()),
        "/v1/resources" => (200, list(std::slice::from_ref(&newer))),
        _ => (200, object.to_string()),
    });
    let got = run(&["get", "-n", "shop", "-o", "wide", "--server", &server], "", &[]);
    let cells: Vec<&str> = got.stdout.lines().nth(1).unwrap().split_whitespace().collect();
    let [kind, name, field] = ["Deployment", "web", "spec.replicas"];
    assert_eq!(
        cells,
        [
            kind,
            name,
            "paused(frozen)",
            "fatal",
            field,
            "robot",
            "-",
            "pulumi",
            "-",
            "-",
            "-",
            "wanted",
            "wait"
        ]
    );
    let summary = "none of 1 declared object drifted\nnot seen: pulumi (locked); Deployment (quarantined)\n";
    assert_eq!((got.code, &*got.stderr), (Some(0), summary));
    let json = run(&["get", "-n", "shop", "-o", "json", "--server", &server], "", &[]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["resources"][0]["added"]["in"], "a later version", "JSON is printed as it was received");
    let explained = run(&["explain", "deploy/web", "-n", "shop", "--server", &server], "", &[]).stdout;
    assert!(
        explained.contains("pulumi: paused, for a reason that is not known here (frozen), fatal, wanted\n"),
        "{explained}"
    );
    assert!(explained.contains("    by robot (kubectl-edit), 2026-01-01 00:00:00 UTC\n"), "{explained}");
}

#[test]
fn cluster_scoped_object_is_found_with_namespace_flag() {
    let server = fake_exporter(|path, _| match path.split('?').next().unwrap_or_default() {
        "/v1/status" => (200, status()),
        "/v1/resources" if path.contains("namespace=shop") => (200, list(&[])),
        "/v1/resources" => (200, list(&[claim("", "ops", true), claim("other", "ops", true)])),
        "/v1/resources/deployment/shop/ops" => (404, json!({"detail": "no watched object"}).to_string()),
        "/v1/resources/deployment/%2D/ops" => {
            let object = json!({"kind": "Deployment", "namespace": "", "name": "ops", "exists": true,
                "claims": [claim("", "ops", true)]});
            (200, object.to_string())
        }
        other => panic!("{other}"),
    });
    let found = run(&["get", "deploy/ops", "-n", "shop", "-o", "name", "--server", &server], "", &[]);
    assert_eq!((found.code, &*found.stdout), (Some(1), "deployment.apps/ops\n"), "{}", found.stderr);
    let explained = run(&["explain", "deploy/ops", "-n", "shop", "--server", &server], "", &[]);
    assert_eq!(explained.code, Some(1), "{}", explained.stderr);
    assert!(explained.stdout.starts_with("Deployment ops\n"), "{}", explained.stdout);
}

#[test]
fn control_characters_are_escaped() {
    let name = "web\u{1b}[31m\u{9b}2J";
    let server = fake_exporter(move |path, _| match path.split('?').next().unwrap_or_default() {
        "/v1/status" => (200, status()),
        "/v1/resources" => (200, list(&[claim("shop", name, true)])),
        _ => (403, json!({"detail": format!("go away, {name}")}).to_string()),
    });
    for format in ["table", "wide", "name", "json", "yaml"] {
        let found = run(&["get", "-n", "shop", "-o", format, "--server", &server], "", &[]);
        assert_eq!(found.code, Some(1), "{}", found.stderr);
        assert!(!found.stdout.chars().any(|c| c.is_control() && c != '\n'), "{format}: {:?}", found.stdout);
    }
    let refused = run(&["explain", "deploy/web", "-n", "shop", "--server", &server], "", &[]);
    assert!(refused.code == Some(2) && refused.stderr.contains("go away, web"), "{}", refused.stderr);
    assert!(!refused.stderr.contains(['\u{1b}', '\u{9b}']), "{:?}", refused.stderr);
}

#[test]
fn kind_with_broken_watch_is_an_error() {
    let down = json!({"group": "apps", "kind": "Deployment", "state": "down", "reason": "forbidden",
        "message": "User \"drift\" cannot list deployments"});
    let up = json!({"group": "", "kind": "Service", "state": "up", "reason": null, "message": null});
    let status = json!({"ready": true, "streams": [down, up], "sources": []}).to_string();
    let server = fake_exporter(move |path, _| match path.split('?').next().unwrap_or_default() {
        "/v1/status" => (200, status.clone()),
        "/v1/resources" => (200, list(&[])),
        _ => (404, json!({"detail": "no watched object"}).to_string()),
    });
    for (arguments, code) in [
        (&["get", "deploy/web"][..], 2),
        (&["get", "deploy"], 2),
        (&["diff", "deploy/web"], 2),
        (&["explain", "deploy/web"], 2),
        (&["get", "svc/web"], 1),
        (&["get", "svc"], 0),
        (&["explain", "svc/web"], 1),
    ] {
        let ended = run(&[arguments, &["-n", "shop", "--server", &server]].concat(), "", &[]);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        let reported =
            ended.stderr.contains("cannot list deployment: User \"drift\" cannot list deployments");
        assert_eq!(reported, code == 2, "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn explain_shows_phase_and_message_of_the_controller() {
    let mut failed = claim("shop", "fleet", false);
    for (key, value) in [
        ("source", "status_hash"),
        ("verdict", "unknown"),
        ("reason", "phase_error"),
        ("phase", "Error"),
        ("message", "quota exceeded\u{1b}[2J"),
    ] {
        failed[key] = value.into();
    }
    let server = fake_exporter(move |_, _| {
        let object = json!({"kind": "Fleet", "namespace": "shop", "name": "fleet", "exists": true, "claims": [failed]});
        (200, object.to_string())
    });
    let reported = run(&["explain", "fleet/fleet", "-n", "shop", "--server", &server], "", &[]);
    let wanted = "Fleet shop/fleet\n\nstatus_hash: unknown, its controller could not apply it (phase_error)\n  phase Error: quota exceeded\\u{1b}[2J\n";
    assert_eq!((reported.code, &*reported.stdout), (Some(0), wanted), "{}", reported.stderr);
}

/// An exporter with these watches, sources and claims.
fn exporter_with(streams: &Value, sources: &Value, claims: &[Value]) -> String {
    let status = json!({"ready": true, "streams": streams, "sources": sources}).to_string();
    let list = list(claims);
    fake_exporter(move |path, _| match path.split('?').next() {
        Some("/v1/status") => (200, status.clone()),
        _ => (200, list.clone()),
    })
}

fn get(server: &str, arguments: &[&str]) -> CommandOutput {
    run(&[&["get", "-n", "shop", "--server", server], arguments].concat(), "", &[])
}

fn up(kind: &str) -> Value {
    json!({"group": "", "kind": kind, "state": "up", "reason": null, "message": null})
}

fn down(kind: &str, reason: &str) -> Value {
    json!({"group": "networking.k8s.io", "kind": kind, "state": "down", "reason": reason,
        "message": "User \"a\" cannot list"})
}

#[test]
fn summary_counts_undecided_claims_separately() {
    let with_verdict = |(name, verdict): (&str, &str)| {
        let mut claim = claim("shop", name, verdict == "drifted");
        claim["verdict"] = verdict.into();
        claim["reason"] = if verdict == "unknown" { "stale".into() } else { Value::Null };
        claim
    };
    let undecided = [("a", "in_sync"), ("b", "in_flight"), ("c", "in_flight"), ("d", "unknown")];
    for (claims, summary) in [
        (&undecided[..], "none of 4 declared objects drifted, 1 unknown, 2 in flight"),
        (&[("a", "in_sync"), ("e", "drifted")], "1 of 2 declared objects drifted"),
        (&[], "nothing found"),
    ] {
        let claims: Vec<Value> = claims.iter().copied().map(with_verdict).collect();
        let ended = get(&exporter_with(&json!([up("Deployment")]), &json!([]), &claims), &[]);
        assert_eq!(ended.stderr.lines().collect::<Vec<_>>(), [summary]);
    }
}

#[test]
fn gap_summary_groups_gaps_by_reason() {
    let helm = json!({"source": "helm", "state": "down", "reason": "forbidden", "message": "m"});
    let mut streams: Vec<Value> = (0..8).map(|at| down(&format!("K{at}"), "forbidden")).collect();
    streams.extend([up("Service"), down("Widget", "error"), down("ClusterRole", "refused")]);
    let ended = get(&exporter_with(&json!(streams), &json!([helm]), &[]), &[]);
    let gaps = "not seen: Widget (error); releases of Helm, K0, K1, K2, K3, K4 and 3 more kinds (forbidden)";
    assert_eq!(ended.stderr.lines().last(), Some(gaps));
    let complete = get(&exporter_with(&json!([up("Service")]), &json!([]), &[]), &[]);
    assert_eq!(complete.stderr, "nothing found\n");
}

#[test]
fn kind_whose_watches_are_all_down_is_an_error() {
    let streams = json!([up("Service"), down("Ingress", "forbidden"), down("IPAddress", "refused")]);
    let server = exporter_with(&streams, &json!([]), &[]);
    let ended = get(&server, &["ingress.networking.k8s.io"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("User \"a\" cannot list"), "{}", ended.stderr);
    for kind in ["service", "ipaddress", "pod"] {
        let ended = get(&server, &[kind]);
        assert!(!ended.stderr.contains("cannot list"), "{kind}: {}", ended.stderr);
    }
}

#[test]
fn kinds_without_a_watch_are_unknown() {
    let streams = json!([down("Ingress", "error"), down("NetworkPolicy", "error")]);
    let server = exporter_with(&streams, &json!([]), &[]);
    for known in ["ingress", "ingresses", "networkpolicies.networking.k8s.io", "NetworkPolicy"] {
        let ended = get(&server, &[known]);
        assert!(ended.stderr.contains("User \"a\" cannot list"), "{known}: {}", ended.stderr);
    }
    let ended = get(&server, &["ingrss"]);
    assert!(ended.code == Some(2) && ended.stderr.ends_with("did you mean `ingress`?\n"), "{}", ended.stderr);
}
