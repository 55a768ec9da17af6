//! Errors of the API server, which answers them with a `Status` object.

use std::fmt;

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status, StatusCause, StatusDetails};
use serde_json::Value;

use super::resources::Resource;

/// A failed request, with the code, reason and message of the real API server.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .status.message.as_deref().unwrap_or_default())]
pub struct StatusError {
    pub(super) code: StatusCode,
    pub(super) status: Box<Status>,
}

impl StatusError {
    /// `details` is `None` if the real API server omits the field; some errors carry an empty object instead.
    fn new(
        code: StatusCode,
        reason: &str,
        message: impl Into<String>,
        details: Option<StatusDetails>,
    ) -> Self {
        let status = Status {
            code: Some(code.as_u16().into()),
            details,
            message: Some(message.into()),
            reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
            status: Some("Failure".to_owned()),
            ..Status::default()
        };
        Self { code, status: Box::new(status) }
    }

    pub(super) fn without_object(code: StatusCode, reason: &str, message: impl Into<String>) -> Self {
        Self::new(code, reason, message, Some(StatusDetails::default()))
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message, None)
    }

    /// The real API server answers a strategic merge patch without its merge key like this, too.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message, None)
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.group_resource());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message, Some(details(resource, name, resource.plural)))
    }

    pub(super) fn resource_not_found() -> Self {
        let message = "the server could not find the requested resource";
        Self::without_object(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::without_object(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub(super) fn not_implemented(feature: &str) -> Self {
        let message = format!("{feature} is not served by this demo cluster");
        Self::without_object(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    pub(super) fn unsupported_media_type() -> Self {
        let message = "this demo cluster reads and writes JSON only";
        Self::without_object(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub(super) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.group_resource());
        let details = details(resource, name, resource.plural);
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message, Some(details))
    }

    pub(super) fn conflict(resource: &Resource, name: &str) -> Self {
        let detail =
            "the object has been modified; please apply your changes to the latest version and try again";
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {detail}", resource.group_resource());
        Self::new(StatusCode::CONFLICT, "Conflict", message, Some(details(resource, name, resource.plural)))
    }

    pub(super) fn uid_conflict(resource: &Resource, name: &str, detail: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {detail}", resource.group_kind());
        Self::new(StatusCode::CONFLICT, "Conflict", message, Some(details(resource, name, resource.kind)))
    }

    /// 410: the requested resource version is compacted. The token continues an expired list from the latest resource
    /// version.
    pub(super) fn expired(message: impl Into<String>, continue_token: Option<String>) -> Self {
        let mut error = Self::new(StatusCode::GONE, "Expired", message, None);
        error.status.metadata = ListMeta { continue_: continue_token, ..ListMeta::default() };
        error
    }

    pub(super) fn too_large_resource_version(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = StatusCause {
            reason: Some("ResourceVersionTooLarge".to_owned()),
            message: Some("Too large resource version".to_owned()),
            field: None,
        };
        let details = StatusDetails {
            causes: Some(vec![cause]),
            retry_after_seconds: Some(1),
            ..StatusDetails::default()
        };
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(details))
    }

    /// The patch does not apply to the current object.
    pub(super) fn unprocessable_entity() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::without_object(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    /// The patched object does not decode.
    pub(super) fn invalid_patch(detail: impl fmt::Display) -> Self {
        let cause = field_error("patch", "FieldValueInvalid", format!("Invalid value: {detail}"));
        Self::invalid_fields("", "", StatusDetails::default(), vec![cause])
    }

    pub(super) fn invalid(resource: &Resource, name: &str, causes: Vec<StatusCause>) -> Self {
        Self::invalid_fields(&resource.group_kind(), name, details(resource, name, resource.kind), causes)
    }

    pub(super) fn negative_scale(name: &str, replicas: &Value) -> Self {
        let cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0");
        let details = StatusDetails {
            name: Some(name.to_owned()),
            group: Some("autoscaling".to_owned()),
            kind: Some("Scale".to_owned()),
            ..StatusDetails::default()
        };
        Self::invalid_fields("Scale.autoscaling", name, details, vec![cause])
    }

    fn invalid_fields(kind: &str, name: &str, details: StatusDetails, causes: Vec<StatusCause>) -> Self {
        let describe = |cause: &StatusCause| {
            format!(
                "{}: {}",
                cause.field.as_deref().unwrap_or_default(),
                cause.message.as_deref().unwrap_or_default()
            )
        };
        let messages: Vec<String> = causes.iter().map(describe).collect();
        let messages =
            if let [one] = &*messages { one.clone() } else { format!("[{}]", messages.join(", ")) };
        let message = format!("{kind} \"{name}\" is invalid: {messages}");
        let details = StatusDetails { causes: Some(causes), ..details };
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(details))
    }
}

pub(super) fn details(resource: &Resource, name: &str, kind: &str) -> StatusDetails {
    let absent_if_empty = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    StatusDetails {
        kind: Some(kind.to_owned()),
        name: absent_if_empty(name),
        group: absent_if_empty(resource.group),
        ..StatusDetails::default()
    }
}

pub(super) fn required_value(field: impl Into<String>, detail: &str) -> StatusCause {
    let separator = if detail.is_empty() { "" } else { ": " };
    field_error(field, "FieldValueRequired", format!("Required value{separator}{detail}"))
}

pub(super) fn invalid_value(field: impl Into<String>, bad_value: &Value, detail: &str) -> StatusCause {
    field_error(field, "FieldValueInvalid", format!("Invalid value: {bad_value}: {detail}"))
}

fn field_error(field: impl Into<String>, reason: &str, message: String) -> StatusCause {
    StatusCause { field: Some(field.into()), reason: Some(reason.to_owned()), message: Some(message) }
}
