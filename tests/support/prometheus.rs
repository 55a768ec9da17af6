//! A running Prometheus.

use std::{
    fs,
    io::{self, Write as _},
    net::TcpStream,
    path::Path,
    process::Command,
};

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};

use super::{
    parts::program,
    process::{Running, free_port},
    wait::{PATIENCE, eventually},
};

pub struct Prometheus {
    _running: Running,
    pub port: u16,
}

impl Prometheus {
    /// Starts a server that scrapes these jobs every second.
    pub fn start(folder: &Path, jobs: &[Value]) -> Self {
        let global = json!({"scrape_interval": "1s", "scrape_timeout": "1s"});
        Self::start_with(folder, &json!({"global": global, "scrape_configs": jobs}))
    }

    /// Starts a server with a complete configuration.
    pub fn start_with(folder: &Path, config: &Value) -> Self {
        fs::write(folder.join("prometheus.yml"), config.to_string())
            .expect("the configuration can be written");
        let port = free_port();
        let running = Running::start(
            Command::new(program("prometheus", "prometheus"))
                .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
                .arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()))
                .arg(format!("--web.listen-address=127.0.0.1:{port}")),
            &folder.join("prometheus.log"),
        );
        Self { _running: running, port }
    }

    /// Requests a path under `/api/v1`, and returns the data of the response, or its error.
    pub fn request(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let encoded = |text: &str| percent_encode(text.as_bytes(), NON_ALPHANUMERIC).to_string();
        let parameters: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        let answer = self.get(&format!("/api/v1/{path}?{}", parameters.join("&")));
        let answer = answer.map_err(|error| format!("Prometheus does not answer: {error}"))?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("an answer without a body")?;
        let mut answer: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
        if answer["status"] == "success" {
            Ok(answer["data"].take())
        } else {
            Err(answer["error"].to_string())
        }
    }

    /// HTTP/1.0, so that the response is not chunked.
    fn get(&self, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
        io::read_to_string(stream)
    }

    /// The result of an instant query: labels and value.
    pub fn query(&self, query: &str) -> Vec<(Value, String)> {
        let Ok(data) = self.request("query", &[("query", query)]) else { return Vec::new() };
        let samples = data["result"].as_array().cloned().unwrap_or_default();
        samples
            .into_iter()
            .map(|sample| (sample["metric"].clone(), sample["value"][1].as_str().unwrap_or("").to_owned()))
            .collect()
    }

    #[track_caller]
    pub fn wait_for(&self, query: &str, samples: usize) -> Vec<(Value, String)> {
        eventually(&format!("{samples} samples for {query}"), || {
            Some(self.query(query)).filter(|found| found.len() == samples)
        })
    }
}
