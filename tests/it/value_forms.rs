//! Absent, null, empty, plain and redacted values from the diff through the API to the commands. A plain value that looks like
//! another form stays plain.

use drift_exporter::{
    config::Settings,
    rules::{RuleConfig, RuleSet, RuleSpec},
    types::{FieldValue, KeyedDigest, RedactionKey},
};
use serde_json::{Value, json};

use crate::{
    api::costs::{applied, last_applied_exporter},
    cli_flags::{CommandOutput, run},
    cli_server::{fake_exporter, status},
    support::{api_server::ApiServer, exporter_fixture::ExporterFixture},
};

fn digest_like() -> String {
    RedactionKey::new([9; 32]).digest(b"x").to_string()
}

/// The live image of each container; none has no image. The declared image is `nginx:1`.
fn live_images() -> [(&'static str, Option<Value>); 10] {
    [
        ("absent", None),
        ("null", Some(Value::Null)),
        ("empty", Some(json!(""))),
        ("quotes", Some(json!("\"\""))),
        ("word", Some(json!("null"))),
        ("digest", Some(json!(digest_like()))),
        ("list", Some(json!(format!("[\"{}\"]", digest_like())))),
        ("digits", Some(json!("5"))),
        ("number", Some(json!(5))),
        ("json", Some(json!([digest_like()]))),
    ]
}

/// An exporter of a Deployment with these images, and an environment variable that is redacted.
async fn exporter() -> ExporterFixture {
    let spec =
        |containers: Vec<Value>| json!({"replicas": 1, "template": {"spec": {"containers": containers}}});
    let container = |name: &str, image: Option<Value>, env: &str| {
        let mut container = json!({"name": name, "env": [{"name": "A", "value": env}]});
        if let Some(image) = image {
            container["image"] = image;
        }
        container
    };
    let declared = live_images().map(|(name, _)| container(name, Some(json!("nginx:1")), "one"));
    let live = live_images().map(|(name, image)| {
        let env = if name == "absent" { "two" } else { "one" };
        container(name, image, env)
    });
    let api = ApiServer::default();
    let declared = spec(declared.into());
    api.put("deployments", applied("web", &declared, &declared));
    let exporter = last_applied_exporter(&api, Settings::default()).await;
    api.put("deployments", applied("web", &declared, &spec(live.into())));
    exporter.wait_idle().await;
    exporter
}

fn image_path(container: &str) -> String {
    format!("spec.template.spec.containers[name={container}].image")
}

const ENV: &str = "spec.template.spec.containers[name=absent].env[name=A].value";

/// How sentences show the live image of each container.
fn shown_images() -> [(&'static str, String); 10] {
    let digest_like = digest_like();
    [
        ("absent", "absent".to_owned()),
        ("null", "null".to_owned()),
        ("empty", "\"\"".to_owned()),
        ("quotes", "\"\\\"\\\"\"".to_owned()),
        ("word", "\"null\"".to_owned()),
        ("digest", format!("\"{digest_like}\"")),
        ("list", format!("\"[\\\"{digest_like}\\\"]\"")),
        ("digits", "\"5\"".to_owned()),
        ("number", "5".to_owned()),
        ("json", format!("[\"{}\"]", digest_like.replace("hmac:", "\\u0068mac:"))),
    ]
}

/// The difference at a path.
fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    let differences = object["claims"][0]["differences"].as_array().unwrap();
    differences
        .iter()
        .find(|difference| difference["path"] == path)
        .unwrap_or_else(|| panic!("{path}: {object}"))
}

/// Runs a command on an exporter that returns this object.
fn run_on(object: &Value, arguments: &[&str]) -> CommandOutput {
    let object = object.clone();
    let server = fake_exporter(move |path, _| match path.split('?').next().unwrap_or_default() {
        "/v1/status" => (200, status()),
        "/v1/resources" => {
            let list = json!({"resources": object["claims"], "total": 1, "namespace": "shop"});
            (200, list.to_string())
        }
        _ => (200, object.to_string()),
    });
    run(&[arguments, &["-n", "shop", "--server", &server]].concat(), "", &[])
}

#[tokio::test(start_paused = true)]
async fn api_reports_the_form_of_each_value() {
    let exporter = exporter().await;
    let object = exporter.get("/v1/resources/deployment/shop/web").await.json();
    let digest_like = digest_like();
    let list = format!("[\"{digest_like}\"]");
    for (container, text, form) in [
        ("absent", "", "absent"),
        ("null", "null", "null"),
        ("empty", "\"\"", "empty"),
        ("quotes", "\"\"", "plain"),
        ("word", "null", "plain"),
        ("digest", &*digest_like, "plain"),
        ("list", &*list, "plain"),
        ("digits", "5", "plain"),
        ("number", "5", "json"),
        ("json", &*list, "json"),
    ] {
        let difference = at(&object, &image_path(container));
        assert_eq!(
            (&difference["actual"], &difference["actualForm"]),
            (&json!(text), &json!(form)),
            "{container}"
        );
        assert_eq!(
            (&difference["expected"], &difference["expectedForm"]),
            (&json!("nginx:1"), &json!("plain"))
        );
        let [value, value_form] =
            ["actualSpec", "actualForms"].map(|name| &object["claims"][0][name][image_path(container)]);
        assert_eq!((value, value_form), (&json!(text), &json!(form)), "{container}");
    }
    let details = object["claims"][0]["driftDetails"].as_array().unwrap();
    for (container, shown) in shown_images().into_iter().filter(|(container, _)| *container != "absent") {
        let detail = format!("Image mismatch in container {container}: desired=nginx:1, actual={shown}");
        assert!(details.contains(&json!(detail)), "{detail}: {details:?}");
    }
    let env = at(&object, ENV);
    for side in ["expected", "actual"] {
        assert!(KeyedDigest::parse(env[side].as_str().unwrap()).is_some(), "{env}");
        assert_eq!(env[format!("{side}Form")], "redacted", "{env}");
        let side = if side == "expected" { "desired" } else { side };
        assert_eq!(object["claims"][0][format!("{side}Forms")][ENV], "redacted");
    }
    let page = exporter.get("/objects/deployment/shop/web").await.text();
    assert!(
        page.contains("<span class=\"none\">null</span>")
            && page.contains("<span class=\"none\">absent</span>"),
        "{page}"
    );
    for shown in [format!("&quot;{digest_like}&quot;"), "&quot;5&quot;".to_owned(), "5".to_owned()] {
        assert!(page.contains(&format!("<ins>{shown}</ins>")), "{shown}: {page}");
    }
    let history = exporter.get("/v1/history").await.text();
    assert!(history.contains("[name=digest].image") && !history.contains("hmac:"), "{history}");
}

#[tokio::test(start_paused = true)]
async fn commands_show_plain_values_as_plain() {
    let object = exporter().await.get("/v1/resources/deployment/shop/web").await.json();
    let digest_like = digest_like();
    let explained = run_on(&object, &["explain", "deployment/web"]).stdout;
    for (container, shown) in shown_images() {
        let line = format!("  {}: declared nginx:1, live {shown}\n", image_path(container));
        assert!(explained.contains(&line), "{line}{explained}");
    }
    assert!(explained.contains(&format!("{ENV}: declared hmac:")), "a digest is not quoted: {explained}");

    let found = run_on(&object, &["get", "-o", "json"]).stdout;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["resources"], object["claims"], "JSON is printed as it was received");

    let diff = run_on(&object, &["diff"]).stdout;
    let live_lines: Vec<&str> =
        diff.lines().filter(|line| line.starts_with("+ ") && line.contains("image:")).collect();
    for image in ["null", "\"\"", "\"\\\"\\\"\"", "\"null\"", "\"5\"", "5"]
        .map(str::to_owned)
        .into_iter()
        .chain([digest_like.clone()])
    {
        let line = format!("image: {image}");
        assert!(live_lines.iter().any(|live| live.ends_with(&line)), "{line}: {live_lines:?}");
    }
    assert_eq!(diff.matches("value: !redacted hmac:").count(), 2, "{diff}");
}

