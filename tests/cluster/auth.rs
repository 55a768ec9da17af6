//! Authentication and authorization by real tokens and a real API server.

use std::{
    collections::BTreeSet,
    time::{Instant, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use drift_exporter::{
    server::{Protection, ROUTES},
    types::Kind,
};
use http::Request;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, api::PostParams};
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    http_client::{self, Response},
    objects::{create_namespace, create_with_hash, deployment, from_json, grant, read_only_rules, service},
    routes::sample,
    wait::eventually,
};

const FLAGS: &[&str] = &["--web.auth", "kubernetes", "--log.level", "trace"];

/// A cluster with objects in two namespaces, and an exporter that reviews tokens.
struct AccessFixture {
    cluster: Cluster,
    exporter: Exporter,
}

/// RBAC rules of an exporter that reviews tokens.
fn review_rules() -> Value {
    let mut rules = read_only_rules();
    let reviews =
        [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")];
    for (group, resource) in reviews {
        let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]});
        rules.as_array_mut().unwrap().push(rule);
    }
    rules
}

impl AccessFixture {
    fn start() -> Self {
        let cluster = Cluster::start();
        let client = cluster.client();
        cluster.block_on(async {
            grant(&client, "drift-exporter", review_rules()).await;
            for namespace in ["shop", "attic"] {
                create_namespace(&client, namespace).await;
                let name = format!("{namespace}-web");
                create_with_hash(&client, &Kind::deployment(), &deployment(namespace, &name)).await;
                create_with_hash(&client, &Kind::service(), &service(namespace, &name)).await;
            }
            for account in ["prometheus", "team", "guest"] {
                let account: ServiceAccount = from_json(json!({"metadata": {"name": account}}));
                let accounts = Api::namespaced(client.clone(), "shop");
                accounts.create(&PostParams::default(), &account).await.expect("an account");
            }
            let scrape = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
            bind(&client, "ClusterRole", None, "prometheus", scrape).await;
            let ask = json!([{"nonResourceURLs": ["*"], "verbs": ["*"]}]);
            bind(&client, "ClusterRole", None, "team", ask).await;
            let list = json!([{"apiGroups": ["", "apps"], "resources": ["deployments", "services"], "verbs": ["list"]}]);
            bind(&client, "Role", Some("shop"), "team", list).await;
        });
        let exporter = Exporter::start(&cluster.kubeconfig(User::Exporter), cluster.folder(), FLAGS).ready();
        Self { cluster, exporter }
    }

    /// A token of a service account, as a pod has it.
    fn token(&self, account: &str) -> String {
        let path = format!("/api/v1/namespaces/shop/serviceaccounts/{account}/token");
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer = self.cluster.block_on(post(&self.cluster.client(), &path, &body));
        answer["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// The same token, expired an hour ago and signed with the cluster's key.
    fn expire(&self, token: &str) -> String {
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        let mut claims: Value = serde_json::from_slice(&claims).unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        for (claim, ago) in [("iat", 7_200), ("nbf", 7_200), ("exp", 3_600)] {
            claims[claim] = (now - ago).into();
        }
        let key = std::fs::read_to_string(self.cluster.folder().join("key.pem")).unwrap();
        let signer = KeyPair::from_pem(&key).unwrap();
        let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let content = format!("{}.{}", text(&json!({"alg": "ES256", "typ": "JWT"})), text(&claims));
        let signature = raw_signature(&signer.sign(content.as_bytes()).unwrap());
        format!("{content}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn get(&self, path: &str, token: Option<&str>) -> Response {
        let credentials = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> =
            credentials.iter().map(|credential| ("authorization", credential.as_str())).collect();
        http_client::get(self.exporter.port, path, &headers).expect("the exporter answers")
    }
}

async fn post(client: &Client, path: &str, body: &Value) -> Value {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).expect("a request");
    client.request::<Value>(request).await.expect("it can be created")
}

/// Grants rules to an account of `shop`: in the cluster, or in one namespace.
async fn bind(client: &Client, kind: &str, namespace: Option<&str>, account: &str, rules: Value) {
    let place = namespace.map(|name| format!("/namespaces/{name}")).unwrap_or_default();
    let path = |kind: &str| format!("/apis/rbac.authorization.k8s.io/v1{place}/{}s", kind.to_lowercase());
    let metadata = json!({"name": format!("{account}-{}", kind.to_lowercase())});
    let api_version = "rbac.authorization.k8s.io/v1";
    let role = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules});
    post(client, &path(kind), &role).await;
    let binding = format!("{kind}Binding");
    let bound = json!({
        "apiVersion": api_version, "kind": binding, "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "shop"}],
    });
    post(client, &path(&binding), &bound).await;
}

