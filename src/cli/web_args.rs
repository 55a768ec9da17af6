//! Flags about who may ask, and how connections are encrypted.

use std::{io::Write, path::PathBuf};

use clap::{Args, ValueEnum};
use kube::Client;

use super::settings_file::tell;
use crate::{
    server::{Auth, WebConfig},
    types::Scope,
    watch::RequiredPermission,
};

#[derive(Debug, Args)]
pub(super) struct WebArgs {
    /// TLS, client certificates, users and headers, in the file format that Prometheus' exporters share. Followed while running.
    #[arg(long = "web.config.file", value_name = "FILE", env = "DRIFT_WEB_CONFIG_FILE")]
    web_config_file: Option<PathBuf>,
    /// Ask the cluster whose tokens are good and what their bearers may see [default: everybody may ask].
    #[arg(long = "web.auth", value_name = "HOW", env = "DRIFT_WEB_AUTH")]
    web_auth: Option<WebAuth>,
}

/// Who is asked whether somebody may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WebAuth {
    /// The cluster, by `TokenReview` and `SubjectAccessReview`.
    Kubernetes,
}

/// What these flags say.
pub(super) struct Web {
    config: Option<WebConfig>,
    auth: Option<WebAuth>,
}

impl Web {
    /// Who may ask for what. The cluster is asked through this client, where it is asked.
    pub(super) fn auth(self, client: &Client) -> Auth {
        Auth::new(self.config, self.auth.map(|WebAuth::Kubernetes| client.clone()))
    }
}

impl WebArgs {
    /// Reads the web configuration file, where there is one. None where it is wrong; what is wrong was told.
    pub(super) fn open(&self, stderr: &mut dyn Write) -> Result<Option<Web>, String> {
        let auth = self.web_auth;
        let Some(path) = &self.web_config_file else { return Ok(Some(Web { config: None, auth })) };
        match WebConfig::open(path, auth.is_some()) {
            Ok(config) => Ok(Some(Web { config: Some(config), auth })),
            Err(problems) => {
                tell(path, "", &problems, stderr)?;
                Ok(None)
            }
        }
    }

    /// What has to be allowed for that.
    pub(super) fn needs(&self) -> Vec<RequiredPermission> {
        let create = |group: &str, resource: &str| RequiredPermission {
            group: group.into(),
            resource: resource.into(),
            verbs: &["create"],
            scope: Scope::default(),
            optional: false,
        };
        let reviews = |WebAuth::Kubernetes| {
            [
                create("authentication.k8s.io", "tokenreviews"),
                create("authorization.k8s.io", "subjectaccessreviews"),
            ]
        };
        self.web_auth.into_iter().flat_map(reviews).collect()
    }
}
