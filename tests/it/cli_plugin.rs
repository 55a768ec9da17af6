//! The kubectl plugin, shell completions and manual pages.

use std::{
    os::unix::{fs::symlink, process::CommandExt as _},
    process::Command,
};

use crate::cli_flags::run;

#[test]
fn plugin_name_runs_get_and_prints_kubectl_drift() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-drift");
    symlink(env!("CARGO_BIN_EXE_drift-exporter"), &plugin).unwrap();
    let run_plugin = |arguments: &[&str]| {
        let output = Command::new(&plugin)
            .args(arguments)
            .env("HOME", "/nonexistent")
            .env_remove("KUBECONFIG")
            .output();
        let output = output.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for arguments in [&["-A"][..], &[], &["deployment/web", "-n", "shop"], &["get", "-A"], &["diff"]] {
        let (code, _, stderr) = run_plugin(arguments);
        assert!(code == Some(2) && stderr.contains("no cluster to talk to"), "{arguments:?}: {stderr}");
    }
    let (code, help, _) = run_plugin(&["--help"]);
    assert!(code == Some(0) && help.contains("Usage: kubectl drift <COMMAND>"), "{help}");
    assert!(help.contains("  kubectl drift get -A ") && !help.contains("  drift-exporter get"), "{help}");
    let (_, help, _) = run_plugin(&["get", "--help"]);
    assert!(help.contains("Usage: kubectl drift get [OPTIONS] [KIND[/NAME]]"), "{help}");
    let (code, _, stderr) = run_plugin(&["--nonsense"]);
    assert!(code == Some(2) && stderr.contains("Usage: kubectl drift get"), "{stderr}");
}

#[test]
fn file_name_selects_the_plugin() {
    for (program, usage) in [
        ("kubectl-drift", "kubectl drift"),
        ("/usr/local/bin/kubectl-drift", "kubectl drift"),
        ("kubectl-drift.exe", "kubectl drift"),
        ("drift-exporter", "drift-exporter"),
        ("/kubectl-drift/drift-exporter", "drift-exporter"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_drift-exporter")).arg0(program).arg("--help").output();
        let help = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(help.contains(&format!("Usage: {usage} <COMMAND>")), "{program}: {help}");
    }
}

/// The candidates for the last word, each with its help, and the directive of cobra.
fn complete(typed: &[&str]) -> (Vec<(String, String)>, String) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("kubectl_complete-drift");
    symlink(env!("CARGO_BIN_EXE_drift-exporter"), &program).unwrap();
    let output = Command::new(&program).args(typed).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{typed:?}");
    let output = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<&str> = output.lines().collect();
    let directive = lines.pop().unwrap().to_owned();
    let candidate =
        |line: &&str| line.split_once('\t').map(|(word, help)| (word.to_owned(), help.to_owned()));
    (lines.iter().map(|line| candidate(line).unwrap()).collect(), directive)
}

/// `:4`: the shell offers no files.
#[track_caller]
fn check_candidates(typed: &[&str], expected: &[&str]) {
    let (candidates, directive) = complete(typed);
    let words: Vec<&str> = candidates.iter().map(|(word, _)| &**word).collect();
    assert_eq!((&*words, &*directive), (expected, ":4"), "{typed:?}");
}

#[test]
fn commands_are_completed_as_the_first_word_only() {
    check_candidates(&["ex"], &["explain"]);
    check_candidates(&["rules", ""], &["list", "test", "help"]);
    check_candidates(&["-n", "shop", "ex"], &[]);
    check_candidates(&["-n", "get", ""], &[]);
    check_candidates(&["get", "ex"], &[]);
    for (typed, directive) in [(&[""][..], ":4"), (&[], ":4")] {
        let (all, given) = complete(typed);
        assert_eq!(given, directive);
        for name in ["get", "diff", "explain"] {
            assert!(all.iter().any(|(word, _)| word == name), "{name}: {all:?}");
        }
        assert!(all.iter().all(|(word, help)| !word.is_empty() && !help.is_empty()), "{all:?}");
    }
}

#[test]
fn options_and_their_values_are_completed() {
    check_candidates(&["--all-"], &["--all-namespaces"]);
    check_candidates(&["get", "--all-"], &["--all-namespaces"]);
    check_candidates(&["get", "--all"], &["--all-namespaces", "--all"]);
    check_candidates(&["get", "-o", ""], &["table", "wide", "json", "yaml", "name"]);
    check_candidates(&["get", "-Ao", "j"], &["json"]);
    check_candidates(&["get", "-nfoo", ""], &[]);
    check_candidates(&["get", "-ojson", "-o", "y"], &["yaml"]);
    check_candidates(&["--output", "y"], &["yaml"]);
    check_candidates(&["--output=y"], &["--output=yaml"]);
    check_candidates(&["get", "-n", ""], &[]);
    check_candidates(&["get", "--", "--all"], &[]);
    check_candidates(&["get", "--", "-o", ""], &[]);
    check_candidates(&["completions", "ba"], &["bash"]);
    assert!(complete(&["-"]).0.iter().any(|(word, _)| word == "--namespace"));
}

#[test]
fn shell_completes_files_for_options_and_arguments_that_are_paths() {
    for (typed, directive) in [
        (&["get", "--kubeconfig", ""][..], ":0"),
        (&["get", "--kubeconfig=x"], ":0"),
        (&["rules", "test", ""], ":0"),
        (&["get", ""], ":4"),
        (&["get", "-o", ""], ":4"),
    ] {
        let (candidates, given) = complete(typed);
        assert_eq!(given, directive, "{typed:?}");
        assert!(given == ":4" || candidates.is_empty(), "{typed:?}: {candidates:?}");
    }
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell], "", &[]);
        assert_eq!(script.code, Some(0), "{shell}: {}", script.stderr);
        for word in ["explain", "all-namespaces", "config.file"] {
            assert!(script.stdout.contains(word), "{shell}: {word}");
        }
    }
    // bash parses the script.
    let script = run(&["completions", "bash"], "", &[]).stdout;
    let checked = Command::new("bash").args(["-n", "-c", &script]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert_eq!(run(&["completions", "tcsh"], "", &[]).code, Some(2));
}

#[test]
fn manual_page_exists_for_every_command() {
    let whole = run(&["man"], "", &[]).stdout;
    assert!(whole.contains(".TH drift-exporter 1") && whole.contains("drift\\-exporter get \\-A"), "{whole}");
    let get = run(&["man", "get"], "", &[]).stdout;
    assert!(get.contains("\\-\\-all\\-namespaces") && get.contains("DRIFT_NAMESPACE"), "{get}");
    let wrong = run(&["man", "frobnicate"], "", &[]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("no command `frobnicate`"), "{}", wrong.stderr);
    let folder = tempfile::tempdir().unwrap();
    // The command creates the directory.
    let pages = folder.path().join("man/man1");
    assert_eq!(run(&["man", "--dir", &pages.display().to_string()], "", &[]).code, Some(0));
    for page in ["drift-exporter.1", "drift-exporter-get.1", "drift-exporter-rules-test.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
    let within_a_file = pages.join("drift-exporter.1/man1").display().to_string();
    assert_eq!(run(&["man", "--dir", &within_a_file], "", &[]).code, Some(2));
}
