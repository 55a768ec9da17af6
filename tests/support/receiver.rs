//! A fake of the Slack and PagerDuty APIs on the loopback interface.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};

/// A received notification.
#[derive(Clone, Debug)]
pub struct Message {
    /// `/slack/` and a channel, or `/v2/enqueue`.
    pub path: String,
    pub body: Value,
}

/// Records notifications. It listens until the test ends.
#[derive(Clone, Debug)]
pub struct Receiver {
    pub port: u16,
    messages: Arc<Mutex<Vec<Message>>>,
}

impl Receiver {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let started = Self { port, messages: Arc::default() };
        let receiver = started.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let receiver = receiver.clone();
                std::thread::spawn(move || receiver.serve(stream));
            }
        });
        started
    }

    /// The URL of Slack's incoming webhook for a channel. Each webhook writes to one channel.
    pub fn slack(&self, channel: &str) -> String {
        format!("http://127.0.0.1:{}/slack/{channel}", self.port)
    }

    /// The URL of PagerDuty's Events API.
    pub fn pagerduty(&self) -> String {
        format!("http://127.0.0.1:{}/v2/enqueue", self.port)
    }

    /// The messages to a Slack channel.
    pub fn to_slack(&self, channel: &str) -> Vec<Value> {
        self.sent_to(&format!("/slack/{channel}"))
    }

    /// The events to PagerDuty.
    pub fn to_pagerduty(&self) -> Vec<Value> {
        self.sent_to("/v2/enqueue")
    }

    /// All notifications.
    pub fn messages(&self) -> Vec<Message> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn sent_to(&self, path: &str) -> Vec<Value> {
        self.messages()
            .into_iter()
            .filter(|message| message.path == path)
            .map(|message| message.body)
            .collect()
    }

    /// Serves one connection until it is closed.
    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
        while let Some(message) = read(&mut reader) {
            let (status, answer) = if message.path.starts_with("/slack/") {
                ("200 OK", "ok".to_owned())
            } else {
                let key = &message.body["dedup_key"];
                let answer = json!({"status": "success", "message": "Event processed", "dedup_key": key});
                ("202 Accepted", answer.to_string())
            };
            self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", answer.len());
            if stream.write_all(format!("{head}{answer}").as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Whether every detail of an event is text, except those that Alertmanager adds: it converts text that looks like YAML to maps and lists.
pub fn has_text_details(event: &Value) -> bool {
    let added = ["num_firing", "num_resolved", "resolved"];
    let details = event["payload"]["custom_details"].as_object();
    details.is_some_and(|details| {
        details.iter().all(|(name, detail)| detail.is_string() || added.contains(&&**name))
    })
}

/// Reads one request; none at the end of the stream.
fn read(reader: &mut BufReader<TcpStream>) -> Option<Message> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let path = head.split(' ').nth(1)?.to_owned();
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Message { path, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}
