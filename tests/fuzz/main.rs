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
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
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
/// No faster case can touch that much memory, so the peak is read only after slower ones.
const MEASURED: Duration = Duration::from_millis(5);
/// A case that takes longer does not return at all.
const HANGS_AFTER: Duration = Duration::from_secs(10);
const DEFAULT_CASES: u32 = 1_000;
/// One target at a time: memory is measured for the process.
static TURN: Mutex<()> = Mutex::new(());
const REGRESSIONS: &str = "tests/fuzz/regressions";

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

/// The corpus of a target, and the input with which it hung.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target.name);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("the corpus exists").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    let hanging = hanging_file(target.name);
    files.extend(hanging.exists().then_some(hanging));
    files.iter().map(|file| fs::read(file).expect("the corpus can be read")).collect()
}

fn hanging_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(REGRESSIONS).join(format!("{name}.hang"))
}

/// The case that runs now: its target, its input, and when it started.
type Running = Arc<Mutex<Option<(&'static str, Vec<u8>, Instant)>>>;

/// Aborts the process if a case does not return, and keeps its input. A thread cannot be ended from outside.
fn watch(running: &Running) {
    let running = Arc::downgrade(running);
    std::thread::spawn(move || {
        while let Some(running) = running.upgrade() {
            let case = running.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((name, input, started)) = &*case
                && started.elapsed() > HANGS_AFTER
            {
                let file = hanging_file(name);
                let written =
                    fs::create_dir_all(file.with_file_name("")).and_then(|()| fs::write(&file, input));
                println!("{name}: a case does not return: {}: {written:?}", file.display());
                std::process::abort();
            }
            drop(case);
            drop(running);
            std::thread::sleep(Duration::from_millis(500));
        }
    });
}

/// The cost of one case.
#[derive(Clone, Copy, Debug)]
struct Cost {
    time: Duration,
    /// In KiB, on top of what the process held; 0 for a fast case.
    memory: u64,
}

/// Runs one case.
fn run(target: &Target, input: &[u8], running: &Running) -> Cost {
    let set = |case| *running.lock().unwrap_or_else(PoisonError::into_inner) = case;
    set(Some((target.name, input.to_vec(), Instant::now())));
    fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
    let (before, started) = (resident(), cpu_time());
    (target.run)(input);
    let time = cpu_time().saturating_sub(started);
    let memory = if time > MEASURED { peak().saturating_sub(before) } else { 0 };
    set(None);
    Cost { time, memory }
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("CPU time is not negative")
}

/// The memory of the process, in KiB. `statm` is faster to read than `status`, for every case.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split(' ').nth(1).expect("the field exists").parse().expect("a number");
    pages * 4
}

/// The peak memory of the process since the last reset, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the field exists");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Fuzzes one target. A case that fails is shrunk, and kept in `tests/fuzz/regressions`, which later runs try first.
fn fuzz(name: &str) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let target = TARGETS.iter().find(|target| target.name == name).expect("the target exists");
    let seeds = corpus(target);
    let running = Running::default();
    watch(&running);
    for seed in &seeds {
        run(target, seed, &running);
    }
    let cases =
        env::var("FUZZ_CASES").map_or(DEFAULT_CASES, |cases| cases.parse().expect("a number of cases"));
    let regressions = Box::leak(format!("{REGRESSIONS}/{name}.txt").into_boxed_str());
    let config = Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
        ..Config::default()
    };
    let (slowest, largest) = (Cell::new(Duration::ZERO), Cell::new(0));
    let strategy = (select(seeds), prop::collection::vec(mutation(), 1..6));
    let started = Instant::now();
    let result = TestRunner::new(config).run(&strategy, |(mut input, mutations)| {
        mutations.iter().for_each(|mutation| mutate(&mut input, mutation));
        let Cost { time, memory } = run(target, &input, &running);
        slowest.set(slowest.get().max(time));
        largest.set(largest.get().max(memory));
        prop_assert!(time <= MAX_DURATION, "took {:?}", time);
        prop_assert!(memory <= MAX_MEMORY, "used {} KiB", memory);
        Ok(())
    });
    let (took, slowest, largest) = (started.elapsed(), slowest.get(), largest.get());
    println!("{name}: {cases} cases in {took:.1?}, slowest {slowest:?}, largest {largest} KiB");
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
