//! The ids of watches.

use std::sync::Arc;

use drift_exporter::types::{Kind, Watch, WatchIds, WatchSpec};

#[test]
fn watch_keeps_its_id_and_a_closed_one_is_never_reused() {
    let [web, api] =
        [Kind::deployment(), Kind::service()].map(|kind| Arc::new(WatchSpec::all(Arc::new(kind))));
    let mut ids = WatchIds::default();
    let first = ids.assign([web.clone(), api.clone()]);
    assert_ne!(first[0].id, first[1].id);
    assert_eq!(ids.assign([api.clone()]), first[1..]);
    let reopened = ids.assign([web.clone(), api]);
    assert_eq!(reopened[1], first[1]);
    assert!(first.iter().all(|Watch { id, .. }| *id != reopened[0].id) && reopened[0].spec == web);
}
