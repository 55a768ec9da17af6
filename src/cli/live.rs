//! Objects as they are in the cluster now.

use http::Request;
use kube::Client;
use serde_json::Value;

use super::{args::ClusterArgs, values::ObjectRef};
use crate::{
    sources::root_cause,
    watch::{client_from, find_kind, object_url},
};

/// A cluster, and the namespace in which objects are looked for.
pub(super) struct Cluster {
    client: Client,
    namespace: String,
}

/// What came of asking for an object.
pub(super) enum Found {
    /// It is there.
    Object(Box<Value>),
    /// It is not, or may not be seen; what to tell about it.
    Nothing(String),
}

impl Cluster {
    /// Connects; nothing is asked yet.
    pub(super) async fn connect(arguments: &ClusterArgs, namespace: Option<&str>) -> Result<Self, String> {
        let client = client_from(&arguments.connection()).await.map_err(|error| error.to_string())?;
        let named = namespace.filter(|name| !name.is_empty());
        let namespace = named.unwrap_or_else(|| client.default_namespace()).to_owned();
        Ok(Self { client, namespace })
    }

    /// Asks for an object. The error says that the cluster cannot be asked at all.
    pub(super) async fn get(&self, object: &ObjectRef) -> Result<Found, String> {
        let ObjectRef { kind, name } = object;
        let unreachable =
            |error| format!("cannot ask the cluster about {kind}/{name}: {}", root_cause(&error));
        let found = find_kind(&self.client, kind).await;
        let found = found.map_err(|error| format!("cannot ask the cluster about {kind}/{name}: {error}"))?;
        let Some(found) = found else {
            return Ok(Found::Nothing(format!("the cluster has no kind `{kind}`")));
        };
        let request = Request::get(object_url(&found, &self.namespace, name)).body(Vec::new());
        let request = request.map_err(|error| format!("{kind}/{name} is no name: {error}"))?;
        match self.client.request::<Value>(request).await {
            Ok(object) => Ok(Found::Object(Box::new(object))),
            Err(kube::Error::Api(status)) => Ok(Found::Nothing(format!("{kind}/{name}: {}", status.message))),
            Err(error) => Err(unreachable(error)),
        }
    }
}
