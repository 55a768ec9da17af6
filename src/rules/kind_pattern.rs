//! Which kinds are meant.

use crate::types::Kind;

/// A kind as people write it: `Deployment`, `Deployment.apps`, `deployments.apps`, `*.apps` or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KindPattern {
    /// In lower case; none for any.
    kind: Option<Box<str>>,
    /// In lower case, empty for the group without a name; none for any.
    group: Option<Box<str>>,
}

impl KindPattern {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.to_lowercase();
        let (kind, group) = match text.split_once('.') {
            Some((kind, group)) => (kind, Some(group)),
            None => (&*text, None),
        };
        if kind.is_empty() {
            return Err("a kind is missing");
        }
        if group == Some("") {
            return Err("a group is missing after the dot; the one without a name is called `core`");
        }
        let strange = |text: &str| text.contains(|c: char| c == '*' || c == '/' || c.is_whitespace());
        if (kind != "*" && strange(kind)) || group.is_some_and(strange) {
            return Err("write `Deployment`, `Deployment.apps`, `deployments.apps`, `*.apps` or `*`");
        }
        Ok(Self {
            kind: (kind != "*").then(|| kind.into()),
            group: group.map(|group| if group == "core" { "" } else { group }.into()),
        })
    }

    pub(super) fn matches(&self, kind: &Kind) -> bool {
        let is = |own: &str, other: &str| own.eq_ignore_ascii_case(other);
        self.kind.as_deref().is_none_or(|own| is(own, &kind.kind) || is(own, &kind.plural))
            && self.group.as_deref().is_none_or(|own| is(own, &kind.group))
    }

    pub(super) fn is_anything(&self) -> bool {
        self.kind.is_none() && self.group.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, KindPattern};

    #[test]
    fn a_kind_can_be_written_in_many_ways() {
        let matches = |text: &str, kind: &Kind| KindPattern::parse(text).unwrap().matches(kind);
        for text in
            ["Deployment", "deployment", "deployments", "Deployment.apps", "deployments.apps", "*.apps", "*"]
        {
            assert!(matches(text, &Kind::deployment()), "{text}");
            assert_eq!(matches(text, &Kind::service()), text == "*", "{text}");
        }
        assert!(matches("Service.core", &Kind::service()));
        assert!(!matches("Service.serving.knative.dev", &Kind::service()));
    }

    #[test]
    fn what_is_no_kind_is_refused() {
        for text in ["", ".apps", "Deployment.", "Deploy*", "apps/v1", "*.*"] {
            assert!(KindPattern::parse(text).is_err(), "{text}");
        }
    }
}
