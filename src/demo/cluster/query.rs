//! The parameters of a request.

use axum::extract::Query;
use http::Uri;
use serde::Deserialize;

use super::{refusal::Refusal, selector::Selector};

/// What can stand after the `?`; everything else is passed over, as the real server does.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Parameters {
    watch: String,
    label_selector: String,
    field_selector: String,
    limit: String,
    pub(super) r#continue: String,
    resource_version: String,
    pub(super) resource_version_match: String,
    timeout_seconds: String,
    allow_watch_bookmarks: String,
    send_initial_events: String,
    pub(super) field_manager: String,
    field_validation: String,
    dry_run: String,
    pub(super) include_object: String,
}

impl Parameters {
    pub(super) fn read(uri: &Uri) -> Result<Self, Refusal> {
        let Query(parameters) =
            Query::try_from_uri(uri).map_err(|error| Refusal::bad_request(error.body_text()))?;
        Ok(parameters)
    }

    pub(super) fn watches(&self) -> bool {
        is_on(&self.watch)
    }

    pub(super) fn wants_bookmarks(&self) -> bool {
        is_on(&self.allow_watch_bookmarks)
    }

    pub(super) fn wants_initial_events(&self) -> bool {
        is_on(&self.send_initial_events)
    }

    pub(super) fn dry_run(&self) -> Result<bool, Refusal> {
        match &*self.dry_run {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(Refusal::bad_request(format!(
                "dryRun: Unsupported value: \"{other}\": supported values: \"All\""
            ))),
        }
    }

    /// Whether unknown fields are refused; otherwise they are dropped.
    pub(super) fn strict(&self) -> bool {
        self.field_validation == "Strict"
    }

    pub(super) fn selector(&self, namespace: Option<&str>) -> Result<Selector, Refusal> {
        Selector::parse(namespace, &self.label_selector, &self.field_selector)
    }

    /// None where everything is wanted.
    pub(super) fn limit(&self) -> Result<Option<usize>, Refusal> {
        Ok(number(&self.limit)?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0))
    }

    pub(super) fn timeout_seconds(&self) -> Result<Option<u64>, Refusal> {
        Ok(number(&self.timeout_seconds)?
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0))
    }

    /// None for the newest; 0 where any will do.
    pub(super) fn version(&self) -> Result<Option<u64>, Refusal> {
        let text = &self.resource_version;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| {
            Refusal::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
            ))
        })
    }
}

fn is_on(text: &str) -> bool {
    matches!(text, "1" | "true" | "True" | "TRUE" | "t" | "T")
}

fn number(text: &str) -> Result<Option<i64>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |_| Refusal::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"));
    text.parse().map(Some).map_err(wrong)
}
