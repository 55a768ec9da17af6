//! ARCHITECTURE.md is the reference: this test reads its module table and its walks, and holds the code to both.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// One row of the module table.
struct Module {
    name: String,
    uses: BTreeSet<String>,
    crates: BTreeSet<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

/// The rows of the table under `## Modules`: name, contents, modules it may use, crates it may use.
fn module_table() -> Vec<Module> {
    let text = architecture();
    let section = text.split("\n## Modules\n").nth(1).expect("a section called Modules");
    let section = section.split("\n## ").next().unwrap();
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [name, _, uses, crates] = cells[..] else { panic!("a row has four cells: {row}") };
        let name = quoted(name).pop_first().unwrap();
        Module { name, uses: quoted(uses), crates: quoted(crates) }
    })
    .collect()
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
    files.sort();
    files
}

/// The files of a module: a folder, or one file.
fn module_files(name: &str) -> Vec<PathBuf> {
    let file = root().join("src").join(name).with_extension("rs");
    if file.exists() { vec![file] } else { rust_files(&root().join("src").join(name)) }
}

/// The whole file, its tests included, without comments and without the contents of literals.
fn code(path: &Path) -> String {
    without_comments_and_literals(&fs::read_to_string(path).unwrap())
}

fn without_comments_and_literals(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if let Some(hashes) = raw_string_hashes(rest).filter(|_| !after_word) {
            let closing = format!("\"{}", "#".repeat(hashes));
            let start = rest.find('"').unwrap() + 1;
            rest[start..].find(&closing).map_or(rest.len(), |at| start + at + closing.len())
        } else if c == '"' {
            end_of_literal(rest, '"')
        } else if c == '\'' && is_char_literal(rest) {
            end_of_literal(rest, '\'')
        } else {
            0
        };
        if skipped == 0 {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            rest = &rest[skipped..];
        }
    }
    code
}

fn raw_string_hashes(text: &str) -> Option<usize> {
    let text = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let hashes = text.len() - text.trim_start_matches('#').len();
    text[hashes..].starts_with('"').then_some(hashes)
}

fn is_char_literal(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

fn end_of_literal(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Code without the items under `#[cfg(test)]`. Tests may use any crate; they may not use other modules than their own may.
fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        kept.push_str(&rest[..at]);
        let item = &rest[at..];
        let end = match (item.find('{'), item.find(';')) {
            (Some(brace), semicolon) if semicolon.is_none_or(|semicolon| brace < semicolon) => {
                end_of_block(item, brace)
            }
            (_, semicolon) => semicolon.map_or(item.len(), |at| at + 1),
        };
        rest = &item[end..];
    }
    kept + rest
}

