//! The command `drift-exporter explain` on a running demo.

use serde_json::Value;

use crate::{
    cli_flags::{CommandOutput, run},
    demo::patch,
    support::{
        demo::{Demo, UNCHANGED},
        wait::eventually,
    },
};

fn explain(server: &str, arguments: &[&str]) -> CommandOutput {
    run(&[&["explain", "--server", server], arguments].concat(), "", &[])
}

#[test]
fn explain_shows_source_declaration_and_field_manager() {
    let demo = Demo::start(&["--no-story"]);
    let server = format!("http://127.0.0.1:{}/", demo.port);
    let web = ["deployment/web", "-n", "shop"];
    let in_sync = explain(&server, &web);
    assert_eq!(
        (in_sync.code, in_sync.stdout.as_str()),
        (Some(0), "Deployment shop/web\n\nannotation: in sync\n")
    );

    let refunds = ["deployment.apps/refunds", "-n", "payments"];
    let scale = "/apis/apps/v1/namespaces/payments/deployments/refunds/scale";
    assert_eq!(patch(demo.api_port(), scale, r#"{"spec":{"replicas":9}}"#), "HTTP/1.1 200 OK");
    let drifted = eventually("the object drifted", || {
        Some(explain(&server, &refunds)).filter(|output| output.stdout.contains("drifted"))
    });
    let stdout = drifted.stdout;
    for part in [
        "Deployment payments/refunds\n\nterraform: drifted since 20",
        "  declared by terraform/default/payments kubernetes_deployment_v1.refunds\n",
        "  spec.replicas: declared 2, live 9\n    by kubectl (kubectl), 20",
    ] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    let json = explain(&server, &[&refunds[..], &["-o", "json"]].concat()).stdout;
    let claims = serde_json::from_str::<Value>(&json).unwrap()["claims"].clone();
    assert_eq!(claims[0]["differences"][0]["path"], "spec.replicas");
}

#[test]
fn unknown_object_and_unreachable_server_are_errors() {
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
        let output = explain(address, &["deployment/web"]);
        assert_eq!(output.code, Some(2), "{address}");
        assert!(output.stderr.contains(word) && output.stdout.is_empty(), "{address}: {}", output.stderr);
    }
}
