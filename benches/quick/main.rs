//! Counts instructions and allocations on fixed inputs with callgrind. Fails if a row exceeds its baseline.
//!
//! Wall-clock time on a busy machine hides a loss of a few percent; instruction counts do not depend on other processes. Each row
//! runs in its own process under valgrind, which counts the instructions of [`counted`] and its callees. `UPDATE_BASELINE=1`
//! writes `benches/quick/baseline.txt`. Arguments select rows by a part of their name.

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

mod baseline;
mod callgrind;
mod exporter;
mod inputs;
mod report;
mod rows;

use std::{hint::black_box, process::ExitCode};

use baseline::Baseline;
use rows::{ROWS, Row};

/// The flag, followed by the name of a row, that runs the row in this process.
const RUN: &str = "--row";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = &*arguments
        && flag == RUN
    {
        let row = ROWS.iter().find(|row| row.name == name).expect("the row exists");
        (row.run)();
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&String> = arguments.iter().filter(|own| !own.starts_with("--")).collect();
    let is_wanted = |row: &&Row| wanted.is_empty() || wanted.iter().any(|part| row.name.contains(&**part));
    let rows: Vec<Row> = ROWS.iter().filter(is_wanted).copied().collect();
    let now = callgrind::count(&rows);
    let mut known = Baseline::read();
    if std::env::var_os("UPDATE_BASELINE").is_some() {
        known.take(now);
        println!("{} rows written to {}", rows.len(), known.write());
        return ExitCode::SUCCESS;
    }
    if report::compare(&known, &now) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Does the work of a row in the function in which callgrind counts.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> T {
    let (mut work, mut result) = (Some(work), None);
    counted(&mut || result = work.take().map(|work| work()));
    result.expect("`counted` calls the work")
}

/// The function in which callgrind counts, by its name.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
    // Without a statement after it, the call would be a jump.
    black_box(());
}
