//! `drift-exporter explain`, asked of a running demo.

use serde_json::Value;

use crate::{
    command_line::{Ended, run},
    demo::patch,
    programs::{
        demo::{Demo, UNCHANGED},
        wait::eventually,
    },
};

fn explain(server: &str, arguments: &[&str]) -> Ended {
    run(&[&["explain", "--server", server], arguments].concat(), "", &[])
}

#[test]
fn it_says_which_source_says_what_and_who_changed_it() {
    let demo = Demo::start(&["--no-story"]);
    let server = format!("http://127.0.0.1:{}/", demo.port);
    let web = ["deployment/web", "-n", "shop"];
    let fine = explain(&server, &web);
    assert_eq!((fine.code, fine.stdout.as_str()), (Some(0), "Deployment shop/web\n\nannotation: in sync\n"));

    let refunds = ["deployment.apps/refunds", "-n", "payments"];
    let scale = "/apis/apps/v1/namespaces/payments/deployments/refunds/scale";
    assert_eq!(patch(demo.api_port(), scale, r#"{"spec":{"replicas":9}}"#), "HTTP/1.1 200 OK");
    let drifted = eventually("it drifted", || {
        Some(explain(&server, &refunds)).filter(|ended| ended.stdout.contains("drifted"))
    });
    let told = drifted.stdout;
    for part in [
        "Deployment payments/refunds\n\nterraform: drifted since 20",
        "  declared by terraform/default/payments kubernetes_deployment_v1.refunds\n",
        "  spec.replicas: 2 is declared, 9 is there\n    by kubectl (kubectl), 20",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let json = explain(&server, &[&refunds[..], &["-o", "json"]].concat()).stdout;
    let claims = serde_json::from_str::<Value>(&json).unwrap()["claims"].clone();
    assert_eq!(claims[0]["differences"][0]["path"], "spec.replicas");
}

#[test]
fn what_is_not_there_is_named_and_so_is_a_server_that_does_not_answer() {
    let demo = UNCHANGED.get();
    let server = format!("http://127.0.0.1:{}", demo.port);
    let nothing = explain(&server, &["deployment/nonesuch?x", "-n", "shop"]);
    assert_eq!(nothing.code, Some(1));
    assert_eq!(nothing.stderr, "drift-exporter: no watched object deployment shop/nonesuch?x\n");
    for (address, word) in [
        ("http://127.0.0.1:1", "Connection refused"),
        ("nonsense", "address"),
        ("ftp://a b", "invalid address"),
    ] {
        let ended = explain(address, &["deployment/web"]);
        assert_eq!(ended.code, Some(2), "{address}");
        assert!(ended.stderr.contains(word) && ended.stdout.is_empty(), "{address}: {}", ended.stderr);
    }
}
