//! How commands reach an exporter: a running one over HTTP, or one in this process that lists the cluster itself. Both
//! serve the same API.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    time::Duration,
};

use axum::body::{Body, Bytes};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use kube::{Client, config::Kubeconfig};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    args::{ArgError, ClusterArgs, ExporterArgs, ResourceArg, ResourceTuple, ScopeArgs},
    error::CliError,
    output::{Console, load_settings, read_error},
    resources::{CoverageGap, LabelFilter, ListError, UnknownKind, expand_short_name},
};
use crate::{
    app::{
        ExporterDeps, InProcessExporter, MissedNamespaces, ReadableSecrets, SyncProgress, default_settings,
        limit_sources, limit_to_namespace, may_have_namespace, readable_secrets, reads_all_namespaces,
        telemetry::LogHandle,
    },
    config::{Overrides, Settings, ShownValues},
    server::{Auth, ProblemView},
    sources::terraform::random_key,
    types::{Clock, GroupKind, Kind, RedactionKey, Selector, WatchMode},
    watch::{
        WatcherConfig, client_from, client_from_kubeconfig, context_namespace, object_url, resolve_kind,
        root_cause, served_kinds,
    },
};

const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Until the head of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two frames of a response's body.
const FRAME_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_RESPONSE_BYTES: usize = 256 << 20;

/// An exporter, and what a command reads from it.
pub(super) struct Query {
    pub(super) exporter: ExporterClient,
    pub(super) scope: NamespaceScope,
    /// Empty selects all kinds.
    pub(super) targets: Vec<QueryTarget>,
    pub(super) labels: Option<LabelFilter>,
    /// Gaps that the exporter's status does not list.
    pub(super) gaps: Vec<CoverageGap>,
    /// The exporter or a settings file decides which kinds are watched, not the command's arguments.
    pub(super) kinds_are_configured: bool,
    /// When an in-process exporter began its only list. It cannot know for how long a state that it observes after this
    /// time has lasted. `None` if the exporter watches.
    pub(super) list_started: Option<Timestamp>,
    /// The namespace of `scope` if the cluster does not have it. Baselines may still declare objects in it.
    pub(super) missing_namespace: Option<String>,
}

pub(super) struct QueryTarget {
    pub(super) resource: ResourceArg,
    pub(super) scope: NamespaceScope,
    /// Whether the last request returned anything.
    pub(super) is_found: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamespaceScope {
    /// All namespaces and cluster-scoped objects.
    All,
    ClusterScoped,
    Namespace(String),
}

impl NamespaceScope {
    pub(super) async fn from_args(scope: &ScopeArgs, exporter: &ExporterArgs) -> Self {
        match scope.namespace.as_deref().filter(|name| !name.is_empty()) {
            _ if scope.all_namespaces => Self::All,
            Some("-") => Self::ClusterScoped,
            Some(name) => Self::Namespace(name.to_owned()),
            None => {
                let name = context_namespace(&exporter.cluster.connection()).await;
                Self::Namespace(name.unwrap_or_else(|| "default".to_owned()))
            }
        }
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        if let Self::Namespace(name) = self { Some(name) } else { None }
    }
}

impl Query {
    /// Connects to the exporter that the arguments name, or starts one in this process.
    pub(super) async fn open(
        arguments: &ExporterArgs,
        scope: NamespaceScope,
        resources: Vec<ResourceArg>,
        selector: Option<&Selector>,
        mode: WatchMode,
        console: &mut Console,
    ) -> Result<Self, CliError> {
        let labels = match selector {
            Some(selector) => Some(LabelFilter::connect(selector, arguments).await?),
            None => None,
        };
        match arguments.server.as_deref().filter(|server| !arguments.direct && !server.is_empty()) {
            Some(address) => Self::remote(address, arguments, scope, resources, labels).await,
            None => Self::in_process(arguments, scope, resources, labels, mode, console).await,
        }
    }

    async fn remote(
        address: &str,
        arguments: &ExporterArgs,
        scope: NamespaceScope,
        resources: Vec<ResourceArg>,
        labels: Option<LabelFilter>,
    ) -> Result<Self, CliError> {
        let exporter = ExporterClient::Remote(RemoteExporter::new(address, arguments).await?);
        let targets = resources.into_iter().map(|resource| {
            let resource = ResourceArg { kind: expand_short_name(&resource.kind), ..resource };
            QueryTarget { resource, scope: scope.clone(), is_found: false }
        });
        let targets = targets.collect();
        Ok(Self {
            exporter,
            scope,
            targets,
            labels,
            gaps: Vec::new(),
            kinds_are_configured: true,
            list_started: None,
            missing_namespace: None,
        })
    }

