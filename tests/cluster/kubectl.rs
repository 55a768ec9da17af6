//! The demo's cluster under the real kubectl.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use crate::support::{demo::Demo, parts::program, wait::eventually};

struct Kubectl<'a>(&'a Demo);

impl Kubectl<'_> {
    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> (bool, String) {
        let Output { status, stdout, stderr } = Command::new(program("kube-apiserver", "kubectl"))
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&self.0.kubeconfig)
            .envs(environment.iter().copied())
            .output()
            .expect("kubectl can be run");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (status.success(), text(stdout) + &text(stderr))
    }

    #[track_caller]
    fn works(&self, arguments: &[&str]) -> String {
        let (fine, said) = self.run(arguments, &[]);
        assert!(fine, "kubectl {arguments:?}: {said}");
        said
    }

    #[track_caller]
    fn is_refused(&self, arguments: &[&str], with: &str) {
        let (fine, said) = self.run(arguments, &[]);
        assert!(!fine && said.contains(with), "kubectl {arguments:?}: {said}");
    }
}

/// Waits until the overview's table has the object with this verdict, and gives its row.
#[track_caller]
fn row(demo: &Demo, object: &str, verdict: &str) -> String {
    eventually(&format!("{object} is {verdict}"), || {
        let page = demo.get("/").text();
        let start = format!("<tr id=\"/objects/{object}:annotation\" class=\"row {verdict}\"");
        Some(page.split_once(&start)?.1.split_once("</tr>")?.0.to_owned())
    })
}

const WEB: &str = "deployments.apps/shop/web";

#[test]
fn each_edit_turns_the_row_names_its_tool_and_can_be_taken_back() {
    let demo = Demo::start(&["--no-story"]);
    let kubectl = Kubectl(&demo);
    let ready = kubectl.works(&["get", "deployment", "web"]);
    assert!(ready.contains("NAME") && ready.contains("3/3"), "{ready}");
    row(&demo, WEB, "in_sync");

    for (edit, back, manager) in [
        (
            &["scale", "deployment", "web", "--replicas=7"][..],
            &["scale", "deployment", "web", "--replicas=3"][..],
            "kubectl",
        ),
        (
            &["set", "image", "deployment/web", "web=registry.example/web:6"],
            &["set", "image", "deployment/web", "web=registry.example/web:5.2.0"],
            "kubectl-set",
        ),
        (
            &["set", "env", "deployment/web", "LOG_LEVEL=debug"],
            &["set", "env", "deployment/web", "LOG_LEVEL=info"],
            "kubectl-set",
        ),
        (
            &["patch", "deployment", "web", "-p", r#"{"spec":{"replicas":1}}"#],
            &[
                "patch",
                "deployment",
                "web",
                "--type=json",
                "-p",
                r#"[{"op":"replace","path":"/spec/replicas","value":3}]"#,
            ],
            "kubectl-patch",
        ),
        (
            &["rollout", "restart", "deployment", "web"],
            &[
                "patch",
                "deployment",
                "web",
                "-p",
                r#"{"spec":{"template":{"metadata":{"annotations":null}}}}"#,
            ],
            "kubectl-rollout",
        ),
    ] {
        // Owners of fields are known by the second: of two in one second nobody can say who was the later.
        std::thread::sleep(Duration::from_millis(1100));
        kubectl.works(edit);
        let turned = row(&demo, WEB, "drifted");
        assert!(turned.contains(manager) && turned.contains("hash") && turned.contains("<time"), "{turned}");
        kubectl.works(back);
        row(&demo, WEB, "in_sync");
        let newest = demo.transitions().remove(0);
        assert_eq!((&newest["cause"], &newest["manager"]), (&"reverted".into(), &manager.into()), "{newest}");
    }
}

#[test]
fn whoever_scales_to_zero_leaves_no_name_and_nobody_else_is_blamed() {
    let demo = Demo::start(&["--no-story"]);
    // The shop was made two days ago. Times of writes are whole seconds.
    let before = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
    Kubectl(&demo).works(&["scale", "deployment", "web", "--replicas=0"]);
    let turned = row(&demo, WEB, "drifted");
    assert!(turned.contains(">nobody<"), "{turned}");
    let begun = demo.transitions().remove(0);
    let time = |name: &str| begun[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(begun["actor"], "none", "{begun}");
    assert!(before <= time("onset") && time("onset") <= time("time"), "{before}: {begun}");
}

/// Types what the page prints under "Record its hash as it is now", with this folder's programs before all others.
fn accept(demo: &Demo, object: &str, programs: &Path) -> (bool, String) {
    let page = demo.get(&format!("/objects/{object}")).text();
    let (_, rest) = page.split_once("<pre data-copy><code>hash=").unwrap();
    let command = format!("hash={}", rest.split("</code>").next().unwrap())
        .replace("&amp;", "&")
        .replace("&quot;", "\"");
    let kubectl = program("kube-apiserver", "kubectl");
    let folders = [programs.into(), kubectl.parent().unwrap().into()];
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&path))).unwrap();
    let Output { status, stdout, stderr } = Command::new("sh")
        .args(["-c", &command])
        .env("PATH", path)
        .env("KUBECONFIG", &demo.kubeconfig)
        .output()
        .expect("a shell");
    let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
    (status.success(), format!("{command}: {said}"))
}