fn end_of_block(code: &str, brace: usize) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices().skip_while(|(at, _)| *at < brace) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// Every name that begins a path: `serde` in `serde::Deserialize`.
fn path_roots(code: &str) -> BTreeSet<String> {
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

/// The modules that follow `crate::`, those in a group of imports included.
fn used_modules(code: &str) -> BTreeSet<String> {
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
fn the_scanner_sees_whole_files() {
    let text = "use crate::{types::{A, B}, watch::C};\n// crate::cli::comment()\nconst S: &str = \"crate::app\";\n\
        #[cfg(test)]\nuse std::fs;\n#[cfg(test)]\nmod tests { fn f() { serde::x(); } }\nfn g<'a>() { let _ = '\"'; crate::engine::run(); tokio::y(); }";
    let code = without_comments_and_literals(text);
    assert_eq!(used_modules(&code), ["engine", "types", "watch"].map(str::to_owned).into());
    assert!(path_roots(&code).contains("serde"));
    let production = path_roots(&without_tests(&code));
    assert!(production.contains("tokio") && !production.contains("serde") && !production.contains("std"));
}

#[test]
fn modules_use_only_the_modules_and_crates_of_the_table() {
    let dependencies = dependencies();
    let table = module_table();
    let names: BTreeSet<&str> = table.iter().map(|module| &*module.name).collect();
    let mut violations = Vec::new();
    let mut used_crates: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for module in &table {
        for file in module_files(&module.name) {
            let code = code(&file);
            let file = file.strip_prefix(root()).unwrap().display().to_string();
            for other in used_modules(&code) {
                if names.contains(&*other) && other != module.name && !module.uses.contains(&other) {
                    violations.push(format!("{file} uses the module {other}"));
                }
            }
            for name in path_roots(&without_tests(&code)).intersection(&dependencies) {
                used_crates.entry(&module.name).or_default().insert(name.clone());
                if !module.crates.contains(name) {
                    violations.push(format!("{file} uses the crate {name}"));
                }
            }
        }
        for name in &module.crates {
            if !used_crates.get(&*module.name).is_some_and(|used| used.contains(name)) {
                violations
                    .push(format!("{} does not use the crate {name}, which the table allows", module.name));
            }
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn every_module_and_file_is_covered_by_the_table() {
    let names: BTreeSet<String> = module_table().into_iter().map(|module| module.name).collect();
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_root = !path.is_dir() && ["lib", "main"].contains(&name);
        let covered = is_root || names.contains(name);
        assert!(covered, "{} is not in the module table of ARCHITECTURE.md", path.display());
    }
    for name in names {
        let folder = root().join("src").join(&name);
        let exists = folder.is_dir() || folder.with_extension("rs").is_file();
        assert!(exists, "the module {name} does not exist");
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
        let parents = [parent.join("mod.rs"), parent.join("lib.rs"), parent.with_extension("rs")];
        let text: String = parents.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        assert!(text.contains(&format!("mod {name};")), "{} is in no module", file.display());
    }
}

#[test]
fn handlers_read_the_snapshot_of_the_caller_and_only_auth_calls_the_cluster() {
    let server = root().join("src/server");
    for folder in ["api", "ui"] {
        for file in rust_files(&server.join(folder)) {
            assert!(!code(&file).contains("state.snapshot()"), "{} bypasses the caller", file.display());
        }
    }
    for file in rust_files(&server).into_iter().filter(|file| !file.starts_with(server.join("auth"))) {
        let names = path_roots(&code(&file));
        let calls = ["kube", "k8s_openapi"].iter().any(|name| names.contains(*name));
        assert!(!calls, "{} calls the cluster", file.display());
    }
}

/// The steps of each walk, by its title. A step may have several lines.
fn walks(text: &str) -> BTreeMap<&str, Vec<String>> {
    let sections = text.split("\n## ").filter_map(|section| section.strip_prefix("Walk: "));
    let steps = |walk: &str| {
        let mut steps: Vec<String> = Vec::new();
        for line in walk.lines() {
            if line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok()) {
                steps.push(line.to_owned());
            } else if let (Some(step), true) = (steps.last_mut(), line.starts_with("   ")) {
                step.push_str(line);
            }
        }
        steps
    };
    sections.map(|walk| (walk.lines().next().unwrap(), steps(walk))).collect()
}

/// The files and functions that a step names.
fn named(step: &str) -> impl Iterator<Item = (&str, &str)> {
    step.split('`').skip(1).step_by(2).filter_map(|span| span.split_once(".rs::"))
}

fn files_of<'a>(steps: impl IntoIterator<Item = &'a String>) -> BTreeSet<&'a str> {
    steps.into_iter().flat_map(|step| named(step)).map(|(file, _)| file).collect()
}

/// The files from a watch line to a metrics line, and those from a changed state to one, which continues with steps of the other
/// walks.
fn files_to_a_metrics_line<'a>(text: &str, walks: &'a BTreeMap<&str, Vec<String>>) -> [BTreeSet<&'a str>; 2] {
    let (edit, scrape, change) = (&walks["an edit"], &walks["a scrape"], &walks["a state change"]);
    assert!(text.contains("Then steps 6 to 11 of an edit") && edit.len() == 11, "{edit:?}");
    assert!(text.contains("Steps 1 to 8 of a scrape"));
    assert!(scrape[7].contains("assemble"), "the step that writes the line");
    [files_of(edit.iter().chain(&scrape[..8])), files_of(change.iter().chain(&edit[5..]).chain(&scrape[..8]))]
}

