//! A live object, reduced to the parts that are compared and exposed.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

use super::{
    Algorithm, DeclaredObject, Digest, FieldManager, Health, LabelSet, ObjectKey, Phase, Record, Report,
    ShortText, UnknownReason,
};

/// One live object, reduced to what is compared and shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveObject {
    /// Its identity.
    pub key: ObjectKey,
    /// Whether it is there; what is declared and not there has nothing but its identity.
    pub exists: bool,
    /// Tells apart two objects that had the same name one after the other.
    pub uid: Box<str>,
    /// The version of the object that was read.
    pub resource_version: ShortText,
    /// What rules and series asked about it.
    pub extras: Arc<RuleInputs>,
    /// What the annotation source found on it.
    pub stamp: HashBaseline,
    /// The small facts that the API shows.
    pub facts: Facts,
    /// All that is declared in it, where a source compares fields of its kind.
    pub document: Option<Box<Document>>,
    /// What its status tells, where a source asks.
    pub report: Option<Box<Report>>,
    /// What kubectl wrote down on it when it applied it, where that counts.
    pub applied: Option<Box<LastApplied>>,
}

/// A live object as far as fields of it are compared: without its status, and with its field managers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The object, in which values that may not be told are digests.
    pub packed: Packed,
    /// A keyed digest of it without its field managers and before anything in it was sealed, to tell whether it changed.
    pub content: u64,
}

impl Document {
    /// What stands for an object that does not look as its kind should.
    pub fn unreadable() -> Self {
        Self { packed: Packed::new(Vec::new()), content: 0 }
    }

    /// Whether there is nothing in it to compare.
    pub fn is_unreadable(&self) -> bool {
        self.packed.bytes().is_empty()
    }
}

impl LiveObject {
    /// What stands for an object that is declared and not there.
    pub fn absent(key: ObjectKey) -> Self {
        Self {
            key,
            exists: false,
            uid: Box::default(),
            resource_version: ShortText::new(),
            extras: Arc::default(),
            stamp: HashBaseline::Unasked,
            facts: Facts::default(),
            document: None,
            report: None,
            applied: None,
        }
    }
}

impl LiveObject {
    /// What its controller recorded about it, where a source asks.
    pub fn record(&self) -> Option<&Record> {
        self.report.as_ref()?.record.as_ref()
    }
}

/// What kubectl wrote down on an object when it applied it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastApplied {
    /// What it declares.
    pub declared: DeclaredObject,
    /// A hash of the object without it, to tell whether only this moved.
    pub rest: u64,
}

/// What is read of an object only because somebody asks for it. Objects that have nothing of it share one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleInputs {
    /// The labels that were looked for, in order.
    pub label_names: Arc<[Box<str>]>,
    /// Those of them that the object has. Of one that was never there, all that are declared of it.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Paths whose differences the object itself asks to ignore, with commas between them; empty where settings do not
    /// allow it to.
    pub mutes: Box<str>,
}

impl RuleInputs {
    /// Whether some of it stood on the object when it was there.
    pub fn were_read(&self) -> bool {
        !self.label_names.is_empty() || !self.mutes.is_empty()
    }

    /// Whether all these labels were looked for, so that one that is not here is not on the object either.
    pub fn cover(&self, label_names: &[Box<str>]) -> bool {
        label_names.iter().all(|name| self.label_names.binary_search(name).is_ok())
    }
}

/// The hash baseline that an object carries itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashBaseline {
    /// Nobody asks for hashes.
    Unasked,
    /// No hash is recorded.
    Absent,
    /// A hash is recorded, or the object is there, but nothing can be compared.
    Unusable(UnknownReason),
    /// The recorded hash is the hash of the object.
    Match(Digest),
    /// The recorded hash is another one.
    Mismatch(Box<HashMismatch>),
}

/// Two hashes that differ, and who wrote last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashMismatch {
    /// How both hashes were made.
    pub algorithm: Algorithm,
    /// The recorded hash.
    pub expected: Digest,
    /// The object's hash.
    pub actual: Digest,
    /// Who wrote the hashed part since the hash was recorded, as far as the object says.
    pub writer: Option<FieldManager>,
    /// Who recorded the hash, as long as nothing says that it ever fitted: then the object differs since they wrote.
    pub recorder: Option<FieldManager>,
}

impl HashBaseline {
    /// The same, in the light of what the object carried before.
    ///
    /// An object says who owns its fields, not who took one away: of a field that is gone, and of replicas that were scaled
    /// to 0, it names nobody. If the hash fitted until then, whoever recorded it is not to blame, unless they have just
    /// written again.
    #[must_use]
    pub fn after(mut self, before: &Self, now: Timestamp) -> Self {
        if let Self::Mismatch(mismatch) = &mut self {
            let expected = mismatch.expected;
            match before {
                // Nothing that counts has changed, so whoever is to blame still is.
                Self::Mismatch(known) if known.expected == expected && known.actual == mismatch.actual => {
                    mismatch.recorder.clone_from(&known.recorder);
                    // Who records a hash in a status may write there again, and does not take the blame by that.
                    mismatch.writer = mismatch.writer.take().or_else(|| known.writer.clone());
                }
                Self::Mismatch(known) if known.expected == expected => mismatch.acquit(now),
                Self::Match(digest) if *digest == expected => mismatch.acquit(now),
                Self::Unasked | Self::Absent | Self::Unusable(_) | Self::Match(_) | Self::Mismatch(_) => {}
            }
        }
        self
    }
}