#[tokio::test(start_paused = true)]
async fn accepted_rules_pin_every_value_but_redacted_ones() {
    let exporter = exporter().await;
    let object = exporter.get("/v1/resources/deployment/shop/web").await.json();
    let why = ["accept", "deployment/web", "--for", "1d", "--owner", "me", "--reason", "test"];
    let accepted = |object: &Value| -> Vec<RuleSpec> {
        let ended = run_on(object, &why);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains(ENV), "{}", ended.stderr);
        serde_saphyr::from_str(&ended.stdout).unwrap()
    };
    let rules = accepted(&object);
    let pinned = |rules: &[RuleSpec], path: &str| -> Vec<String> {
        let rule = rules.iter().find(|rule| rule.matches.paths == [path]).unwrap();
        rule.matches.values.iter().map(|value| value.0.clone()).collect()
    };
    for (container, image) in live_images() {
        let value = match image {
            None => FieldValue::Absent,
            Some(Value::Null) => FieldValue::Null,
            Some(Value::String(image)) => FieldValue::Text(image.into()),
            Some(image) => FieldValue::Json(image.to_string().into()),
        };
        let digest = value.value_digest().unwrap().to_string();
        assert_eq!(pinned(&rules, &image_path(container)), [digest], "{container}");
    }
    assert_eq!(pinned(&rules, ENV), [""; 0]);
    // The rules match what they were made for.
    exporter.rules(RuleSet::compile(&RuleConfig { rules, ..RuleConfig::default() }).unwrap()).await;
    let claim = &exporter.get("/v1/resources/deployment/shop/web").await.json()["claims"][0];
    assert_eq!((&claim["verdict"], &claim["differences"]), (&json!("ignored"), &json!([])));

    // More fields differ than the exporter lists.
    let mut truncated = object.clone();
    let mut omitted = at(&object, &image_path("word")).clone();
    omitted["path"] = "data".into();
    omitted["actual"] = "and 3 more fields differ".into();
    omitted["actualForm"] = "omitted".into();
    truncated["claims"][0]["differences"].as_array_mut().unwrap().push(omitted);
    let ended = run_on(&truncated, &why);
    let rules: Vec<RuleSpec> = serde_saphyr::from_str(&ended.stdout).unwrap();
    assert!(rules.iter().all(|rule| rule.matches.paths != ["data"]), "{}", ended.stdout);
    assert!(ended.stderr.contains("not accepted: and 3 more fields differ"), "{}", ended.stderr);

    // An exporter that does not report forms may have redacted what looks like a digest.
    let mut older = object.clone();
    for difference in older["claims"][0]["differences"].as_array_mut().unwrap() {
        let difference = difference.as_object_mut().unwrap();
        difference.retain(|name, _| !name.ends_with("Form"));
    }
    let rules = accepted(&older);
    assert_eq!(pinned(&rules, &image_path("digest")), [""; 0]);
    assert_eq!(pinned(&rules, &image_path("word")).len(), 1);
}
