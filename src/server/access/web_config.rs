//! The web configuration file, which is looked at again with every connection and every request.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tokio_rustls::rustls::{ServerConfig, sign::CertifiedKey};
use tracing::{info, warn};

use super::tls::{identity, server_config};
use crate::config::{
    ClientCertificates, FileVersion, Problem, TlsSettings, WebSettings, load_web, placed, read_settings,
    stamp,
};

/// A web configuration file that is followed: what holds is what it says, without a restart.
#[derive(Debug)]
pub struct WebConfig {
    path: PathBuf,
    /// Whether tokens say who somebody is, so that passwords cannot.
    by_token: bool,
    kept: Mutex<Kept>,
}

/// What was last read.
#[derive(Debug)]
struct Kept {
    web: Web,
    /// What the files were like.
    stamps: Vec<(PathBuf, FileVersion)>,
}

/// What holds.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Web {
    pub(super) settings: Arc<WebSettings>,
    identity: Option<Arc<CertifiedKey>>,
    /// What connections are encrypted with; none where they are not.
    pub(in crate::server) tls: Option<Arc<ServerConfig>>,
    /// Whether nobody can know who may ask, because the file, or what it names, cannot be used. Nobody may, then.
    pub(super) closed: bool,
    /// Why it is closed, or still holds what the file no longer says.
    pub(super) problems: Arc<[Problem]>,
}

impl WebConfig {
    /// Reads a file that is then followed. Every problem is told, where it was found.
    pub fn open(path: &Path, by_token: bool) -> Result<Self, Vec<Problem>> {
        let mut read = Reading::new(path);
        let web = read.web(by_token, &Web::default())?;
        if !read.outdated.is_empty() {
            return Err(placed(&read.text, read.outdated));
        }
        let kept = Mutex::new(Kept { web, stamps: read.stamps });
        Ok(Self { path: path.to_owned(), by_token, kept })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What holds now. Costs one call of `stat` for each file, unless one has changed.
    pub(in crate::server) fn look(&self) -> Web {
        // Whoever panicked while reading has changed nothing.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.stamps.iter().any(|(path, known)| stamp(path) != *known) {
            let mut read = Reading::new(&self.path);
            match read.web(self.by_token, &kept.web) {
                Ok(web) => {
                    kept.web = Web { problems: placed(&read.text, read.outdated).into(), ..web };
                    info!(file = %self.path.display(), "Read the web configuration file again.");
                    for problem in &*kept.web.problems {
                        warn!(file = %self.path.display(), %problem, "Not all of the web configuration can be used; what was good stays.");
                    }
                }
                Err(problems) => {
                    (kept.web.closed, kept.web.problems) = (true, problems.into());
                    for problem in &*kept.web.problems {
                        warn!(file = %self.path.display(), %problem, "The web configuration cannot be used; nobody is let in until it can.");
                    }
                }
            }
            kept.stamps = read.stamps;
        }
        kept.web.clone()
    }
}

/// One reading of the file and of what it names.
struct Reading<'a> {
    path: &'a Path,
    text: String,
    stamps: Vec<(PathBuf, FileVersion)>,
    /// Why something is still as it was before.
    outdated: Vec<Problem>,
}

impl<'a> Reading<'a> {
    fn new(path: &'a Path) -> Self {
        // Looked at before it is read: what changes in between is seen the next time.
        let stamps = vec![(path.to_owned(), stamp(path))];
        Self { path, text: String::new(), stamps, outdated: Vec::new() }
    }

    fn web(&mut self, by_token: bool, before: &Web) -> Result<Web, Vec<Problem>> {
        let unreadable = |error| vec![Problem::whole(format!("cannot be read: {error}"))];
        self.text = read_settings(self.path).map_err(unreadable)?;
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let settings = load_web(&self.text, folder)?;
        if by_token && !settings.users.is_empty() {
            let message = "there are passwords, and --web.auth kubernetes wants tokens; want one of both";
            let problem = Problem { key: "basic_auth_users".into(), ..Problem::whole(message) };
            return Err(placed(&self.text, vec![problem]));
        }
        let settings = self.guarded(settings, before);
        self.encrypted(settings, before).map_err(|problem| placed(&self.text, vec![problem]))
    }

    /// The settings, with what kept people out before and has vanished. A file that is being written, or whose making failed, is empty or ends
    /// early for a moment; that must not open the door, and nobody can tell it from one that is meant so.
    fn guarded(&mut self, mut settings: WebSettings, before: &Web) -> WebSettings {
        let mut keeps = |key: &str, what: &str| {
            let message = format!("{what} until a restart: the file may have been cut off");
            self.outdated.push(Problem { key: key.into(), ..Problem::whole(message) });
        };
        if settings.users.is_empty() && !before.settings.users.is_empty() {
            keeps("basic_auth_users", "without any, users stay as they were");
            settings.users.clone_from(&before.settings.users);
        }
        let Some(tls) = &before.settings.tls else { return settings };
        let verifies = |own: &TlsSettings| own.client_certificates == ClientCertificates::RequiredAndVerified;
        match &settings.tls {
            None => {
                // Passwords and tokens that were sent encrypted are not taken in plain text all of a sudden.
                keeps("tls_server_config", "without it, connections stay encrypted as they were");
                settings.tls = Some(tls.clone());
            }
            Some(own) if verifies(tls) && !verifies(own) => {
                keeps("tls_server_config.client_auth_type", "certificates of clients stay required");
                settings.tls = Some(tls.clone());
            }
            Some(_) => {}
        }
        settings
    }

    /// What does not decide who gets in stays as it was where it cannot be used: an old certificate tells clients nothing wrong.
    fn encrypted(&mut self, settings: WebSettings, before: &Web) -> Result<Web, Problem> {
        let Some(tls) = &settings.tls else {
            return Ok(Web { settings: Arc::new(settings), ..Web::default() });
        };
        let files = [Some(&tls.certificate), Some(&tls.key), tls.client_authorities.as_ref()];
        for path in files.into_iter().flatten().filter_map(|pem| pem.file()) {
            self.stamps.push((path.to_owned(), stamp(path)));
        }
        let identity = match (identity(tls), &before.identity) {
            (Ok(identity), _) => identity,
            (Err(fault), Some(before)) => {
                self.outdated.push(fault.into());
                before.clone()
            }
            (Err(fault), None) => return Err(fault.into()),
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
