//! `get`, `diff` and `explain`, asked of a running demo and of its cluster itself.

use serde_json::Value;

use crate::{
    command_line::{CommandOutput, run, write},
    demo::patch,
    programs::{
        demo::{Demo, Shared, UNCHANGED},
        wait::eventually,
    },
};

/// Runs a command on the demo, through its exporter or without it.
fn ask(demo: &Demo, through: Through, arguments: &[&str]) -> CommandOutput {
    let kubeconfig = demo.kubeconfig.display().to_string();
    let server = format!("http://127.0.0.1:{}", demo.port);
    let whom = match through {
        Through::Server => [("DRIFT_KUBECONFIG", &*kubeconfig), ("DRIFT_SERVER", &*server)],
        Through::Nothing => [("DRIFT_KUBECONFIG", &*kubeconfig), ("DRIFT_SERVER", "")],
    };
    run(arguments, "", &whom)
}

#[derive(Clone, Copy, Debug)]
enum Through {
    Server,
    Nothing,
}

const BOTH: [Through; 2] = [Through::Server, Through::Nothing];

/// A demo that tests share, in which something drifted that Terraform declares, and something that Helm does.
static DRIFTED: Shared = Shared::new(drifted);

fn drifted() -> Demo {
    let demo = Demo::start(&["--no-story"]);
    let api = demo.api_port();
    let refunds = "/apis/apps/v1/namespaces/payments/deployments/refunds";
    assert_eq!(patch(api, refunds, r#"{"spec":{"replicas":9}}"#), "HTTP/1.1 200 OK");
    let messages = "/api/v1/namespaces/platform/configmaps/notifier-messages";
    assert_eq!(patch(api, messages, r#"{"data":{"shipped":"hello\nthere\n"}}"#), "HTTP/1.1 200 OK");
    eventually("both drifted", || {
        let found = ask(&demo, Through::Server, &["get", "-A", "-o", "name"]).stdout;
        (found.contains("deployment.apps/refunds") && found.contains("notifier-messages")).then_some(())
    });
    demo
}

/// The rows of a table without the column that depends on when is looked.
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
fn with_and_without_an_exporter_the_answer_is_the_same() {
    let demo = DRIFTED.get();
    // What is rolled out meanwhile would be seen by one of both.
    let refunds = ["get", "deploy/refunds", "-n", "payments", "-o", "json"];
    eventually("refunds is rolled out", || {
        ask(&demo, Through::Server, &refunds).stdout.contains("\"Healthy\"").then_some(())
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
        let [served, direct] = BOTH.map(|through| ask(&demo, through, arguments));
        assert_eq!(rows(&served), rows(&direct), "{arguments:?}: {}", direct.stderr);
        assert!(!rows(&served).is_empty(), "{arguments:?}: {}", served.stderr);
        assert_eq!((served.code, direct.code), (Some(1), Some(1)), "{arguments:?}");
    }
    let explain = ["explain", "deploy/refunds", "-n", "payments"];
    let [served, direct] = BOTH.map(|through| ask(&demo, through, &explain));
    assert!(served.stdout.contains("spec.replicas: 2 is declared, 9 is there"), "{}", served.stdout);
    assert!(served.stdout.contains("by kubectl"), "{}", served.stdout);
    let timeless = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(" 20").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(timeless(&served.stdout), timeless(&direct.stdout), "{}", direct.stderr);
    // Nobody can write lines of ours into a value.
    let messages = ask(&demo, Through::Nothing, &["explain", "cm", "notifier-messages", "-n", "platform"]);
    assert!(messages.stdout.contains(r#""hello\nthere\n" is there"#), "{}", messages.stdout);
    // All but the times is what the API says.
    let claims = |through| {
        let text = ask(&demo, through, &refunds).stdout;
        let mut claims = serde_json::from_str::<Value>(&text).unwrap()["resources"].clone();
        let claim = claims[0].as_object_mut().unwrap();
        claim.retain(|key, _| key != "lastChecked" && key != "onset");
        claim["differences"][0].as_object_mut().unwrap().remove("onset");
        claims
    };
    assert_eq!(claims(Through::Server), claims(Through::Nothing));
    assert_eq!(claims(Through::Server)[0]["kind"], "Deployment");
}

#[test]
fn what_differs_by_whatever_source_can_be_accepted() {
    let demo = DRIFTED.get();
    let accept = |through, object: &str, namespace: &str| {
        let why = ["--for", "14d", "--owner", "me", "--reason", "load test"];
        let arguments = [&["accept", object, "-n", namespace][..], &why].concat();
        ask(&demo, through, &arguments)
    };
    let in_words = |ended: &CommandOutput| {
        ended.stdout.lines().filter(|line| !line.contains("expires")).collect::<String>()
    };
    for (object, namespace, path, is_told) in [
        ("deploy/refunds", "payments", "spec.replicas", true),
        ("cm/notifier-messages", "platform", "data.shipped", false),
    ] {
        let [served, direct] = BOTH.map(|through| accept(through, object, namespace));
        assert_eq!(direct.code, Some(0), "{}", direct.stderr);
        assert!(direct.stdout.contains(path) && direct.stdout.contains("sha256:"), "{}", direct.stdout);
        // An exporter that may not tell a value gives nothing away by its digest.
        assert_eq!(in_words(&served) == in_words(&direct), is_told, "{}", served.stdout);
        assert_eq!(served.stdout.contains("sha256:"), is_told, "{}", served.stdout);
        assert!(
            served.code == Some(0) && served.stdout.contains(path),
            "{} {}",
            served.stdout,
            served.stderr
        );
        let warns = served.stderr.contains(&format!("any value of {path} is accepted"));
        assert!(warns != is_told && direct.stderr.is_empty(), "{} {}", served.stderr, direct.stderr);
    }
    let nothing = accept(Through::Nothing, "deploy/notifier", "platform");
    assert_eq!(nothing.code, Some(1), "{}", nothing.stdout);
    let words = "nothing to accept: Deployment platform/notifier matches its declared state, or rules already accept the difference";
    assert!(nothing.stderr.contains(words), "{}", nothing.stderr);
}

#[test]
fn what_cannot_be_judged_is_told_with_the_reason_in_words() {
    let demo = UNCHANGED.get();
    let words = "the algorithm of the recorded hash is unknown (unknown_algorithm)";
    for through in BOTH {
        let ended = ask(&demo, through, &["explain", "deployment", "importer", "-n", "platform"]);
        assert!(ended.stdout.contains(&format!("annotation: unknown, {words}\n")), "{}", ended.stdout);
        assert_eq!(ended.code, Some(0), "{through:?}: {}", ended.stderr);
    }
    let why = ["--for", "14d", "--owner", "me", "--reason", "load test"];
    let accept = [&["accept", "deploy/importer", "-n", "platform"][..], &why].concat();
    let ended = ask(&demo, Through::Nothing, &accept);
    assert!(
        ended.stderr.contains(&format!("cannot be compared with annotation, {words}")),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_table_names_object_field_and_tool_and_ends_with_a_sum() {
    let demo = DRIFTED.get();
    let found = ask(&demo, Through::Nothing, &["get", "-n", "payments"]);
    assert!(found.stdout.starts_with("KIND         NAME"), "{}", found.stdout);
    assert_eq!(
        rows(&found)[0][..6],
        ["Deployment", "refunds", "drifted", "warning", "spec.replicas", "kubectl"].map(str::to_owned)
    );
    assert!(found.stderr.starts_with("1 of "), "{}", found.stderr);
    assert!(found.stderr.ends_with("declared objects drifted (1 warning)\n"), "{}", found.stderr);
    // Nothing is off there, and that is no negative answer.
    let fine = ask(&demo, Through::Nothing, &["get", "svc", "-n", "shop"]);
    assert_eq!((fine.code, &*fine.stdout), (Some(0), ""), "{}", fine.stderr);
    assert_eq!(fine.stderr, "none of 5 declared objects drifted\n");
    // Without a namespace, the context's is meant.
    let all = ask(&demo, Through::Nothing, &["get", "deploy/web", "-o", "yaml"]);
    assert!(
        all.stdout.contains("namespace: shop\n") && all.stdout.contains("verdict: in_sync"),
        "{}",
        all.stdout
    );
}

#[test]
fn what_is_not_there_is_said_with_what_may_have_been_meant() {
    let demo = UNCHANGED.get();
    for through in BOTH {
        for (arguments, code, told) in [
            (&["get", "deploymnt"][..], 2, "did you mean `deployment`?"),
            (&["get", "deploy/nonesuch", "-n", "shop"], 1, "nothing found"),
            (&["diff", "deploy/nonesuch", "-n", "shop"], 1, "/nonesuch"),
            // What is fine does not hide what is not there.
            (&["diff", "deploy/web", "deploy/nonesuch", "-n", "shop"], 1, "/nonesuch"),
            (&["diff", "deploy/web", "gadgt/x", "-n", "shop"], 2, "gadgt"),
            (&["diff", "-n", "nonesuch"], 0, "nothing found"),
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
            let ended = ask(&demo, through, arguments);
            assert_eq!(ended.code, Some(code), "{through:?} {arguments:?}: {}", ended.stderr);
            assert!(ended.stderr.contains(told), "{through:?} {arguments:?}: {}", ended.stderr);
        }
    }
}

#[test]
fn differences_are_shown_as_a_unified_diff() {
    let demo = DRIFTED.get();
    for through in BOTH {
        let ended = ask(&demo, through, &["diff", "deploy/refunds", "-n", "payments"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let lines: Vec<&str> = ended.stdout.lines().collect();
        let file = "apps.v1.Deployment.payments.refunds.terraform";
        let by = "terraform terraform/default/payments kubernetes_deployment_v1.refunds";
        assert_eq!(lines[0], format!("--- declared/{file}\t{by}"));
        assert!(lines[1].starts_with(&format!("+++ live/{file}\tkubectl 20")), "{}", lines[1]);
        assert_eq!(lines[2..], ["@@ -1,2 +1,2 @@", " spec:", "-  replicas: 2", "+  replicas: 9"]);
        let none = ask(&demo, through, &["diff", "svc", "-n", "shop"]);
        assert_eq!((none.code, &*none.stdout), (Some(0), ""), "{}", none.stderr);
    }
    let coloured = ["diff", "-A", "--color", "always"];
    let text = ask(&demo, Through::Nothing, &coloured).stdout;
    assert!(text.contains("\u{1b}[32m+  replicas: 9\u{1b}[0m"), "{text}");
    // Whoever looks with rights of their own sees values.
    assert!(text.contains("Your order is on its way.") && text.contains("hello"), "{text}");
    assert!(!ask(&demo, Through::Nothing, &["diff", "-A"]).stdout.contains('\u{1b}'));
}

#[test]
fn another_program_may_show_the_differences_as_kubectl_has_it() {
    let demo = DRIFTED.get();
    let kubeconfig = demo.kubeconfig.display().to_string();
    let diff = |program: &str| {
        let environment = [("DRIFT_KUBECONFIG", &*kubeconfig), ("KUBECTL_EXTERNAL_DIFF", program)];
        run(&["diff", "deploy/refunds", "-n", "payments"], "yes\n", &environment)
    };
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let shown = diff(&format!("{} -u ;no --x=1", script("show", "shift 2; echo \"$@\"; exit 1")));
    assert_eq!((shown.code, &*shown.stdout), (Some(1), "-u --x=1\n"), "{}", shown.stderr);
    let files = diff(&script("cat", "cat \"$1\"/*; cat \"$2\"/*"));
    assert_eq!((files.code, &*files.stdout), (Some(0), "spec:\n  replicas: 2\nspec:\n  replicas: 9\n"));
    // Some ask, and some warn.
    let asking = diff(&script("ask", "read answer; echo \"$answer\" >&2; exit 1"));
    assert_eq!((asking.code, &*asking.stderr), (Some(1), "yes\n"));
    let broken = diff(&script("fail", "echo why >&2; exit 3"));
    assert_eq!((broken.code, &*broken.stdout), (Some(2), ""));
    assert!(broken.stderr.contains("why"), "{}", broken.stderr);
    assert_eq!(diff("/nonexistent/diff -u").code, Some(2));
}

#[test]
fn labels_are_asked_of_the_cluster() {
    let demo = drifted();
    let label = "/apis/apps/v1/namespaces/payments/deployments/refunds";
    assert_eq!(patch(demo.api_port(), label, r#"{"metadata":{"labels":{"pick":"me"}}}"#), "HTTP/1.1 200 OK");
    for through in BOTH {
        let picked = ask(&demo, through, &["get", "-A", "--all", "-l", "pick in (me,you)", "-o", "name"]);
        assert_eq!(picked.stdout, "deployment.apps/refunds\n", "{through:?}: {}", picked.stderr);
        let none = ask(&demo, through, &["get", "-A", "-l", "pick=nobody"]);
        assert_eq!((none.code, &*none.stdout), (Some(0), ""), "{}", none.stderr);
    }
    let wrong = ask(&demo, Through::Nothing, &["get", "-l", "a b c"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("invalid requirement"), "{}", wrong.stderr);
}

#[test]
fn whoever_goes_on_looking_is_told_what_changes() {
    use crate::programs::process::Running;
    let demo = Demo::start(&["--no-story"]);
    let folder = tempfile::tempdir().unwrap();
    for (name, flags) in [
        ("direct", vec![]),
        ("server", vec!["--server".to_owned(), format!("http://127.0.0.1:{}", demo.port)]),
    ] {
        let log = folder.path().join(name);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_drift-exporter"));
        command.args(["get", "deploy", "-n", "payments", "-w"]).args(flags);
        let _running = Running::start(command.env("DRIFT_KUBECONFIG", &demo.kubeconfig), &log);
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        let wait = |what: &str| {
            eventually(what, || said().contains(what).then_some(()));
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
fn a_settings_file_says_what_is_looked_at() {
    let demo = DRIFTED.get();
    let folder = tempfile::tempdir().unwrap();
    let only_helm = write(folder.path(), "settings.yaml", "sources: {helm: {}}\n");
    let found = ask(&demo, Through::Nothing, &["get", "-A", "-o", "name", "--config.file", &only_helm]);
    assert_eq!(found.stdout, "configmap/notifier-messages\n", "{}", found.stderr);
    // What it does not name was not looked at, and where people look is up to them.
    let deployments = "kinds: [{apiVersion: apps/v1, kind: Deployment}]\nsources: {terraform: {}}\n";
    let deployments = write(folder.path(), "deployments.yaml", deployments);
    let with = |arguments: &[&str], file: &str| {
        ask(&demo, Through::Nothing, &[arguments, &["--config.file", file]].concat())
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
    let ended = ask(&demo, Through::Nothing, &["get", "-A", "--config.file", &wrong]);
    assert!(ended.code == Some(2) && ended.stderr.contains("wrong.yaml:1:1"), "{}", ended.stderr);
}
