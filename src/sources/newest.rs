//! Waiting for other settings.

use std::sync::Arc;

use tokio::sync::watch;

/// Waits until settings name something else.
pub(super) async fn other_than<T: PartialEq>(newest: &mut watch::Receiver<Arc<T>>, current: &T) {
    while **newest.borrow_and_update() == *current {
        if newest.changed().await.is_err() {
            // Nobody is left to change them.
            return std::future::pending().await;
        }
    }
}
