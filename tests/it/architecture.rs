//! The module table of ARCHITECTURE.md, file lengths, no orphans.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Which module may use which others, and which crates beside std. `tracing` and `thiserror` are free but in the pure ones.
const TABLE: &[(&str, &[&str], &[&str])] = &[
    ("types", &[], &["ecow", "hmac", "sha2", "jiff"]),
    (
        "diff",
        &["types"],
        &[
            "serde",
            "serde_json",
            "serde_json_canonicalizer",
            "base64",
            "flate2",
            "hmac",
            "sha2",
            "jiff",
            "thiserror",
        ],
    ),
    (
        "sources",
        &["types", "diff", "watch"],
        &[
            "kube",
            "k8s_openapi",
            "tokio",
            "futures_util",
            "fastrand",
            "getrandom",
            "base64",
            "serde",
            "serde_json",
            "serde_saphyr",
            "flate2",
            "jiff",
            "tracing",
            "thiserror",
        ],
    ),
    ("rules", &["types"], &["jiff", "serde", "serde_json", "serde_saphyr", "schemars", "strsim", "regex"]),
    ("config", &["types", "rules"], &["bcrypt", "http", "jiff", "libc", "serde", "serde_saphyr", "schemars"]),
    (
        "watch",
        &["types", "diff"],
        &[
            "kube",
            "k8s_openapi",
            "tokio",
            "http",
            "http_body_util",
            "hyper_util",
            "hyper_rustls",
            "tower",
            "bytes",
            "memchr",
            "fastrand",
            "serde",
            "serde_json",
            "jiff",
            "tracing",
            "thiserror",
        ],
    ),
    ("engine", &["types", "diff", "rules"], &["tokio", "jiff", "tracing"]),
    (
        "demo",
        &["types", "diff"],
        &[
            "axum",
            "http",
            "serde",
            "serde_json",
            "json_patch",
            "base64",
            "flate2",
            "k8s_openapi",
            "futures_util",
            "tokio",
            "tokio_util",
            "fastrand",
            "jiff",
            "tracing",
        ],
    ),
    (
        "server",
        &["types", "diff", "rules", "engine", "config"],
        &[
            "axum",
            "hyper",
            "hyper_util",
            "tokio",
            "tokio_util",
            "tokio_io_timeout",
            "tokio_rustls",
            "x509_parser",
            "bcrypt",
            "base64",
            "kube",
            "k8s_openapi",
            "http",
            "http_body",
            "http_body_util",
            "futures_util",
            "bytes",
            "flate2",
            "crc32fast",
            "prometheus_client",
            "procfs",
            "maud",
            "percent_encoding",
            "schemars",
            "serde",
            "serde_json",
            "similar",
            "jiff",
            "tracing",
        ],
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The code of a file without its tests, comments and attributes.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Every name that stands before `::` at the beginning of a path.
fn first_names(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("::") {
        let before = &code[..at];
        let start = before.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
        if !before[..start].ends_with("::") {
            names.insert(before[start..].to_owned());
        }
    }
    names
}

/// The names that follow `crate::`, those in a group of imports included.
fn own_modules(code: &str) -> BTreeSet<String> {
    let name = |text: &str| {
        text.trim().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>()
    };
    let mut names = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(name(rest));
            continue;
        };
        let mut depth = 0;
        let mut start = 0;
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    names.insert(name(&group[start..at]));
                    start = at + 1;
                    if c == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    names
}

#[test]
fn the_search_for_modules_sees_through_groups() {
    let found = own_modules("use crate::{types::{A, B}, watch::C};\nlet x = crate::state::run();");
    assert_eq!(found, ["engine", "types", "watch"].map(str::to_owned).into());
}

fn dependencies() -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    section
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.replace('-', "_"))
        .collect()
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let dependencies = dependencies();
    let modules: Vec<_> = TABLE.iter().map(|(module, ..)| *module).chain(["app", "cli"]).collect();
    for (module, uses, crates) in TABLE {
        for file in rust_files(&root().join("src").join(module)) {
            let code = code(&file);
            let is_metrics = file.file_name().is_some_and(|name| name == "metrics.rs");
            for other in own_modules(&code).iter().filter(|other| modules.contains(&other.as_str())) {
                let allowed = other == module || uses.contains(&other.as_str());
                assert!(allowed, "{} uses {other}", file.display());
            }
            for name in first_names(&code).intersection(&dependencies) {
                let allowed = crates.contains(&name.as_str()) || (is_metrics && name == "prometheus_client");
                assert!(allowed, "{} uses the crate {name}", file.display());
            }
        }
    }
}

#[test]
fn what_is_shown_comes_through_the_caller_and_only_access_asks_the_cluster() {
    let expose = root().join("src/server");
    for folder in ["api", "ui"] {
        for file in rust_files(&expose.join(folder)) {
            let code = code(&file);
            assert!(!code.contains("state.snapshot()"), "{} goes past the caller", file.display());
        }
    }
    for file in rust_files(&expose).into_iter().filter(|file| !file.starts_with(expose.join("access"))) {
        let names = first_names(&code(&file));
        let asks = ["kube", "k8s_openapi"].iter().any(|name| names.contains(*name));
        assert!(!asks, "{} asks the cluster", file.display());
    }
}

#[test]
fn every_module_is_in_the_table() {
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let known = TABLE.iter().any(|(module, ..)| *module == name)
            || ["app", "cli", "lib", "main"].contains(&name.as_str());
        assert!(known, "{} is not in the table", path.display());
    }
}

#[test]
fn no_file_is_longer_than_about_400_lines() {
    for folder in ["src", "tests", "benches"] {
        for file in rust_files(&root().join(folder)) {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            assert!(lines <= 400, "{} has {lines} lines", file.display());
        }
    }
}

#[test]
fn every_file_is_part_of_the_program() {
    for file in rust_files(&root().join("src")) {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let folder = file.parent().unwrap();
        let (parent, name) = match name {
            "main" | "lib" => continue,
            "mod" => (folder.parent().unwrap(), folder.file_name().unwrap().to_str().unwrap()),
            _ => (folder, name),
        };
        let parents = [parent.join("mod.rs"), parent.join("lib.rs")];
        let text: String = parents.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        assert!(text.contains(&format!("mod {name};")), "{} is in no module", file.display());
    }
}

#[test]
fn the_exporter_never_writes_but_its_events() {
    // The embedded cluster answers such requests; nothing in it sends one.
    let served = root().join("src/demo");
    for file in rust_files(&root().join("src")).into_iter().filter(|file| !file.starts_with(&served)) {
        let code = code(&file);
        for verb in [
            "Request::post",
            "Request::put",
            "Request::patch",
            "Request::delete",
            "Method::POST",
            "Method::PUT",
            "PatchParams",
            "PostParams",
        ] {
            // Asking what is allowed is a POST of which nothing is kept.
            let reviews = ["watch/access.rs", "server/access/reviews.rs"];
            let asks = verb == "Request::post" && reviews.iter().any(|own| file.ends_with(own));
            assert!(asks || !code.contains(verb), "{} has {verb}", file.display());
        }
        assert!(
            !code.contains("Recorder") || file.ends_with("app/events.rs"),
            "{} writes events",
            file.display()
        );
    }
}
