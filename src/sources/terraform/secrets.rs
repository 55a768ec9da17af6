//! The Secrets that one state is spread over, and reading a state from where it is.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader},
    path::Path,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::ListParams};
use tokio::time::timeout;

use super::{
    published::Published,
    source::{Group, Place, SecretName},
    state::{StateReader, TerraformState},
};
use crate::{
    sources::{
        document_reader::read_aside,
        inflate::{Broken, Text, inflate_limit},
        metadata_watch::{Refusal, last_write},
        publisher::Reading,
    },
    types::{BaselineFault, BaselineVersion, RedactionKey},
};

/// One state by the Secrets that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSecret {
    /// The name of the first Secret, which the state is called by.
    pub name: Box<str>,
    /// The names of all its Secrets, in order; none for a part that is not there.
    pub parts: Vec<Option<Box<str>>>,
}

/// Which of these Secrets belong together: a base name, and `-part-1`, `-part-2` … beside it.
///
/// A name that looks like a part is a state of its own where there is no base.
pub fn group_chunks<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<StateSecret> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut states: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for name in &names {
        match part_of(name).filter(|(base, _)| names.contains(base)) {
            Some((base, part)) => states.entry(base).or_default().push((part, name)),
            None => states.entry(name).or_default().push((0, name)),
        }
    }
    let state = |(name, parts): (&str, Vec<(usize, &str)>)| {
        // No more places than parts and gaps between a few of them: a part numbered by a madman is a gap, not a gigabyte.
        let last = parts.iter().map(|(part, _)| *part).max().unwrap_or(0).min(parts.len());
        let at = |at: usize| parts.iter().find(|(part, _)| *part == at).map(|(_, name)| (*name).into());
        StateSecret { name: name.into(), parts: (0..=last).map(at).collect() }
    };
    states.into_iter().map(state).collect()
}

/// The name that a part belongs to, and its number.
pub(super) fn part_of(name: &str) -> Option<(&str, usize)> {
    let (base, part) = name.rsplit_once("-part-")?;
    let part = part.parse().ok().filter(|part| *part > 0 && !base.is_empty())?;
    Some((base, part))
}

/// Puts the bytes of a state's Secrets together. A part that is missing means that somebody writes the state right now.
pub fn join_chunks(parts: &[Option<&[u8]>]) -> Result<Vec<u8>, BaselineFault> {
    let parts: Option<Vec<&[u8]>> = parts.iter().copied().collect();
    parts.map(|parts| parts.concat()).ok_or(BaselineFault::Torn)
}

const PATIENCE: Duration = Duration::from_secs(20);
const PAGE: u32 = 50;

/// What came of reading.
#[derive(Debug)]
pub(super) enum Outcome {
    Read(Reading),
    /// Something is wrong with what is there.
    Fault(BaselineFault),
    /// The file cannot be opened; what the system said.
    NotOpened(String),
    /// The server does not let us read it now.
    Refused(Refusal),
    /// It is not there any more.
    Absent,
}

impl From<Broken> for Outcome {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::System(error) => Self::NotOpened(error.to_string()),
            Broken::Fault(fault) => Self::Fault(fault),
        }
    }
}

/// Reads a state from its Secrets, or a published baseline.
pub(super) async fn read_secrets(
    client: &Client,
    place: &Place,
    group: &Group,
    prefix: &str,
    reader: StateReader,
) -> (StateReader, Outcome) {
    let (secret, mut selector, names) = match place {
        Place::State(secret) => (
            secret,
            "tfstate=true".to_owned(),
            ["tfstateSecretSuffix", "tfstateWorkspace"].map(str::to_owned).to_vec(),
        ),
        Place::Published(secret) => {
            (secret, format!("{prefix}/baseline=true"), vec![format!("{prefix}/baseline-name")])
        }
        Place::File(_) => return (reader, Outcome::Absent),
    };
    // Labels that all its Secrets have spare us the other states of the namespace.
    for (name, value) in names.iter().filter_map(|name| group.labels.get_key_value(name)) {
        selector = format!("{selector},{name}={value}");
    }
    let secrets = match fetch(client, &secret.namespace, &selector).await {
        Ok(secrets) => secrets,
        Err(refusal) => return (reader, Outcome::Refused(refusal)),
    };
    let (place, secret, prefix) = (place.clone(), secret.clone(), prefix.to_owned());
    read_state_aside(reader, move |reader| match place {
        Place::Published(_) => read_published(&secrets, &secret, &prefix),
        Place::State(_) | Place::File(_) => read_state(&secrets, &secret, reader),
    })
    .await
}

/// Reads a state from a file.
pub(super) async fn read_file(path: &Path, reader: StateReader) -> (StateReader, Outcome) {
    let path = path.to_owned();
    read_state_aside(reader, move |reader| file(&path, reader).map_or_else(Outcome::from, Outcome::Read))
        .await
}

/// Inflating and parsing takes its time, and others wait for the loop.
async fn read_state_aside(
    reader: StateReader,
    read: impl FnOnce(&mut StateReader) -> Outcome + Send + 'static,
) -> (StateReader, Outcome) {
    let other = reader.fresh();
    let (reader, outcome) = read_aside(reader, other, read).await;
    (reader, outcome.unwrap_or(Outcome::Fault(BaselineFault::Unreadable)))
}

