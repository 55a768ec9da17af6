//! Errors of the API server, which answers them with a `Status` object.

use http::StatusCode;
use serde_json::{Value, json};

use super::resources::Resource;

/// A failed request, with the code, reason and message of the real API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusError {
    pub(super) code: StatusCode,
    reason: &'static str,
    message: String,
    /// `None` if the real API server omits the field; some errors carry an empty object instead.
    details: Option<Value>,
    /// Continues an expired list from the latest resource version.
    continue_token: Option<String>,
}

/// A validation error of one field: `field.Error` of the API machinery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldError {
    pub(super) field: String,
    pub(super) error_type: FieldErrorType,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldErrorType {
    Required(&'static str),
    Invalid { bad_value: String, detail: String },
}

impl StatusError {
    fn new(
        code: StatusCode,
        reason: &'static str,
        message: impl Into<String>,
        details: Option<Value>,
    ) -> Self {
        Self { code, reason, message: message.into(), details, continue_token: None }
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
        Self::new(StatusCode::NOT_FOUND, "NotFound", message, Some(json!({})))
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, Some(json!({})))
    }

    pub(super) fn not_implemented(feature: &str) -> Self {
        let message = format!("{feature} is not served by this demo cluster");
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message, Some(json!({})))
    }

    pub(super) fn unsupported_media_type() -> Self {
        let message = "this demo cluster reads and writes JSON only";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message, Some(json!({})))
    }

    pub(super) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json";
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, Some(json!({})))
    }

    pub(super) fn request_entity_too_large() -> Self {
        let message = "Request entity too large: limit is 3145728";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message, Some(json!({})))
    }

    pub(super) fn request_timeout() -> Self {
        let message = "the request's body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message, Some(json!({})))
    }

    pub(super) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.group_resource());
        Self::new(
            StatusCode::CONFLICT,
            "AlreadyExists",
            message,
            Some(details(resource, name, resource.plural)),
        )
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

    /// 410: the requested resource version is compacted.
    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message, None)
    }

    pub(super) fn with_continue(self, token: &str) -> Self {
        Self { continue_token: Some(token.to_owned()), ..self }
    }

    pub(super) fn too_large_resource_version(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        let details = json!({"causes": [cause], "retryAfterSeconds": 1});
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(details))
    }

    /// The patch does not apply to the current object.
    pub(super) fn unprocessable_entity() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(json!({})))
    }

    /// The patched object does not decode.
    pub(super) fn invalid_patch(detail: &str) -> Self {
        let error = FieldError {
            field: "patch".to_owned(),
            error_type: FieldErrorType::Invalid { bad_value: String::new(), detail: detail.to_owned() },
        };
        let message = format!(" \"\" is invalid: {error}");
        let details = json!({"causes": [error.cause()]});
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(details))
    }

    pub(super) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Self {
        let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let messages =
            if let [one] = &*messages { one.clone() } else { format!("[{}]", messages.join(", ")) };
        let message = format!("{} \"{name}\" is invalid: {messages}", resource.group_kind());
        let mut details = details(resource, name, resource.kind);
        details["causes"] = errors.iter().map(FieldError::cause).collect();
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(details))
    }

    pub(super) fn negative_scale(name: &str, replicas: &Value) -> Self {
        let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        let message = format!("Scale.autoscaling \"{name}\" is invalid: {error}");
        let details =
            json!({"name": name, "group": "autoscaling", "kind": "Scale", "causes": [error.cause()]});
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(details))
    }

    pub(super) fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(continue_token) = &self.continue_token {
            status["metadata"]["continue"] = continue_token.as_str().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

fn details(resource: &Resource, name: &str, kind: &str) -> Value {
    let mut details = json!({"kind": kind});
    if !name.is_empty() {
        details["name"] = name.into();
    }
    if !resource.group.is_empty() {
        details["group"] = resource.group.into();
    }
    details
}

impl FieldError {
    pub(super) fn required(field: impl Into<String>, detail: &'static str) -> Self {
        Self { field: field.into(), error_type: FieldErrorType::Required(detail) }
    }

    pub(super) fn invalid(field: impl Into<String>, bad_value: &Value, detail: impl Into<String>) -> Self {
        let bad_value = bad_value.to_string();
        Self { field: field.into(), error_type: FieldErrorType::Invalid { bad_value, detail: detail.into() } }
    }

    fn cause(&self) -> Value {
        let reason = match self.error_type {
            FieldErrorType::Required(_) => "FieldValueRequired",
            FieldErrorType::Invalid { .. } => "FieldValueInvalid",
        };
        json!({"reason": reason, "message": self.error_type.to_string(), "field": self.field})
    }
}

impl std::fmt::Display for StatusError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for StatusError {}

impl std::fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.field, self.error_type)
    }
}

impl std::fmt::Display for FieldErrorType {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Required("") => formatter.write_str("Required value"),
            Self::Required(detail) => write!(formatter, "Required value: {detail}"),
            Self::Invalid { bad_value, detail } if bad_value.is_empty() => {
                write!(formatter, "Invalid value: {detail}")
            }
            Self::Invalid { bad_value, detail } => write!(formatter, "Invalid value: {bad_value}: {detail}"),
        }
    }
}
