//! Any order of lists, events, faults and settings ends as a fresh list would.

use std::time::Duration;

use drift_exporter::{
    config::Settings,
    types::{Kind, Selector, WantedKind},
};
use proptest::prelude::*;

use crate::support::{
    api_server::{ApiServer, Mood},
    objects::{deployment, edited, recorded},
    world::World,
};

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Edit(u8),
    HashBaseline(u8),
    Delete(u8),
    Recreate(u8),
    Cut,
    Forget,
    Break(usize),
    Heal,
    Wait(u64),
    Want(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u8).prop_map(Step::Put),
        4 => (0..6_u8).prop_map(Step::Edit),
        2 => (0..6_u8).prop_map(Step::HashBaseline),
        3 => (0..6_u8).prop_map(Step::Delete),
        2 => (0..6_u8).prop_map(Step::Recreate),
        2 => Just(Step::Cut),
        2 => Just(Step::Forget),
        1 => (0..3_000_usize).prop_map(Step::Break),
        1 => Just(Step::Heal),
        3 => (0..40_000_u64).prop_map(Step::Wait),
        2 => (0..5_usize).prop_map(Step::Want),
    ]
}

/// Settings under which Deployments are watched whole, in part, by other labels, or not at all.
fn settings(n: usize) -> Settings {
    let want = |kind: &Kind| WantedKind::exactly(kind);
    let with =
        |selector: &str| WantedKind { selector: Selector::parse(selector).ok(), ..want(&Kind::deployment()) };
    let kinds = match n {
        0 => vec![want(&Kind::deployment())],
        1 => vec![want(&Kind::service())],
        2 => vec![with("tfdrift.jin.dev/enabled=true"), with("a=b")],
        3 => return Settings { excluded_namespaces: vec!["shop".into()], ..Settings::default() },
        _ => return Settings::default(),
    };
    Settings { kinds, ..Settings::default() }
}

fn take(api: &ApiServer, step: &Step) {
    let name = |n: &u8| format!("o{n}");
    match step {
        Step::Put(n) => api.put("deployments", deployment(&name(n))),
        Step::Edit(n) => api.put("deployments", edited(deployment(&name(n)), 1)),
        Step::HashBaseline(n) => api.put("deployments", recorded(deployment(&name(n)), "not a hash")),
        Step::Delete(n) => api.delete("deployments", &name(n)),
        Step::Recreate(n) => {
            api.delete("deployments", &name(n));
            let mut object = edited(deployment(&name(n)), 2);
            object["metadata"]["uid"] = "another".into();
            api.put("deployments", object);
        }
        Step::Cut => api.cut(),
        Step::Forget => {
            api.forget();
            api.cut();
        }
        Step::Break(bytes) => api.mood("deployments", Mood::ListsBreak(*bytes)),
        Step::Heal => api.mood("deployments", Mood::Well),
        Step::Wait(_) | Step::Want(_) => {}
    }
}

/// What a page says about objects, without what depends on when an exporter began to watch.
fn settled(page: &str) -> Vec<String> {
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
    fn the_end_does_not_depend_on_the_way(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let api = ApiServer::default();
            let world = World::start(&api);
            for step in &steps {
                take(&api, step);
                if let Step::Wait(milliseconds) = step {
                    tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
                }
                if let Step::Want(n) = step {
                    world.settings.replace(settings(*n));
                }
            }
            api.mood("deployments", Mood::Well);
            world.settings.replace(Settings::default());
            tokio::time::sleep(Duration::from_secs(100)).await;
            assert_eq!(world.known("deployments"), api.truth("deployments"));
            // Objects that cannot be judged hold what they were, which a fresh exporter cannot know.
            if !steps.iter().any(|step| matches!(step, Step::HashBaseline(_))) {
                let fresh = World::ready(&api).await;
                fresh.settle().await;
                assert_eq!(settled(&world.metrics().await), settled(&fresh.metrics().await));
            }
        });
    }
}
