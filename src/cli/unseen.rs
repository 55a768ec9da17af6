//! What is not seen, and how that is said.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{exporter::Exporter, kinds::unknown_kind, values::Wish};

/// Names that are told; the others are counted.
const TOLD: usize = 6;

/// How an exporter fares, as far as it is told here.
#[derive(Deserialize)]
pub(super) struct Status {
    ready: bool,
    streams: Vec<Fares>,
    sources: Vec<Fares>,
}

/// How a stream or a source fares.
#[derive(Deserialize)]
struct Fares {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    source: String,
    state: String,
    reason: Option<String>,
    message: Option<String>,
}

impl Status {
    pub(super) async fn of(exporter: &Exporter) -> Result<Self, String> {
        Ok(exporter.get_json("/v1/status").await?)
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

    /// What to say about a kind of which nothing is known, if that may be its name.
    pub(super) fn unknown_kind(&self, wish: &Wish) -> Option<String> {
        let wanted = wish.kind.split('.').next().unwrap_or_default().to_lowercase();
        let is_it = |kind: &str| {
            let kind = kind.to_lowercase();
            wanted == kind
                || (wanted.starts_with(&kind[..kind.len().saturating_sub(1)]) && wanted.ends_with('s'))
        };
        let kinds = || self.streams.iter().map(|own| &*own.kind);
        (!kinds().any(is_it)).then(|| unknown_kind("the exporter watches", &wish.kind, kinds()))
    }

    /// `not seen: helm, terraform, Role and 3 others (forbidden)`; none where all is seen.
    pub(super) fn unseen(&self) -> Option<String> {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for own in self.sources.iter().chain(&self.streams).filter(|own| own.state == "down") {
            let reason = own.reason.as_deref().unwrap_or("down");
            let name = match &*own.source {
                "" => &own.kind,
                "helm" => "releases of Helm",
                "terraform" => "states of Terraform",
                other => other,
            };
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Status, Wish};

    fn status(streams: &Value, sources: &Value) -> Status {
        serde_json::from_value(json!({"ready": true, "streams": streams, "sources": sources})).unwrap()
    }

    fn down(kind: &str, reason: &str) -> Value {
        json!({"kind": kind, "state": "down", "reason": reason, "message": "User \"a\" cannot list"})
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
        assert_eq!(status(&json!([up]), &json!([])).unseen(), None);
    }

    #[test]
    fn whoever_sees_nothing_is_told_why() {
        let blind = status(&json!([down("Service", "forbidden")]), &json!([]));
        assert_eq!(blind.sees_nothing(), Some("User \"a\" cannot list"));
        assert!(blind.is_forbidden());
        assert!(status(&json!([]), &json!([])).sees_nothing().is_none());
    }

    #[test]
    fn a_kind_that_nobody_watches_is_told_from_one_without_objects() {
        let status = status(&json!([down("Ingress", "error"), down("NetworkPolicy", "error")]), &json!([]));
        let unknown = |kind: &str| status.unknown_kind(&Wish { kind: kind.to_owned(), name: None });
        for known in ["ingress", "ingresses", "networkpolicies.networking.k8s.io", "NetworkPolicy"] {
            assert_eq!(unknown(known), None, "{known}");
        }
        assert!(unknown("ingrss").unwrap().ends_with("did you mean `ingress`?"));
    }
}
