//! A client for the API server that notices when the other side is gone.

use std::{path::PathBuf, time::Duration};

use http::HeaderValue;
use hyper_util::{
    client::legacy::{Builder, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt as _},
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{BoxError, ServiceBuilder};
use tracing::info;

/// Where the cluster is and who we are there.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// A kubeconfig to use instead of `$KUBECONFIG`, `~/.kube/config` or the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    /// A context to use instead of the current one.
    pub context: Option<String>,
}

/// There is no client to be had.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file that was named cannot be used.
    #[error("cannot use kubeconfig {path}: {}", first_line(source))]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<kube::config::KubeconfigError>,
    },
    /// The context that was named cannot be used.
    #[error("cannot use context `{context}`: {}", first_line(source))]
    Context {
        /// The context.
        context: String,
        /// What is wrong with it.
        source: Box<kube::config::KubeconfigError>,
    },
    /// Neither a kubeconfig nor a pod's account was found.
    #[error(
        "no cluster to talk to: there is no kubeconfig (--kubeconfig, $KUBECONFIG, ~/.kube/config) and this is not a pod; {}",
        first_line(.0)
    )]
    Nowhere(Box<kube::config::InferConfigError>),
    /// The token cannot be sent.
    #[error("cannot set up the connection to {server}: {UNSENDABLE_TOKEN}")]
    Token {
        /// The server's address.
        server: String,
    },
    /// The configuration was found but makes no client.
    #[error("cannot set up the connection to {server}: {source}")]
    Setup {
        /// The server's address.
        server: String,
        /// What is wrong.
        source: Box<kube::Error>,
    },
}

/// The lines after the first quote the file, and with it the credentials in it.
fn first_line(error: &impl ToString) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

const UNSENDABLE_TOKEN: &str = "the token has signs in it that none has, such as the end of a line";

/// How long the server may take for its response headers.
const HEADERS: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);

/// Makes a client from the first configuration that is found.
pub async fn client_from(connection: &Connection) -> Result<Client, ConnectError> {
    let config = load(connection).await?;
    let server = config.cluster_url.to_string();
    info!(server, "Using this API server.");
    if !has_sendable_token(&config) {
        return Err(ConnectError::Token { server });
    }
    build(config).map_err(|source| ConnectError::Setup { server, source: Box::new(source) })
}

/// Makes a client for another server that is reached as an API server is: its address and who we are there are in a
/// kubeconfig that was made for it.
pub async fn client_to(kubeconfig: Kubeconfig) -> Result<Client, String> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| first_line(&error))?;
    if !has_sendable_token(&config) {
        return Err(UNSENDABLE_TOKEN.to_owned());
    }
    build(config).map_err(|error| first_line(&error))
}

/// Whether the token, if there is one, can stand in a header: the client would panic about one that cannot.
fn has_sendable_token(config: &Config) -> bool {
    // Kept from logs as it is, it comes out only where it is written down.
    let credentials = serde_json::to_value(&config.auth_info).unwrap_or_default();
    credentials["token"].as_str().is_none_or(|token| HeaderValue::from_str(token).is_ok())
}

/// The namespace that people mean who name none; none where there is no cluster to talk to.
pub async fn context_namespace(connection: &Connection) -> Option<String> {
    load(connection).await.ok().map(|config| config.default_namespace)
}

async fn load(connection: &Connection) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
    match (&connection.kubeconfig, &connection.context) {
        (Some(path), _) => {
            let wrong = |source| ConnectError::Kubeconfig { path: path.clone(), source: Box::new(source) };
            let kubeconfig = Kubeconfig::read_from(path).map_err(wrong)?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(wrong)
        }
        (None, Some(context)) => Config::from_kubeconfig(&options)
            .await
            .map_err(|source| ConnectError::Context { context: context.clone(), source: Box::new(source) }),
        (None, None) => Config::infer().await.map_err(|source| ConnectError::Nowhere(Box::new(source))),
    }
}

fn build(mut config: Config) -> Result<Client, kube::Error> {
    // Retries inside the client would hide an outage for minutes; the stream itself tries again, visibly.
    config.default_retry = false;
    if config.proxy_url.is_some() {
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(Duration::from_secs(45));
        return Ok(ClientBuilder::try_from(config)?.build());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
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
        .timeout(HEADERS)
        .map_err(BoxError::from)
        .service(http.build::<_, Body>(https));
    Ok(Client::new(service, config.default_namespace))
}