    async fn in_process(
        arguments: &ExporterArgs,
        scope: NamespaceScope,
        resources: Vec<ResourceArg>,
        labels: Option<LabelFilter>,
        mode: WatchMode,
        console: &mut Console,
    ) -> Result<Self, CliError> {
        let list_started = (mode == WatchMode::Once).then(|| Clock::system().now());
        let client = client_from(&arguments.cluster.connection()).await?;
        let missing_namespace = match scope.namespace() {
            Some(name) if !may_have_namespace(&client, name).await => Some(name.to_owned()),
            _ => None,
        };
        let served = served_kinds(&client, DISCOVERY_TIMEOUT).await?;
        let served_names: Vec<&str> = served.kinds.iter().map(|served| &*served.kind.kind).collect();
        let kinds = resolve_kinds(&client, &resources, &served_names).await?;
        let file = arguments.config.config_file.as_deref();
        let mut settings = match file {
            Some(path) => load_settings(Some(path), &Overrides::default(), console)?,
            None => default_settings(&served, &kinds, scope.namespace()),
        };
        let mut gaps = limit_settings(&mut settings, file, &scope, &kinds, &client).await?;
        if let Some(trusted) = arguments.trust.namespaces() {
            settings.trust(&trusted);
        }
        // The user reads the values with their own permissions.
        settings.shown_values = ShownValues::Full;
        let direct = start_in_process(client, settings, mode, console).await?;
        if kinds.iter().any(|kind| kind.group_kind() == GroupKind::SECRET) {
            gaps.push(CoverageGap::new("last-applied configurations of Secrets", "never compared"));
        }
        if direct.awaits_schemas() {
            gaps.push(CoverageGap::new("schemas of custom resources", "stalled"));
        }
        let targets = resources.into_iter().zip(&kinds).map(|(resource, kind)| {
            let scope = if kind.namespaced { scope.clone() } else { NamespaceScope::ClusterScoped };
            let kind = format!("{}.{}", kind.kind.to_lowercase(), kind.group);
            QueryTarget { resource: ResourceArg { kind, ..resource }, scope, is_found: false }
        });
        let targets = targets.collect();
        let exporter = ExporterClient::InProcess(Box::new(direct));
        Ok(Self {
            exporter,
            scope,
            targets,
            labels,
            gaps,
            kinds_are_configured: file.is_some(),
            list_started,
            missing_namespace,
        })
    }
}

async fn resolve_kinds(
    client: &Client,
    resources: &[ResourceArg],
    served_names: &[&str],
) -> Result<Vec<Kind>, CliError> {
    let mut kinds = Vec::new();
    for (index, ResourceArg { kind, name }) in resources.iter().enumerate() {
        let found = resolve_kind(client, kind).await?;
        // `diff deploy web` names two kinds, but probably means deploy/web.
        let previous = index.checked_sub(1).map(|index| &resources[index]);
        let previous = previous.filter(|previous| previous.name.is_none() && name.is_none());
        let hint = previous.map(|previous| format!("; to name an object, use {}/{kind}", previous.kind));
        kinds.push(found.ok_or_else(|| {
            let mut unknown = UnknownKind::new("the cluster has", kind, served_names.iter().copied());
            unknown.hint += hint.as_deref().unwrap_or_default();
            unknown
        })?);
    }
    Ok(kinds)
}

/// Limits the settings to the scope, and the Terraform and Helm sources to the namespaces whose Secrets the user may
/// read. Returns the gaps that this leaves.
async fn limit_settings(
    settings: &mut Settings,
    file: Option<&Path>,
    scope: &NamespaceScope,
    kinds: &[Kind],
    client: &Client,
) -> Result<Vec<CoverageGap>, CliError> {
    // A release or state in any namespace may declare cluster-scoped objects.
    let has_cluster_scoped = kinds.iter().any(|kind| !kind.namespaced);
    let namespace = scope.namespace().filter(|_| !has_cluster_scoped);
    if let (Some(path), Some(name)) = (file, namespace) {
        if !settings.allows_namespace(name) {
            let (file, namespace) = (path.to_owned(), name.to_owned());
            return Err(CliError::ExcludedNamespace { file, namespace });
        }
        limit_to_namespace(settings, name);
    }
    if !reads_all_namespaces(settings) {
        return Ok(Vec::new());
    }
    let ReadableSecrets { scope: readable, missed } =
        readable_secrets(client, scope.namespace(), has_cluster_scoped).await;
    limit_sources(settings, &readable);
    let baselines = if namespace.is_none() { "releases and states" } else { "states" };
    let gap = missed.map(|missed| {
        let namespaces = match missed {
            MissedNamespaces::Others => "other namespaces".to_owned(),
            MissedNamespaces::Number(1) => "1 namespace".to_owned(),
            MissedNamespaces::Number(count) => format!("{count} namespaces"),
        };
        CoverageGap::new(format!("{baselines} in {namespaces}"), "forbidden")
    });
    Ok(gap.into_iter().collect())
}

/// Starts an exporter and waits until it has synced. Shows the progress if `stderr` is a terminal.
async fn start_in_process(
    client: Client,
    settings: Settings,
    mode: WatchMode,
    console: &mut Console,
) -> Result<InProcessExporter, CliError> {
    let parts = ExporterDeps {
        client,
        settings,
        settings_source: None,
        log: LogHandle::default(),
        redaction_key: random_key().map(RedactionKey::of_process).map_err(CliError::RedactionKey)?,
        clock: Clock::system(),
        timing: WatcherConfig { mode, ..WatcherConfig::default() },
        auth: Auth::default(),
        events: false,
        history_file: None,
        stop: CancellationToken::new(),
    };
    let mut direct = InProcessExporter::start(&parts)?;
    let is_terminal = std::io::stderr().is_terminal();
    let mut printed = None;
    let synced = direct.wait_until_synced(|progress| {
        if is_terminal && printed != Some(progress) {
            printed = Some(progress);
            let _ = write!(console.stderr, "\r\u{1b}[2K{}", progress_line(progress));
            let _ = console.stderr.flush();
        }
    });
    let synced = synced.await;
    if printed.is_some() {
        let _ = write!(console.stderr, "\r\u{1b}[2K");
    }
    synced?;
    Ok(direct)
}

fn progress_line(progress: SyncProgress) -> String {
    match progress {
        SyncProgress { all: 0, read: 0, .. } => "reading the declared state…".to_owned(),
        SyncProgress { all: 0, read, .. } => {
            format!("reading the declared state, {read} states and releases so far…")
        }
        SyncProgress { done, all, .. } => format!("listing {done} of {all} kinds…"),
    }
}

pub(super) enum ExporterClient {
    Remote(RemoteExporter),
    InProcess(Box<InProcessExporter>),
}

pub(super) enum ApiResponse {
    Found(Bytes),
    /// With the detail of the response.
    NotFound(String),
}

/// Why a request to an exporter fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("invalid address `{url}`: {source}")]
    Url { url: String, source: http::Error },
    #[error("cannot reach an exporter at {address}: timed out; check --server")]
    Timeout { address: String },
    #[error("{}", connection_error(address, &root_cause(source)))]
    Connection { address: String, source: Box<kube::Error> },
    #[error("incomplete response of {server}: {source}")]
    Incomplete { server: String, source: io::Error },
    #[error("{server} responds {status}: {detail}{}", authentication_hint(*status))]
    Status { server: String, status: StatusCode, detail: String },
    #[error("unexpected response of {server}: {source}")]
    Unexpected { server: String, source: serde_json::Error },
    #[error("cannot list objects with the labels `{selector}`: {source}")]
    Labels { selector: Selector, source: ListError },
}

