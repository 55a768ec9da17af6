//! Volumes and claims on them.

use std::borrow::Cow;

use serde::Deserialize;

use super::{
    Parts,
    pods::sum_units,
    wellness::{Wellness, read},
};
use crate::{
    diff::Text,
    types::{Facts, Health},
};

/// What a claim asks for.
#[derive(Default, Deserialize)]
pub(super) struct ClaimSpec<'a> {
    #[serde(borrow)]
    resources: Option<Resources<'a>>,
}

#[derive(Deserialize)]
struct Resources<'a> {
    #[serde(borrow)]
    requests: Option<Requests<'a>>,
}

#[derive(Deserialize)]
struct Requests<'a> {
    #[serde(borrow, default)]
    storage: Text<'a>,
}

impl<'a> ClaimSpec<'a> {
    /// How much storage, as written.
    pub(super) fn storage(&self) -> Option<Cow<'a, str>> {
        let requests = self.resources.as_ref()?.requests.as_ref()?;
        Some(requests.storage.0.clone()).filter(|amount| !amount.is_empty())
    }
}

/// Facts about a claim on a volume.
pub(super) fn of_claim(parts: Parts<'_>) -> Facts {
    let spec = read::<ClaimSpec<'_>>(parts.spec).unwrap_or_default();
    let wellness = match &*phase(parts) {
        "Bound" => Wellness::healthy(),
        "Pending" => Wellness::progressing(Health::Degraded, "it waits for a volume"),
        "Lost" => Wellness::new(Health::Unhealthy, "its volume is lost"),
        "" => Wellness::no_status(),
        other => Wellness::new(Health::Unknown, other),
    };
    Facts { storage_request: sum_units(spec.storage().into_iter()), ..wellness.into_facts() }
}

/// Facts about a volume.
pub(super) fn of_volume(parts: Parts<'_>) -> Facts {
    let wellness = match &*phase(parts) {
        "Bound" | "Available" => Wellness::healthy(),
        "Pending" => Wellness::progressing(Health::Degraded, "it is not available yet"),
        "Released" => Wellness::new(Health::Degraded, "its claim is gone, and it was not reclaimed"),
        "Failed" => Wellness::new(Health::Unhealthy, "it could not be reclaimed"),
        "" => Wellness::no_status(),
        other => Wellness::new(Health::Unknown, other),
    };
    wellness.into_facts()
}

fn phase(parts: Parts<'_>) -> Cow<'_, str> {
    #[derive(Default, Deserialize)]
    struct Status<'a> {
        #[serde(borrow, default)]
        phase: Text<'a>,
    }
    read::<Status<'_>>(parts.status).unwrap_or_default().phase.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{check_of, facts_of};
    use crate::types::{Health, Phase};

    #[test]
    fn a_claim_is_well_once_it_has_a_volume() {
        let check = check_of("", "PersistentVolumeClaim");
        let spec = json!({"resources": {"requests": {"storage": "5Gi"}}});
        check(&spec, &json!({"phase": "Bound"}), Health::Healthy, None, "");
        check(
            &spec,
            &json!({"phase": "Pending"}),
            Health::Degraded,
            Some(Phase::Progressing),
            "it waits for a volume",
        );
        check(&spec, &json!({"phase": "Lost"}), Health::Unhealthy, None, "its volume is lost");
        check(&spec, &json!({}), Health::Unknown, None, "no status");
        assert_eq!(facts_of("", "PersistentVolumeClaim", &spec, &json!({})).storage_request, Some(5 << 30));
        check_of("", "PersistentVolume")(
            &json!({}),
            &json!({"phase": "Failed"}),
            Health::Unhealthy,
            None,
            "it could not be reclaimed",
        );
    }

    #[test]
    fn every_replica_of_a_stateful_set_has_its_own_storage() {
        let claim = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        let spec = json!({"replicas": 3, "volumeClaimTemplates": [claim("1Gi"), claim("512Mi")]});
        let facts = facts_of("apps", "StatefulSet", &spec, &json!({}));
        assert_eq!((facts.replicas, facts.storage_request), (Some(3), Some(1536 << 20)));
    }
}