/// Each walk of ARCHITECTURE.md names `file.rs::function` in at most 15 steps, and all of them exist. From a watch line or a changed
/// state to a metrics line, a reader opens at most 30 files.
#[test]
fn walks_name_functions_that_exist() {
    let text = architecture();
    let walks = walks(&text);
    let titles: Vec<&str> = walks.keys().copied().collect();
    assert_eq!(titles, ["a new kind", "a scrape", "a state change", "an edit"]);
    for (title, steps) in &walks {
        assert!((3..=15).contains(&steps.len()), "{title}: {} steps", steps.len());
        for step in steps {
            assert!(named(step).next().is_some(), "{title}: a step names no function: {step}");
            for (file, function) in named(step) {
                let path = root().join("src").join(format!("{file}.rs"));
                let code =
                    fs::read_to_string(&path).unwrap_or_else(|_| panic!("{title}: {file}.rs does not exist"));
                let name = function.rsplit("::").next().unwrap();
                let declared = ["fn ", "struct ", "enum ", "const ", "trait "].iter().any(|word| {
                    code.match_indices(&format!("{word}{name}")).any(|(at, found)| {
                        !code[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    })
                });
                assert!(declared, "{title}: {file}.rs has no {name}");
            }
        }
    }
    for files in files_to_a_metrics_line(&text, &walks) {
        assert!((15..=30).contains(&files.len()), "{} files: {files:?}", files.len());
    }
}

/// Decoding parses an object only through `diff::JsonPart`, whose bytes a unit test of the decoder counts. One more call splits the
/// text.
#[test]
fn objects_are_parsed_in_one_place() {
    let watch = root().join("src/watch");
    let calls = |path: &Path| without_tests(&code(path)).matches("serde_json::").count();
    assert_eq!(calls(&watch.join("decode.rs")), 1);
    for file in rust_files(&watch.join("facts")).into_iter().chain([watch.join("status.rs")]) {
        assert_eq!(calls(&file), 0, "{} parses JSON on its own", file.display());
    }
}

/// The files of a walk make only the channels that `ARCHITECTURE.md` names; the others are made where the exporter is assembled: the
/// event queue, the declared objects of a source, and the config. So two channels lead from a watch line to a metrics line: the event
/// queue and the snapshot. A rendering returns its page through the oneshot.
#[test]
fn changes_pass_through_the_channels_of_their_walk() {
    let text = architecture();
    let made = |file: &str| {
        let code = without_tests(&code(&root().join("src").join(format!("{file}.rs"))));
        let kinds = ["mpsc", "watch", "broadcast", "oneshot"].into_iter();
        let channels = kinds.flat_map(|kind| [format!("{kind}::channel("), format!("{kind}::Sender::")]);
        let others = ["unbounded_channel(", "Notify::new("].map(str::to_owned);
        let made = channels.chain(others).flat_map(|constructor| {
            let count = code.matches(&constructor).count();
            vec![format!("{file}: {constructor}"); count]
        });
        made.collect::<Vec<String>>()
    };
    let walks = walks(&text);
    let [edit, change] = files_to_a_metrics_line(&text, &walks);
    let [snapshot, page] = ["engine/run: watch::channel(", "server/blocking: oneshot::channel("];
    for (files, expected) in [
        (edit, &[snapshot, page][..]),
        (change, &[snapshot, page, "sources/metadata_watch: mpsc::channel("]),
        (files_of(&walks["a new kind"]), &["watch/planner: watch::channel("]),
    ] {
        assert_eq!(files.into_iter().flat_map(made).collect::<Vec<_>>(), expected);
    }
    let assembled = ["mpsc::channel(", "watch::channel(", "watch::Sender::"];
    assert_eq!(made("app/assemble"), assembled.map(|constructor| format!("app/assemble: {constructor}")));
}

#[test]
fn the_exporter_writes_nothing_but_events() {
    // The embedded cluster answers such requests; nothing in it sends one.
    let served = root().join("src/demo");
    for file in rust_files(&root().join("src")).into_iter().filter(|file| !file.starts_with(&served)) {
        let code = without_tests(&code(&file));
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
            // Reviews are POST requests that store nothing.
            let reviews = ["watch/permissions.rs", "server/auth/reviews.rs"];
            let is_review = verb == "Request::post" && reviews.iter().any(|own| file.ends_with(own));
            assert!(is_review || !code.contains(verb), "{} has {verb}", file.display());
        }
        assert!(
            !code.contains("Recorder") || file.ends_with("app/events.rs"),
            "{} writes events",
            file.display()
        );
    }
}
