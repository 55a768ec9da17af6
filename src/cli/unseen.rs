//! What is not seen, and how that is said.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{asked::Asked, kinds::unknown_kind, values::Wish};

/// Names that are told; the others are counted.
const TOLD: usize = 6;

/// Something that is not seen, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unseen {
    what: String,
    reason: &'static str,
}

impl Unseen {
    /// It may not be.
    pub(super) fn forbidden(what: String) -> Self {
        Self { what, reason: "forbidden" }
    }

    /// It is left alone on purpose.
    pub(super) fn never_compared(what: String) -> Self {
        Self { what, reason: "never compared" }
    }

    /// Nobody has said anything about it in time.
    pub(super) fn stalled(what: String) -> Self {
        Self { what, reason: "stalled" }
    }
}

/// How an exporter fares, as far as it is told here.
#[derive(Deserialize)]
pub(super) struct Status {
    ready: bool,
    streams: Vec<Fares>,
    sources: Vec<Fares>,
    /// What the exporter does not know of.
    #[serde(skip)]
    others: Vec<Unseen>,
}

/// How a stream or a source fares.
#[derive(Deserialize)]
struct Fares {
    #[serde(default)]
    group: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    source: String,
    state: String,
    reason: Option<String>,
    message: Option<String>,
}

impl Status {
    /// How it fares, and what else is not seen.
    pub(super) async fn of(asked: &Asked, unseen: Vec<Unseen>) -> Result<Self, String> {
        let status: Self = asked.exporter.get_json("/v1/status").await?;
        Ok(Self { others: [&asked.unseen[..], &unseen].concat(), ..status })
    }

    /// Whether nothing at all can be seen, and why, in the server's words.
    pub(super) fn sees_nothing(&self) -> Option<&str> {
        let mut all = self.streams.iter().chain(&self.sources);
        let blind = !self.streams.is_empty() && all.all(|own| own.state == "down");
        blind.then(|| self.streams.iter().find_map(|own| own.message.as_deref()).unwrap_or("nobody says why"))
    }

    /// Whether every list is forbidden.
    pub(super) fn is_forbidden(&self) -> bool {
        self.streams.iter().all(|own| own.reason.as_deref() == Some("forbidden"))
    }

    /// What to say about a kind of which nothing is known, if that may be its name: `whose` has none.
    pub(super) fn unknown_kind(&self, whose: &str, wish: &Wish) -> Option<String> {
        let is_known = self.streams.iter().any(|own| own.is_of(wish));
        let kinds = || self.streams.iter().map(|own| &*own.kind);
        let name = wish.kind.trim_end_matches('.');
        (!is_known).then(|| unknown_kind(whose, name, kinds()))
    }

    /// Why nothing of a kind can be seen, in the server's words, where that is so. What nobody wants to have watched is not meant.
    pub(super) fn cannot_see(&self, wish: &Wish) -> Option<&str> {
        let own: Vec<&Fares> = self.streams.iter().filter(|own| own.is_of(wish)).collect();
        let is_blind = |own: &&Fares| own.state == "down" && own.reason.as_deref() != Some("refused");
        let blind = !own.is_empty() && own.iter().all(is_blind);
        let why = || own.iter().find_map(|own| own.message.as_deref()).unwrap_or("nobody says why");
        blind.then(why)
    }

    /// `not seen: helm, terraform, Role and 3 others (forbidden)`; none where all is seen.
    pub(super) fn unseen(&self) -> Option<String> {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let fares = self.sources.iter().chain(&self.streams).filter(|own| own.state == "down");
        let fares = fares.map(|own| {
            let name = match &*own.source {
                "" => &own.kind,
                "helm" => "releases of Helm",
                "terraform" => "states of Terraform",
                other => other,
            };
            (own.reason.as_deref().unwrap_or("down"), name)
        });
        let others = self.others.iter().map(|own| (own.reason, &*own.what));
        for (reason, name) in others.chain(fares) {
            let names = by_reason.entry(reason).or_default();
            // What is not wanted in one namespace alone is not missed there.
            if reason != "refused" && !names.contains(&name) {
                names.push(name);
            }
        }
        let told = by_reason.into_iter().filter(|(_, names)| !names.is_empty()).map(|(reason, names)| {
            let others = names.len().saturating_sub(TOLD);
            let more = if others == 0 { String::new() } else { format!(" and {others} more kinds") };
            format!("{}{more} ({reason})", names[..names.len() - others].join(", "))
        });
        let told: Vec<String> = told.collect();
        if !told.is_empty() {
            return Some(format!("not seen: {}", told.join("; ")));
        }
        (!self.ready).then(|| "not everything has been looked at yet".to_owned())
    }
}

