//! How `get`, `diff` and `explain` connect and authenticate, and the errors if they cannot.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    time::Instant,
};

use serde_json::{Value, json};

use crate::cli_flags::{run, write};

/// Responds to every request with `status` and `body`; returns its address and the requests.
fn fake_server(status: &'static str, body: Value) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).unwrap_or(0);
            let _ = sender.send(String::from_utf8_lossy(&request[..read]).to_lowercase());
            let body = body.to_string();
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (address, requests)
}

#[test]
fn credentials_are_sent_to_the_exporter_and_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let token = write(folder.path(), "token", "s3cret\n");
    let basic = write(folder.path(), "basic", "me:pass:word\n");
    let (server, requests) = fake_server("401 Unauthorized", json!({"detail": "who are you?"}));
    for (flags, variable, header) in [
        (vec!["--token-file", &token], None, "authorization: bearer s3cret\r\n"),
        (vec!["--token", "s3cret"], None, "authorization: bearer s3cret\r\n"),
        (vec![], Some(("DRIFT_TOKEN", "s3cret")), "authorization: bearer s3cret\r\n"),
        (vec!["--basic-auth-file", &basic], None, "authorization: basic bwu6cgfzczp3b3jk\r\n"),
    ] {
        let arguments = [&["get", "-A", "--server", &server][..], &flags].concat();
        let ended = run(&arguments, "", variable.as_slice());
        let request = requests.recv().unwrap();
        assert!(request.contains(header), "{request}");
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("401 Unauthorized: who are you?; authenticate with"),
            "{}",
            ended.stderr
        );
        assert!(!ended.stderr.contains("s3cret") && !ended.stderr.contains("pass"), "{}", ended.stderr);
    }
    let two_lines = write(folder.path(), "two", "s3cret\nlines\n");
    let empty = write(folder.path(), "empty", "\n");
    for (flags, message) in [
        (["--token-file", &two_lines], "the token contains invalid characters"),
        (["--token", "s3cret\u{1}"], "the token contains invalid characters"),
        (["--token-file", "/nonexistent"], "cannot read /nonexistent"),
        (["--token-file", &empty], "empty contains no token"),
        (["--ca-file", "/nonexistent"], "cannot read /nonexistent"),
        (["--basic-auth-file", &token], "does not contain USER:PASSWORD"),
    ] {
        let ended = run(&[&["get", "--server", &server][..], &flags].concat(), "", &[]);
        assert!(ended.code == Some(2) && ended.stderr.contains(message), "{}", ended.stderr);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
    for (address, message) in [
        ("http://127.0.0.1:99999", "invalid address `http://127.0.0.1:99999`"),
        ("http://127.0.0.1:", "invalid address"),
        ("http://127.0.0.1:9?x=1", "invalid address"),
        ("http://me:s3cret@127.0.0.1:9", "invalid address: it contains credentials"),
        ("ftp://127.0.0.1", "invalid address"),
        ("http://[::1]:9/path", "cannot reach an exporter at http://[::1]:9/path"),
    ] {
        let ended = run(&["get", "-A", "--server", address, "--token", "s3cret"], "", &[]);
        assert!(ended.code == Some(2) && ended.stderr.contains(message), "{address}: {}", ended.stderr);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
    let (unexpected, _requests) = fake_server("200 OK", json!({"hello": "there"}));
    let ended = run(&["get", "-A", "--server", &unexpected], "", &[]);
    assert!(ended.code == Some(2) && ended.stderr.contains("unexpected response"), "{}", ended.stderr);
}

#[test]
fn unreachable_cluster_fails_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = "{name: c, cluster: {server: 'http://127.0.0.1:9'}}";
    let config = write(
        folder.path(),
        "config",
        &format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{cluster}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        ),
    );
    // The time with an unreachable cluster, and without a cluster.
    let mut times = Vec::new();
    for arguments in [&["get", "-A"][..], &["diff"], &["explain", "deploy/web"]] {
        let started = Instant::now();
        let ended = run(&[arguments, &["--kubeconfig", &config]].concat(), "", &[]);
        assert_eq!(ended.code, Some(2), "{arguments:?}");
        assert!(
            ended.stderr.contains("cannot discover the cluster's kinds: the connection failed"),
            "{}",
            ended.stderr
        );
        let (unreachable, started) = (started.elapsed(), Instant::now());
        let without_cluster = run(arguments, "", &[]);
        times.push((unreachable, started.elapsed()));
        assert!(
            without_cluster.code == Some(2) && without_cluster.stderr.contains("no cluster to talk to"),
            "{}",
            without_cluster.stderr
        );
    }
    // Neither waits: both take about as long as the program takes to start.
    let quickest = times.iter().map(|(unreachable, _)| *unreachable).min().unwrap();
    let slowest = times.iter().map(|(_, without_cluster)| *without_cluster).max().unwrap();
    assert!(quickest < 100 * slowest, "{times:?}");
}

#[test]
fn tls_server_behind_http_url_suggests_https() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            // The response of a TLS server to plain HTTP: the alert `unexpected_message`.
            let _ = stream.write_all(b"\x15\x03\x01\x00\x02\x02\x0a");
        }
    });
    let ended = run(&["get", "-A", "--server", &server], "", &[]);
    assert!(
        ended.code == Some(2) && ended.stderr.contains("it may require TLS; use https://"),
        "{}",
        ended.stderr
    );
}

#[test]
fn invalid_token_in_kubeconfig_is_reported_without_its_value() {
    let folder = tempfile::tempdir().unwrap();
    let config = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n\
                  contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: \"s3cret\\nlines\"}}]\n";
    let config = write(folder.path(), "config", config);
    for arguments in [&["get", "-A"][..], &["run", "--web.listen-address", "127.0.0.1:0"]] {
        let ended = run(&[arguments, &["--kubeconfig", &config]].concat(), "", &[]);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("the token contains invalid characters"), "{}", ended.stderr);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
}