/// Converts a DER signature to the fixed-length form of JWTs.
fn raw_signature(der: &[u8]) -> Vec<u8> {
    let mut rest = &der[2..];
    let mut raw = Vec::new();
    for _ in 0..2 {
        let length = usize::from(rest[1]);
        let number: Vec<u8> = rest[2..2 + length].iter().copied().skip_while(|byte| *byte == 0).collect();
        raw.extend(vec![0; 32 - number.len()]);
        raw.extend(number);
        rest = &rest[2 + length..];
    }
    raw
}

/// Every account may get this path (`system:public-info-viewer`).
const PUBLIC: &str = "/healthz";

#[test]
fn every_route_requires_an_authorized_token() {
    let fixture = AccessFixture::start();
    let [prometheus, team, guest] = ["prometheus", "team", "guest"].map(|account| fixture.token(account));
    let (head, signature) = team.rsplit_once('.').unwrap();
    let forged = format!("{head}.{}", signature.chars().rev().collect::<String>());
    let cases = [
        ("no token", None, 401),
        ("a bad one", Some("nonsense".to_owned()), 401),
        ("a forged one", Some(forged), 401),
        ("an expired one", Some(fixture.expire(&team)), 401),
        ("one without permissions", Some(guest.clone()), 403),
        ("a good one", Some(team.clone()), 200),
        ("an admin's", Some("admin-token".to_owned()), 200),
    ];
    for (what, token, expected) in &cases {
        for route in ROUTES {
            let path = sample(route.path).replace("/web", "/shop-web");
            let answer = fixture.get(&path, token.as_deref());
            let message =
                format!("{what}: {path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
            let is_public = *what == "one without permissions" && path == PUBLIC;
            match (route.protection, expected) {
                (Protection::Open | Protection::Brief, _) => assert_eq!(answer.status, 200, "{message}"),
                (_, 200) => assert!(![401, 403, 503].contains(&answer.status), "{message}"),
                (_, _) if is_public => assert_eq!(answer.status, 200, "{message}"),
                (_, expected) => {
                    assert_eq!(answer.status, *expected, "{message}");
                    assert_eq!(
                        answer.headers.to_lowercase().contains("www-authenticate: bearer"),
                        *expected == 401,
                        "{message}"
                    );
                }
            }
        }
    }
    assert_eq!(fixture.get("/nothing", None).status, 401);
    assert_eq!(fixture.get("/nothing", Some(&team)).status, 404);
    assert_eq!(fixture.get("/metrics", Some(&prometheus)).status, 200);
    assert_eq!(fixture.get("/v1/status", Some(&prometheus)).status, 403);

    let written: BTreeSet<(String, String)> =
        fixture.cluster.requests_by(User::Exporter).into_iter().collect();
    let reads = ["list", "watch", "get"];
    let written: Vec<_> = written.iter().filter(|(verb, _)| !reads.contains(&verb.as_str())).collect();
    let create = |resource: &str| ("create".to_owned(), resource.to_owned());
    assert_eq!(written, [&create("subjectaccessreviews"), &create("tokenreviews")]);
    let log = fixture.exporter.logged();
    for token in [&prometheus, &team, &guest] {
        assert!(!log.contains(token.as_str()) && !log.contains(token.rsplit('.').next().unwrap()));
    }
}

#[test]
fn responses_contain_only_namespaces_that_the_caller_may_list() {
    let fixture = AccessFixture::start();
    let team = fixture.token("team");
    for path in ["/v1/resources?namespace=*", "/", "/v1/history"] {
        let part = fixture.get(path, Some(&team)).text();
        assert!(!part.contains("attic"), "{path}: {part}");
        assert!(path == "/v1/history" || part.contains("shop-web"), "{path}: {part}");
        let all = fixture.get(path, Some("admin-token")).text();
        assert!(path == "/v1/history" || all.contains("attic-web"), "{path}: {all}");
    }
    let list_namespace = |name: &str| {
        let answer = fixture.get(&format!("/v1/resources?namespace={name}"), Some(&team));
        (answer.status, answer.text().replace(name, "NAME"))
    };
    assert_eq!(list_namespace("attic"), list_namespace("nowhere"));
    assert_eq!(list_namespace("attic").0, 403);
    assert_eq!(fixture.get("/v1/resources/deployment/attic/attic-web", Some(&team)).status, 403);

    // Allowed reviews are cached for five minutes, denied ones for 30 seconds.
    let client = fixture.cluster.client();
    let list = json!([{"apiGroups": ["", "apps"], "resources": ["deployments"], "verbs": ["list"]}]);
    fixture.cluster.block_on(bind(&client, "Role", Some("attic"), "team", list));
    let started = Instant::now();
    eventually("the new permission takes effect", || {
        fixture.get("/v1/resources?namespace=*", Some(&team)).text().contains("attic-web").then_some(())
    });
    println!("the new permission takes effect after {:?}", started.elapsed());
}

#[test]
fn cached_reviews_authorize_callers_while_the_api_server_is_down() {
    let mut fixture = AccessFixture::start();
    let (cached, uncached) = (fixture.token("prometheus"), fixture.token("team"));
    assert_eq!(fixture.get("/metrics", Some(&cached)).status, 200);
    fixture.cluster.apiserver().signal("STOP");
    // The API server does not respond, so the review times out.
    let answer = fixture.get("/metrics", Some(&uncached));
    assert_eq!((answer.status, answer.json()["status"].as_i64()), (503, Some(503)));
    assert_eq!(fixture.get("/metrics", Some(&cached)).status, 200, "the cached review still applies");
    assert_eq!(fixture.get("/metrics", None).status, 401);
    assert_eq!(
        (fixture.get("/livez", None).status, fixture.get("/readyz", None).text()),
        (200, "ready\n".to_owned())
    );
    fixture.cluster.apiserver().signal("CONT");
    fixture.cluster.kill_apiserver();
    assert_eq!(fixture.get("/v1/status", Some("something new")).status, 401, "a token contains no space");
    assert_eq!(fixture.get("/v1/status", Some("something-new")).status, 503);
}

#[test]
fn check_reports_missing_review_permissions() {
    let cluster = Cluster::start();
    let client = cluster.client();
    cluster.block_on(grant(&client, "drift-exporter", read_only_rules()));
    let check = || {
        let ended = std::process::Command::new(env!("CARGO_BIN_EXE_drift-exporter"))
            .args(["check", "--web.auth", "kubernetes", "--kubeconfig"])
            .arg(cluster.kubeconfig(User::Exporter))
            .output()
            .expect("the program can be run");
        (ended.status.code(), String::from_utf8(ended.stdout).expect("text"))
    };
    let (code, message) = check();
    assert_eq!(code, Some(1), "{message}");
    let rule = "- apiGroups: [\"authentication.k8s.io\"]\n  resources: [tokenreviews]\n  verbs: [create]\n";
    assert!(
        message.contains("tokenreviews.authentication.k8s.io in all namespaces: FORBIDDEN")
            && message.contains(rule),
        "{message}"
    );
    cluster.block_on(grant(&client, "reviews", review_rules()));
    let (code, message) = check();
    assert_eq!(code, Some(0), "{message}");
}