#[test]
fn what_the_page_says_to_type_accepts_an_object_with_its_own_algorithm_or_fails() {
    let demo = Demo::start(&["--no-story"]);
    let kubectl = Kubectl(&demo);
    let own = Path::new(env!("CARGO_BIN_EXE_drift-exporter")).parent().unwrap();
    let recorded = |namespace: &str, name: &str| {
        let path = "jsonpath={.metadata.annotations.tfdrift\\.jin\\.dev/spec-hash}";
        kubectl.works(&["-n", namespace, "get", "deployment", name, "-o", path])
    };
    for (namespace, name, prefix) in [("shop", "web", ""), ("payments", "gateway", "jcs-v1:")] {
        let object = format!("deployments.apps/{namespace}/{name}");
        kubectl.works(&["-n", namespace, "scale", "deployment", name, "--replicas=7"]);
        row(&demo, &object, "drifted");
        let (fine, said) = accept(&demo, &object, own);
        assert!(fine, "{said}");
        row(&demo, &object, "in_sync");
        let hash = recorded(namespace, name);
        let digits = hash.strip_prefix(prefix).unwrap_or_else(|| panic!("{hash} is no {prefix}"));
        assert!(digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    }
    let broken = demo.kubeconfig.parent().unwrap();
    let failing = broken.join("drift-exporter");
    std::fs::write(&failing, "#!/bin/sh\nexit 1\n").expect("a file");
    std::fs::set_permissions(&failing, std::fs::Permissions::from_mode(0o755)).expect("a program");
    kubectl.works(&["scale", "deployment", "cart", "--replicas=7"]);
    row(&demo, "deployments.apps/shop/cart", "drifted");
    let before = recorded("shop", "cart");
    let (fine, said) = accept(&demo, "deployments.apps/shop/cart", broken);
    assert!(!fine, "{said}");
    assert_eq!(recorded("shop", "cart"), before);
}

#[test]
fn an_editor_labels_annotations_and_deletion_work_as_on_any_cluster() {
    let demo = Demo::start(&["--no-story"]);
    let kubectl = Kubectl(&demo);
    let (fine, said) = kubectl
        .run(&["edit", "deployment", "cart"], &[("KUBE_EDITOR", "sed -i 's/replicas: 2/replicas: 5/'")]);
    assert!(fine && said.contains("deployment.apps/cart edited"), "{said}");
    assert!(row(&demo, "deployments.apps/shop/cart", "drifted").contains("kubectl-edit"));
    // Neither is part of what the hash covers.
    kubectl.works(&["annotate", "deployment", "web", "note=hello"]);
    kubectl.works(&["label", "deployment", "web", "tier=front"]);
    row(&demo, WEB, "in_sync");
    let listed = kubectl.works(&["get", "deployments", "-A", "-l", "tier=front", "-o", "name"]);
    assert_eq!(listed, "deployment.apps/web\n");
    // Whoever takes the opt-in label away takes the object out.
    kubectl.works(&["label", "deployment", "web", "tfdrift.jin.dev/enabled-"]);
    kubectl.works(&["delete", "service", "cart", "--wait"]);
    for gone in [WEB, "services/shop/cart"] {
        eventually(&format!("{gone} is gone"), || {
            (!demo.get("/").text().contains(&format!("<tr id=\"/objects/{gone}:"))).then_some(())
        });
    }
    assert!(
        kubectl
            .works(&["rollout", "status", "deployment/cart", "--timeout=20s"])
            .contains("successfully rolled out")
    );
    kubectl.works(&["expose", "deployment", "newsletter", "--port=80"]);
    kubectl.works(&["delete", "namespace", "payments"]);
    assert!(kubectl.works(&["get", "deployments", "-n", "payments"]).contains("No resources found"));
}

#[test]
fn what_terraform_manages_can_be_seen_and_edited_too() {
    let demo = Demo::start(&["--no-story"]);
    let kubectl = Kubectl(&demo);
    let in_payments = |arguments: &[&str]| kubectl.works(&[&["-n", "payments"], arguments].concat());
    for (kind, wanted) in [
        ("secret", "psp-credentials   Opaque   2"),
        ("cm", "exchange-rates   3"),
        ("netpol", "refunds   app=refunds"),
        ("hpa", "checkout-us   Deployment/checkout-us   3         8"),
    ] {
        let listed = in_payments(&["get", kind]);
        assert!(listed.contains(wanted), "{listed}");
    }
    let states = kubectl.works(&["get", "secrets,leases", "-A", "-l", "tfstate=true", "-o", "name"]);
    assert_eq!(
        states,
        "secret/tfstate-default-payments\nlease.coordination.k8s.io/lock-tfstate-default-payments\n"
    );
    let (fine, said) = kubectl.run(
        &["-n", "payments", "edit", "configmap", "exchange-rates"],
        &[("KUBE_EDITOR", "sed -i 's/0.8561/0.9/'")],
    );
    assert!(fine, "{said}");
    in_payments(&["patch", "secret", "psp-credentials", "-p", r#"{"stringData":{"password":"new"}}"#]);
    in_payments(&["patch", "networkpolicy", "refunds", "--type=merge", "-p", r#"{"spec":{"ingress":null}}"#]);
    let data = |object: &str| in_payments(&["get", object, "-o", "jsonpath={.data}"]);
    assert!(data("cm/exchange-rates").contains("\"GBP\":\"0.9\""));
    assert!(data("secret/psp-credentials").contains("\"password\":\"bmV3\""));
    // What the demo writes down of its manifest is what kubectl writes.
    let banner = concat!(env!("CARGO_MANIFEST_DIR"), "/src/demo/kubectl/banner.json");
    assert!(kubectl.works(&["apply", "-f", banner]).contains("deployment.apps/banner unchanged"));
    let own = demo.kubeconfig.with_file_name("own.yaml");
    let text = "{apiVersion: v1, kind: Secret, metadata: {name: own}, stringData: {a: b}}\n---\n\
                {apiVersion: v1, kind: ServiceAccount, metadata: {name: own}}\n";
    std::fs::write(&own, text).expect("a file");
    let own = own.display().to_string();
    for _ in 0..2 {
        in_payments(&["apply", "-f", &own]);
    }
    in_payments(&["delete", "-f", &own]);
}

#[test]
fn what_the_demo_does_not_serve_is_refused_in_kubernetes_own_words() {
    let demo = Demo::start(&["--no-story"]);
    let kubectl = Kubectl(&demo);
    kubectl.is_refused(&["get", "pods"], "the server doesn't have a resource type \"pods\"");
    kubectl.is_refused(&["get", "deployment", "nope"], "deployments.apps \"nope\" not found");
    kubectl.is_refused(
        &["patch", "deployment", "web", "-p", r#"{"spec":{"replicas":-1}}"#],
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    );
    kubectl.is_refused(&["label", "deployment", "web", "tier=", "--resource-version=1"], "has been modified");
    kubectl
        .is_refused(&["patch", "deployment", "web", "-p", r#"{"spec":{"replicas":"many"}}"#], "is invalid");
    kubectl.is_refused(
        &["delete", "--raw", "/apis/apps/v1/namespaces/shop/deployments"],
        "does not allow this method",
    );
    let service = demo.kubeconfig.with_file_name("service.yaml");
    let text = "{apiVersion: v1, kind: Service, metadata: {name: new}, spec: {selector: {a: b}, ports: [{port: 80}]}}";
    std::fs::write(&service, text).expect("a file");
    let service = service.display().to_string();
    kubectl.is_refused(
        &["apply", "--server-side", "-f", &service],
        "server-side apply is not served by this demo cluster",
    );
    assert!(kubectl.works(&["apply", "-f", &service]).contains("service/new created"));
    assert!(kubectl.works(&["apply", "-f", &service]).contains("service/new unchanged"));
}
