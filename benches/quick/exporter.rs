//! The parts of an exporter that the rows measure, without connections, tasks and the system clock.

use std::sync::Arc;

use axum::{Router, body::Body};
use bytes::Bytes;
use drift_exporter::{
    config::{ReloadStatus, RuntimeConfig, Settings},
    engine::{Engine, EngineMetrics, History, Snapshot, snapshot_channel},
    event::{EngineConfig, Event},
    rules::RuleSet,
    server::{Auth, BlockingPool, EventStreamLimit, Exposed, LogLines, MetricsPage, Peer, router},
    sources::terraform::decode,
    types::{
        Authority, Baseline, BaselineOrigin, BaselineVersion, Clock, Kind, LiveObject, RedactionKey,
        RedactionPolicy, Source, SyncHealth, Watch, WatchIds, WatchPlan, WatchSpec,
    },
    watch::{DecodeConfig, Decoded, ObjectDecoder},
};
use http::{Request, header::ACCEPT_ENCODING};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::{runtime::Runtime, sync::watch};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::inputs::{PREFIX, terraform_state};

const BEGIN: i64 = 1_767_400_000;

pub(crate) fn redaction_key() -> RedactionKey {
    RedactionKey::new([7; 32])
}

fn clock() -> Clock {
    Clock::new(|| Timestamp::from_second(BEGIN).expect("it is in range"))
}

/// The parts of objects that are decoded for this source.
pub(crate) fn reading(source: Source) -> DecodeConfig {
    let redaction = Arc::new(RedactionPolicy::new(redaction_key()));
    let kind = Kind::deployment();
    let documents =
        (source == Source::Terraform).then(|| (kind.group_kind().into_owned(), redaction.clone()));
    DecodeConfig {
        annotation_prefix: PREFIX.into(),
        ignore_hash_annotations: source != Source::Annotation,
        label_names: RuleSet::built_in().label_names(),
        documents: documents.into_iter().collect(),
        last_applied: (source == Source::LastApplied).then_some(redaction),
        ..DecodeConfig::default()
    }
}

pub(crate) fn reader(reading: &DecodeConfig) -> ObjectDecoder {
    ObjectDecoder::new(stream().spec, reading)
}

fn stream() -> Watch {
    let spec = Arc::new(WatchSpec::all(Arc::new(Kind::deployment())));
    WatchIds::default().assign([spec]).remove(0)
}

/// An engine with one watch.
pub(crate) struct Cluster {
    pub(crate) engine: Engine,
    pub(crate) stream: Watch,
    reader: ObjectDecoder,
}

impl Cluster {
    /// An engine without objects. For the source `terraform`, one state declares `declared` objects.
    pub(crate) fn new(source: Source, declared: usize) -> Self {
        let stream = stream();
        let plan = WatchPlan { watches: vec![stream.clone()], ..WatchPlan::default() };
        let metrics = EngineMetrics::register(&mut Registry::default());
        let config = EngineConfig {
            rules: Arc::new(RuleSet::built_in()),
            sources: vec![source],
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(&plan, Arc::new(config), History::default(), metrics, clock());
        if source == Source::Terraform {
            engine.apply(Event::Baseline(Arc::new(baseline(declared))));
            engine.apply(Event::SourceHealth(source, SyncHealth::Up));
        }
        Self { engine, stream, reader: reader(&reading(source)) }
    }

    /// An engine that has listed `count` objects.
    pub(crate) fn listed(source: Source, count: usize, object: fn(usize) -> Value) -> Self {
        let mut cluster = Self::new(source, count);
        let objects = (0..count).map(|number| cluster.read(&object(number))).collect();
        cluster.list(objects);
        cluster
    }

    pub(crate) fn read(&self, object: &Value) -> Arc<LiveObject> {
        match self.reader.decode(object.to_string().as_bytes()) {
            Decoded::Object(object) => object,
            other => unreachable!("{other:?} is not an object"),
        }
    }

    /// Applies a complete list.
    pub(crate) fn list(&mut self, objects: Vec<Arc<LiveObject>>) {
        self.engine.apply(Event::ListStarted(self.stream.id));
        for object in objects {
            self.engine.apply(Event::Listed(self.stream.id, object));
        }
        self.engine.apply(Event::ListEnded(self.stream.id));
    }
}

fn baseline(count: usize) -> Baseline {
    let state =
        decode(terraform_state(count).to_string().as_bytes(), &redaction_key()).expect("it is a state");
    let version = BaselineVersion {
        serial: 1,
        lineage: "shop".into(),
        tool_version: "1.11.4".into(),
        written: None,
        chart: None,
    };
    Baseline {
        source: Source::Terraform,
        name: "shop".into(),
        origin: BaselineOrigin::StateSecret,
        version: Some(version),
        objects: state.objects,
        skipped: state.skipped.into(),
        fault: None,
        lock: None,
        this_cluster: false,
        authority: Authority::Cluster,
    }
}

/// Scrapes of one `/metrics` page, through the router.
pub(crate) struct Scrapes {
    router: Router,
    exposed: Arc<Exposed>,
    runtime: Runtime,
}

impl Scrapes {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self::new(cluster.engine.snapshot(), MetricsPage::new(Registry::default()))
    }

    /// The same page for the current snapshot.
    pub(crate) fn after(self, cluster: &Cluster) -> Self {
        let Self { router, exposed, .. } = self;
        drop(router);
        let exposed = Arc::into_inner(exposed).expect("there is one reference");
        Self::new(cluster.engine.snapshot(), exposed.metrics)
    }

    fn new(snapshot: Snapshot, metrics: MetricsPage) -> Self {
        let clock = clock();
        let status = ReloadStatus {
            file: None,
            last_success: clock.now(),
            problems: Vec::new(),
            warnings: Vec::new(),
        };
        let exposed = Arc::new(Exposed {
            state: snapshot_channel(snapshot).1,
            metrics,
            // callgrind counts this thread only.
            blocking: BlockingPool::new(|work| work()),
            config: watch::channel(Arc::new(RuntimeConfig::new(Settings::default()))).1,
            reload_status: watch::channel(Arc::new(status)).1,
            log: LogLines::default(),
            redaction_key: redaction_key(),
            clock,
            listeners: EventStreamLimit::default(),
            auth: Auth::default(),
            stop: CancellationToken::new(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        Self {
            router: router(exposed.clone()),
            exposed,
            runtime: runtime.expect("a runtime without threads starts"),
        }
    }

    /// The chunks of the page.
    pub(crate) fn scrape(&self, encoding: &'static str) -> Vec<Bytes> {
        self.get("/metrics", encoding).expect("it is a request").1
    }

    /// The status and the chunks of a response; none if the path is not a valid one.
    pub(crate) fn get(&self, path: &str, encoding: &'static str) -> Option<(u16, Vec<Bytes>)> {
        let peer = Peer { address: ([127, 0, 0, 1], 9).into(), certified: false };
        let request = Request::get(path).header(ACCEPT_ENCODING, encoding).extension(peer);
        let request = request.body(Body::empty()).ok()?;
        Some(self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.expect("the router answers");
            let status = response.status().as_u16();
            let mut body = response.into_body();
            let mut pieces = Vec::new();
            while let Some(frame) = body.frame().await {
                pieces.extend(frame.ok().and_then(|frame| frame.into_data().ok()));
            }
            (status, pieces)
        }))
    }
}
