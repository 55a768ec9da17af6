//! Renderings of `/metrics`: off the threads that serve requests, one at a time, and shared by scrapes.

use std::pin::Pin;

use axum::body::Body;
use drift_exporter::server::BlockingPool;
use futures::future::join_all;
use http::{Request, header};
use tokio::{pin, select, sync::mpsc};

use crate::support::{
    api_server::ApiServer,
    exporter_fixture::{ExporterFixture, HttpResponse},
    live_objects::{deployment, edited},
    wait::completes,
};

/// An exporter whose work waits until the test runs it.
struct HeldExporter {
    exporter: ExporterFixture,
    work: Work,
}

impl HeldExporter {
    async fn start() -> Self {
        let api = ApiServer::default();
        api.put("deployments", deployment("web"));
        let (sender, work) = mpsc::unbounded_channel();
        let pool = BlockingPool::new(move |work| sender.send(work).unwrap());
        Self { exporter: ExporterFixture::ready(&api).await.with_pool(pool), work }
    }
}

/// The work of each scrape beside the rendering: the metrics of the exporter itself.
const OWN_METRICS: usize = 1;

type Work = mpsc::UnboundedReceiver<Box<dyn FnOnce() + Send>>;

/// Sends a request until it waits for work, which the caller runs.
async fn first_work(request: Pin<&mut impl Future>, work: &mut Work) -> Box<dyn FnOnce() + Send> {
    select! {
        work = work.recv() => work.unwrap(),
        _ = request => panic!("it waits for no work"),
    }
}

/// Runs all work that requests cause; their responses, and how much work it was.
async fn respond<T>(requests: impl Future<Output = T>, work: &mut Work) -> (T, usize) {
    pin!(requests);
    let mut done = 0;
    let responses = loop {
        select! {
            work = work.recv() => {
                done += 1;
                work.unwrap()();
            }
            responses = &mut requests => break responses,
        }
    };
    (responses, done)
}

async fn scrape(exporter: &ExporterFixture, accept: &str, encoding: &str) -> HttpResponse {
    let request =
        Request::get("/metrics").header(header::ACCEPT, accept).header(header::ACCEPT_ENCODING, encoding);
    exporter.send(request.body(Body::empty()).unwrap()).await
}

/// Whether the page shows the Deployment as drifted.
fn is_drifted(page: &HttpResponse) -> bool {
    page.text().contains("name=\"web\",source=\"annotation\"} 1\n")
}

#[tokio::test(start_paused = true)]
async fn other_requests_are_answered_while_a_page_is_rendered() {
    let HeldExporter { exporter, mut work } = HeldExporter::start().await;
    let scrape = exporter.get("/metrics");
    pin!(scrape);
    let rendering = first_work(scrape.as_mut(), &mut work).await;
    for path in ["/livez", "/log"] {
        assert_eq!(completes(path, exporter.get(path)).await.status, 200, "{path}");
    }
    let (ready, done) = completes("/readyz", respond(exporter.get("/readyz"), &mut work)).await;
    assert_eq!((ready.status.as_u16(), done), (200, 1), "the details, which wait for no page");
    rendering();
    assert_eq!(completes("the scrape", respond(scrape, &mut work)).await.0.status, 200);
}

#[tokio::test(start_paused = true)]
async fn concurrent_scrapes_of_a_snapshot_share_one_rendering() {
    let HeldExporter { exporter, mut work } = HeldExporter::start().await;
    let scrapes = || join_all((0..20).map(|_| scrape(&exporter, "*/*", "gzip")));
    let (pages, done) = respond(scrapes(), &mut work).await;
    assert_eq!((pages.len(), done - 20 * OWN_METRICS), (20, 1));
    assert!(pages.iter().all(|page| page.headers[header::CONTENT_ENCODING] == "gzip"));
    assert_eq!(respond(scrapes(), &mut work).await.1, 20 * OWN_METRICS, "the page is cached");
    let identity = scrape(&exporter, "*/*", "identity");
    assert_eq!(respond(identity, &mut work).await.1, OWN_METRICS + 1, "another encoding");
    let open_metrics = scrape(&exporter, "application/openmetrics-text", "identity");
    assert_eq!(respond(open_metrics, &mut work).await.1, OWN_METRICS + 1, "another format");
}

#[tokio::test(start_paused = true)]
async fn scrape_gets_a_page_as_new_as_its_arrival() {
    let HeldExporter { exporter, mut work } = HeldExporter::start().await;
    let old = exporter.get("/metrics");
    pin!(old);
    let rendering = first_work(old.as_mut(), &mut work).await;
    exporter.api.put("deployments", edited(deployment("web"), 1));
    exporter.wait_idle().await;
    let new = join_all((0..20).map(|_| exporter.get("/metrics")));
    let all = async { futures::join!(old, new, async { rendering() }) };
    let ((old, new, ()), done) = respond(all, &mut work).await;
    assert!(!is_drifted(&old), "its snapshot is older than the edit");
    assert!(new.iter().all(is_drifted));
    assert_eq!(done - 21 * OWN_METRICS, 1, "all scrapes after the edit share one");
}

#[tokio::test(start_paused = true)]
async fn client_that_disconnects_neither_stops_nor_repeats_a_rendering() {
    let HeldExporter { exporter, mut work } = HeldExporter::start().await;
    let mut disconnected = Box::pin(exporter.get("/metrics"));
    let rendering = first_work(disconnected.as_mut(), &mut work).await;
    drop(disconnected);
    let next = async { futures::join!(exporter.get("/metrics"), async { rendering() }) };
    let ((page, ()), done) = respond(next, &mut work).await;
    assert_eq!((page.status.as_u16(), done - OWN_METRICS), (200, 0));
}