async fn fetch(client: &Client, namespace: &str, selector: &str) -> Result<Vec<Secret>, Refusal> {
    let doing = format!("list Secrets with label {selector} in namespace {namespace}");
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mut params = ListParams::default().labels(selector).limit(PAGE);
    let mut secrets = Vec::new();
    loop {
        let page = timeout(PATIENCE, api.list(&params)).await.map_err(|_| Refusal::stalled(&doing))?;
        let page = page.map_err(|error| Refusal::new(&error, &doing))?;
        secrets.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(secrets),
        }
    }
}

fn read_state(secrets: &[Secret], secret: &SecretName, reader: &mut StateReader) -> Outcome {
    let names = secrets.iter().filter_map(|secret| secret.metadata.name.as_deref());
    let Some(state) = group_chunks(names).into_iter().find(|state| state.name == secret.name) else {
        return Outcome::Absent;
    };
    let parts: Vec<Option<&Secret>> =
        state.parts.iter().map(|name| find(secrets, name.as_deref()?)).collect();
    let bytes: Vec<Option<&[u8]>> = parts.iter().map(|part| part.map(|part| data(part, "tfstate"))).collect();
    // The first init leaves a Secret without a state.
    if bytes == [Some(&[][..])] {
        return Outcome::Read(reading(TerraformState::default(), written(&parts), None));
    }
    let read = join_chunks(&bytes)
        .map_err(Broken::from)
        .and_then(|joined| reader.read(Text::joined(&joined, bytes.len())?));
    read.map_or_else(Outcome::from, |state| Outcome::Read(reading(state, written(&parts), None)))
}

fn read_published(secrets: &[Secret], secret: &SecretName, prefix: &str) -> Outcome {
    let Some(head) = find(secrets, &secret.name) else { return Outcome::Absent };
    let told = |secret: &Secret, name: &str| {
        let annotations = secret.metadata.annotations.as_ref();
        annotations.and_then(|own| own.get(&format!("{prefix}/{name}"))).cloned()
    };
    let publication = told(head, "publication");
    let count: usize = told(head, "chunks").and_then(|count| count.parse().ok()).unwrap_or(1);
    if count > secrets.len() {
        return Outcome::Fault(BaselineFault::Torn);
    }
    // What is left of a longer publication before is not asked for.
    let part = |at: usize| match at {
        0 => Some(head),
        at => find(secrets, &format!("{}-part-{at}", secret.name)),
    };
    let parts: Vec<Option<&Secret>> = (0..count.max(1)).map(part).collect();
    if parts.iter().flatten().any(|part| told(part, "publication") != publication) {
        return Outcome::Fault(BaselineFault::Torn);
    }
    let bytes: Vec<Option<&[u8]>> =
        parts.iter().map(|part| part.map(|part| data(part, "baseline"))).collect();
    let read = join_chunks(&bytes).map_err(Broken::from).and_then(|joined| {
        let text = Text::joined(&joined, bytes.len())?.whole()?;
        Ok(Published::read(&text)?)
    });
    let read = read.map(|published| reading(published.state, Some(published.published), Some(published.key)));
    read.map_or_else(Outcome::from, Outcome::Read)
}

fn file(path: &Path, reader: &mut StateReader) -> Result<Reading, Broken> {
    let (opened, size, written) = open(path).map_err(Broken::System)?;
    // Terraform makes the file before it writes the first state.
    if size == 0 {
        return Ok(reading(TerraformState::default(), written, None));
    }
    let text = Text::new(BufReader::new(opened), inflate_limit(size))?;
    reader.read(text).map(|state| reading(state, written, None))
}

fn open(path: &Path) -> io::Result<(File, u64, Option<Timestamp>)> {
    let opened = File::open(path)?;
    let facts = opened.metadata()?;
    let written = facts.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
    Ok((opened, facts.len(), written))
}

fn reading(state: TerraformState, written: Option<Timestamp>, key: Option<RedactionKey>) -> Reading {
    let TerraformState { serial, lineage, terraform_version, objects, skipped } = state;
    let version = BaselineVersion { serial, lineage, tool_version: terraform_version, written, chart: None };
    Reading { version, objects, skipped, key }
}

fn find<'a>(secrets: &'a [Secret], name: &str) -> Option<&'a Secret> {
    secrets.iter().find(|secret| secret.metadata.name.as_deref() == Some(name))
}

fn data<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    secret.data.as_ref().and_then(|data| data.get(key)).map_or(&[], |bytes| &bytes.0)
}

fn written(parts: &[Option<&Secret>]) -> Option<Timestamp> {
    parts.iter().flatten().filter_map(|part| last_write(&part.metadata)).max()
}

#[cfg(test)]
mod tests {
    use super::{BaselineFault, group_chunks, join_chunks};

    #[test]
    fn parts_stand_beside_their_base_in_order_of_their_numbers() {
        let names = ["a-part-10", "a", "a-part-2", "b-part-1", "a-part-1"];
        let states = group_chunks(names);
        let names: Vec<_> =
            states.iter().map(|state| (&*state.name, state.parts.iter().flatten().count())).collect();
        assert_eq!(names, [("a", 3), ("b-part-1", 1)]);
        assert_eq!(states[0].parts[2].as_deref(), Some("a-part-2"));
        assert_eq!(states[0].parts[3], None);
    }

    #[test]
    fn a_missing_part_is_a_torn_state() {
        assert_eq!(join_chunks(&[Some(b"a"), None]), Err(BaselineFault::Torn));
        assert_eq!(join_chunks(&[Some(b"a"), Some(b"b")]), Ok(b"ab".to_vec()));
    }
}
