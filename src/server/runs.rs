//! Jobs that run Terraform, by what they ran for.

use std::collections::BTreeMap;

use crate::{
    engine::Snapshot,
    types::{JobOutcome, JobRun, LiveObject, ObjectKey},
};

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
