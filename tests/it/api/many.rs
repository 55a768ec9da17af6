//! Ten thousand objects at once, and two hundred clients that do not read.

use std::time::Duration;

use drift_exporter::server::{Auth, router, serve};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};

use crate::{
    programs::cpu::thread_time,
    server::UNLIMITED,
    support::{
        api_server::ApiServer,
        objects::{deployment, edited, service},
        world::World,
    },
};

const EACH: usize = 5_000;

#[tokio::test]
async fn ten_thousand_objects_are_told_at_once() {
    let api = ApiServer::default();
    for number in 0..EACH {
        let own = deployment(&format!("web-{number}"));
        api.put("deployments", if number % 10 == 0 { edited(own, 1) } else { own });
        api.put("services", service(&format!("web-{number}")));
    }
    let world = World::ready(&api).await;
    let mut quickest = Duration::MAX;
    // Everything runs on this thread.
    for _ in 0..3 {
        let begun = thread_time();
        let answer = world.get("/v1/resources?namespace=*").await;
        quickest = quickest.min(thread_time().saturating_sub(begun));
        let list = answer.json();
        assert_eq!(list["total"], 2 * EACH);
        let web =
            list["resources"].as_array().unwrap().iter().find(|own| own["resourceName"] == "web-7").unwrap();
        assert_eq!(web["endpoint"], "web-7.shop.svc.cluster.local");
    }
    // `make bench` measures a release build, which may take 50 ms.
    assert!(quickest < Duration::from_secs(2), "{quickest:?} of CPU time");
}

/// No limit ever closes a connection here, so the exporter goes on beside clients that read nothing.
#[tokio::test]
async fn two_hundred_clients_that_do_not_read_hold_up_no_other() {
    let api = ApiServer::default();
    api.put("deployments", deployment("web"));
    let world = World::ready(&api).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = world.exposed.stop.clone();
    tokio::spawn(serve(listener, router(world.exposed.clone()), UNLIMITED, Auth::default(), stop));
    let mut stalled = Vec::new();
    for _ in 0..200 {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET /v1/events?since=0 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stalled.push(client);
    }
    let mut slowest = Duration::ZERO;
    for edit in 0..50 {
        let object = deployment("web");
        world.api.put("deployments", if edit % 2 == 0 { edited(object, edit % 60) } else { object });
        let wanted = u64::from(edit) + 1;
        // Everything runs on this thread.
        let begun = thread_time();
        world
            .eventually("the edit is known", |world| world.snapshot().history.last_sequence() >= wanted)
            .await;
        let page = world.get("/v1/resources?namespace=shop").await;
        assert_eq!(page.status.as_u16(), 200);
        slowest = slowest.max(thread_time().saturating_sub(begun));
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?} of CPU time");
    drop(stalled);
}
