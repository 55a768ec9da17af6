//! Requests that an API server must deny.

use serde_json::{Value, json};

use crate::script::{DEPLOYMENTS, JSON_PATCH, MERGE, SERVICES, STRATEGIC, Server, deployment, service};

/// Sends invalid requests. None of them changes an object.
pub(crate) async fn send_invalid_requests(server: &mut Server) {
    let web = format!("{DEPLOYMENTS}/web");
    server.get(&format!("{DEPLOYMENTS}/missing")).await;
    server.get("/apis/apps/v1/namespaces/shop/nothings").await;
    server.get(&format!("{web}/nothing")).await;
    server.get("/apis/nothing/v1/things").await;
    for query in
        ["?limit=x", "?labelSelector=a+b", "?fieldSelector=spec.x%3D1", "?continue=zzz", "?resourceVersion=x"]
    {
        server.get(&format!("{DEPLOYMENTS}{query}")).await;
    }
    for (kind, patch) in [
        (MERGE, "{bad"),
        (MERGE, "[1]"),
        (MERGE, r#"{"spec":{"replicas":"many"}}"#),
        (MERGE, r#"{"spec":{"replicas":-1}}"#),
        (MERGE, r#"{"spec":{"selector":{"matchLabels":{"b":"c"}}}}"#),
        (MERGE, r#"{"spec":{"template":{"spec":{"containers":null}}}}"#),
        (MERGE, r#"{"metadata":{"resourceVersion":"1"}}"#),
        (MERGE, r#"{"metadata":{"name":"other"}}"#),
        (MERGE, r#"{"kind":"Other"}"#),
        (MERGE, r#"{"metadata":{"uid":"other"}}"#),
        (MERGE, r#"{"metadata":{"namespace":"other"}}"#),
        (MERGE, r#"{"metadata":{"labels":{"bad key":"x"}}}"#),
        (MERGE, r#"{"metadata":{"labels":{"good":"x y!"}}}"#),
        (MERGE, r#"{"metadata":{"labels":{"a/b/c":"x","":"y","/z":"-"}}}"#),
        (MERGE, r#"{"metadata":{"labels":{"UPPER.example/x":"y"}}}"#),
        (MERGE, r#"{"metadata":{"annotations":{"bad key":"x y!"}}}"#),
        (MERGE, r#"{"spec":{"template":{"metadata":{"labels":{"bad key":"x y!"}}}}}"#),
        (MERGE, r#"{"metadata":{"managedFields":[{"manager":"x","operation":"Jump"}]}}"#),
        (
            MERGE,
            r#"{"metadata":{"managedFields":[{"manager":"x","operation":"Update","fieldsType":"FieldsV9"}]}}"#,
        ),
        (
            MERGE,
            r#"{"metadata":{"managedFields":[{"manager":"x","operation":"Update","apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"nonsense":{}}}]}}"#,
        ),
        (MERGE, r#"{"metadata":{"managedFields":"nonsense"}}"#),
        (JSON_PATCH, "{bad"),
        (JSON_PATCH, r#"{"a":1}"#),
        (JSON_PATCH, r#"[{"op":"test","path":"/spec/replicas","value":99}]"#),
        (JSON_PATCH, r#"[{"op":"remove","path":"/spec/nothing"}]"#),
        (JSON_PATCH, r#"[{"op":"jump","path":"/spec"}]"#),
        (STRATEGIC, "{bad"),
        (STRATEGIC, r#"{"spec":{"template":{"spec":{"containers":[{"image":"x"}]}}}}"#),
        ("application/json", "{}"),
        ("application/nonsense", "{}"),
    ] {
        server.send_request("PATCH", &web, kind, patch).await;
    }
    let scale = format!("{web}/scale");
    server.send_request("PATCH", &scale, MERGE, r#"{"spec":{"replicas":-1}}"#).await;
    for root in ["[]", "1", "null", "{}"] {
        let patch = format!(r#"[{{"op":"replace","path":"","value":{root}}}]"#);
        server.send_request("PATCH", &scale, JSON_PATCH, patch.clone()).await;
        server.send_request("PATCH", &web, JSON_PATCH, patch).await;
    }
    server.get(&web).await;
    server.patch(&format!("{DEPLOYMENTS}/missing"), MERGE, &json!({})).await;
    for body in [
        "",
        "{bad",
        "[]",
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"}}"#,
        r#"{"metadata":{"name":"x"}}"#,
    ] {
        server.send_request("POST", DEPLOYMENTS, "application/json", body).await;
    }
    let mut odd = deployment("Not_A_Name");
    server.post(DEPLOYMENTS, &odd).await;
    odd["metadata"]["name"] = Value::Null;
    server.post(DEPLOYMENTS, &odd).await;
    odd["metadata"] = json!({"name": "elsewhere", "namespace": "other"});
    server.post(DEPLOYMENTS, &odd).await;
    server.post("/apis/apps/v1/namespaces/other/deployments", &odd).await;
    odd = deployment("odd");
    odd["spec"]["nonsense"] = 1.into();
    server.post(&format!("{DEPLOYMENTS}?fieldValidation=Strict&dryRun=All"), &odd).await;
    server.post(&format!("{DEPLOYMENTS}?fieldValidation=Ignore&dryRun=All"), &odd).await;
    server.post(SERVICES, &json!({"metadata": {"name": "none"}, "spec": {"selector": {"a": "b"}}})).await;
    for (method, url) in [
        ("PUT", DEPLOYMENTS),
        ("PATCH", DEPLOYMENTS),
        ("POST", web.as_str()),
        ("POST", "/apis/apps/v1/deployments"),
        ("OPTIONS", web.as_str()),
    ] {
        server.send_request(method, url, "application/json", "{}").await;
    }
    server.send_request("DELETE", &format!("{web}/scale"), "", "").await;
    let mut bare = deployment("web");
    server.put(&format!("{web}/status?fieldManager=bare"), &bare).await;
    server.get(&web).await;
    server.put(&format!("{SERVICES}/web/status?fieldManager=bare"), &service("web")).await;
    bare["metadata"]["labels"] = json!({"bad key": "x", "good": "x y!"});
    bare["metadata"]["name"] = "labelled".into();
    server.post(DEPLOYMENTS, &bare).await;
    let mut bare = service("labelled");
    bare["spec"]["selector"] = json!({"bad key": "x y!"});
    server.post(SERVICES, &bare).await;
    server.put(&format!("{DEPLOYMENTS}/other"), &deployment("web")).await;
    server.put(&format!("{DEPLOYMENTS}/missing"), &deployment("missing")).await;
}
