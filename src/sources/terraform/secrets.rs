//! Reads states and published baselines from the Secrets that store them in chunks.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::ListParams};
use zeroize::{Zeroize as _, Zeroizing};

use super::{
    published::PublishedBaseline,
    state::{StateReader, TerraformState},
};
use crate::{
    config::BaselineLimits,
    sources::{
        driver::{DecodeSlots, ReadFailure, ReadResult, read_blocking},
        inflate::InflateReader,
        metadata_watch::{ApiFailure, REQUEST_TIMEOUT, last_write},
    },
    types::BaselineFault,
    watch::request_with_timeout,
};

/// A Secret has up to 1 MiB.
const PAGE_SIZE: u32 = 8;
/// States compress at least this well.
const MIN_INFLATE_RATIO: usize = 4;

/// The names of the Secrets of one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkNames {
    /// The first Secret, which identifies the state.
    pub(super) name: Box<str>,
    /// All Secrets in order; `None` for one that is missing.
    pub(super) parts: Vec<Option<Box<str>>>,
}

/// Groups Secrets by state: a base name, followed by `-part-1`, `-part-2` and so on.
///
/// A name that looks like a part is a state of its own if its base does not exist.
pub(super) fn group_chunks<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<ChunkNames> {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let mut states: BTreeMap<&str, BTreeMap<usize, &str>> = BTreeMap::new();
    for name in &names {
        let (base, index) = chunk_of(name).filter(|(base, _)| names.contains(base)).unwrap_or((name, 0));
        states.entry(base).or_default().entry(index).or_insert(name);
    }
    let chunks = |(name, parts): (&str, BTreeMap<usize, &str>)| {
        // A huge index shows as one gap, not as an allocation of that size.
        let last = parts.keys().max().map_or(0, |index| (*index).min(parts.len()));
        let part = |index: usize| parts.get(&index).map(|name| (*name).into());
        ChunkNames { name: name.into(), parts: (0..=last).map(part).collect() }
    };
    states.into_iter().map(chunks).collect()
}

/// The base name and the index of a Secret that is not the first.
pub(super) fn chunk_of(name: &str) -> Option<(&str, usize)> {
    let (base, index) = name.rsplit_once("-part-")?;
    let index = index.parse().ok().filter(|index| *index > 0 && !base.is_empty())?;
    Some((base, index))
}

/// Concatenates chunks. If one is missing, the state is being written.
fn join_chunks(chunks: &[Option<&[u8]>]) -> Result<Zeroizing<Vec<u8>>, BaselineFault> {
    let chunks: Option<Vec<&[u8]>> = chunks.iter().copied().collect();
    chunks.map(|chunks| Zeroizing::new(chunks.concat())).ok_or(BaselineFault::Incomplete)
}

/// Lists the Secrets of a state, and decodes them on a blocking thread.
pub(super) async fn read_secrets(
    SecretRequest { client, namespace, selector, slots, limits }: SecretRequest,
    reader: StateReader,
    decode: impl FnOnce(&[Secret], &mut StateReader, &BaselineLimits) -> ReadResult + Send + 'static,
) -> (StateReader, ReadResult) {
    match list_secrets(&client, &namespace, &selector, &limits).await {
        Ok(mut secrets) => {
            let size = secrets.iter().map(stored_size).sum();
            let decode = move |reader: &mut StateReader| {
                let result = decode(&secrets, reader, &limits);
                let values = secrets.iter_mut().filter_map(|secret| secret.data.as_mut()).flatten();
                values.for_each(|(_, value)| value.0.zeroize());
                result
            };
            read_blocking(reader, &slots, size, decode).await
        }
        Err(failure) => (reader, Err(failure)),
    }
}

/// The Secrets of one state, and the limits on reading them.
pub(super) struct SecretRequest {
    pub(super) client: Client,
    pub(super) namespace: Box<str>,
    pub(super) selector: String,
    pub(super) slots: DecodeSlots,
    pub(super) limits: BaselineLimits,
}

async fn list_secrets(
    client: &Client,
    namespace: &str,
    selector: &str,
    limits: &BaselineLimits,
) -> Result<Vec<Secret>, ReadFailure> {
    let request = format!("list Secrets with label {selector} in namespace {namespace}");
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mut params = ListParams::default().labels(selector).limit(PAGE_SIZE);
    let mut secrets = Vec::new();
    loop {
        let page = request_with_timeout(REQUEST_TIMEOUT, api.list(&params)).await;
        let page = page.map_err(|error| ReadFailure::Api(ApiFailure::new(&error, &request)))?;
        secrets.extend(page.items);
        if secrets.iter().map(stored_size).sum::<usize>() > limits.inflated_bytes / MIN_INFLATE_RATIO {
            return Err(ReadFailure::TooLarge(limits.inflated_exceeded()));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(secrets),
        }
    }
}

