//! What was counted now beside the committed counts.

use crate::{
    baseline::{Baseline, Counts},
    rows::ROWS,
};

/// A row may need so much more than its baseline, in percent; what needs so much less deserves a new one.
const LIMIT: u64 = 5;
/// Functions that are named for each row that fails.
const NAMED: usize = 5;

/// Prints a table, and of rows that got worse the functions that grew. Says whether all is well.
pub(crate) fn compare(known: &Baseline, now: &Baseline) -> bool {
    let same_libc = known.libc == now.libc;
    if !same_libc && !known.rows.is_empty() {
        println!("The baseline was counted with {}, and this is {}:", known.libc, now.libc);
        println!("only instructions of the program itself are compared.");
    }
    let count = |counts: &Counts| if same_libc { counts.total } else { counts.own };
    println!("{:<24}{:>14}{:>14}{:>8}", "row", "baseline", "now", "ratio");
    let (mut worse, mut better, mut new) = (Vec::new(), false, false);
    for row in ROWS {
        let Some(counted) = now.rows.get(row.name) else { continue };
        let Some(before) = known.rows.get(row.name) else {
            println!("{:<24}{:>14}{:>14}", row.name, "none", count(counted));
            new = true;
            continue;
        };
        let (was, is) = (count(before), count(counted));
        let remark = if is * 100 > was * (100 + LIMIT) {
            worse.push((row.name, before, counted));
            "  FAILED"
        } else if is * 100 < was * (100 - LIMIT) {
            better = true;
            "  better"
        } else {
            ""
        };
        println!("{:<24}{was:>14}{is:>14}{:>8}{remark}", row.name, ratio(was, is));
    }
    for (name, before, counted) in &worse {
        let (was, is) = (count(before), count(counted));
        println!(
            "\nFAILED: {name}: baseline {was}, now {is}, ratio {}; at most 1.{LIMIT:02}",
            ratio(was, is)
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

/// The functions that grew most: by how much, from what, to what.
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
