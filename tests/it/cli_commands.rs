//! `get`, `diff` and `explain` on a demo, through its exporter and directly on its cluster.

use serde_json::Value;

use crate::{
    cli_flags::{CommandOutput, run, write},
    demo::patch,
    support::{
        demo::{Demo, Shared, UNCHANGED},
        wait::eventually,
    },
};

fn run_on_demo(demo: &Demo, access: Access, arguments: &[&str]) -> CommandOutput {
    let kubeconfig = demo.kubeconfig.display().to_string();
    let server = format!("http://127.0.0.1:{}", demo.port);
    let variables = match access {
        Access::Exporter => [("DRIFT_KUBECONFIG", &*kubeconfig), ("DRIFT_SERVER", &*server), TRUSTED],
        Access::Direct => [("DRIFT_KUBECONFIG", &*kubeconfig), ("DRIFT_SERVER", ""), TRUSTED],
    };
    run(arguments, "", &variables)
}

/// The namespace of the demo's states.
const TRUSTED: (&str, &str) = ("DRIFT_TRUSTED_NAMESPACES", "terraform");

#[derive(Clone, Copy, Debug)]
enum Access {
    Exporter,
    Direct,
}

const ALL: [Access; 2] = [Access::Exporter, Access::Direct];

/// A shared demo with one drifted object of Terraform and one of Helm.
static DRIFTED: Shared = Shared::new(drifted);