/// Decodes a state of Terraform's Kubernetes backend. `name` is that of its first Secret.
pub(super) fn decode_state(
    secrets: &[Secret],
    name: &str,
    reader: &mut StateReader,
    limits: &BaselineLimits,
) -> ReadResult {
    let names = secrets.iter().filter_map(|secret| secret.metadata.name.as_deref());
    let Some(state) = group_chunks(names).into_iter().find(|state| *state.name == *name) else {
        return Err(ReadFailure::NotFound);
    };
    let parts: Vec<Option<&Secret>> =
        state.parts.iter().map(|name| find_secret(secrets, name.as_deref()?)).collect();
    let chunks: Vec<Option<&[u8]>> =
        parts.iter().map(|part| part.map(|part| value_of(part, "tfstate"))).collect();
    let written = last_write_of(&parts);
    // The first `terraform init` creates an empty Secret.
    if chunks == [Some(&[][..])] {
        return Ok(TerraformState::default().into_baseline(written, None));
    }
    let joined = join_chunks(&chunks)?;
    let text = InflateReader::of_state(&**joined, joined.len() as u64, limits)?.joined_from(chunks.len());
    let state = reader.read(text, limits)?;
    Ok(state.into_baseline(written, None))
}

/// Decodes Secrets that `drift-exporter baseline` created. `prefix` is that of their annotations.
pub(super) fn decode_published(
    secrets: &[Secret],
    name: &str,
    prefix: &str,
    limits: &BaselineLimits,
) -> ReadResult {
    let first = find_secret(secrets, name).ok_or(ReadFailure::NotFound)?;
    let annotation = |secret: &Secret, key: &str| {
        let annotations = secret.metadata.annotations.as_ref();
        annotations.and_then(|annotations| annotations.get(&format!("{prefix}/{key}"))).cloned()
    };
    let publication = annotation(first, "publication");
    let count: usize = annotation(first, "chunks").and_then(|count| count.parse().ok()).unwrap_or(1);
    if count > secrets.len() {
        return Err(BaselineFault::Incomplete.into());
    }
    // Chunks beyond the count are left over from a longer publication.
    let part = |index: usize| match index {
        0 => Some(first),
        index => find_secret(secrets, &format!("{name}-part-{index}")),
    };
    let parts: Vec<Option<&Secret>> = (0..count.max(1)).map(part).collect();
    if parts.iter().flatten().any(|part| annotation(part, "publication") != publication) {
        return Err(BaselineFault::Incomplete.into());
    }
    let chunks: Vec<Option<&[u8]>> =
        parts.iter().map(|part| part.map(|part| value_of(part, "baseline"))).collect();
    let joined = join_chunks(&chunks)?;
    let text = InflateReader::of_text(&**joined, joined.len() as u64, limits)?;
    let text = text.joined_from(chunks.len()).read_to_end()?;
    let PublishedBaseline { published, key, state, .. } = PublishedBaseline::read(&text, limits)?;
    Ok(state.into_baseline(Some(published), Some(key)))
}

/// The bytes of the whole object: labels and annotations need memory too.
fn stored_size(secret: &Secret) -> usize {
    let mut size = ByteCount::default();
    // A count does not fail.
    let _ = serde_json::to_writer(&mut size, &secret.metadata);
    size.0 + secret.data.iter().flatten().map(|(key, value)| key.len() + value.0.len()).sum::<usize>()
}

/// Counts bytes without a copy of the text.
#[derive(Default)]
struct ByteCount(usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn find_secret<'a>(secrets: &'a [Secret], name: &str) -> Option<&'a Secret> {
    secrets.iter().find(|secret| secret.metadata.name.as_deref() == Some(name))
}

fn value_of<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    secret.data.as_ref().and_then(|data| data.get(key)).map_or(&[], |bytes| &bytes.0)
}

fn last_write_of(parts: &[Option<&Secret>]) -> Option<Timestamp> {
    parts.iter().flatten().filter_map(|part| last_write(&part.metadata)).max()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{ByteString, api::core::v1::Secret};

    use super::{BaselineFault, group_chunks, join_chunks, stored_size};

    #[test]
    fn annotations_count_as_stored_bytes() {
        let mut secret = Secret::default();
        secret.metadata.annotations = Some([("note".to_owned(), "x".repeat(250 << 10))].into());
        secret.data = Some([("tfstate".to_owned(), ByteString(vec![0; 1000]))].into());
        assert!((251_000..260_000).contains(&stored_size(&secret)), "{}", stored_size(&secret));
    }

    #[test]
    fn chunks_are_grouped_by_base_name_and_ordered_by_index() {
        let names = ["a-part-10", "a", "a-part-2", "b-part-1", "a-part-1"];
        let states = group_chunks(names);
        let names: Vec<_> =
            states.iter().map(|state| (&*state.name, state.parts.iter().flatten().count())).collect();
        assert_eq!(names, [("a", 3), ("b-part-1", 1)]);
        assert_eq!(states[0].parts[2].as_deref(), Some("a-part-2"));
        assert_eq!(states[0].parts[3], None);
    }

    #[test]
    fn missing_chunk_is_a_torn_state() {
        assert_eq!(join_chunks(&[Some(b"a"), None]), Err(BaselineFault::Incomplete));
        assert_eq!(join_chunks(&[Some(b"a"), Some(b"b")]), Ok(b"ab".to_vec().into()));
    }
}
