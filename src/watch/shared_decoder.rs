//! The decoder of an open watch, which the supervisor may replace.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Notify;

use super::decode::ObjectDecoder;

pub(super) struct SharedDecoder {
    current: RwLock<Arc<ObjectDecoder>>,
    replaced: Notify,
}

impl SharedDecoder {
    pub(super) fn new(decoder: ObjectDecoder) -> Self {
        Self { current: RwLock::new(Arc::new(decoder)), replaced: Notify::new() }
    }

    pub(super) fn current(&self) -> Arc<ObjectDecoder> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn replace(&self, decoder: ObjectDecoder) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(decoder);
        self.replaced.notify_one();
    }

    /// Resolves when the decoder has been replaced since the last call.
    pub(super) async fn replaced(&self) {
        self.replaced.notified().await;
    }
}
