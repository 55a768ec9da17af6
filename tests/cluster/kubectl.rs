//! The demo's API server with the real kubectl.

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
    fn run_ok(&self, arguments: &[&str]) -> String {
        let (succeeded, output) = self.run(arguments, &[]);
        assert!(succeeded, "kubectl {arguments:?}: {output}");
        output
    }

    #[track_caller]
    fn run_denied(&self, arguments: &[&str], with: &str) {
        let (succeeded, output) = self.run(arguments, &[]);
        assert!(!succeeded && output.contains(with), "kubectl {arguments:?}: {output}");
    }
}

/// Waits until the overview lists the object with this verdict, and returns its row.
#[track_caller]
fn wait_for_row(demo: &Demo, object: &str, verdict: &str) -> String {
    eventually(&format!("{object} is {verdict}"), || {
        let page = demo.get("/").text();
        let start = format!("<tr id=\"/objects/{object}:annotation\" class=\"row {verdict}\"");
        Some(page.split_once(&start)?.1.split_once("</tr>")?.0.to_owned())
    })
}

const WEB: &str = "deployments.apps/shop/web";

#[test]
fn each_edit_is_drift_with_its_field_manager_until_reverted() {
    let demo = Demo::start(&["--no-story"]);
    let kubectl = Kubectl(&demo);
    let ready = kubectl.run_ok(&["get", "deployment", "web"]);
    assert!(ready.contains("NAME") && ready.contains("3/3"), "{ready}");
    wait_for_row(&demo, WEB, "in_sync");

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
        // managedFields has times in seconds: the later of two writes within one second is ambiguous.
        std::thread::sleep(Duration::from_millis(1100));
        kubectl.run_ok(edit);
        let drifted_row = wait_for_row(&demo, WEB, "drifted");
        assert!(
            drifted_row.contains(manager) && drifted_row.contains("hash") && drifted_row.contains("<time"),
            "{drifted_row}"
        );
        kubectl.run_ok(back);
        wait_for_row(&demo, WEB, "in_sync");
        let newest = demo.transitions().remove(0);
        assert_eq!((&newest["cause"], &newest["manager"]), (&"reverted".into(), &manager.into()), "{newest}");
    }
}

