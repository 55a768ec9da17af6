//! The status of a release, from the labels of its revisions. Pure.

use jiff::{SignedDuration, Timestamp};

use crate::{sources::metadata_watch::ObjectMetadata, types::Lock};

/// Objects are named by this prefix, the release, `.v` and the revision.
const NAME_PREFIX: &str = "sh.helm.release.v1.";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    number: u64,
    status: Box<str>,
    last_write: Option<Timestamp>,
    object: RevisionObject,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RevisionObject {
    pub(super) name: Box<str>,
    resource_version: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReleaseStatus {
    /// This revision is deployed. The lock is that of an operation on a newer one.
    Deployed(RevisionObject, Option<Lock>),
    /// No revision is deployed, and an operation is in progress; the last deployed revision holds until it ends.
    Pending(Lock),
    /// No revision is deployed, for example after a failed rollback.
    NotDeployed,
}

impl Revision {
    /// The release and the revision of an object; `None` for objects that Helm did not create.
    pub(super) fn from_metadata(object: &ObjectMetadata) -> Option<(&str, Self)> {
        let label = |name: &str| object.labels.get(name).map(String::as_str);
        let (release, number, status) = (label("name")?, label("version")?, label("status")?);
        if *object.name != format!("{NAME_PREFIX}{release}.v{number}") {
            return None;
        }
        let revision = Self {
            number: number.parse().ok()?,
            status: status.into(),
            last_write: object.last_write,
            object: RevisionObject {
                name: object.name.clone(),
                resource_version: object.resource_version.clone(),
            },
        };
        Some((release, revision))
    }
}

/// The status of a release with these revisions; `None` if it is uninstalled or being uninstalled.
///
/// Only the newest revision shows an operation in progress, since older ones may be left over from interrupted operations. An
/// operation expires after `pending_max_age`.
pub(super) fn release_status(
    revisions: &[Revision],
    pending_max_age: SignedDuration,
) -> Option<ReleaseStatus> {
    let newest = revisions.iter().max_by_key(|revision| revision.number)?;
    if matches!(&*newest.status, "uninstalling" | "uninstalled") {
        return None;
    }
    let deployed = revisions.iter().filter(|revision| &*revision.status == "deployed");
    let deployed = deployed.max_by_key(|revision| revision.number);
    let is_pending = newest.status.starts_with("pending-");
    let pending = is_pending.then(|| Lock {
        operation: Some(newest.status.clone()),
        who: Box::default(),
        created: newest.last_write,
        in_flight_until: newest.last_write.and_then(|since| since.checked_add(pending_max_age).ok()),
    });
    Some(match (deployed, pending) {
        (Some(deployed), pending) => ReleaseStatus::Deployed(deployed.object.clone(), pending),
        (None, Some(pending)) => ReleaseStatus::Pending(pending),
        (None, None) => ReleaseStatus::NotDeployed,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::SignedDuration;

    use super::{ObjectMetadata, ReleaseStatus, Revision, release_status};

    fn object(release: &str, number: u64, status: &str) -> ObjectMetadata {
        let labels = [("name", release), ("status", status), ("version", &number.to_string())];
        ObjectMetadata {
            namespace: "shop".into(),
            name: format!("sh.helm.release.v1.{release}.v{number}").into(),
            resource_version: "7".into(),
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            last_write: "2026-01-01T00:00:00Z".parse().ok(),
            created: None,
            lock_info: None,
        }
    }

    fn summary(statuses: &[&str]) -> String {
        let revisions: Vec<Revision> = (1..)
            .zip(statuses)
            .map(|(number, status)| Revision::from_metadata(&object("web", number, status)).unwrap().1)
            .collect();
        match release_status(&revisions, SignedDuration::from_mins(30)) {
            Some(ReleaseStatus::Deployed(object, lock)) => {
                let number = object.name.rsplit(".v").next().unwrap_or_default();
                format!("{number} {}", lock.and_then(|lock| lock.operation).unwrap_or("-".into()))
            }
            Some(ReleaseStatus::Pending(lock)) => {
                format!("- {} {}", lock.operation.unwrap(), lock.in_flight_until.unwrap())
            }
            Some(ReleaseStatus::NotDeployed) => "not deployed".to_owned(),
            None => "uninstalled".to_owned(),
        }
    }

    #[test]
    fn highest_deployed_revision_is_used_and_newest_shows_the_operation() {
        for (statuses, expected) in [
            (&["deployed"][..], "1 -"),
            (&["pending-install"], "- pending-install 2026-01-01T00:30:00Z"),
            (&["superseded", "deployed"], "2 -"),
            (&["deployed", "pending-upgrade"], "1 pending-upgrade"),
            (&["superseded", "pending-upgrade"], "- pending-upgrade 2026-01-01T00:30:00Z"),
            (&["deployed", "failed"], "1 -"),
            (&["deployed", "failed", "pending-rollback"], "1 pending-rollback"),
            (&["deployed", "pending-upgrade", "deployed"], "3 -"),
            (&["superseded", "superseded", "failed"], "not deployed"),
            (&["failed"], "not deployed"),
            (&["superseded", "uninstalling"], "uninstalled"),
            (&["deployed", "uninstalled"], "uninstalled"),
            (&[], "uninstalled"),
        ] {
            assert_eq!(summary(statuses), expected, "{statuses:?}");
        }
    }

    #[test]
    fn other_objects_with_similar_names_are_ignored() {
        assert_eq!(
            Revision::from_metadata(&object("web", 1, "deployed")).map(|(name, _)| name.to_owned()),
            Some("web".into())
        );
        let other =
            ObjectMetadata { name: "sh.helm.release.v1.other.v1".into(), ..object("web", 1, "deployed") };
        assert!(Revision::from_metadata(&other).is_none());
        assert!(
            Revision::from_metadata(&ObjectMetadata {
                labels: BTreeMap::new(),
                ..object("web", 1, "deployed")
            })
            .is_none()
        );
        let mut odd = object("web", 1, "deployed");
        odd.labels.insert("version".into(), "one".into());
        odd.name = "sh.helm.release.v1.web.vone".into();
        assert!(Revision::from_metadata(&odd).is_none());
    }
}
