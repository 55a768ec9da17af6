//! Faults, hostile input and load on an exporter in its own process, each with a bound. Prints a table, and fails if a row exceeds
//! its bound.
//!
//! `CHAOS_ROWS` selects rows by the start of their names, separated by commas. `CHAOS_QUICK=1` runs the short form.
//! `CHAOS_EXPORTER` is the build to test. With `REQUIRE_ALL=1`, a row that cannot run fails.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "it prints a table, fails by panicking, and changes clusters"
)]

/// Compares every scrape with the expected state.
mod checker;
/// Clients that load the exporter, and probes beside them.
mod load;
/// Injects faults between exporter and API server.
mod proxy;
/// Bounds and the table.
mod report;
/// The rows by theme.
mod rows;
#[path = "../support/mod.rs"]
mod support;
/// An API server, a proxy, an exporter and a checker.
mod world;

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    report::{HEADER, Outcome, line},
    rows::{ROWS, Row},
    world::{Options, World},
};

/// Rows that mostly wait run at the same time.
const PARALLEL: usize = 5;

/// The configuration of the run, which every row receives.
pub(crate) struct Run {
    pub(crate) is_quick: bool,
    program: PathBuf,
    /// 20,000 objects, created once.
    crowd: OnceLock<Mutex<World>>,
}

impl Run {
    pub(crate) fn options(&self) -> Options<'_> {
        Options::new(&self.program)
    }

    /// A world with 20,000 objects and no exporter.
    pub(crate) fn crowd(&self) -> MutexGuard<'_, World> {
        let crowd = self.crowd.get_or_init(|| {
            let mut options = Options { deployments: 20_000, ..self.options() };
            options.expectations.interval = Duration::from_millis(300);
            Mutex::new(World::fake(options))
        });
        // A failed row may leave an exporter running.
        let mut crowd = crowd.lock().unwrap_or_else(PoisonError::into_inner);
        crowd.exporter = None;
        crowd
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A figure for the short and one for the long form.
    pub(crate) fn quick_or<T>(&self, quick: T, long: T) -> T {
        if self.is_quick { quick } else { long }
    }
}

fn main() -> ExitCode {
    let _ = rlimit::increase_nofile_limit(16_384);
    let program = env::var_os("CHAOS_EXPORTER").map(PathBuf::from);
    let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_drift-exporter").into());
    let run = Run {
        is_quick: env::var("CHAOS_QUICK").is_ok_and(|quick| quick == "1"),
        program,
        crowd: OnceLock::new(),
    };
    let selected = env::var("CHAOS_ROWS").unwrap_or_default();
    let names: Vec<&str> = selected.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let is_selected = |row: &&Row| {
        if names.is_empty() {
            row.in_quick || !run.is_quick
        } else {
            names.iter().any(|name| row.name.starts_with(name))
        }
    };
    let selected: Vec<&Row> = ROWS.iter().filter(is_selected).collect();
    if selected.is_empty() {
        println!(
            "no row begins with {names:?}; rows: {}",
            ROWS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
        );
        return ExitCode::FAILURE;
    }
    let (alone, parallel): (Vec<&Row>, Vec<&Row>) = selected.iter().partition(|row| row.alone);
    let mut outcomes = run_parallel(&run, &parallel);
    outcomes.extend(alone.into_iter().map(|row| run_row(&run, row)));
    print_table(&selected, &outcomes)
}

type Ran = (&'static str, Duration, Outcome);

fn run_parallel(run: &Run, rows: &[&'static Row]) -> Vec<Ran> {
    let (queue, outcomes) = (Mutex::new(rows.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| {
                loop {
                    let Some(row) = queue.lock().unwrap().next() else { return };
                    let ran = run_row(run, row);
                    outcomes.lock().unwrap().push(ran);
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

fn run_row(run: &Run, row: &'static Row) -> Ran {
    let started = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| (row.run)(run))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Outcome::failed(
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default(),
        )
    });
    let ran = (row.name, started.elapsed(), outcome);
    println!("{}", line(ran.0, ran.1, &ran.2));
    ran
}

fn print_table(selected: &[&Row], outcomes: &[Ran]) -> ExitCode {
    println!("\n{HEADER}");
    let in_order = selected.iter().filter_map(|row| outcomes.iter().find(|(name, ..)| *name == row.name));
    let requires_all = env::var("REQUIRE_ALL").is_ok_and(|required| !required.is_empty());
    let mut is_over = false;
    let mut notes = Vec::new();
    for (name, took, outcome) in in_order {
        println!("{}", line(name, *took, outcome));
        let is_over_bounds = match &outcome.skipped {
            Some(_) => requires_all,
            None => !outcome.is_within_bounds(),
        };
        if is_over_bounds {
            is_over = true;
            notes.extend(outcome.notes.iter().map(|note| format!("{name}: {note}")));
        }
    }
    notes.iter().for_each(|note| println!("{note}"));
    if is_over { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