impl RequestError {
    /// Retrying gives the same error.
    pub(super) fn is_permanent(&self) -> bool {
        let retried = [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT];
        match self {
            Self::Status { status, .. } => !status.is_server_error() && !retried.contains(status),
            Self::Url { .. } | Self::Unexpected { .. } => true,
            Self::Timeout { .. }
            | Self::Connection { .. }
            | Self::Incomplete { .. }
            | Self::Labels { .. } => false,
        }
    }
}

fn authentication_hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "; authenticate with --token-file or --basic-auth-file",
        _ => "",
    }
}

impl ExporterClient {
    pub(super) async fn get(&self, path: &str) -> Result<ApiResponse, RequestError> {
        let (head, body) = self.send(path).await?.into_parts();
        let incomplete = |source| RequestError::Incomplete { server: self.name(), source };
        let body = read_body(body).await.map_err(incomplete)?;
        if head.status == StatusCode::OK {
            return Ok(ApiResponse::Found(body));
        }
        match (head.status, serde_json::from_slice(&body)) {
            (StatusCode::NOT_FOUND, Ok(ProblemView { detail, .. })) => Ok(ApiResponse::NotFound(detail)),
            (status, Ok(ProblemView { detail, .. })) => Err(self.status_error(status, &detail)),
            (status, Err(_)) => Err(self.status_error(status, "the server may not be a drift-exporter")),
        }
    }