impl Fares {
    /// Whether it is a stream of this kind, however people call that.
    fn is_of(&self, wish: &Wish) -> bool {
        let wanted = wish.kind.to_lowercase();
        let (wanted, group) = wanted.split_once('.').unwrap_or((&wanted, ""));
        let kind = self.kind.to_lowercase();
        let is_plural = wanted.starts_with(&kind[..kind.len().saturating_sub(1)]) && wanted.ends_with('s');
        (wanted == kind || is_plural) && (group.is_empty() || self.group.starts_with(group))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Status, Unseen, Wish};

    fn status(streams: &Value, sources: &Value) -> Status {
        serde_json::from_value(json!({"ready": true, "streams": streams, "sources": sources})).unwrap()
    }

    fn down(kind: &str, reason: &str) -> Value {
        json!({"group": "networking.k8s.io", "kind": kind, "state": "down", "reason": reason,
            "message": "User \"a\" cannot list"})
    }

    #[test]
    fn what_is_not_seen_is_told_in_one_line() {
        let up = json!({"kind": "Service", "state": "up", "reason": null, "message": null});
        let helm = json!({"source": "helm", "state": "down", "reason": "forbidden", "message": "m"});
        let mut streams: Vec<Value> = (0..8).map(|at| down(&format!("K{at}"), "forbidden")).collect();
        streams.extend([up.clone(), down("Widget", "error"), down("ClusterRole", "refused")]);
        assert_eq!(
            status(&json!(streams), &json!([helm])).unseen().unwrap(),
            "not seen: Widget (error); releases of Helm, K0, K1, K2, K3, K4 and 3 more kinds (forbidden)"
        );
        let mut seen = status(&json!([up]), &json!([]));
        assert_eq!(seen.unseen(), None);
        seen.others = vec![Unseen::forbidden("releases and states in 37 namespaces".to_owned())];
        assert_eq!(seen.unseen().unwrap(), "not seen: releases and states in 37 namespaces (forbidden)");
    }

    #[test]
    fn whoever_sees_nothing_is_told_why() {
        let blind = status(&json!([down("Service", "forbidden")]), &json!([]));
        assert_eq!(blind.sees_nothing(), Some("User \"a\" cannot list"));
        assert!(blind.is_forbidden());
        assert!(status(&json!([]), &json!([])).sees_nothing().is_none());
        let up = json!({"group": "", "kind": "Service", "state": "up", "reason": null, "message": null});
        let partly =
            status(&json!([up, down("Ingress", "forbidden"), down("IPAddress", "refused")]), &json!([]));
        let cannot_see = |kind: &str| partly.cannot_see(&Wish { kind: kind.to_owned(), name: None });
        assert!(partly.sees_nothing().is_none());
        assert_eq!(cannot_see("ingress.networking.k8s.io"), Some("User \"a\" cannot list"));
        assert_eq!([cannot_see("service."), cannot_see("ipaddress"), cannot_see("pod")], [None; 3]);
    }

    #[test]
    fn a_kind_that_nobody_watches_is_told_from_one_without_objects() {
        let status = status(&json!([down("Ingress", "error"), down("NetworkPolicy", "error")]), &json!([]));
        let unknown =
            |kind: &str| status.unknown_kind("it watches", &Wish { kind: kind.to_owned(), name: None });
        for known in ["ingress", "ingresses", "networkpolicies.networking.k8s.io", "NetworkPolicy"] {
            assert_eq!(unknown(known), None, "{known}");
        }
        assert!(unknown("ingrss").unwrap().ends_with("did you mean `ingress`?"));
    }
}
