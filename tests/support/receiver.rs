//! Slack and PagerDuty on the loopback interface, as far as Alertmanager talks to them.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};

/// What was sent to one of them.
#[derive(Clone, Debug)]
pub struct Message {
    /// `/slack/` and a channel, or `/v2/enqueue`.
    pub path: String,
    pub body: Value,
}

/// Takes messages and answers as they do. It listens for as long as the test runs.
#[derive(Clone, Debug)]
pub struct Receiver {
    pub port: u16,
    messages: Arc<Mutex<Vec<Message>>>,
}

impl Receiver {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let own = Self { port, messages: Arc::default() };
        let receiver = own.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let receiver = receiver.clone();
                std::thread::spawn(move || receiver.serve(stream));
            }
        });
        own
    }

    /// Where Slack's incoming webhook for a channel is. Each writes to one channel, whatever it is asked for.
    pub fn slack(&self, channel: &str) -> String {
        format!("http://127.0.0.1:{}/slack/{channel}", self.port)
    }

    /// Where PagerDuty takes events.
    pub fn pagerduty(&self) -> String {
        format!("http://127.0.0.1:{}/v2/enqueue", self.port)
    }

    /// What a channel of Slack was sent so far.
    pub fn to_slack(&self, channel: &str) -> Vec<Value> {
        self.sent_to(&format!("/slack/{channel}"))
    }

    /// What PagerDuty was sent so far.
    pub fn to_pagerduty(&self) -> Vec<Value> {
        self.sent_to("/v2/enqueue")
    }

    /// Everything that anybody was sent so far.
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

    /// Answers on one connection until it is closed.
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

/// Whether every detail of an event is text, but for what Alertmanager adds itself: it makes maps and lists of what looks like YAML.
pub fn is_told_in_words(event: &Value) -> bool {
    let added = ["num_firing", "num_resolved", "resolved"];
    let details = event["payload"]["custom_details"].as_object();
    details.is_some_and(|own| own.iter().all(|(name, detail)| detail.is_string() || added.contains(&&**name)))
}

/// One request; none when there are no more.
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
