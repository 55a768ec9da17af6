//! Clients of the API server that notice a dead connection.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use http::{HeaderValue, Request};
use hyper_util::{
    client::legacy::{Builder, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt as _},
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{runtime::Handle, sync::Mutex, time::Instant};
use tower::{BoxError, ServiceBuilder};
use tracing::{info, warn};

/// Which cluster to connect to, and as which user.
#[derive(Clone, Debug, Default)]
pub struct ClusterConnection {
    /// Instead of `$KUBECONFIG`, `~/.kube/config` or the `ServiceAccount` of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// Instead of the current context.
    pub context: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot use kubeconfig {path}: {}", first_line(source))]
    Kubeconfig { path: PathBuf, source: Box<kube::config::KubeconfigError> },
    #[error("cannot use context `{context}`: {}", first_line(source))]
    Context { context: String, source: Box<kube::config::KubeconfigError> },
    #[error(
        "no cluster to talk to: there is no kubeconfig (--kubeconfig, $KUBECONFIG, ~/.kube/config) and this is not a pod; {}",
        first_line(.0)
    )]
    NoConfig(Box<kube::config::InferConfigError>),
    /// The token is not a valid header value.
    #[error("cannot set up the connection to {server}: the token contains invalid characters (a newline?)")]
    Token { server: String },
    #[error("cannot set up the connection to {server}: {}", first_line(source))]
    Credentials { server: String, source: Box<kube::config::KubeconfigError> },
    #[error("the kubeconfig names another server now: {server}; restart to connect to it")]
    OtherServer { server: String },
    /// The configuration is inconsistent.
    #[error("cannot set up the connection to {server}: {}", first_line(source))]
    Setup { server: String, source: Box<kube::Error> },
}

/// Later lines quote the file and its credentials.
fn first_line(error: &impl ToString) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The minimum interval at which requests read the credentials again.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// A client of the first configuration that exists. It follows changes of its CA, certificate, key and token.
pub async fn client_from(connection: &ClusterConnection) -> Result<Client, ConnectError> {
    let config = load(connection).await?;
    let server = config.cluster_url.to_string();
    info!(server, "Connecting to the API server.");
    let (namespace, fingerprint) = (config.default_namespace.clone(), fingerprint(&config));
    let client = connect(server.clone(), config)?;
    // The client stays with its context when the current context changes.
    let context = connection.context.clone().or_else(|| current_context(connection));
    let connection = ClusterConnection { context, ..connection.clone() };
    let current = Mutex::new(CurrentClient { client, fingerprint, checked: Instant::now() });
    let credentials = Arc::new(Credentials { connection, server, runtime: Handle::current(), current });
    let service = tower::service_fn(move |request: Request<Body>| {
        let credentials = credentials.clone();
        async move { credentials.client().await.send(request).await }
    });
    Ok(Client::new(service, namespace))
}

/// Builds a new client when the files change from which the current client was built.
struct Credentials {
    connection: ClusterConnection,
    server: String,
    /// Outlives every client.
    runtime: Handle,
    current: Mutex<CurrentClient>,
}

struct CurrentClient {
    client: Client,
    fingerprint: u64,
    checked: Instant,
}

impl Credentials {
    async fn client(&self) -> Client {
        let mut current = self.current.lock().await;
        if current.checked.elapsed() >= RELOAD_INTERVAL {
            current.checked = Instant::now();
            // A file that cannot be read may be in the middle of a replacement.
            if let Ok(config) = load(&self.connection).await
                && current.fingerprint != fingerprint(&config)
            {
                current.fingerprint = fingerprint(&config);
                match self.connect(config) {
                    Ok(client) => current.client = client,
                    Err(error) => warn!(%error, "Keeping the credentials in use."),
                }
            }
        }
        current.client.clone()
    }