impl HashMismatch {
    /// Who is to blame.
    pub fn culprit(&self) -> Option<&FieldManager> {
        self.writer.as_ref().or(self.recorder.as_ref())
    }

    /// Does not suspect the recorder any more, unless that is who has just written.
    fn acquit(&mut self, now: Timestamp) {
        self.recorder.take_if(|writer| !writer.has_just_written(now));
    }
}

/// Small facts about an object, taken from its spec and status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How well it works.
    pub health: Health,
    /// What it is doing, where that says more than its health.
    pub phase: Option<Phase>,
    /// Why it is not healthy, or not done yet; empty when all is well.
    pub message: Box<str>,
    /// Replicas that should run, for kinds that have them.
    pub replicas: Option<i32>,
    /// CPU requested by one replica, in thousandths of a core.
    pub cpu_request: Option<u64>,
    /// Memory requested by one replica, in bytes.
    pub memory_request: Option<u64>,
    /// Storage requested by one replica, in bytes.
    pub storage_request: Option<u64>,
    /// Whether it orders a load balancer.
    pub load_balancer: bool,
    /// Where it can be reached, when that does not follow from its name.
    pub endpoint: Option<Box<str>>,
    /// The first port it serves on.
    pub port: Option<u16>,
    /// The name of the Secret that tells how to connect; never what is in it.
    pub connection_secret: Option<Box<str>>,
    /// The labels of its pods; those that it selects pods by, for Services.
    pub labels: LabelSet,
    /// The value of its label `app.kubernetes.io/instance`.
    pub instance: Option<Box<str>>,
    /// The object whose replicas it sets, for autoscalers.
    pub scales: Option<Box<ObjectKey>>,
    /// The object that made it and looks after it.
    pub owner: Option<Box<ObjectKey>>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            health: Health::Unknown,
            phase: None,
            message: Box::default(),
            replicas: None,
            cpu_request: None,
            memory_request: None,
            storage_request: None,
            load_balancer: false,
            endpoint: None,
            port: None,
            connection_secret: None,
            labels: LabelSet::default(),
            instance: None,
            scales: None,
            owner: None,
        }
    }
}

/// A JSON document, packed small by [`crate::compare::pack`]. Two that are the same document have the same bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Packed(Box<[u8]>);

impl Packed {
    /// These bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Tells how much it is and nothing of what is in it.
impl fmt::Debug for Packed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Packed({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{Algorithm, Digest, FieldManager, HashBaseline, HashMismatch};

    const LATER: Timestamp = Timestamp::constant(1000, 0);

    fn by(manager: &str, second: Option<i64>) -> FieldManager {
        let time = second.map(|second| Timestamp::from_second(second).unwrap());
        FieldManager { manager: manager.into(), subresource: "".into(), time }
    }

    fn differs(actual: &str, writer: Option<FieldManager>) -> HashBaseline {
        let (expected, actual) = (Digest::of(b"declared"), Digest::of(actual.as_bytes()));
        let (algorithm, recorder) = (Algorithm::TfdriftV1, Some(by("terraform", Some(10))));
        HashBaseline::Mismatch(Box::new(HashMismatch { algorithm, expected, actual, writer, recorder }))
    }

    #[track_caller]
    fn check(before: &HashBaseline, now: HashBaseline, culprit: Option<&str>) {
        let HashBaseline::Mismatch(mismatch) = now.after(before, LATER) else { panic!("it still differs") };
        assert_eq!(mismatch.culprit().map(|writer| &*writer.manager), culprit);
    }

    #[test]
    fn whoever_recorded_a_hash_that_fitted_is_not_to_blame() {
        let fitted = HashBaseline::Match(Digest::of(b"declared"));
        check(&fitted, differs("a", None), None);
        check(&fitted, differs("a", Some(by("edit", Some(20)))), Some("edit"));
        check(&fitted, differs("a", Some(by("scale", None))), Some("scale"));
        check(&HashBaseline::Absent, differs("a", None), Some("terraform"));
        check(&HashBaseline::Match(Digest::of(b"another")), differs("a", None), Some("terraform"));
    }

    #[test]
    fn whoever_recorded_it_and_has_just_written_again_is() {
        let HashBaseline::Mismatch(mut again) = differs("a", None) else { panic!("it differs") };
        again.recorder = Some(by("terraform", Some(LATER.as_second() - 5)));
        check(
            &HashBaseline::Match(Digest::of(b"declared")),
            HashBaseline::Mismatch(again),
            Some("terraform"),
        );
    }

    #[test]
    fn nobody_stays_to_blame_until_somebody_is_known() {
        let nobodys = differs("a", None).after(&HashBaseline::Match(Digest::of(b"declared")), LATER);
        check(&nobodys, differs("a", None), None);
        check(&nobodys, differs("b", None), None);
        check(&nobodys, differs("b", Some(by("edit", Some(20)))), Some("edit"));
        check(&differs("a", None), differs("a", None), Some("terraform"));
        check(&differs("a", None), differs("b", None), None);
    }
}
