//! Who asks.

use std::{convert::Infallible, sync::Arc};

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::{
    expose::{Exposed, values::Values},
    state::Snapshot,
};

/// Who asks, as far as it matters to what is shown. All that handlers show comes through it.
#[derive(Clone, Debug)]
pub(in crate::expose) struct Caller {
    exposed: Arc<Exposed>,
}

impl Caller {
    /// What is known, as far as the caller may see it.
    pub(in crate::expose) fn snapshot(&self) -> Arc<Snapshot> {
        self.exposed.state.snapshot()
    }

    /// How the values of fields are shown to the caller.
    pub(in crate::expose) fn values(&self) -> Values {
        Values::of(&self.exposed)
    }
}

impl FromRequestParts<Arc<Exposed>> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, exposed: &Arc<Exposed>) -> Result<Self, Infallible> {
        Ok(Self { exposed: exposed.clone() })
    }
}
