//! Instruction counts on fixed inputs, by callgrind. Fails where a row needs more than its baseline allows.
//!
//! Wall-clock time on a busy machine hides a loss of a few percent; instructions do not depend on what else runs. Each row runs in a
//! process of its own under valgrind, which counts what [`counted`] and its callees execute. `UPDATE_BASELINE=1` writes
//! `benches/quick/baseline.txt`. Arguments select rows by a part of their name.

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

/// With the name of a row after it: do its work in this process.
const RUN: &str = "--row";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = &*arguments
        && flag == RUN
    {
        let row = ROWS.iter().find(|row| row.name == name).expect("it is a row");
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

/// Does the work of a row where callgrind counts.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> T {
    let (mut work, mut result) = (Some(work), None);
    counted(&mut || result = work.take().map(|work| work()));
    result.expect("the work was done")
}

/// The one function that callgrind is told to count, by its name.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
    // Something after the call keeps it from being a jump.
    black_box(());
}
