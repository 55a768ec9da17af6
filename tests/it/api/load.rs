//! Ten thousand objects at once, and two hundred clients that do not read.

use std::time::Duration;

use drift_exporter::server::{Auth, BlockingPool, router, serve};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};

use crate::{
    server::UNLIMITED,
    support::{
        api_server::ApiServer,
        cpu::thread_time,
        exporter_fixture::ExporterFixture,
        live_objects::{deployment, edited, service},
    },
};

const OBJECTS_PER_KIND: usize = 5_000;

#[tokio::test]
async fn listing_ten_thousand_objects_is_cheap() {
    let api = ApiServer::default();
    for number in 0..OBJECTS_PER_KIND {
        let object = deployment(&format!("web-{number}"));
        api.put("deployments", if number % 10 == 0 { edited(object, 1) } else { object });
        api.put("services", service(&format!("web-{number}")));
    }
    // The whole test runs on this thread.
    let exporter = ExporterFixture::ready(&api).await.with_pool(BlockingPool::new(|work| work()));
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        let start = thread_time();
        let answer = exporter.get("/v1/resources?namespace=*").await;
        fastest = fastest.min(thread_time().saturating_sub(start));
        let list = answer.json();
        assert_eq!(list["total"], 2 * OBJECTS_PER_KIND);
        let web = list["resources"]
            .as_array()
            .unwrap()
            .iter()
            .find(|object| object["resourceName"] == "web-7")
            .unwrap();
        assert_eq!(web["endpoint"], "web-7.shop.svc.cluster.local");
    }
    // `make bench` measures a release build, which may take 50 ms.
    assert!(fastest < Duration::from_secs(2), "{fastest:?} of CPU time");
}

/// Without limits the server closes no connection, so the exporter has to cope with clients that read nothing.
#[tokio::test]
async fn stalled_event_clients_do_not_block_others() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    // The whole test runs on this thread.
    let exporter = ExporterFixture::ready(&api).await.with_pool(BlockingPool::new(|work| work()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = exporter.exposed.stop.clone();
    tokio::spawn(serve(listener, router(exporter.exposed.clone()), UNLIMITED, Auth::default(), stop));
    let mut stalled = Vec::new();
    for _ in 0..200 {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET /v1/events?since=0 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stalled.push(client);
    }
    let mut slowest = Duration::ZERO;
    for edit in 0..50 {
        let object = deployment("web");
        exporter.api.put("deployments", if edit % 2 == 0 { edited(object, edit % 60) } else { object });
        let wanted = u64::from(edit) + 1;
        let start = thread_time();
        exporter
            .eventually("the edit is in the history", |exporter| {
                exporter.snapshot().history.last_sequence() >= wanted
            })
            .await;
        let page = exporter.get("/v1/resources?namespace=shop").await;
        assert_eq!(page.status.as_u16(), 200);
        slowest = slowest.max(thread_time().saturating_sub(start));
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?} of CPU time");
    drop(stalled);
}