    /// Gets a path that every exporter serves.
    pub(super) async fn get_json<T: for<'a> Deserialize<'a>>(&self, path: &str) -> Result<T, RequestError> {
        match self.get(path).await? {
            ApiResponse::Found(body) => {
                serde_json::from_slice(&body).map_err(|error| self.unexpected_response(error))
            }
            ApiResponse::NotFound(detail) => Err(self.status_error(StatusCode::NOT_FOUND, &detail)),
        }
    }

    pub(super) async fn events(&self) -> Result<Body, RequestError> {
        let response = self.send("/v1/events").await?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            status => Err(self.status_error(status, "cannot watch for changes")),
        }
    }

    pub(super) fn unexpected_response(&self, source: serde_json::Error) -> RequestError {
        RequestError::Unexpected { server: self.name(), source }
    }

    fn status_error(&self, status: StatusCode, detail: &str) -> RequestError {
        RequestError::Status { server: self.name(), status, detail: detail.to_owned() }
    }

    pub(super) fn is_in_process(&self) -> bool {
        matches!(self, Self::InProcess(_))
    }

    /// For messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Remote(exporter) => exporter.address.clone(),
            Self::InProcess(_) => "this program".to_owned(),
        }
    }

    async fn send(&self, path: &str) -> Result<Response<Body>, RequestError> {
        match self {
            Self::Remote(exporter) => exporter.send(path).await,
            Self::InProcess(direct) => {
                let request = Request::get(path).body(Body::empty());
                let invalid = |source| RequestError::Url { url: path.to_owned(), source };
                Ok(direct.request(request.map_err(invalid)?).await)
            }
        }
    }
}

async fn read_body(body: Body) -> io::Result<Bytes> {
    let mut body = Limited::new(body, MAX_RESPONSE_BYTES);
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(FRAME_TIMEOUT, body.frame()).await.map_err(|_| io::ErrorKind::TimedOut)? {
        let frame = frame.map_err(io::Error::other)?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    Ok(bytes.into())
}

pub(super) struct RemoteExporter {
    client: Client,
    /// Without a trailing slash.
    address: String,
}

impl RemoteExporter {
    async fn new(address: &str, arguments: &ExporterArgs) -> Result<Self, CliError> {
        let address = address.trim_end_matches('/').to_owned();
        validate_address(&address)?;
        let client = client_from_kubeconfig(&address, kubeconfig(&address, arguments)?).await?;
        Ok(Self { client, address })
    }

    /// Returns the response whatever its status is.
    async fn send(&self, path: &str) -> Result<Response<Body>, RequestError> {
        let address = || self.address.clone();
        let request = Request::get(path).body(kube::client::Body::empty());
        let request = request.map_err(|source| RequestError::Url { url: address() + path, source })?;
        let response = timeout(RESPONSE_TIMEOUT, self.client.send(request)).await;
        let response = response.map_err(|_| RequestError::Timeout { address: address() })?;
        let failed = |source| RequestError::Connection { address: address(), source: Box::new(source) };
        Ok(response.map_err(failed)?.map(Body::new))
    }
}

fn validate_address(address: &str) -> Result<(), ArgError> {
    let uri: Option<Uri> = address.parse().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    if authority.is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(ArgError::AddressWithCredentials);
    }
    // `http` parses an authority with an invalid port, and the client would use the default port instead.
    let is_valid = |uri: &Uri| {
        authority
            .is_some_and(|authority| authority.port().is_some() || authority.as_str() == authority.host())
            && uri.query().is_none()
    };
    match uri.as_ref().filter(|uri| is_valid(uri)).and_then(Uri::scheme_str) {
        Some("http" | "https") => Ok(()),
        _ => Err(ArgError::Address(address.to_owned())),
    }
}

