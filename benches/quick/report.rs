//! Compares new counts with the committed ones.

use crate::{
    baseline::{Baseline, Counts},
    rows::ROWS,
};

/// By how many percent a row may exceed its baseline. A row that is better by more than that needs a new baseline.
const LIMIT: u64 = 5;
/// The number of functions to name for each row that fails.
const NAMED: usize = 5;

/// Prints a table, and the functions that grew in each row that fails. Returns whether no row fails.
pub(crate) fn compare(known: &Baseline, now: &Baseline) -> bool {
    let same_libc = known.libc == now.libc;
    if !same_libc && !known.rows.is_empty() {
        println!("The baseline was counted with {}, and this is {}:", known.libc, now.libc);
        println!("only instructions of the program itself are compared.");
    }
    let count = |counts: &Counts| if same_libc { counts.total } else { counts.own };
    println!(
        "{:<24}{:>14}{:>14}{:>8}{:>13}{:>10}{:>10}",
        "row", "baseline", "now", "ratio", "allocations", "now", "per item"
    );
    let (mut worse, mut better, mut new) = (Vec::new(), false, false);
    for row in ROWS {
        let Some(counted) = now.rows.get(row.name) else { continue };
        let Some(before) = known.rows.get(row.name) else {
            println!("{:<24}{:>14}{:>14}", row.name, "none", count(counted));
            new = true;
            continue;
        };
        let (was, is) = (count(before), count(counted));
        let (allocated, allocates) = (before.allocations, counted.allocations);
        let remark = if exceeds(is, was) || exceeds(allocates, allocated) {
            worse.push((row.name, before, counted));
            "  FAILED"
        } else if exceeds(was, is) || exceeds(allocated, allocates) {
            better = true;
            "  better"
        } else {
            ""
        };
        println!(
            "{:<24}{was:>14}{is:>14}{:>8}{allocated:>13}{allocates:>10}{:>10}{remark}",
            row.name,
            ratio(was, is),
            per_item(allocates, row.items)
        );
    }
    for (name, before, counted) in &worse {
        let (was, is) = (count(before), count(counted));
        println!(
            "\nFAILED: {name}: baseline {was}, now {is}, ratio {}; allocations {}, now {}; at most 1.{LIMIT:02}",
            ratio(was, is),
            before.allocations,
            counted.allocations
        );
        println!("Functions that grew most, in instructions of their own:");
        for (grown, before, now, function) in grown(before, counted) {
            println!("{grown:>+12}  {before:>12} -> {now:<12}{function}");
        }
    }
    if new {
        println!("\nFAILED: a row has no baseline: run `make bench-quick-baseline` and commit the file");
    }
    if better {
        println!(
            "\nA row is more than {LIMIT} % better: run `make bench-quick-baseline` and commit the file"
        );
    }
    worse.is_empty() && !new
}

/// Whether a count is more than [`LIMIT`] percent above another.
fn exceeds(count: u64, other: u64) -> bool {
    count * 100 > other * (100 + LIMIT)
}

/// With one digit after the point.
fn per_item(count: u64, items: usize) -> String {
    let tenths = count * 10 / items.max(1) as u64;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The functions that grew most: growth, instructions before, instructions now.
fn grown<'a>(before: &Counts, now: &'a Counts) -> Vec<(i64, u64, u64, &'a str)> {
    let smallest = before.smallest_kept();
    let mut grown: Vec<_> = now
        .functions
        .iter()
        .map(|(name, now)| {
            let before = before.functions.get(name).copied().unwrap_or(smallest.min(*now));
            (now.cast_signed() - before.cast_signed(), before, *now, &**name)
        })
        .filter(|(grown, ..)| *grown > 0)
        .collect();
    grown.sort_by_key(|(grown, ..)| std::cmp::Reverse(*grown));
    grown.truncate(NAMED);
    grown
}

/// With three digits after the point.
fn ratio(was: u64, is: u64) -> String {
    let thousandths = (is * 1000 + was / 2) / was.max(1);
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}
