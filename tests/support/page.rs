//! Asking for pages and reading samples from them.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

/// An HTTP response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("the page is text")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the page is JSON")
    }
}

/// Asks for a path on the loopback interface; none if nobody answers.
pub fn get(port: u16, path: &str, headers: &[(&str, &str)]) -> Option<Response> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let headers: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = headers.concat();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let headers = String::from_utf8(answer[..end].to_vec()).ok()?;
    let status = headers.split(' ').nth(1)?.parse().ok()?;
    let body = answer[end + 4..].to_vec();
    // The server knows the length of everything it sends; a chunked answer would be a change worth noticing.
    assert!(!headers.to_ascii_lowercase().contains("transfer-encoding"), "{headers}");
    Some(Response { status, headers, body })
}

/// Sends JSON to a path on the loopback interface and gives the JSON that comes back.
pub fn post(port: u16, path: &str, body: &serde_json::Value) -> serde_json::Value {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    let body = body.to_string();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.0\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("headers and a body");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// The value of the one sample of this name that has all these labels.
pub fn sample(page: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let mut found = page.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|(label, value)| {
                line.contains(&format!("{{{label}=\"{value}\""))
                    || line.contains(&format!(",{label}=\"{value}\""))
            })
    });
    let line = found.next()?;
    assert!(found.next().is_none(), "more than one {name} with {labels:?}");
    line.rsplit(' ').next()?.parse().ok()
}
