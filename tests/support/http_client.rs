//! HTTP requests and Prometheus samples.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

use super::wait::PATIENCE;

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

/// Gets a path on the loopback interface; none if the connection fails.
pub fn get(port: u16, path: &str, headers: &[(&str, &str)]) -> Option<Response> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let headers: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = headers.concat();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n").ok()?;
    read(stream)
}

/// Posts JSON to a path on the loopback interface, and returns the JSON of the response.
pub fn post(port: u16, path: &str, body: &serde_json::Value) -> serde_json::Value {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    let body = body.to_string();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    read(stream).expect("an answer").json()
}

/// Reads the response by its length, because the server may keep the connection open.
fn read(stream: TcpStream) -> Option<Response> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut reader = BufReader::new(stream);
    let mut headers = String::new();
    while !headers.ends_with("\r\n\r\n") {
        if reader.read_line(&mut headers).ok()? == 0 {
            return None;
        }
    }
    let headers = headers.trim_end().to_owned();
    let status = headers.split(' ').nth(1)?.parse().ok()?;
    let lower = headers.to_ascii_lowercase();
    let header = |name: &str| lower.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let mut body = Vec::new();
    if header("transfer-encoding:") == Some("chunked") {
        // Only long lists are chunked: the server sends them while it writes them.
        while read_chunk(&mut reader, &mut body)? {}
    } else {
        let length = header("content-length:").unwrap_or_else(|| panic!("no length in {headers}"));
        body.resize(length.parse().ok()?, 0);
        reader.read_exact(&mut body).ok()?;
    }
    Some(Response { status, headers, body })
}

/// Reads one chunk; false after the last one.
fn read_chunk(reader: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> Option<bool> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim(), 16).ok()?;
    let offset = body.len();
    body.resize(offset + length, 0);
    reader.read_exact(&mut body[offset..]).ok()?;
    reader.read_exact(&mut [0; 2]).ok()?;
    Some(length > 0)
}

/// The value of the only sample with this name and these labels.
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
