//! Reading the deployed revision of a release.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    super::release::decode,
    place::{Driver, Place},
};
use crate::{
    sources::{
        aside::{Placed, read_placed},
        declare::{Declared, DocumentReader, Written},
        feed::Refusal,
        known::Reading,
        scopes::Scopes,
    },
    types::{BaselineFault, DownReason},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// What came of reading.
#[derive(Debug)]
pub(super) enum Outcome {
    Read(Placed),
    /// Something is wrong with what is there.
    Fault(BaselineFault),
    /// The server does not let us read it now.
    Refused(Refusal),
    /// It is not there, or not deployed any more: that is told of in a moment.
    Moved,
}

/// Reads the revision that is kept in the object of this name. It is unpacked `alone`: a release may be large then.
pub(super) async fn read(
    client: &Client,
    place: &Place,
    stored: &str,
    reader: DocumentReader,
    scopes: &mut Scopes,
    alone: &Semaphore,
) -> (DocumentReader, Outcome) {
    let fetched = match fetch(client, place, stored).await {
        Ok(Some(fetched)) => fetched,
        Ok(None) => return (reader, Outcome::Moved),
        Err(refusal) => return (reader, Outcome::Refused(refusal)),
    };
    let _permit = alone.acquire().await;
    let (fetched, place): (Arc<[u8]>, Place) = (fetched.into(), place.clone());
    let understand =
        move |reader: &mut DocumentReader, scopes: &Scopes| understand(&fetched, &place, reader, scopes);
    let (reader, placed) = read_placed(client, reader, scopes, understand).await;
    (reader, placed.map_or_else(Outcome::Fault, Outcome::Read))
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