#[test]
fn scale_to_zero_has_an_unknown_manager() {
    let demo = Demo::start(&["--no-story"]);
    // Objects of the demo are two days old. managedFields has times in seconds.
    let before = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
    Kubectl(&demo).run_ok(&["scale", "deployment", "web", "--replicas=0"]);
    let drifted_row = wait_for_row(&demo, WEB, "drifted");
    assert!(drifted_row.contains(">unknown<"), "{drifted_row}");
    let transition = demo.transitions().remove(0);
    let time = |name: &str| transition[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(transition["actor"], "none", "{transition}");
    assert!(before <= time("onset") && time("onset") <= time("time"), "{before}: {transition}");
}

/// Runs the command that the page prints under "Record its hash as it is now", with `programs` first on the PATH.
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
    let output = [stdout, stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
    (status.success(), format!("{command}: {output}"))
}

#[test]
fn printed_command_records_the_hash_with_its_algorithm_or_fails() {
    let demo = Demo::start(&["--no-story"]);
    let kubectl = Kubectl(&demo);
    let programs = Path::new(env!("CARGO_BIN_EXE_drift-exporter")).parent().unwrap();
    let recorded = |namespace: &str, name: &str| {
        let path = "jsonpath={.metadata.annotations.tfdrift\\.jin\\.dev/spec-hash}";
        kubectl.run_ok(&["-n", namespace, "get", "deployment", name, "-o", path])
    };
    for (namespace, name, prefix) in [("shop", "web", ""), ("payments", "gateway", "jcs-v1:")] {
        let object = format!("deployments.apps/{namespace}/{name}");
        kubectl.run_ok(&["-n", namespace, "scale", "deployment", name, "--replicas=7"]);
        wait_for_row(&demo, &object, "drifted");
        let (succeeded, output) = accept(&demo, &object, programs);
        assert!(succeeded, "{output}");
        wait_for_row(&demo, &object, "in_sync");
        let hash = recorded(namespace, name);
        let digits = hash.strip_prefix(prefix).unwrap_or_else(|| panic!("{hash} is no {prefix}"));
        assert!(digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    }
    let broken = demo.kubeconfig.parent().unwrap();
    let failing = broken.join("drift-exporter");
    std::fs::write(&failing, "#!/bin/sh\nexit 1\n").expect("a file");
    std::fs::set_permissions(&failing, std::fs::Permissions::from_mode(0o755)).expect("a program");
    kubectl.run_ok(&["scale", "deployment", "cart", "--replicas=7"]);
    wait_for_row(&demo, "deployments.apps/shop/cart", "drifted");
    let before = recorded("shop", "cart");
    let (succeeded, output) = accept(&demo, "deployments.apps/shop/cart", broken);
    assert!(!succeeded, "{output}");
    assert_eq!(recorded("shop", "cart"), before);
}

#[test]
fn kubectl_edit_label_annotate_and_delete_work_on_the_demo() {
    let demo = Demo::start(&["--no-story"]);
    let kubectl = Kubectl(&demo);
    let (succeeded, output) = kubectl
        .run(&["edit", "deployment", "cart"], &[("KUBE_EDITOR", "sed -i 's/replicas: 2/replicas: 5/'")]);
    assert!(succeeded && output.contains("deployment.apps/cart edited"), "{output}");
    assert!(wait_for_row(&demo, "deployments.apps/shop/cart", "drifted").contains("kubectl-edit"));
    // The hash covers neither of them.
    kubectl.run_ok(&["annotate", "deployment", "web", "note=hello"]);
    kubectl.run_ok(&["label", "deployment", "web", "tier=front"]);
    wait_for_row(&demo, WEB, "in_sync");
    let listed = kubectl.run_ok(&["get", "deployments", "-A", "-l", "tier=front", "-o", "name"]);
    assert_eq!(listed, "deployment.apps/web\n");
    // Without the opt-in label, the object is not watched.
    kubectl.run_ok(&["label", "deployment", "web", "tfdrift.jin.dev/enabled-"]);
    kubectl.run_ok(&["delete", "service", "cart", "--wait"]);
    for gone in [WEB, "services/shop/cart"] {
        eventually(&format!("{gone} is gone"), || {
            (!demo.get("/").text().contains(&format!("<tr id=\"/objects/{gone}:"))).then_some(())
        });
    }
    assert!(
        kubectl
            .run_ok(&["rollout", "status", "deployment/cart", "--timeout=20s"])
            .contains("successfully rolled out")
    );
    kubectl.run_ok(&["expose", "deployment", "newsletter", "--port=80"]);
    kubectl.run_ok(&["delete", "namespace", "payments"]);
    assert!(kubectl.run_ok(&["get", "deployments", "-n", "payments"]).contains("No resources found"));
}

#[test]
fn terraform_managed_objects_can_be_read_and_edited() {
    let demo = Demo::start(&["--no-story"]);
    let kubectl = Kubectl(&demo);
    let in_payments = |arguments: &[&str]| kubectl.run_ok(&[&["-n", "payments"], arguments].concat());
    for (kind, expected) in [
        ("secret", "psp-credentials   Opaque   2"),
        ("cm", "exchange-rates   3"),
        ("netpol", "refunds   app=refunds"),
        ("hpa", "checkout-us   Deployment/checkout-us   3         8"),
    ] {
        let listed = in_payments(&["get", kind]);
        assert!(listed.contains(expected), "{listed}");
    }
    let states = kubectl.run_ok(&["get", "secrets,leases", "-A", "-l", "tfstate=true", "-o", "name"]);
    assert_eq!(
        states,
        "secret/tfstate-default-payments\nlease.coordination.k8s.io/lock-tfstate-default-payments\n"
    );
    let (succeeded, output) = kubectl.run(
        &["-n", "payments", "edit", "configmap", "exchange-rates"],
        &[("KUBE_EDITOR", "sed -i 's/0.8561/0.9/'")],
    );
    assert!(succeeded, "{output}");
    in_payments(&["patch", "secret", "psp-credentials", "-p", r#"{"stringData":{"password":"new"}}"#]);
    in_payments(&["patch", "networkpolicy", "refunds", "--type=merge", "-p", r#"{"spec":{"ingress":null}}"#]);
    let data = |object: &str| in_payments(&["get", object, "-o", "jsonpath={.data}"]);
    assert!(data("cm/exchange-rates").contains("\"GBP\":\"0.9\""));
    assert!(data("secret/psp-credentials").contains("\"password\":\"bmV3\""));
    // The demo writes the same last-applied annotation as kubectl.
    let banner = concat!(env!("CARGO_MANIFEST_DIR"), "/src/demo/kubectl/banner.json");
    assert!(kubectl.run_ok(&["apply", "-f", banner]).contains("deployment.apps/banner unchanged"));
    let file = demo.kubeconfig.with_file_name("own.yaml");
    let text = "{apiVersion: v1, kind: Secret, metadata: {name: own}, stringData: {a: b}}\n---\n\
                {apiVersion: v1, kind: ServiceAccount, metadata: {name: own}}\n";
    std::fs::write(&file, text).expect("a file");
    let file = file.display().to_string();
    for _ in 0..2 {
        in_payments(&["apply", "-f", &file]);
    }
    in_payments(&["delete", "-f", &file]);
}

#[test]
fn unserved_requests_fail_with_kubernetes_status_messages() {
    let demo = Demo::start(&["--no-story"]);
    let kubectl = Kubectl(&demo);
    kubectl.run_denied(&["get", "pods"], "the server doesn't have a resource type \"pods\"");
    kubectl.run_denied(&["get", "deployment", "nope"], "deployments.apps \"nope\" not found");
    kubectl.run_denied(
        &["patch", "deployment", "web", "-p", r#"{"spec":{"replicas":-1}}"#],
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    );
    kubectl.run_denied(&["label", "deployment", "web", "tier=", "--resource-version=1"], "has been modified");
    kubectl
        .run_denied(&["patch", "deployment", "web", "-p", r#"{"spec":{"replicas":"many"}}"#], "is invalid");
    kubectl.run_denied(
        &["delete", "--raw", "/apis/apps/v1/namespaces/shop/deployments"],
        "does not allow this method",
    );
    let service = demo.kubeconfig.with_file_name("service.yaml");
    let text = "{apiVersion: v1, kind: Service, metadata: {name: new}, spec: {selector: {a: b}, ports: [{port: 80}]}}";
    std::fs::write(&service, text).expect("a file");
    let service = service.display().to_string();
    kubectl.run_denied(
        &["apply", "--server-side", "-f", &service],
        "server-side apply is not served by this demo cluster",
    );
    assert!(kubectl.run_ok(&["apply", "-f", &service]).contains("service/new created"));
    assert!(kubectl.run_ok(&["apply", "-f", &service]).contains("service/new unchanged"));
}
