//! Runs the fuzz targets on mutations of their corpus. `FUZZ_CASES` is the number of cases for each target.

#![expect(clippy::print_stdout, reason = "`make fuzz` shows the slowest and the largest case")]

#[path = "../../benches/quick/exporter.rs"]
#[expect(dead_code, reason = "the benchmark uses more of it")]
mod exporter;
#[path = "../../benches/quick/inputs.rs"]
#[expect(dead_code, reason = "the benchmark uses more of it")]
mod inputs;
mod targets;

use std::{
    cell::Cell,
    env, fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use proptest::{
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, FileFailurePersistence, TestRunner},
};
use rustix::time::{ClockId, clock_gettime};

use crate::targets::{TARGETS, Target};

/// Of CPU time, which other processes do not prolong.
const MAX_DURATION: Duration = Duration::from_secs(1);
/// Peak memory of a case, in KiB, on top of what the process holds.
const MAX_MEMORY: u64 = 64 << 10;
/// No faster case can touch that much memory, so only slower ones are measured, in another run.
const MEASURED: Duration = Duration::from_millis(5);
const DEFAULT_CASES: u32 = 1_000;
/// One target at a time: memory is measured for the process.
static TURN: Mutex<()> = Mutex::new(());

/// One change of an input.
#[derive(Clone, Debug)]
enum Mutation {
    Replace(Index, u8),
    Insert(Index, Vec<u8>),
    Delete(Index, usize),
    /// Copies a range to another place, several times.
    Repeat(Index, Index, usize, u16),
}

/// What parsers of JSON, YAML and queries treat specially.
const TOKENS: [&[u8]; 28] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\0",
    b"\n",
    b"\r\n",
    b"---\n",
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!binary ",
    b"%",
    b"%00",
    b"&",
    b"=",
    b"\xef\xbb\xbf",
    b"\x1b[31m",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    prop_oneof![
        (index(), any::<u8>()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (index(), select(&TOKENS[..])).prop_map(|(at, token)| Mutation::Insert(at, token.to_vec())),
        (index(), prop::collection::vec(any::<u8>(), 1..8))
            .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (index(), 1_usize..64).prop_map(|(at, length)| Mutation::Delete(at, length)),
        (index(), index(), 1_usize..64, prop_oneof![9 => 1_u16..8, 1 => 8_u16..2_000])
            .prop_map(|(from, to, length, times)| Mutation::Repeat(from, to, length, times)),
    ]
}

fn mutate(input: &mut Vec<u8>, mutation: &Mutation) {
    let position = |index: &Index| index.index(input.len() + 1);
    match mutation {
        Mutation::Replace(at, byte) => {
            let at = position(at);
            if let Some(old) = input.get_mut(at) {
                *old = *byte;
            }
        }
        Mutation::Insert(at, bytes) => {
            let at = position(at);
            input.splice(at..at, bytes.iter().copied());
        }
        Mutation::Delete(at, length) => {
            let at = position(at);
            input.drain(at..input.len().min(at + length));
        }
        Mutation::Repeat(from, to, length, times) => {
            let (from, to) = (position(from), position(to));
            let copied = input[from..input.len().min(from + length)].repeat(usize::from(*times));
            input.splice(to..to, copied);
        }
    }
}

fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target.name);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("the corpus exists").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.iter().map(|file| fs::read(file).expect("the corpus can be read")).collect()
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("CPU time is not negative")
}

/// The peak memory of `run` in KiB, on top of what the process holds.
fn peak_memory(run: impl FnOnce()) -> u64 {
    let status = |field: &str| -> u64 {
        let status = fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field exists");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
    let before = status("VmRSS:");
    run();
    status("VmHWM:").saturating_sub(before)
}

/// Fuzzes one target. A case that fails is shrunk, and kept in `tests/fuzz/regressions`, which later runs try first.
fn fuzz(name: &str) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let target = TARGETS.iter().find(|target| target.name == name).expect("the target exists");
    let seeds = corpus(target);
    seeds.iter().for_each(|seed| (target.run)(seed));
    let cases =
        env::var("FUZZ_CASES").map_or(DEFAULT_CASES, |cases| cases.parse().expect("a number of cases"));
    let regressions = Box::leak(format!("tests/fuzz/regressions/{name}.txt").into_boxed_str());
    let config = Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
        ..Config::default()
    };
    let (slowest, largest) = (Cell::new(Duration::ZERO), Cell::new(0));
    let strategy = (select(seeds), prop::collection::vec(mutation(), 1..6));
    let result = TestRunner::new(config).run(&strategy, |(mut input, mutations)| {
        mutations.iter().for_each(|mutation| mutate(&mut input, mutation));
        let started = cpu_time();
        (target.run)(&input);
        let elapsed = cpu_time().saturating_sub(started);
        let memory = if elapsed > MEASURED { peak_memory(|| (target.run)(&input)) } else { 0 };
        slowest.set(slowest.get().max(elapsed));
        largest.set(largest.get().max(memory));
        prop_assert!(elapsed <= MAX_DURATION, "took {:?}", elapsed);
        prop_assert!(memory <= MAX_MEMORY, "used {} KiB", memory);
        Ok(())
    });
    println!("{name}: {cases} cases, slowest {:?}, largest {} KiB", slowest.get(), largest.get());
    if let Err(error) = result {
        unreachable!("{name}: {error}");
    }
}

macro_rules! fuzz_tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            fuzz(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_test() {
            assert_eq!([$(stringify!($name)),*], TARGETS.map(|target| target.name));
        }
    };
}

fuzz_tests! { watch_lines lists states releases yaml settings web_config rules queries labels }