fn drifted() -> Demo {
    let demo = Demo::start(&["--no-story"]);
    let api = demo.api_port();
    let refunds = "/apis/apps/v1/namespaces/payments/deployments/refunds";
    assert_eq!(patch(api, refunds, r#"{"spec":{"replicas":9}}"#), "HTTP/1.1 200 OK");
    let messages = "/api/v1/namespaces/platform/configmaps/notifier-messages";
    assert_eq!(patch(api, messages, r#"{"data":{"shipped":"hello\nthere\n"}}"#), "HTTP/1.1 200 OK");
    eventually("both drifted", || {
        let found = run_on_demo(&demo, Access::Exporter, &["get", "-A", "-o", "name"]).stdout;
        (found.contains("deployment.apps/refunds") && found.contains("notifier-messages")).then_some(())
    });
    demo
}

/// The rows of a table without the SINCE column, which depends on the current time.
fn rows(ended: &CommandOutput) -> Vec<Vec<String>> {
    let mut lines = ended.stdout.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let since = head.iter().position(|title| *title == "SINCE").unwrap_or(usize::MAX);
    let cells = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned);
        cells.enumerate().filter(|(at, _)| *at != since).map(|(_, cell)| cell).collect()
    };
    if since == usize::MAX {
        return ended.stdout.lines().map(|line| vec![line.to_owned()]).collect();
    }
    lines.map(cells).collect()
}

#[test]
fn direct_output_equals_output_of_the_exporter() {
    let demo = DRIFTED.get();
    // A rollout between both commands would make their output differ.
    let refunds = ["get", "deploy/refunds", "-n", "payments", "-o", "json"];
    eventually("refunds is rolled out", || {
        run_on_demo(&demo, Access::Exporter, &refunds).stdout.contains("\"Healthy\"").then_some(())
    });
    for arguments in [
        &["get", "-A"][..],
        &["get", "-A", "-o", "wide"],
        &["get", "-A", "--all"],
        &["get", "-n", "payments", "--all"],
        &["get", "deploy", "-n", "payments"],
        &["get", "deployment.apps/refunds", "-n", "payments"],
        &["get", "deploy", "refunds", "-n", "payments"],
        &["get", "configmaps", "-A", "-o", "name"],
    ] {
        let [via_exporter, direct] = ALL.map(|access| run_on_demo(&demo, access, arguments));
        assert_eq!(rows(&via_exporter), rows(&direct), "{arguments:?}: {}", direct.stderr);
        assert!(!rows(&via_exporter).is_empty(), "{arguments:?}: {}", via_exporter.stderr);
        assert_eq!((via_exporter.code, direct.code), (Some(1), Some(1)), "{arguments:?}");
    }
    let explain = ["explain", "deploy/refunds", "-n", "payments"];
    let [via_exporter, direct] = ALL.map(|access| run_on_demo(&demo, access, &explain));
    assert!(via_exporter.stdout.contains("spec.replicas: declared 2, live 9"), "{}", via_exporter.stdout);
    assert!(via_exporter.stdout.contains("by kubectl"), "{}", via_exporter.stdout);
    let without_times = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(" 20").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(without_times(&via_exporter.stdout), without_times(&direct.stdout), "{}", direct.stderr);
    // Newlines in values are escaped.
    let messages =
        run_on_demo(&demo, Access::Direct, &["explain", "cm", "notifier-messages", "-n", "platform"]);
    assert!(messages.stdout.contains(r#"live "hello\nthere\n""#), "{}", messages.stdout);
    // Everything but the times equals the API response.
    let claims = |access| {
        let text = run_on_demo(&demo, access, &refunds).stdout;
        let mut claims = serde_json::from_str::<Value>(&text).unwrap()["resources"].clone();
        let claim = claims[0].as_object_mut().unwrap();
        claim.retain(|key, _| key != "lastChecked" && key != "onset");
        claim["differences"][0].as_object_mut().unwrap().remove("onset");
        claims
    };
    assert_eq!(claims(Access::Exporter), claims(Access::Direct));
    assert_eq!(claims(Access::Exporter)[0]["kind"], "Deployment");
}

#[test]
fn accept_works_for_every_source() {
    let demo = DRIFTED.get();
    let accept = |access, object: &str, namespace: &str| {
        let why = ["--for", "14d", "--owner", "me", "--reason", "load test"];
        let arguments = [&["accept", object, "-n", namespace][..], &why].concat();
        run_on_demo(&demo, access, &arguments)
    };
    let in_words = |ended: &CommandOutput| {
        ended.stdout.lines().filter(|line| !line.contains("expires")).collect::<String>()
    };
    for (object, namespace, path, is_exposed) in [
        ("deploy/refunds", "payments", "spec.replicas", true),
        ("cm/notifier-messages", "platform", "data.shipped", false),
    ] {
        let [via_exporter, direct] = ALL.map(|access| accept(access, object, namespace));
        assert_eq!(direct.code, Some(0), "{}", direct.stderr);
        assert!(direct.stdout.contains(path) && direct.stdout.contains("sha256:"), "{}", direct.stdout);
        // An exporter that redacts a value exposes no digest of it either.
        assert_eq!(in_words(&via_exporter) == in_words(&direct), is_exposed, "{}", via_exporter.stdout);
        assert_eq!(via_exporter.stdout.contains("sha256:"), is_exposed, "{}", via_exporter.stdout);
        assert!(
            via_exporter.code == Some(0) && via_exporter.stdout.contains(path),
            "{} {}",
            via_exporter.stdout,
            via_exporter.stderr
        );
        let warns = via_exporter.stderr.contains(&format!("any value of {path} is accepted"));
        assert!(warns != is_exposed && direct.stderr.is_empty(), "{} {}", via_exporter.stderr, direct.stderr);
    }
    let nothing = accept(Access::Direct, "deploy/notifier", "platform");
    assert_eq!(nothing.code, Some(1), "{}", nothing.stdout);
    let words = "nothing to accept: Deployment platform/notifier matches its declared state, or rules already accept the difference";
    assert!(nothing.stderr.contains(words), "{}", nothing.stderr);
}

#[test]
fn unknown_claim_is_explained_with_its_reason() {
    let demo = UNCHANGED.get();
    let words = "the algorithm of the recorded hash is unknown (unknown_algorithm)";
    for access in ALL {
        let ended = run_on_demo(&demo, access, &["explain", "deployment", "importer", "-n", "platform"]);
        assert!(ended.stdout.contains(&format!("annotation: unknown, {words}\n")), "{}", ended.stdout);
        assert_eq!(ended.code, Some(0), "{access:?}: {}", ended.stderr);
    }
    let why = ["--for", "14d", "--owner", "me", "--reason", "load test"];
    let accept = [&["accept", "deploy/importer", "-n", "platform"][..], &why].concat();
    let ended = run_on_demo(&demo, Access::Direct, &accept);
    assert!(
        ended.stderr.contains(&format!("cannot be compared with annotation, {words}")),
        "{}",
        ended.stderr
    );
}

#[test]
fn table_shows_object_field_and_tool_and_a_summary() {
    let demo = DRIFTED.get();
    let found = run_on_demo(&demo, Access::Direct, &["get", "-n", "payments"]);
    assert!(found.stdout.starts_with("KIND         NAME"), "{}", found.stdout);
    assert_eq!(
        rows(&found)[0][..6],
        ["Deployment", "refunds", "drifted", "warning", "spec.replicas", "kubectl"].map(str::to_owned)
    );
    assert!(found.stderr.starts_with("1 of "), "{}", found.stderr);
    assert!(found.stderr.ends_with("declared objects drifted (1 warning)\n"), "{}", found.stderr);
    // No drift exits with 0.
    let fine = run_on_demo(&demo, Access::Direct, &["get", "svc", "-n", "shop"]);
    assert_eq!((fine.code, &*fine.stdout), (Some(0), ""), "{}", fine.stderr);
    assert_eq!(fine.stderr, "none of 5 declared objects drifted\n");
    // The default namespace is that of the context.
    let all = run_on_demo(&demo, Access::Direct, &["get", "deploy/web", "-o", "yaml"]);
    assert!(
        all.stdout.contains("namespace: shop\n") && all.stdout.contains("verdict: in_sync"),
        "{}",
        all.stdout
    );
}

#[test]
fn missing_object_is_reported_with_a_suggestion() {
    let demo = UNCHANGED.get();
    for access in ALL {
        for (arguments, code, message) in [
            (&["get", "deploymnt"][..], 2, "did you mean `deployment`?"),
            (&["get", "deploy/nonesuch", "-n", "shop"], 1, "nothing found"),
            (&["diff", "deploy/nonesuch", "-n", "shop"], 1, "/nonesuch"),
            // A found object does not hide one that is not found.
            (&["diff", "deploy/web", "deploy/nonesuch", "-n", "shop"], 1, "/nonesuch"),
            (&["diff", "deploy/web", "gadgt/x", "-n", "shop"], 2, "gadgt"),
            (
                &["diff", "deploy/importer", "-n", "platform"],
                0,
                "deployment.apps/importer in platform cannot be compared: the algorithm of the recorded hash is unknown",
            ),
            (&["explain", "deploy/nonesuch", "-n", "shop"], 1, "no watched object"),
            (
                &["explain", "deploy"],
                2,
                "`deploy` names a kind, not an object; use KIND/NAME, such as deployment/web",
            ),
            (&["get", "deploy/web", "web"], 2, "deploy/web already names an object"),
            (&["get", "deploy", "a/b"], 2, "expected KIND/NAME, such as deployment/web"),
            (&["explain", "cm/nonesuch", "-n", "shop"], 1, "no watched object configmap shop/nonesuch"),
        ] {
            let ended = run_on_demo(&demo, access, arguments);
            assert_eq!(ended.code, Some(code), "{access:?} {arguments:?}: {}", ended.stderr);
            assert!(ended.stderr.contains(message), "{access:?} {arguments:?}: {}", ended.stderr);
        }
    }
}

/// An exporter may watch a part of the cluster only, so it does not know which namespaces exist.
#[test]
fn namespace_that_does_not_exist_is_an_error_if_the_cluster_is_read() {
    let demo = UNCHANGED.get();
    for arguments in [&["get", "-n", "nonesuch"][..], &["diff", "-n", "nonesuch"]] {
        let direct = run_on_demo(&demo, Access::Direct, arguments);
        assert_eq!(direct.code, Some(2), "{}", direct.stderr);
        assert!(direct.stderr.contains("the cluster has no namespace `nonesuch`"), "{}", direct.stderr);
        let via_exporter = run_on_demo(&demo, Access::Exporter, arguments);
        assert_eq!(via_exporter.code, Some(0), "{}", via_exporter.stderr);
        assert!(via_exporter.stderr.contains("nothing found"), "{}", via_exporter.stderr);
    }
}

#[test]
fn diff_prints_a_unified_diff() {
    let demo = DRIFTED.get();
    for access in ALL {
        let ended = run_on_demo(&demo, access, &["diff", "deploy/refunds", "-n", "payments"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let lines: Vec<&str> = ended.stdout.lines().collect();
        let file = "apps.v1.Deployment.payments.refunds.terraform";
        let by = "terraform terraform/default/payments kubernetes_deployment_v1.refunds";
        assert_eq!(lines[0], format!("--- declared/{file}\t{by}"));
        assert!(lines[1].starts_with(&format!("+++ live/{file}\tkubectl 20")), "{}", lines[1]);
        assert_eq!(lines[2..], ["@@ -1,2 +1,2 @@", " spec:", "-  replicas: 2", "+  replicas: 9"]);
        let none = run_on_demo(&demo, access, &["diff", "svc", "-n", "shop"]);
        assert_eq!((none.code, &*none.stdout), (Some(0), ""), "{}", none.stderr);
    }
    let coloured = ["diff", "-A", "--color", "always"];
    let text = run_on_demo(&demo, Access::Direct, &coloured).stdout;
    for line in ["[31m-  replicas: 2", "[32m+  replicas: 9", "[36m@@ -1,2 +1,2 @@"] {
        assert!(text.contains(&format!("\u{1b}{line}\u{1b}[0m\n")), "{line} is not in {text}");
    }
    let file = "apps.v1.Deployment.payments.refunds.terraform";
    assert!(text.contains(&format!("\u{1b}[1m--- declared/{file}")), "{text}");
    assert!(text.contains("\n spec:\n"), "{text}");
    // Direct access shows values: it uses the permissions of the user.
    assert!(text.contains("Your order is on its way.") && text.contains("hello"), "{text}");
    assert!(!run_on_demo(&demo, Access::Direct, &["diff", "-A"]).stdout.contains('\u{1b}'));
}

#[test]
fn external_diff_program_works_as_in_kubectl() {
    let demo = DRIFTED.get();
    let kubeconfig = demo.kubeconfig.display().to_string();
    let diff = |program: &str| {
        let environment = [("DRIFT_KUBECONFIG", &*kubeconfig), ("KUBECTL_EXTERNAL_DIFF", program), TRUSTED];
        run(&["diff", "deploy/refunds", "-n", "payments"], "yes\n", &environment)
    };
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let shown =
        diff(&format!("{} -u  ;no /tmp/x $(y) --x=1", script("show", "shift 2; echo \"$@\"; exit 1")));
    assert_eq!((shown.code, &*shown.stdout), (Some(1), "-u --x=1\n"), "{}", shown.stderr);
    let files = diff(&script("cat", "cat \"$1\"/*; cat \"$2\"/*"));
    assert_eq!((files.code, &*files.stdout), (Some(0), "spec:\n  replicas: 2\nspec:\n  replicas: 9\n"));
    // The program may read stdin and write to stderr.
    let asking = diff(&script("ask", "read answer; echo \"$answer\" >&2; exit 1"));
    assert_eq!((asking.code, &*asking.stderr), (Some(1), "yes\n"));
    let broken = diff(&script("fail", "echo why >&2; exit 3"));
    assert_eq!((broken.code, &*broken.stdout), (Some(2), ""));
    assert!(broken.stderr.contains("why"), "{}", broken.stderr);
    assert_eq!(diff("/nonexistent/diff -u").code, Some(2));
}

#[test]
fn label_selector_uses_labels_of_the_cluster() {
    let demo = drifted();
    let label = "/apis/apps/v1/namespaces/payments/deployments/refunds";
    assert_eq!(patch(demo.api_port(), label, r#"{"metadata":{"labels":{"pick":"me"}}}"#), "HTTP/1.1 200 OK");
    for access in ALL {
        let picked =
            run_on_demo(&demo, access, &["get", "-A", "--all", "-l", "pick in (me,you)", "-o", "name"]);
        assert_eq!(picked.stdout, "deployment.apps/refunds\n", "{access:?}: {}", picked.stderr);
        let none = run_on_demo(&demo, access, &["get", "-A", "-l", "pick=none"]);
        assert_eq!((none.code, &*none.stdout), (Some(0), ""), "{}", none.stderr);
    }
    let wrong = run_on_demo(&demo, Access::Direct, &["get", "-l", "a b c"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("invalid requirement"), "{}", wrong.stderr);
    let empty = run_on_demo(&demo, Access::Direct, &["get", "-l", "a in ()"]);
    assert!(empty.code == Some(2) && empty.stderr.contains("`a in ()` has no values"), "{}", empty.stderr);
}

#[test]
fn watch_flag_prints_changes() {
    use crate::support::process::Running;
    let demo = Demo::start(&["--no-story"]);
    let folder = tempfile::tempdir().unwrap();
    for (name, flags) in [
        ("direct", vec![]),
        ("server", vec!["--server".to_owned(), format!("http://127.0.0.1:{}", demo.port)]),
    ] {
        let log = folder.path().join(name);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_drift-exporter"));
        command.args(["get", "deploy", "-n", "payments", "-w"]).args(flags).env(TRUSTED.0, TRUSTED.1);
        let _running = Running::start(command.env("DRIFT_KUBECONFIG", &demo.kubeconfig), &log);
        let output = || std::fs::read_to_string(&log).unwrap_or_default();
        let wait = |what: &str| {
            eventually(what, || output().contains(what).then_some(()));
        };
        wait("none of ");
        let refunds = "/apis/apps/v1/namespaces/payments/deployments/refunds";
        patch(demo.api_port(), refunds, r#"{"spec":{"replicas":9}}"#);
        wait("drifted   warning    spec.replicas");
        patch(demo.api_port(), refunds, r#"{"spec":{"replicas":2}}"#);
        wait("refunds   in_sync");
    }
}

#[test]
fn settings_file_selects_kinds_and_namespaces() {
    let demo = DRIFTED.get();
    let folder = tempfile::tempdir().unwrap();
    let only_helm = write(folder.path(), "settings.yaml", "sources: {helm: {}}\n");
    let found = run_on_demo(&demo, Access::Direct, &["get", "-A", "-o", "name", "--config.file", &only_helm]);
    assert_eq!(found.stdout, "configmap/notifier-messages\n", "{}", found.stderr);
    // Kinds outside the settings are not read; the namespace comes from the command line.
    let deployments = "kinds: [{apiVersion: apps/v1, kind: Deployment}]\nsources: {terraform: {}}\n";
    let deployments = write(folder.path(), "deployments.yaml", deployments);
    let with = |arguments: &[&str], file: &str| {
        run_on_demo(&demo, Access::Direct, &[arguments, &["--config.file", file]].concat())
    };
    let never = with(&["get", "ingress", "-n", "shop"], &deployments);
    assert_eq!(never.code, Some(2), "{}", never.stderr);
    assert!(
        never.stderr.contains("the settings watch no kind `ingress.networking.k8s.io`"),
        "{}",
        never.stderr
    );
    let one = with(&["get", "--all", "-n", "payments", "-o", "json"], &deployments);
    assert_eq!(one.code, Some(1), "{}", one.stderr);
    let fenced = write(folder.path(), "fenced.yaml", "namespaces: [shop]\nsources: {terraform: {}}\n");
    let outside = with(&["get", "-n", "payments"], &fenced);
    assert!(outside.code == Some(2) && outside.stderr.contains("namespace `payments`"), "{}", outside.stderr);
    let wrong = write(folder.path(), "wrong.yaml", "sorces: {}\n");
    let ended = run_on_demo(&demo, Access::Direct, &["get", "-A", "--config.file", &wrong]);
    assert!(ended.code == Some(2) && ended.stderr.contains("wrong.yaml:1:1"), "{}", ended.stderr);
}

#[test]
fn states_of_other_namespaces_need_trust() {
    let demo = DRIFTED.get();
    let kubeconfig = demo.kubeconfig.display().to_string();
    let direct = |arguments: &[&str]| run(arguments, "", &[("DRIFT_KUBECONFIG", &*kubeconfig)]);
    let found = direct(&["get", "-n", "payments"]);
    assert_eq!((found.code, found.stdout.contains("refunds")), (Some(0), false), "{}", found.stdout);
    let hint = "objects; trust them with --trusted-namespaces or the settings\n";
    assert!(
        found.stderr.contains("untrusted: baselines in other namespaces declare ")
            && found.stderr.contains(hint)
    );
    let listed = direct(&["get", "deploy/refunds", "-n", "payments"]);
    assert!(listed.code == Some(0) && listed.stdout.contains("untrusted"), "{}", listed.stdout);
    let explained = direct(&["explain", "deploy/refunds", "-n", "payments"]).stdout;
    assert!(
        explained.contains("terraform: untrusted\n")
            && explained.contains("spec.replicas: declared 2, live 9"),
        "{explained}"
    );
    let accepted = direct(&[
        "accept",
        "deploy/refunds",
        "-n",
        "payments",
        "--owner",
        "a",
        "--reason",
        "b",
        "--for",
        "30d",
    ]);
    assert!(
        accepted.code == Some(1) && accepted.stderr.contains("only baselines of other namespaces declare"),
        "{}",
        accepted.stderr
    );
    for trusted in ["terraform", "*"] {
        let found = direct(&["get", "-n", "payments", "--trusted-namespaces", trusted]);
        assert!(found.code == Some(1) && found.stdout.contains("refunds"), "{trusted}: {}", found.stderr);
    }
}
