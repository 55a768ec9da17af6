//! Why a command fails. Exit codes follow from the variant.

use std::{fmt, io, net::SocketAddr, path::PathBuf};

use super::{
    Outcome, args::ArgError, baseline::StateError, client::RequestError, diff::ExternalDiffError,
    resources::UnknownKind, rules::TestFileError,
};
use crate::{
    app::AppError,
    config::ConfigProblem,
    rules::RuleProblem,
    watch::{ApiError, ConnectError, PermissionError, root_cause},
};

#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    #[error("cannot write output: {0}")]
    Output(#[source] io::Error),
    #[error("cannot encode the output as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot encode the output as YAML: {0}")]
    Yaml(#[from] serde_saphyr::SerializeError),
    #[error("cannot write man pages to {folder}: {source}")]
    ManPages { folder: PathBuf, source: io::Error },
    #[error("no command `{0}`; --help lists the commands")]
    UnknownCommand(String),
    #[error("cannot read {name}: {source}")]
    Read { name: String, source: io::Error },
    #[error("{path} has {} problems", .problems.len())]
    InvalidFile { path: PathBuf, problems: Vec<ConfigProblem> },
    #[error("{0}")]
    InvalidOption(Box<ConfigProblem>),
    #[error(transparent)]
    Argument(#[from] ArgError),
    #[error("{file} excludes namespace `{namespace}`; choose another one with -n")]
    ExcludedNamespace { file: PathBuf, namespace: String },
    #[error("the cluster has no namespace `{0}`; choose another one with -n")]
    NoNamespace(String),
    #[error("cannot start: {0}")]
    Runtime(#[source] io::Error),
    #[error("cannot generate a redaction key: {0}")]
    RedactionKey(#[source] io::Error),
    #[error("cannot listen: the host name has no address; choose another address with --web.listen-address")]
    NoAddress,
    #[error("cannot listen on {address}: {}; choose another address with {flag}", in_use(source))]
    Listen { flag: &'static str, address: SocketAddr, source: io::Error },
    #[error("stopped without waiting: received a second signal ({0})")]
    SecondSignal(&'static str),
    #[error(transparent)]
    App(#[from] AppError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Permissions(#[from] PermissionError),
    #[error("cannot discover the cluster's kinds: {0}")]
    Discovery(#[from] ApiError),
    #[error(transparent)]
    UnknownKind(#[from] UnknownKind),
    #[error("cannot get {object} from the cluster: {source}")]
    Find { object: String, source: ApiError },
    #[error("cannot get {object} from the cluster: {}", root_cause(source))]
    Get { object: String, source: Box<kube::Error> },
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("cannot list {}: {message}{}", kind.as_deref().unwrap_or("any kind"), suffix(hint.as_ref()))]
    NotListed {
        /// None if no kind can be listed.
        kind: Option<String>,
        /// As the API server or the exporter reports it.
        message: String,
        hint: Option<ListHint>,
    },
    #[error("cannot watch for changes: {0} has stopped")]
    Stopped(String),
    #[error("{detail}{}", suffix(gaps.as_ref()))]
    ObjectNotFound {
        /// As the exporter reports it.
        detail: String,
        /// What the exporter could not read, where the object may be.
        gaps: Option<String>,
    },
    #[error("nothing to accept: {0}")]
    NothingToAccept(#[from] NothingToAccept),
    #[error("the generated rule is invalid: {0}; please report this bug in drift-exporter")]
    GeneratedRule(Box<RuleProblem>),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    TestFile(#[from] TestFileError),
    #[error(transparent)]
    ExternalDiff(#[from] ExternalDiffError),
}

/// What a user can do if the API server forbids a list.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum ListHint {
    #[error("use -n NAMESPACE with a namespace that you may read")]
    OneNamespace,
    #[error("`kubectl auth can-i --list` lists your permissions")]
    Permissions,
}

/// Why an object has no differences that a rule could accept.
#[derive(Debug, thiserror::Error)]
pub(super) enum NothingToAccept {
    #[error("{object} cannot be compared with {baseline}, {reason}")]
    NotCompared { object: String, baseline: String, reason: String },
    #[error("no source declares {object}")]
    NotDeclared { object: String },
    #[error(
        "only baselines of other namespaces declare {object}; trust one with --trusted-namespaces or the settings"
    )]
    Untrusted { object: String },
    #[error("{object} matches its declared state, or rules already accept the difference")]
    InSync { object: String },
}

impl CliError {
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::ObjectNotFound { .. } | Self::NothingToAccept(_) => Outcome::Negative,
            Self::State(error) if !matches!(error, StateError::Terminal) => Outcome::Negative,
            _ => Outcome::Error,
        }
    }
}

/// The last part of a message, after a semicolon.
fn suffix<T: fmt::Display>(part: Option<&T>) -> String {
    part.map(|part| format!("; {part}")).unwrap_or_default()
}

fn in_use(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::AddrInUse { "it is in use".to_owned() } else { error.to_string() }
}
