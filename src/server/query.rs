//! Finding objects by what people call them: API and page ask the same way.
//! Jobs that run Terraform, by what they ran for.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    engine::{Entry, KindState, Snapshot, Transition},
    types::{JobOutcome, JobRun, Kind, LiveObject, ObjectKey},
};

/// A claim with the kind that it stands under.
pub(super) type Found<'a> = (&'a KindState, &'a Entry);

/// An object's name as it stands in a URL: kind with or without group, namespace or `-`, name.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Named {
    pub(super) fn new((kind, namespace, name): (String, String, String)) -> Self {
        let namespace = if namespace == "-" { String::new() } else { namespace };
        Self { kind, namespace, name }
    }

    /// The claims on the object, if it is known: at least one.
    pub(super) fn find<'a>(&self, snapshot: &'a Snapshot) -> Option<(&'a KindState, &'a [Arc<Entry>])> {
        let kinds = snapshot.kinds.iter().filter(|state| is_of_type(&state.kind, &self.kind));
        let mut claims = kinds.map(|state| (&**state, state.blocks.get(&self.namespace, &self.name)));
        claims.find(|(_, claims)| !claims.is_empty())
    }

    /// The object of this name that was last heard of, whether it still exists or not.
    pub(super) fn find_in_history<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a ObjectKey> {
        let mut keys = snapshot.history.newest_first().map(|transition| &transition.key);
        keys.find(|key| {
            *key.name == self.name && *key.namespace == self.namespace && is_of_type(&key.kind, &self.kind)
        })
    }
}

/// `deployment`, `deployments`, `deployment.apps` and `deployments.apps` all mean the same, in any case.
pub(super) fn is_of_type(kind: &Kind, wanted: &str) -> bool {
    let (name, group) = wanted.split_once('.').map_or((wanted, None), |(name, group)| (name, Some(group)));
    (name.eq_ignore_ascii_case(&kind.kind) || name.eq_ignore_ascii_case(&kind.plural))
        && group.is_none_or(|group| group.eq_ignore_ascii_case(&kind.group))
}

/// The transitions of one object, newest first.
pub(super) fn history_of<'a>(
    snapshot: &'a Snapshot,
    key: &'a ObjectKey,
) -> impl Iterator<Item = &'a Transition> {
    snapshot.history.newest_first().filter(move |transition| transition.key == *key).map(|own| &**own)
}

/// The newest run for each subject, and how the last one ended that did.
///
/// Jobs come and go with each run, under a new name; what they run for stays. So there is one of these for each custom
/// resource, however often it is applied.
#[derive(Debug, Default)]
pub(super) struct Runs<'a>(BTreeMap<(&'a str, &'a str), Latest<'a>>);

/// What is known about the runs for one subject.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latest<'a> {
    /// The newest run.
    pub(super) newest: Run<'a>,
    /// The newest run that has ended, and how.
    pub(super) ended: Option<(Run<'a>, &'a JobOutcome)>,
}

/// One run, and the Job that it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) job: &'a ObjectKey,
    pub(super) run: &'a JobRun,
}

impl<'a> Run<'a> {
    /// The run that an object is, if it is one.
    pub(super) fn of(object: &'a LiveObject) -> Option<Self> {
        let run = object.report.as_ref()?.run.as_ref()?;
        Some(Self { job: &object.key, run })
    }

    /// Later ones count; of two at the same moment the one with the greater name, so that all replicas say the same.
    fn order(&self) -> impl Ord + use<'a> {
        (self.run.begun(), &self.job.name)
    }
}

impl<'a> Runs<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut runs = Self::default();
        let jobs =
            snapshot.kinds.iter().filter(|state| (&*state.kind.group, &*state.kind.kind) == ("batch", "Job"));
        for run in jobs.flat_map(|state| state.blocks.objects()).filter_map(|object| Run::of(object)) {
            runs.add(run);
        }
        runs
    }

    /// Every subject that has a run: its namespace, its name, and the runs.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str, &Latest<'a>)> {
        self.0.iter().map(|((namespace, name), latest)| (*namespace, *name, latest))
    }

    /// The newest run that belongs to an object: itself, or one for what its controller is to apply.
    pub(super) fn belonging_to(&self, object: &'a LiveObject) -> Option<Run<'a>> {
        let key = (&*object.key.namespace, &*object.key.name);
        let of_resource = || object.record().and_then(|_| self.0.get(&key)).map(|latest| latest.newest);
        Run::of(object).or_else(of_resource)
    }

    fn add(&mut self, run: Run<'a>) {
        let ended = run.run.outcome.as_ref().map(|outcome| (run, outcome));
        let subject = (&*run.job.namespace, &*run.run.subject);
        let latest = self.0.entry(subject).or_insert(Latest { newest: run, ended });
        if latest.newest.order() < run.order() {
            latest.newest = run;
        }
        if ended.is_some() && latest.ended.is_none_or(|(own, _)| own.order() < run.order()) {
            latest.ended = ended;
        }
    }
}
