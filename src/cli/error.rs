//! Why a command fails. Exit codes follow from the variant.

use std::{io, net::SocketAddr, path::PathBuf};

use super::{
    Outcome, args::ArgError, baseline::StateError, client::RequestError, diff::ExternalDiffError,
    resources::UnknownKind, rules::TestFileError,
};
use crate::{
    app::AppError,
    config::Problem,
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
    InvalidFile { path: PathBuf, problems: Vec<Problem> },
    #[error("{0}")]
    InvalidOption(Box<Problem>),
    #[error(transparent)]
    Argument(#[from] ArgError),
    #[error("{file} excludes namespace `{namespace}`; choose another one with -n")]
    ExcludedNamespace { file: PathBuf, namespace: String },
    #[error("cannot start: {0}")]
    Runtime(#[source] io::Error),
    #[error("cannot generate a redaction key: {0}")]
    RedactionKey(#[source] io::Error),
    #[error("cannot listen: the host name has no address; choose another address with --web.listen-address")]
    NoAddress,
    #[error(
        "cannot listen on {address}: {}; choose another address with --web.listen-address",
        in_use(source)
    )]
    Listen { address: SocketAddr, source: io::Error },
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
    #[error("cannot list {kind}: {message}{hint}")]
    NotListed { kind: String, message: String, hint: &'static str },
    #[error("cannot watch for changes: {0} has stopped")]
    Stopped(String),
    /// With the detail of the response, and the gaps of the exporter.
    #[error("{detail}{gaps}")]
    ObjectNotFound { detail: String, gaps: String },
    #[error("nothing to accept: {0}")]
    NothingToAccept(String),
    #[error("the generated rule is invalid: {0}; please report this bug in drift-exporter")]
    GeneratedRule(Box<RuleProblem>),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    TestFile(#[from] TestFileError),
    #[error(transparent)]
    ExternalDiff(#[from] ExternalDiffError),
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

fn in_use(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::AddrInUse { "it is in use".to_owned() } else { error.to_string() }
}