    fn connect(&self, config: Config) -> Result<Client, ConnectError> {
        let server = config.cluster_url.to_string();
        if server != self.server {
            return Err(ConnectError::OtherServer { server });
        }
        let _runtime = self.runtime.enter();
        let client = connect(server, config)?;
        info!(server = self.server, "The credentials changed; using the new ones.");
        Ok(client)
    }
}

/// Changes when any input of a connection changes. The client itself reads a token file once a minute, which is too late for
/// a token that is revoked when it is replaced.
fn fingerprint(config: &Config) -> u64 {
    let mut hasher = DefaultHasher::new();
    config.cluster_url.hash(&mut hasher);
    (&config.root_cert, config.accept_invalid_certs, &config.tls_server_name).hash(&mut hasher);
    serde_json::to_string(&config.auth_info).unwrap_or_default().hash(&mut hasher);
    let auth = &config.auth_info;
    for path in [&auth.client_certificate, &auth.client_key, &auth.token_file].into_iter().flatten() {
        fs::read(path).ok().hash(&mut hasher);
    }
    hasher.finish()
}

/// `None` in a pod, which has no kubeconfig.
fn current_context(connection: &ClusterConnection) -> Option<String> {
    let kubeconfig = connection.kubeconfig.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    kubeconfig.ok()?.current_context
}

/// A client of another server that speaks like an API server. The kubeconfig has its URL and credentials.
pub async fn client_from_kubeconfig(server: &str, kubeconfig: Kubeconfig) -> Result<Client, ConnectError> {
    let server = server.to_owned();
    match Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await {
        Ok(config) => connect(server, config),
        Err(source) => Err(ConnectError::Credentials { server, source: Box::new(source) }),
    }
}

/// `server` is its name for messages.
fn connect(server: String, config: Config) -> Result<Client, ConnectError> {
    if !has_valid_token(&config) {
        return Err(ConnectError::Token { server });
    }
    build(config).map_err(|source| ConnectError::Setup { server, source: Box::new(source) })
}

/// Whether the token is a valid header value: the client panics on one that is not.
fn has_valid_token(config: &Config) -> bool {
    // The token is a secrecy type of kube; serialising is the only way to read it.
    let credentials = serde_json::to_value(&config.auth_info).unwrap_or_default();
    credentials["token"].as_str().is_none_or(|token| HeaderValue::from_str(token).is_ok())
}

/// The namespace of the context; `None` if there is no cluster to connect to.
pub async fn context_namespace(connection: &ClusterConnection) -> Option<String> {
    load(connection).await.ok().map(|config| config.default_namespace)
}

async fn load(connection: &ClusterConnection) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
    match (&connection.kubeconfig, &connection.context) {
        (Some(path), _) => {
            let unusable = |source| ConnectError::Kubeconfig { path: path.clone(), source: Box::new(source) };
            let kubeconfig = Kubeconfig::read_from(path).map_err(unusable)?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unusable)
        }
        (None, Some(context)) => Config::from_kubeconfig(&options)
            .await
            .map_err(|source| ConnectError::Context { context: context.clone(), source: Box::new(source) }),
        (None, None) => Config::infer().await.map_err(|source| ConnectError::NoConfig(Box::new(source))),
    }
}

fn build(mut config: Config) -> Result<Client, kube::Error> {
    // Retries inside the client would hide an outage for minutes. Watchers retry and report it.
    config.default_retry = false;
    if config.proxy_url.is_some() {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(Duration::from_secs(45));
        return Ok(ClientBuilder::try_from(config)?.build());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(Duration::from_secs(15)));
    tcp.set_keepalive_interval(Some(Duration::from_secs(5)));
    tcp.set_keepalive_retries(Some(3));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(Duration::from_secs(30)));
    let https = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    let mut http = Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new()).pool_timer(TokioTimer::new());
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .timeout(RESPONSE_TIMEOUT)
        .map_err(BoxError::from)
        .service(http.build::<_, Body>(https));
    Ok(Client::new(service, config.default_namespace))
}
