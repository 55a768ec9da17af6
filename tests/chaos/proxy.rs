//! A proxy between the exporter and an API server. It injects faults into requests, connections and open watches.

use std::{
    collections::HashMap,
    future::pending,
    io,
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    sync::watch,
    time::sleep,
};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{ClientConfig, ServerConfig, pki_types::ServerName},
    server::TlsStream,
};

use crate::support::wait::eventually;

/// The requests of a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    plural: &'static str,
    watch: Option<bool>,
}

impl Filter {
    pub(crate) const ALL: Self = Self { plural: "", watch: None };

    pub(crate) const fn all_of(plural: &'static str) -> Self {
        Self { plural, watch: None }
    }

    pub(crate) const fn lists(plural: &'static str) -> Self {
        Self { plural, watch: Some(false) }
    }

    pub(crate) const fn watches(plural: &'static str) -> Self {
        Self { plural, watch: Some(true) }
    }

    fn matches(self, url: &str) -> bool {
        let path = url.split('?').next().unwrap_or(url);
        let is_watch = url.contains("watch=1");
        // A list of one object only reads the newest resource version.
        let is_list = !is_watch && !url.contains("limit=1");
        path.ends_with(self.plural) && self.watch.is_none_or(|watch| if watch { is_watch } else { is_list })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The response starts after this delay.
    Delay(Duration),
    /// The proxy responds with this status, and `Retry-After` in seconds.
    Status(u16, Option<u64>),
    /// The response stops after this many bytes, and the connection stays open.
    Stall(usize),
    /// The response ends after this many bytes.
    Close(usize, CloseMode),
    /// The proxy sends this many bytes of the response per second.
    Throttle(usize),
    /// The proxy drops all data, including data of open connections, which stay open.
    Blackhole,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum CloseMode {
    /// FIN.
    Orderly,
    /// RST.
    Reset,
}

/// The API server behind the proxy.
pub(crate) struct Upstream {
    pub(crate) port: u16,
    /// Trusts the certificate of a real API server; none for plain HTTP.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
}

/// A fault that the proxy injects.
#[derive(Debug)]
struct Injected {
    filter: Filter,
    fault: Fault,
    /// The number of requests that it still applies to; none for all of them.
    left: Option<usize>,
    is_met: bool,
}

impl Injected {
    /// Whether requests have met the fault as often as the row wants.
    fn is_complete(&self) -> bool {
        self.is_met && self.left.is_none_or(|left| left == 0)
    }
}

struct State {
    upstream: Upstream,
    faults: Mutex<Vec<Injected>>,
    /// Closes every open connection.
    close: watch::Sender<CloseMode>,
    urls: Mutex<Vec<String>>,
    /// The size of the last complete response to each list.
    list_bytes: Mutex<HashMap<String, usize>>,
    /// The bearer token that requests need.
    token: Mutex<Option<String>>,
    /// The server side of TLS; none for plain HTTP.
    tls: Mutex<Option<Arc<ServerConfig>>>,
}

impl Proxy {
    pub(crate) fn start(runtime: &Runtime, upstream: Upstream, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            upstream,
            faults: Mutex::default(),
            close: watch::channel(CloseMode::Orderly).0,
            urls: Mutex::default(),
            list_bytes: Mutex::default(),
            token: Mutex::default(),
            tls: Mutex::new(tls),
        });
        let accepting = state.clone();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let state = accepting.clone();
                tokio::spawn(async move { state.accept(client).await });
            }
        });
        Self { port, state }
    }

    /// Injects a fault into all matching requests until [`Proxy::heal`].
    pub(crate) fn inject(&self, filter: Filter, fault: Fault) {
        self.add(filter, fault, None);
    }

    /// Injects a fault into the next matching requests.
    pub(crate) fn inject_times(&self, filter: Filter, fault: Fault, times: usize) {
        self.add(filter, fault, Some(times));
    }

    fn add(&self, filter: Filter, fault: Fault, left: Option<usize>) {
        self.state.faults.lock().unwrap().push(Injected { filter, fault, left, is_met: false });
    }

    /// Ends all faults. Waits until requests have met each of them, because a row whose fault no request meets tests nothing.
    pub(crate) fn heal(&self) {
        eventually("requests have met every fault", || {
            self.state.faults.lock().unwrap().iter().all(Injected::is_complete).then_some(())
        });
        self.state.faults.lock().unwrap().clear();
    }

    /// Closes every open connection.
    pub(crate) fn close_connections(&self, mode: CloseMode) {
        self.state.close.send_replace(mode);
    }

    /// The number of matching requests since the start.
    pub(crate) fn requests(&self, filter: Filter) -> usize {
        self.state.urls.lock().unwrap().iter().filter(|url| filter.matches(url)).count()
    }

    /// The size of the last complete list of a plural, with its head.
    pub(crate) fn list_bytes(&self, plural: &'static str) -> usize {
        let sizes = self.state.list_bytes.lock().unwrap();
        let size = sizes.iter().find(|(url, _)| Filter::lists(plural).matches(url));
        *size.expect("the kind was listed").1
    }

    /// Rejects requests without this bearer token.
    pub(crate) fn require_token(&self, token: &str) {
        *self.state.token.lock().unwrap() = Some(token.to_owned());
    }

    /// Serves with another certificate, or other client authorities.
    pub(crate) fn set_tls(&self, tls: Arc<ServerConfig>) {
        *self.state.tls.lock().unwrap() = Some(tls);
    }
}

