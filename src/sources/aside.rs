//! Reading that takes its time, away from the loop that others wait for.

use kube::Client;

use super::{declare::DocumentReader, feed::Refusal, known::Reading, scopes::Scopes};
use crate::types::BaselineFault;

/// Reads with a reader that is handed back. Where that panics, there is nothing, and another reader.
pub(super) async fn read_aside<R: Send + 'static, T: Send + 'static>(
    mut reader: R,
    other: R,
    read: impl FnOnce(&mut R) -> T + Send + 'static,
) -> (R, Option<T>) {
    let task = tokio::task::spawn_blocking(move || {
        let outcome = read(&mut reader);
        (reader, Some(outcome))
    });
    task.await.unwrap_or((other, None))
}

/// What documents declare, and whether it is known where that is.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) reading: Reading,
    /// Whether it is known of all its objects where they are. Else their kinds are asked for again.
    pub(super) is_sure: bool,
    /// Why nobody could be asked about some of them, which are left out.
    pub(super) refusal: Option<Refusal>,
}

/// Reads documents, and reads them again where the API server has to be asked which of their kinds have namespaces.
pub(super) async fn read_placed<F>(
    client: &Client,
    reader: DocumentReader,
    scopes: &mut Scopes,
    read: F,
) -> (DocumentReader, Result<Placed, BaselineFault>)
where
    F: Fn(&mut DocumentReader, &Scopes) -> Result<Reading, BaselineFault> + Clone + Send + 'static,
{
    let (mut reader, mut outcome) = read_within(reader, scopes, read.clone()).await;
    let objects = outcome.iter().flat_map(|reading| &reading.objects).map(|own| &own.object);
    let learned = scopes.learn(client, objects).await;
    if learned.anything {
        // Where they are was decided without knowing.
        (reader, outcome) = read_within(reader.fresh(), scopes, read).await;
    }
    let placed = outcome.map(|mut reading| {
        let is_sure = scopes.knows(reading.objects.iter().map(|own| &own.object));
        reading.objects.retain(|own| learned.covers(&own.object));
        Placed { reading, is_sure, refusal: learned.refusal() }
    });
    (reader, placed)
}

async fn read_within<F>(
    reader: DocumentReader,
    scopes: &Scopes,
    read: F,
) -> (DocumentReader, Result<Reading, BaselineFault>)
where
    F: FnOnce(&mut DocumentReader, &Scopes) -> Result<Reading, BaselineFault> + Send + 'static,
{
    let (other, scopes) = (reader.fresh(), scopes.clone());
    let (reader, outcome) = read_aside(reader, other, move |reader| read(reader, &scopes)).await;
    (reader, outcome.unwrap_or(Err(BaselineFault::Unreadable)))
}
