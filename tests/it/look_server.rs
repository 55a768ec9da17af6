//! `get` and the like asked of an exporter that says what a test has it say.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use serde_json::{Value, json};

use crate::command_line::run;

/// Serves what `answer` makes of a path and of how often it was asked for before: a status and a body. Its address.
fn exporter(answer: impl Fn(&str, usize) -> (u16, String) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut asked: BTreeMap<String, usize> = BTreeMap::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let path = path_of(&mut stream);
            let times = asked.entry(path.split('?').next().unwrap_or_default().to_owned()).or_default();
            let (status, body) = answer(&path, *times);
            *times += 1;
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    address
}

/// What a request asks for.
fn path_of(stream: &mut TcpStream) -> String {
    let mut request = vec![0; 4096];
    let read = stream.read(&mut request).unwrap_or(0);
    String::from_utf8_lossy(&request[..read]).split(' ').nth(1).unwrap_or_default().to_owned()
}

/// One claim, as the API says it.
fn claim(namespace: &str, name: &str, drifted: bool) -> Value {
    let difference = json!({"path": "spec.replicas", "expected": "3", "actual": "7", "actor": "kubectl",
        "manager": "kubectl-edit", "onset": "2026-01-01T00:00:00Z", "rules": [], "ignoredBy": null});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "resourceName": name,
        "source": "terraform", "verdict": if drifted { "drifted" } else { "in_sync" }, "reason": null,
        "driftDetected": drifted, "onset": null, "severity": null, "expectation": null, "advice": null,
        "actor": null, "manager": null, "declaredBy": [], "ignored": [], "blindFields": [],
        "differences": if drifted { vec![difference] } else { vec![] },
    })
}

fn list(claims: &[Value]) -> String {
    json!({"resources": claims, "total": claims.len(), "namespace": "shop"}).to_string()
}

/// An exporter that sees Deployments.
fn status() -> String {
    let stream =
        json!({"group": "apps", "kind": "Deployment", "state": "up", "reason": null, "message": null});
    json!({"ready": true, "streams": [stream], "sources": []}).to_string()
}

#[test]
fn whoever_goes_on_looking_comes_back_until_he_is_told_to_go() {
    let changed = "event: changed\ndata: {}\n\n".to_owned();
    let server = exporter(move |path, times| match (path.split('?').next().unwrap_or_default(), times) {
        ("/v1/status", _) => (200, status()),
        ("/v1/resources", 0) => (200, list(&[claim("shop", "web", false)])),
        // One answer that fails is not the end either.
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
    let said: Vec<&str> = ended.stderr.lines().collect();
    let again = |line: &str, status: &str| line.contains(status) && line.ends_with("; asking again");
    assert!(again(said[1], "503") && again(said[2], "503"), "{}", ended.stderr);
    assert!(said[3].contains("401") && said[3].contains("say who you are with --token-file"), "{}", said[3]);
    assert_eq!(said.len(), 4, "{}", ended.stderr);
}

#[test]
fn only_strangers_are_asked_who_they_are() {
    for (status, hinted) in [(401, true), (403, false)] {
        let detail = "namespace `default` is not among those this exporter watches";
        let server = exporter(move |_, _| (status, json!({"detail": detail}).to_string()));
        let ended = run(&["get", "--server", &server], "", &[]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(detail), "{}", ended.stderr);
        assert_eq!(ended.stderr.contains("--token-file"), hinted, "{}", ended.stderr);
    }
}
