//! Words of closed sets, as callers write them.

use super::problem::Problem;
use crate::types::ClosedSet;

/// The member that a parameter names; a problem with all there are where it names none.
pub(super) fn parse_word<T: ClosedSet>(parameter: &str, text: Option<&str>) -> Result<Option<T>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let member = T::members().iter().copied().find(|member| member.word() == text);
    let problem = || {
        let known: Vec<&str> = T::members().iter().map(|member| member.word()).collect();
        Problem::bad_request(format!("`{parameter}` cannot be `{text}`; there are {}", known.join(", ")))
    };
    member.map(Some).ok_or_else(problem)
}