/// Replaces errors of the TLS library by what to do about them.
fn connection_error(address: &str, why: &str) -> String {
    let known = [
        ("UnknownIssuer", "its certificate is signed by an unknown authority; use --ca-file"),
        (
            "CaUsedAsEndEntity",
            "its certificate is that of a CA, not of a server; create one with basicConstraints=CA:FALSE",
        ),
        ("NotValidForName", "its certificate is not valid for this name; use a name of the certificate"),
        ("Expired", "its certificate has expired"),
        ("CertificateRequired", "it requires a client certificate; use --cert-file and --key-file"),
        ("AccessDenied", "it denies the client certificate; its client_allowed_sans do not list it"),
        ("invalid HTTP version", "it may require TLS; use https://"),
    ];
    match known.iter().find(|(error, _)| why.contains(error)) {
        Some((error, message)) => format!("cannot connect to {address}: {message} ({error})"),
        None if why.contains("certificate") => format!("cannot connect to {address}: {why}"),
        None => format!("cannot reach an exporter at {address}: {why}; check --server"),
    }
}

/// Address and credentials as a kubeconfig, for the client that also connects to API servers.
fn kubeconfig(address: &str, arguments: &ExporterArgs) -> Result<Kubeconfig, CliError> {
    let mut cluster = json!({"server": address});
    if let Some(file) = &arguments.ca_file {
        // Reports a missing file before the first connection.
        read_file(file)?;
        cluster["certificate-authority"] = json!(file);
    }
    let mut user = json!({});
    for (name, file) in [("client-certificate", &arguments.cert_file), ("client-key", &arguments.key_file)] {
        if let Some(file) = file {
            read_file(file)?;
            user[name] = json!(file);
        }
    }
    if let Some(token) = arguments.token.as_ref().filter(|token| !token.trim().is_empty()) {
        user["token"] = json!(token.trim());
    } else if let Some(file) = &arguments.token_file {
        let text = read_file(file)?;
        let token = Some(text.trim()).filter(|token| !token.is_empty());
        user["token"] = json!(token.ok_or_else(|| ArgError::TokenFile(file.clone()))?);
    } else if let Some(file) = &arguments.basic_auth_file {
        let text = read_file(file)?;
        let invalid = || ArgError::BasicAuthFile(file.clone());
        let (name, password) = text.trim_end_matches(['\r', '\n']).split_once(':').ok_or_else(invalid)?;
        (user["username"], user["password"]) = (json!(name), json!(password));
    }
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "exporter",
        "clusters": [{"name": "exporter", "cluster": cluster}],
        "contexts": [{"name": "exporter", "context": {"cluster": "exporter", "user": "exporter"}}],
        "users": [{"name": "exporter", "user": user}],
    });
    Ok(serde_json::from_value(config).map_err(|_| ArgError::Credentials)?)
}

fn read_file(file: &Path) -> Result<String, CliError> {
    fs::read_to_string(file).map_err(|source| read_error(file, source))
}

/// Gets live objects from a cluster, without an exporter.
pub(super) struct ClusterClient {
    client: Client,
    namespace: String,
}

pub(super) enum LiveLookup {
    Object(Box<Value>),
    Unavailable(UnavailableObject),
}

/// Why the API server does not return an object.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnavailableObject {
    #[error("the cluster has no kind `{0}`")]
    NoKind(String),
    /// Not found or forbidden.
    #[error("{object}: {}", .status.message)]
    Rejected { object: String, status: Box<kube::core::Status> },
}

impl ClusterClient {
    pub(super) async fn connect(arguments: &ClusterArgs, namespace: Option<&str>) -> Result<Self, CliError> {
        let client = client_from(&arguments.connection()).await?;
        let namespace = namespace.filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or_else(|| client.default_namespace()).to_owned();
        Ok(Self { client, namespace })
    }

    /// An error concerns the cluster, not only this object.
    pub(super) async fn get(&self, object: &ResourceTuple) -> Result<LiveLookup, CliError> {
        let ResourceTuple { kind, name } = object;
        let found = resolve_kind(&self.client, kind).await;
        let found = found.map_err(|source| CliError::Find { object: object.to_string(), source })?;
        let Some(found) = found else {
            return Ok(LiveLookup::Unavailable(UnavailableObject::NoKind(kind.clone())));
        };
        let request = Request::get(object_url(&found, &self.namespace, name)).body(Vec::new());
        let failed = |source| CliError::Get { object: object.to_string(), source: Box::new(source) };
        let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
        match self.client.request::<Value>(request).await {
            Ok(value) => Ok(LiveLookup::Object(Box::new(value))),
            Err(kube::Error::Api(status)) => {
                let object = object.to_string();
                Ok(LiveLookup::Unavailable(UnavailableObject::Rejected { object, status }))
            }
            Err(error) => Err(failed(error)),
        }
    }
}
