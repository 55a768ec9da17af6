//! Any sequence of lists, events, faults and settings ends in the state of a fresh list.

use std::time::Duration;

use drift_exporter::{
    config::Settings,
    types::{Kind, Selector, WantedKind},
};
use proptest::prelude::*;

use crate::support::{
    api_server::{ApiServer, ServerFault},
    exporter_fixture::ExporterFixture,
    live_objects::{deployment, edited, recorded},
};

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Edit(u8),
    RecordHash(u8),
    Delete(u8),
    Recreate(u8),
    CloseWatches,
    CompactHistory,
    TruncateLists(usize),
    ClearFault,
    Wait(u64),
    ReplaceSettings(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u8).prop_map(Step::Put),
        4 => (0..6_u8).prop_map(Step::Edit),
        2 => (0..6_u8).prop_map(Step::RecordHash),
        3 => (0..6_u8).prop_map(Step::Delete),
        2 => (0..6_u8).prop_map(Step::Recreate),
        2 => Just(Step::CloseWatches),
        2 => Just(Step::CompactHistory),
        1 => (0..3_000_usize).prop_map(Step::TruncateLists),
        1 => Just(Step::ClearFault),
        3 => (0..40_000_u64).prop_map(Step::Wait),
        2 => (0..5_usize).prop_map(Step::ReplaceSettings),
    ]
}

/// Settings that watch all Deployments, some of them, those with other labels, or none.
fn settings(n: usize) -> Settings {
    let wanted = |kind: &Kind| WantedKind::exactly(kind);
    let with = |selector: &str| WantedKind {
        selector: Selector::parse(selector).ok(),
        ..wanted(&Kind::deployment())
    };
    let kinds = match n {
        0 => vec![wanted(&Kind::deployment())],
        1 => vec![wanted(&Kind::service())],
        2 => vec![with("tfdrift.jin.dev/enabled=true"), with("a=b")],
        3 => return Settings { excluded_namespaces: vec!["shop".into()], ..Settings::default() },
        _ => return Settings::default(),
    };
    Settings { kinds, ..Settings::default() }
}

fn apply_step(api: &ApiServer, step: &Step) {
    let name = |n: &u8| format!("o{n}");
    match step {
        Step::Put(n) => api.put("deployments", deployment(&name(n))),
        Step::Edit(n) => api.put("deployments", edited(deployment(&name(n)), 1)),
        Step::RecordHash(n) => api.put("deployments", recorded(deployment(&name(n)), "not a hash")),
        Step::Delete(n) => api.delete("deployments", "shop", &name(n)),
        Step::Recreate(n) => {
            api.delete("deployments", "shop", &name(n));
            let mut object = edited(deployment(&name(n)), 2);
            object["metadata"]["uid"] = "another".into();
            api.put("deployments", object);
        }
        Step::CloseWatches => api.close_watches(),
        Step::CompactHistory => {
            api.compact_history();
            api.close_watches();
        }
        Step::TruncateLists(bytes) => api.set_fault("deployments", ServerFault::ListTruncated(*bytes)),
        Step::ClearFault => api.set_fault("deployments", ServerFault::None),
        Step::Wait(_) | Step::ReplaceSettings(_) => {}
    }
}

/// The series of objects, without those that depend on the start time of the exporter.
fn object_series(page: &str) -> Vec<String> {
    let of_objects =
        ["drift_resource_drifted{", "drift_resource_drifted_timestamp_seconds{", "drift_resources{"];
    let mut lines: Vec<String> = page
        .lines()
        .filter(|line| of_objects.iter().any(|name| line.starts_with(name)))
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn final_state_equals_fresh_list(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let api = ApiServer::default();
            let exporter = ExporterFixture::start(&api);
            for step in &steps {
                apply_step(&api, step);
                if let Step::Wait(milliseconds) = step {
                    tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
                }
                if let Step::ReplaceSettings(n) = step {
                    exporter.settings.replace(settings(*n));
                }
            }
            api.set_fault("deployments", ServerFault::None);
            exporter.settings.replace(Settings::default());
            tokio::time::sleep(Duration::from_secs(100)).await;
            assert_eq!(exporter.cached_versions("deployments"), api.resource_versions("deployments"));
            // Unknown claims keep their last value, which a fresh exporter does not have.
            if !steps.iter().any(|step| matches!(step, Step::RecordHash(_))) {
                let fresh = ExporterFixture::ready(&api).await;
                fresh.wait_idle().await;
                assert_eq!(object_series(&exporter.metrics().await), object_series(&fresh.metrics().await));
            }
        });
    }
}