impl State {
    async fn accept(&self, client: TcpStream) {
        let tls = self.tls.lock().unwrap().clone();
        let client: Box<dyn Connection> = match tls {
            None => Box::new(client),
            Some(tls) => match TlsAcceptor::from(tls).accept(client).await {
                Ok(client) => Box::new(client),
                Err(_) => return,
            },
        };
        // A client that disconnects is not a failure of the test.
        let _ = self.relay(client).await;
    }

    /// Relays one request and its response.
    async fn relay(&self, mut client: Box<dyn Connection>) -> io::Result<()> {
        let mut closed = self.close.subscribe();
        let head = read_head(&mut client).await?;
        let url = head.split(' ').nth(1).unwrap_or_default().to_owned();
        self.urls.lock().unwrap().push(url.clone());
        if !self.has_token(&head) {
            return respond(&mut client, 401, None).await;
        }
        let fault = self.take_fault(&url);
        match fault {
            Some(Fault::Status(status, retry_after)) => {
                return respond(&mut client, status, retry_after).await;
            }
            Some(Fault::Blackhole) => return pending().await,
            Some(Fault::Delay(delay)) => sleep(delay).await,
            Some(Fault::Stall(_) | Fault::Close(..) | Fault::Throttle(_)) | None => {}
        }
        let mut server = self.upstream.connect().await?;
        server.write_all(head.replacen("\r\n", "\r\nconnection: close\r\n", 1).as_bytes()).await?;
        let (mut sent, mut buffer) = (0, vec![0; 16 << 10]);
        loop {
            let length = tokio::select! {
                length = server.read(&mut buffer) => length?,
                _ = closed.changed() => {
                    let mode = *closed.borrow();
                    return client.end(mode).await;
                }
                // A client sends one request for each connection; it has disconnected.
                _ = client.read_u8() => return Ok(()),
            };
            if length == 0 {
                self.list_bytes.lock().unwrap().insert(url, sent);
                return client.end(CloseMode::Orderly).await;
            }
            if self.swallows(&url) {
                return pending().await;
            }
            let chunk = &buffer[..length];
            match fault {
                Some(Fault::Stall(bytes)) if sent + length > bytes => {
                    client.write_all(&chunk[..bytes - sent]).await?;
                    return pending().await;
                }
                Some(Fault::Close(bytes, mode)) if sent + length > bytes => {
                    client.write_all(&chunk[..bytes - sent]).await?;
                    return client.end(mode).await;
                }
                Some(Fault::Throttle(rate)) => {
                    for part in chunk.chunks(rate.div_ceil(20)) {
                        client.write_all(part).await?;
                        sleep(Duration::from_millis(50)).await;
                    }
                }
                _ => client.write_all(chunk).await?,
            }
            sent += length;
        }
    }

    fn has_token(&self, head: &str) -> bool {
        let token = self.token.lock().unwrap();
        token.as_ref().is_none_or(|token| head.contains(&format!("Bearer {token}\r\n")))
    }

    fn take_fault(&self, url: &str) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let mut matching = faults.iter_mut().filter(|injected| injected.filter.matches(url));
        let injected = matching.find(|injected| injected.left != Some(0))?;
        injected.left = injected.left.map(|left| left - 1);
        injected.is_met = true;
        Some(injected.fault)
    }

    /// Whether the data of an open response is dropped.
    fn swallows(&self, url: &str) -> bool {
        let mut faults = self.faults.lock().unwrap();
        let is_blackhole = |injected: &&mut Injected| {
            matches!(injected.fault, Fault::Blackhole) && injected.filter.matches(url)
        };
        faults.iter_mut().find(is_blackhole).map(|injected| injected.is_met = true).is_some()
    }
}

impl Upstream {
    async fn connect(&self) -> io::Result<Box<dyn Connection>> {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
        let Some(tls) = &self.tls else { return Ok(Box::new(server)) };
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        Ok(Box::new(TlsConnector::from(tls.clone()).connect(name, server).await?))
    }
}

/// One side of a relayed connection.
trait Connection: AsyncRead + AsyncWrite + Unpin + Send {
    fn socket(&self) -> &TcpStream;
}

impl Connection for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Connection for TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

impl Connection for tokio_rustls::client::TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

impl dyn Connection {
    async fn end(&mut self, mode: CloseMode) -> io::Result<()> {
        match mode {
            CloseMode::Orderly => self.shutdown().await,
            CloseMode::Reset => self.socket().set_zero_linger(),
        }
    }
}

/// Reads the head of a request. No request of the exporter to these servers has a body.
async fn read_head(client: &mut Box<dyn Connection>) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    String::from_utf8(head).map_err(io::Error::other)
}

async fn respond(client: &mut Box<dyn Connection>, status: u16, retry_after: Option<u64>) -> io::Result<()> {
    let body = format!(r#"{{"kind":"Status","status":"Failure","code":{status},"message":"injected"}}"#);
    let retry_after = retry_after.map_or(String::new(), |seconds| format!("retry-after: {seconds}\r\n"));
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status} Injected\r\nconnection: close\r\ncontent-type: application/json\r\n{retry_after}content-length: {length}\r\n\r\n{body}"
    );
    client.write_all(response.as_bytes()).await?;
    client.end(CloseMode::Orderly).await
}
