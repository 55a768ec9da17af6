//! Runs rows under callgrind and reads its counts.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
};

use crate::{
    RUN,
    baseline::{Baseline, Counts},
    rows::Row,
};

/// The function in which callgrind counts. The symbol may end in a hash.
const COUNTED: [&str; 2] = ["quick::counted", "quick::counted::h*"];
/// The allocating functions of the C library.
const ALLOCATORS: [&str; 5] = ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"];

/// The counts of rows.
pub(crate) fn count(rows: &[Row]) -> Baseline {
    let folder = tempfile::tempdir().expect("a temporary directory can be created");
    let program = std::env::current_exe().expect("this program has a path");
    let (waiting, counted) = (Mutex::new(rows.iter()), Mutex::new(BTreeMap::new()));
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(row) = next(&waiting) {
                    let counts = run(&program, row, folder.path());
                    counted.lock().expect("no worker panics here").insert(row.name.to_owned(), counts);
                }
            });
        }
    });
    Baseline { libc: libc_version(), rows: counted.into_inner().expect("no worker panics here") }
}

fn next<'a>(waiting: &Mutex<std::slice::Iter<'a, Row>>) -> Option<&'a Row> {
    waiting.lock().expect("no worker panics here").next()
}

fn run(program: &Path, row: &Row, folder: &Path) -> Counts {
    let out: PathBuf = folder.join(row.name);
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no", "--dump-instr=yes"]);
    valgrind.arg(format!("--callgrind-out-file={}", out.display()));
    valgrind.args(COUNTED.map(|name| format!("--toggle-collect={name}")));
    let output = valgrind.arg(program).args([RUN, row.name]).output().expect("valgrind can be run");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} fails under valgrind:\n{stderr}", row.name);
    let text = fs::read_to_string(&out).expect("callgrind has written its counts");
    let counts = parse(&text, &program.display().to_string());
    assert!(counts.total > 0, "callgrind counted nothing in {}: no function {}", row.name, COUNTED[0]);
    assert!(counts.allocations > 0, "callgrind counted no allocation in {}", row.name);
    counts
}

/// Reads the format of callgrind: lines with an address, a line number and a cost follow the object file and the function that
/// they belong to.
///
/// Callgrind counts calls outside of the counted function, too. So the number of allocations is the cost of the first
/// instruction of each allocating function.
fn parse(text: &str, program: &str) -> Counts {
    let mut counts = Counts::default();
    let mut entries: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let (mut is_own, mut function) = (false, String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_own = object == program;
        } else if let Some(name) = line.strip_prefix("fn=") {
            function = stable_name(name);
        } else if line.starts_with("calls=") {
            // The next line is the cost of the call, which the callee has too.
            lines.next();
        } else if let Some((address, cost)) = address_and_cost(line) {
            counts.total += cost;
            counts.own += if is_own { cost } else { 0 };
            *counts.functions.entry(function.clone()).or_default() += cost;
            if ALLOCATORS.contains(&&*function) {
                let (first, calls) = entries.entry(function.clone()).or_insert((address, 0));
                if address < *first {
                    (*first, *calls) = (address, 0);
                }
                *calls += if address == *first { cost } else { 0 };
            }
        }
    }
    counts.allocations = entries.values().map(|(_, calls)| calls).sum();
    counts
}

/// The address and the cost of a line `0x5a10 0 12`; none for other lines.
fn address_and_cost(line: &str) -> Option<(u64, u64)> {
    let mut words = line.strip_prefix("0x")?.split(' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    Some((address, words.nth(1)?.parse().ok()?))
}

/// The name of a function without the parts of its symbol that differ between builds.
fn stable_name(name: &str) -> String {
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Callgrind counts recursive calls apart.
    let name = name.trim_end_matches(|last: char| last.is_ascii_digit()).strip_suffix('\'').unwrap_or(name);
    match name.rsplit_once("::h") {
        Some((path, hash)) if is_hash(hash) => path.to_owned(),
        _ => name.to_owned(),
    }
}

/// The C library, which allocates and copies: another one needs another number of instructions.
fn libc_version() -> String {
    let answer = Command::new("ldd").arg("--version").output();
    let text = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}
