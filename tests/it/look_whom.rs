//! Whom `get`, `diff` and `explain` ask, and what is said where nobody answers.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    time::Instant,
};

use serde_json::{Value, json};

use crate::command_line::{run, write};

/// Answers every request with this after it was sent; gives what was asked.
fn answering(status: &'static str, body: Value) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, asked) = std::sync::mpsc::channel();
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
    (address, asked)
}

#[test]
fn a_running_exporter_is_told_who_asks() {
    let folder = tempfile::tempdir().unwrap();
    let token = write(folder.path(), "token", "s3cret\n");
    let basic = write(folder.path(), "basic", "me:pass:word\n");
    let (server, asked) = answering("401 Unauthorized", json!({"detail": "who are you?"}));
    for (flags, variable, header) in [
        (vec!["--token-file", &token], None, "authorization: bearer s3cret\r\n"),
        (vec!["--token", "s3cret"], None, "authorization: bearer s3cret\r\n"),
        (vec![], Some(("DRIFT_TOKEN", "s3cret")), "authorization: bearer s3cret\r\n"),
        (vec!["--basic-auth-file", &basic], None, "authorization: basic bwu6cgfzczp3b3jk\r\n"),
    ] {
        let arguments = [&["get", "-A", "--server", &server][..], &flags].concat();
        let ended = run(&arguments, "", variable.as_slice());
        let request = asked.recv().unwrap();
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
    for (flags, told) in [
        (["--token-file", &two_lines], "the token contains invalid characters"),
        (["--token", "s3cret\u{1}"], "the token contains invalid characters"),
        (["--token-file", "/nonexistent"], "cannot read /nonexistent"),
        (["--token-file", &empty], "empty contains no token"),
        (["--ca-file", "/nonexistent"], "cannot read /nonexistent"),
        (["--basic-auth-file", &token], "does not contain USER:PASSWORD"),
    ] {
        let ended = run(&[&["get", "--server", &server][..], &flags].concat(), "", &[]);
        assert!(ended.code == Some(2) && ended.stderr.contains(told), "{}", ended.stderr);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
    for (address, told) in [
        ("http://127.0.0.1:99999", "invalid address `http://127.0.0.1:99999`"),
        ("http://127.0.0.1:", "invalid address"),
        ("http://127.0.0.1:9?x=1", "invalid address"),
        ("http://me:s3cret@127.0.0.1:9", "invalid address: it contains credentials"),
        ("ftp://127.0.0.1", "invalid address"),
        ("http://[::1]:9/path", "cannot reach an exporter at http://[::1]:9/path"),
    ] {
        let ended = run(&["get", "-A", "--server", address, "--token", "s3cret"], "", &[]);
        assert!(ended.code == Some(2) && ended.stderr.contains(told), "{address}: {}", ended.stderr);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
    let (strange, _asked) = answering("200 OK", json!({"hello": "there"}));
    let ended = run(&["get", "-A", "--server", &strange], "", &[]);
    assert!(ended.code == Some(2) && ended.stderr.contains("unexpected response"), "{}", ended.stderr);
}

#[test]
fn a_cluster_that_cannot_be_reached_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = "{name: c, cluster: {server: 'http://127.0.0.1:9'}}";
    let config = write(
        folder.path(),
        "config",
        &format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{cluster}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        ),
    );
    // How long it takes where there is a cluster that cannot be reached, and where there is none.
    let mut times = Vec::new();
    for arguments in [&["get", "-A"][..], &["diff"], &["explain", "deploy/web"]] {
        let begun = Instant::now();
        let ended = run(&[arguments, &["--kubeconfig", &config]].concat(), "", &[]);
        assert_eq!(ended.code, Some(2), "{arguments:?}");
        assert!(
            ended.stderr.contains("cannot discover the cluster's kinds: the connection failed"),
            "{}",
            ended.stderr
        );
        let (unreachable, begun) = (begun.elapsed(), Instant::now());
        let nowhere = run(arguments, "", &[]);
        times.push((unreachable, begun.elapsed()));
        assert!(
            nowhere.code == Some(2) && nowhere.stderr.contains("no cluster to talk to"),
            "{}",
            nowhere.stderr
        );
    }
    // Nothing is waited for: both take as long as a program takes to start, but for a factor.
    let quickest = times.iter().map(|(unreachable, _)| *unreachable).min().unwrap();
    let slowest = times.iter().map(|(_, nowhere)| *nowhere).max().unwrap();
    assert!(quickest < 100 * slowest, "{times:?}");
}

#[test]
fn an_exporter_that_wants_to_be_asked_otherwise_is_told_in_our_words() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            // What servers say that want TLS: an alert, unexpected message.
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
fn a_token_that_cannot_be_sent_to_a_cluster_is_said_without_it() {
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
