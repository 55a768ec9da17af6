//! How a release stands, by the labels of its revisions. Pure.

use jiff::{SignedDuration, Timestamp};

use crate::{sources::metadata_watch::Entry, types::Lock};

/// What an object is called that Helm keeps a revision in: this, the release, `.v` and the revision.
const PREFIX: &str = "sh.helm.release.v1.";

/// One revision, as far as its labels tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    number: u64,
    status: Box<str>,
    written: Option<Timestamp>,
    pub(super) stored: Stored,
}

/// The object that a revision is kept in, and which version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) name: Box<str>,
    version: Box<str>,
}

/// How a release stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// This revision is deployed; perhaps the next one is on its way.
    Deployed(Stored, Option<Lock>),
    /// None is deployed, and one is on its way: what was deployed before holds until then.
    Pending(Lock),
    /// None is deployed, and nobody is at work. Such is what a rollback that failed leaves behind.
    NotDeployed,
}

impl Revision {
    /// The release that an object keeps a revision of, and the revision; none where it is something else.
    pub(super) fn read(entry: &Entry) -> Option<(&str, Self)> {
        let label = |name: &str| entry.labels.get(name).map(String::as_str);
        let (release, number, status) = (label("name")?, label("version")?, label("status")?);
        if *entry.name != format!("{PREFIX}{release}.v{number}") {
            return None;
        }
        let stored = Stored { name: entry.name.clone(), version: entry.version.clone() };
        let (number, written) = (number.parse().ok()?, entry.written);
        Some((release, Self { number, status: status.into(), written, stored }))
    }
}

/// How a release with these revisions stands; none where it is being uninstalled, or was. Whoever is at work is believed to be
/// for so long at most.
///
/// The newest revision says what is being done. Only what is above the deployed one counts as on its way: what an older one
/// left behind does not.
pub(super) fn standing(revisions: &[Revision], pending_max_age: SignedDuration) -> Option<Standing> {
    let newest = revisions.iter().max_by_key(|own| own.number)?;
    if matches!(&*newest.status, "uninstalling" | "uninstalled") {
        return None;
    }
    let deployed = revisions.iter().filter(|own| &*own.status == "deployed").max_by_key(|own| own.number);
    let is_pending = newest.status.starts_with("pending-");
    let pending = is_pending.then(|| Lock {
        operation: newest.status.clone(),
        who: Box::default(),
        created: newest.written,
        holds_until: newest.written.and_then(|since| since.checked_add(pending_max_age).ok()),
    });
    Some(match (deployed, pending) {
        (Some(deployed), pending) => Standing::Deployed(deployed.stored.clone(), pending),
        (None, Some(pending)) => Standing::Pending(pending),
        (None, None) => Standing::NotDeployed,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::SignedDuration;

    use super::{Entry, Revision, Standing, standing};

    fn entry(release: &str, number: u64, status: &str) -> Entry {
        let labels = [("name", release), ("status", status), ("version", &number.to_string())];
        Entry {
            namespace: "shop".into(),
            name: format!("sh.helm.release.v1.{release}.v{number}").into(),
            version: "7".into(),
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            written: "2026-01-01T00:00:00Z".parse().ok(),
            held: None,
        }
    }

    fn told(statuses: &[&str]) -> String {
        let revisions: Vec<Revision> = (1..)
            .zip(statuses)
            .map(|(number, status)| Revision::read(&entry("web", number, status)).unwrap().1)
            .collect();
        match standing(&revisions, SignedDuration::from_mins(30)) {
            Some(Standing::Deployed(stored, lock)) => {
                let number = stored.name.rsplit(".v").next().unwrap_or_default();
                format!("{number} {}", lock.map_or("-".into(), |own| own.operation))
            }
            Some(Standing::Pending(lock)) => format!("- {} {}", lock.operation, lock.holds_until.unwrap()),
            Some(Standing::NotDeployed) => "not deployed".to_owned(),
            None => "ended".to_owned(),
        }
    }

    #[test]
    fn the_highest_deployed_revision_counts_and_the_newest_says_what_is_done() {
        for (statuses, is) in [
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
            (&["superseded", "uninstalling"], "ended"),
            (&["deployed", "uninstalled"], "ended"),
            (&[], "ended"),
        ] {
            assert_eq!(told(statuses), is, "{statuses:?}");
        }
    }

    #[test]
    fn what_only_looks_like_a_release_is_none() {
        assert_eq!(
            Revision::read(&entry("web", 1, "deployed")).map(|(name, _)| name.to_owned()),
            Some("web".into())
        );
        let other = Entry { name: "sh.helm.release.v1.other.v1".into(), ..entry("web", 1, "deployed") };
        assert!(Revision::read(&other).is_none());
        assert!(Revision::read(&Entry { labels: BTreeMap::new(), ..entry("web", 1, "deployed") }).is_none());
        let mut odd = entry("web", 1, "deployed");
        odd.labels.insert("version".into(), "one".into());
        odd.name = "sh.helm.release.v1.web.vone".into();
        assert!(Revision::read(&odd).is_none());
    }
}
