//! Reading the deployed revision of a release.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use tokio::time::timeout;

use super::{
    super::release::decode,
    place::{Driver, Place},
};
use crate::{
    baseline::{
        declare::{Declared, DocumentReader, Written},
        feed::Refusal,
        known::Reading,
        scopes::Scopes,
    },
    model::{BaselineFault, DownReason},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// What came of reading.
#[derive(Debug)]
pub(super) enum Outcome {
    Read {
        reading: Reading,
        /// Whether it is known of all its objects where they are. Else their kinds are asked for again.
        placed: bool,
    },
    /// Something is wrong with what is there.
    Fault(BaselineFault),
    /// The server does not let us read it now.
    Refused(Refusal),
    /// It is not there, or not deployed any more: that is told of in a moment.
    Moved,
}

/// Reads the revision that is kept in the object of this name.
pub(super) async fn read(
    client: &Client,
    place: &Place,
    stored: &str,
    reader: DocumentReader,
    scopes: &mut Scopes,
) -> (DocumentReader, Outcome) {
    let fetched = match fetch(client, place, stored).await {
        Ok(Some(fetched)) => fetched,
        Ok(None) => return (reader, Outcome::Moved),
        Err(refusal) => return (reader, Outcome::Refused(refusal)),
    };
    let (mut reader, mut outcome) = off_the_loop(&fetched, place, reader, scopes).await;
    if let Outcome::Read { reading, .. } = &outcome {
        let objects = reading.objects.iter().map(|own| &own.object);
        match scopes.learn(client, objects).await {
            // Where they are was decided without knowing.
            Ok(true) => (reader, outcome) = off_the_loop(&fetched, place, reader.fresh(), scopes).await,
            Ok(false) => {}
            Err(refusal) => return (reader, Outcome::Refused(refusal)),
        }
    }
    if let Outcome::Read { reading, placed } = &mut outcome {
        *placed = scopes.knows(reading.objects.iter().map(|own| &own.object));
    }
    (reader, outcome)
}

/// What stands under `release`, while that revision is deployed.
async fn fetch(client: &Client, place: &Place, stored: &str) -> Result<Option<Vec<u8>>, Refusal> {
    const KEY: &str = "release";
    let namespace = &*place.namespace;
    let doing = format!("get {} {stored} in namespace {namespace}", place.driver.object());
    let asked = async {
        match place.driver {
            Driver::Secrets => {
                let secret = Api::<Secret>::namespaced(client.clone(), namespace).get(stored).await?;
                let bytes = secret.data.and_then(|mut data| data.remove(KEY)).map(|own| own.0);
                Ok((secret.metadata, bytes))
            }
            Driver::ConfigMaps => {
                let map = Api::<ConfigMap>::namespaced(client.clone(), namespace).get(stored).await?;
                let bytes = map.data.and_then(|mut data| data.remove(KEY)).map(String::into_bytes);
                Ok((map.metadata, bytes))
            }
        }
    };
    let asked: Result<_, kube::Error> =
        timeout(PATIENCE, asked).await.map_err(|_| Refusal::stalled(&doing))?;
    match asked.map_err(|error| Refusal::new(&error, &doing)) {
        Ok((metadata, bytes)) => {
            let status = metadata.labels.as_ref().and_then(|labels| labels.get("status"));
            let is_deployed = status.is_some_and(|status| status == "deployed");
            Ok(is_deployed.then(|| bytes.unwrap_or_default()))
        }
        Err(refusal) if refusal.reason == DownReason::NotFound => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

/// Inflating and parsing takes its time, and others wait for the loop.
async fn off_the_loop(
    fetched: &[u8],
    place: &Place,
    mut reader: DocumentReader,
    scopes: &Scopes,
) -> (DocumentReader, Outcome) {
    let fresh = reader.fresh();
    let (fetched, place, scopes) = (fetched.to_vec(), place.clone(), scopes.clone());
    let task = tokio::task::spawn_blocking(move || {
        let outcome = understand(&fetched, &place, &mut reader, &scopes);
        (reader, outcome.map_or_else(Outcome::Fault, |reading| Outcome::Read { reading, placed: true }))
    });
    task.await.unwrap_or((fresh, Outcome::Fault(BaselineFault::Unreadable)))
}

fn understand(
    fetched: &[u8],
    place: &Place,
    reader: &mut DocumentReader,
    scopes: &Scopes,
) -> Result<Reading, BaselineFault> {
    let release = decode(fetched)?;
    // Somebody may have copied it here.
    let is_named = |own: &str, wanted: &str| own.is_empty() || own == wanted;
    if !is_named(&release.name, &place.release) || !is_named(&release.namespace, &place.namespace) {
        return Err(BaselineFault::Foreign);
    }
    let written = Written { text: &release.manifest, namespace: &place.namespace, name: None };
    let Declared { objects, skipped } = reader.read([written], scopes);
    Ok(Reading { version: release.version(), objects, skipped, key: None })
}
