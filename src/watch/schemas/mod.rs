//! What the API server says about kinds that are not those of Kubernetes itself: by what elements of their lists are known.
//!
//! It is read for kinds that are compared by their fields, when one is new, and looked at again when a watch of one is cut: a
//! server that takes in another schema of a kind ends all watches of it.

mod index;
mod reader;

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::{Notify, watch};

pub use self::reader::SchemaReader;
use super::DecodeConfig;
use crate::{
    diff::declared::{ClusterSchemas, CustomKind, Schemas},
    types::{Kind, Plan},
};

/// Where streams say of which kinds something has to be known, and where that is told. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SchemaRequests {
    shapes: watch::Sender<Arc<ClusterSchemas>>,
    /// Tells that there may be something to read.
    news: Arc<Notify>,
}

impl SchemaRequests {
    fn new() -> (Self, watch::Receiver<Arc<ClusterSchemas>>) {
        let (shapes, receiver) = watch::channel(Arc::default());
        (Self { shapes, news: Arc::default() }, receiver)
    }

    /// Has these streams' kinds read about, as far as their fields are compared and nobody knows them. From now on whoever compares
    /// waits for what is new.
    pub(super) fn want(&self, plan: &Plan, reading: &DecodeConfig) {
        let compared = plan.streams.iter().map(|stream| &stream.kind).filter(|kind| reading.compares(kind));
        let unknown = compared.filter(|kind| !Schemas::built_in().has(&kind.api_version(), &kind.kind));
        let kinds: BTreeSet<CustomKind> =
            unknown.map(|kind| (kind.api_version().into(), kind.kind.clone())).collect();
        if self.change(|shapes| shapes.want(&kinds)) {
            self.news.notify_one();
        }
    }

    /// A watch of this kind was cut, or works again: its schema may be another one.
    pub(super) fn look_again(&self, kind: &Kind) {
        if self.shapes.borrow().wants(&kind.api_version(), &kind.kind) {
            self.news.notify_one();
        }
    }

    fn change(&self, change: impl FnOnce(&mut ClusterSchemas) -> bool) -> bool {
        self.shapes.send_if_modified(|shapes| {
            let mut new = ClusterSchemas::clone(shapes);
            let news = change(&mut new);
            if news {
                *shapes = Arc::new(new);
            }
            news
        })
    }
}
