//! The web configuration file. It is checked for changes with every connection and every request, so it needs no reload.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio_rustls::rustls::{ServerConfig, sign::CertifiedKey};
use tracing::{info, warn};

use super::tls::{identity, server_config};
use crate::config::{
    ClientCertificates, ConfigProblem, FileVersion, RateLimit, TlsSettings, WebSettings, load_web,
    read_small_file, with_positions,
};

#[derive(Debug)]
pub struct WebConfig {
    path: PathBuf,
    /// Bearer tokens authenticate clients, so the file must not have users.
    by_token: bool,
    loaded: Mutex<LoadedWebConfig>,
}

#[derive(Debug)]
struct LoadedWebConfig {
    web: Web,
    versions: Vec<(PathBuf, Option<FileVersion>)>,
}

/// The settings in force.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Web {
    pub(super) settings: Arc<WebSettings>,
    identity: Option<Arc<CertifiedKey>>,
    /// None for plain text.
    pub(in crate::server) tls: Option<Arc<ServerConfig>>,
    pub(super) limiter: Option<Arc<Limiter>>,
    /// The file, or a file that it names, is invalid: every guarded request is refused.
    pub(super) closed: bool,
    /// Why requests are refused, or why older settings are still in force.
    pub(super) problems: Arc<[ConfigProblem]>,
}

impl WebConfig {
    pub fn open(path: &Path, by_token: bool) -> Result<Self, Vec<ConfigProblem>> {
        let mut loader = Loader::new(path);
        let web = loader.load(by_token, &Web::default())?;
        if !loader.outdated.is_empty() {
            return Err(with_positions(&loader.text, loader.outdated));
        }
        let loaded = Mutex::new(LoadedWebConfig { web, versions: loader.versions });
        Ok(Self { path: path.to_owned(), by_token, loaded })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The settings in force. Costs one `stat` per file, unless one has changed.
    pub(in crate::server) fn current(&self) -> Web {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.versions.iter().any(|(path, version)| FileVersion::of(path) != *version) {
            let mut loader = Loader::new(&self.path);
            let consequence = match loader.load(self.by_token, &loaded.web) {
                Ok(web) => {
                    let problems = with_positions(&loader.text, loader.outdated);
                    loaded.web = Web { problems: problems.into(), ..web };
                    info!(file = %self.path.display(), "reloaded the web configuration file");
                    "partly invalid: the previous value stays in force"
                }
                Err(problems) => {
                    (loaded.web.closed, loaded.web.problems) = (true, problems.into());
                    "invalid: all requests that need authentication are refused until it is fixed"
                }
            };
            for problem in &*loaded.web.problems {
                warn!(file = %self.path.display(), %problem, "web configuration file is {consequence}");
            }
            loaded.versions = loader.versions;
        }
        loaded.web.clone()
    }
}

/// The token bucket of `rate_limit`.
#[derive(Debug)]
pub(super) struct Limiter {
    limit: RateLimit,
    bucket: DefaultDirectRateLimiter,
}

impl Limiter {
    fn new(limit: RateLimit) -> Option<Self> {
        let burst = limit.burst.max(1).try_into().ok()?;
        let quota = Quota::with_period(limit.interval)?.allow_burst(burst);
        Some(Self { limit, bucket: RateLimiter::direct(quota) })
    }

    pub(super) fn allows_request(&self) -> bool {
        self.bucket.check().is_ok()
    }
}

/// The previous limiter if the limit is the same: a reload must not refill the bucket.
fn limiter(limit: Option<RateLimit>, previous: &Web) -> Option<Arc<Limiter>> {
    let limit = limit?;
    match &previous.limiter {
        Some(previous) if previous.limit == limit => Some(previous.clone()),
        Some(_) | None => Limiter::new(limit).map(Arc::new),
    }
}

/// One attempt to load the file and the files that it names.
struct Loader<'a> {
    path: &'a Path,
    text: String,
    versions: Vec<(PathBuf, Option<FileVersion>)>,
    /// Why a previous value stays in force.
    outdated: Vec<ConfigProblem>,
}

impl<'a> Loader<'a> {
    fn new(path: &'a Path) -> Self {
        // The version is taken before reading, so that a change in between is noticed next time.
        let versions = vec![(path.to_owned(), FileVersion::of(path))];
        Self { path, text: String::new(), versions, outdated: Vec::new() }
    }

    fn load(&mut self, by_token: bool, previous: &Web) -> Result<Web, Vec<ConfigProblem>> {
        let unreadable = |error| vec![ConfigProblem::whole(format!("cannot be read: {error}"))];
        self.text = read_small_file(self.path).map_err(unreadable)?;
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let settings = load_web(&self.text, folder)?;
        if by_token && !settings.users.is_empty() {
            let message = "cannot be combined with --web.auth kubernetes; remove one of them";
            let problem = ConfigProblem { key: "basic_auth_users".into(), ..ConfigProblem::whole(message) };
            return Err(with_positions(&self.text, vec![problem]));
        }
        let settings = self.keep_restrictions(settings, previous);
        let limiter = limiter(settings.rate_limit, previous);
        let web = self.load_tls(settings, previous);
        web.map(|web| Web { limiter, ..web }).map_err(|problem| with_positions(&self.text, vec![problem]))
    }

    /// Keeps users and TLS of the previous settings if the file lost them. A file that is being written may be empty or truncated
    /// for a moment, which must not disable authentication.
    fn keep_restrictions(&mut self, mut settings: WebSettings, previous: &Web) -> WebSettings {
        let mut keep = |key: &str, what: &str| {
            let message = format!("{what} until a restart: the file may be truncated");
            self.outdated.push(ConfigProblem { key: key.into(), ..ConfigProblem::whole(message) });
        };
        if settings.users.is_empty() && !previous.settings.users.is_empty() {
            keep("basic_auth_users", "empty; the previous users stay in force");
            settings.users.clone_from(&previous.settings.users);
        }
        let Some(tls) = &previous.settings.tls else { return settings };
        let verifies = |tls: &TlsSettings| tls.client_certificates == ClientCertificates::RequiredAndVerified;
        match &settings.tls {
            None => {
                // Clients must not start to send their credentials in plain text.
                keep("tls_server_config", "missing; TLS stays enabled");
                settings.tls = Some(tls.clone());
            }
            Some(new) if verifies(tls) && !verifies(new) => {
                keep("tls_server_config.client_auth_type", "client certificates stay required");
                settings.tls = Some(tls.clone());
            }
            Some(_) => {}
        }
        settings
    }

    /// Keeps the previous server certificate if the new one is invalid: it grants no client more access.
    fn load_tls(&mut self, settings: WebSettings, previous: &Web) -> Result<Web, ConfigProblem> {
        let Some(tls) = &settings.tls else {
            return Ok(Web { settings: Arc::new(settings), ..Web::default() });
        };
        let files = [Some(&tls.certificate), Some(&tls.key), tls.client_authorities.as_ref()];
        for path in files.into_iter().flatten().filter_map(|pem| pem.file()) {
            self.versions.push((path.to_owned(), FileVersion::of(path)));
        }
        let identity = match (identity(tls), &previous.identity) {
            (Ok(identity), _) => identity,
            (Err(error), Some(previous)) => {
                self.outdated.push(error);
                previous.clone()
            }
            (Err(error), None) => return Err(error),
        };
        let config = Arc::new(server_config(tls, &identity)?);
        Ok(Web {
            settings: Arc::new(settings),
            identity: Some(identity),
            tls: Some(config),
            ..Web::default()
        })
    }
}
