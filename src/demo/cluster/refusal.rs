//! What the server says when it does not do something: a Kubernetes `Status`.

use http::StatusCode;
use serde_json::{Value, json};

use super::resource::Resource;

/// Why a request was not done, in the words of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub(super) code: StatusCode,
    reason: &'static str,
    message: String,
    /// None where the real server has none at all.
    details: Option<Value>,
    /// What to ask for instead, in the middle of a list.
    next: Option<String>,
}

/// One field that cannot be as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldError {
    pub(super) field: String,
    pub(super) problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    Required(&'static str),
    Invalid { value: String, why: String },
}

impl Refusal {
    fn new(
        code: StatusCode,
        reason: &'static str,
        message: impl Into<String>,
        details: Option<Value>,
    ) -> Self {
        Self { code, reason, message: message.into(), details, next: None }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message, None)
    }

    /// The real server has no better word for a strategic patch without its keys, either.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message, None)
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message, Some(details(resource, name, resource.plural)))
    }

    pub(super) fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message, Some(json!({})))
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, Some(json!({})))
    }

    pub(super) fn not_implemented(what: &str) -> Self {
        let message = format!("{what} is not served by this demo cluster");
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

    pub(super) fn too_large() -> Self {
        let message = "Request entity too large: limit is 3145728";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message, Some(json!({})))
    }

    pub(super) fn request_timeout() -> Self {
        let message = "the request's body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message, Some(json!({})))
    }

    pub(super) fn exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::new(
            StatusCode::CONFLICT,
            "AlreadyExists",
            message,
            Some(details(resource, name, resource.plural)),
        )
    }

    pub(super) fn modified(resource: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::new(StatusCode::CONFLICT, "Conflict", message, Some(details(resource, name, resource.plural)))
    }

    pub(super) fn other_uid(resource: &Resource, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified_kind());
        Self::new(StatusCode::CONFLICT, "Conflict", message, Some(details(resource, name, resource.kind)))
    }

    /// The version that was asked for is forgotten.
    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message, None)
    }

    /// Says how a list can be gone on with all the same.
    pub(super) fn go_on_with(self, token: &str) -> Self {
        Self { next: Some(token.to_owned()), ..self }
    }

    pub(super) fn from_the_future(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        let details = json!({"causes": [cause], "retryAfterSeconds": 1});
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(details))
    }

    /// A patch that cannot be applied to what there is.
    pub(super) fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(json!({})))
    }

    /// A patch after which the object cannot be read any more.
    pub(super) fn bad_patch(why: &str) -> Self {
        let error = FieldError {
            field: "patch".to_owned(),
            problem: Problem::Invalid { value: String::new(), why: why.to_owned() },
        };
        let message = format!(" \"\" is invalid: {error}");
        let details = json!({"causes": [error.cause()]});
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(details))
    }

    pub(super) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Self {
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let all = if let [one] = &*all { one.clone() } else { format!("[{}]", all.join(", ")) };
        let message = format!("{} \"{name}\" is invalid: {all}", resource.qualified_kind());
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

    /// The `Status` object.
    pub(super) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(next) = &self.next {
            status["metadata"]["continue"] = next.as_str().into();
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
    pub(super) fn required(field: impl Into<String>, why: &'static str) -> Self {
        Self { field: field.into(), problem: Problem::Required(why) }
    }

    pub(super) fn invalid(field: impl Into<String>, value: &Value, why: impl Into<String>) -> Self {
        let value = value.to_string();
        Self { field: field.into(), problem: Problem::Invalid { value, why: why.into() } }
    }

    fn cause(&self) -> Value {
        let reason = match self.problem {
            Problem::Required(_) => "FieldValueRequired",
            Problem::Invalid { .. } => "FieldValueInvalid",
        };
        json!({"reason": reason, "message": self.problem.to_string(), "field": self.field})
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl std::fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.field, self.problem)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Required("") => formatter.write_str("Required value"),
            Self::Required(why) => write!(formatter, "Required value: {why}"),
            Self::Invalid { value, why } if value.is_empty() => write!(formatter, "Invalid value: {why}"),
            Self::Invalid { value, why } => write!(formatter, "Invalid value: {value}: {why}"),
        }
    }
}
