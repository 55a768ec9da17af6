//! The committed counts.

use std::{collections::BTreeMap, fmt::Write as _, fs};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/quick/baseline.txt");
/// The number of functions to keep of each row.
const FUNCTIONS: usize = 30;

const HEADER: &str = "\
# Instruction counts of `make bench-quick` on x86_64; `make bench-quick-baseline` writes this file.
# row <name> <all instructions> <those of the program itself, without the C library> <allocations>
# Below each row: the functions that execute most of them.
";

/// The counts of all rows, and the C library that they were counted with.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    pub(crate) libc: String,
    pub(crate) rows: BTreeMap<String, Counts>,
}

/// The instructions of one row.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) total: u64,
    /// Without those of the C library.
    pub(crate) own: u64,
    pub(crate) allocations: u64,
    /// By function, without those of its callees.
    pub(crate) functions: BTreeMap<String, u64>,
}

impl Counts {
    /// Functions by their counts, largest first.
    fn largest(&self) -> impl Iterator<Item = (&String, &u64)> {
        let mut functions: Vec<_> = self.functions.iter().collect();
        functions.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        functions.into_iter().take(FUNCTIONS)
    }

    /// The most that a function can have that was too small to be kept.
    pub(crate) fn smallest_kept(&self) -> u64 {
        let is_cut = self.functions.len() >= FUNCTIONS;
        self.functions.values().min().copied().filter(|_| is_cut).unwrap_or_default()
    }
}

impl Baseline {
    /// The committed counts; none without a file.
    pub(crate) fn read() -> Self {
        let mut baseline = Self::default();
        let mut row = None;
        for line in fs::read_to_string(FILE).unwrap_or_default().lines() {
            let mut words = line.split_whitespace();
            let number = |words: &mut std::str::SplitWhitespace<'_>| {
                let number = words.next().and_then(|word| word.parse().ok());
                number.expect("the file is written by this program")
            };
            if let Some(libc) = line.strip_prefix("libc ") {
                libc.clone_into(&mut baseline.libc);
            } else if line.starts_with("row ") {
                let name = words.nth(1).unwrap_or_default().to_owned();
                let (total, own) = (number(&mut words), number(&mut words));
                let counts = Counts { total, own, allocations: number(&mut words), ..Counts::default() };
                row = Some(baseline.rows.entry(name).or_insert(counts));
            } else if let Some(row) = row.as_mut().filter(|_| line.starts_with(' ')) {
                let count = number(&mut words);
                row.functions.insert(words.collect::<Vec<_>>().join(" "), count);
            }
        }
        baseline
    }

    /// Replaces the rows that were counted.
    pub(crate) fn take(&mut self, now: Self) {
        self.libc = now.libc;
        self.rows.extend(now.rows);
    }

    /// Writes the file and returns its path.
    pub(crate) fn write(&self) -> &'static str {
        let mut text = format!("{HEADER}libc {}\n", self.libc);
        for (name, counts) in &self.rows {
            let Counts { total, own, allocations, .. } = counts;
            writeln!(text, "row {name} {total} {own} {allocations}")
                .expect("writing to a string cannot fail");
            for (function, count) in counts.largest() {
                writeln!(text, "{count:>12} {function}").expect("writing to a string cannot fail");
            }
        }
        fs::write(FILE, text).expect("the file can be written");
        FILE
    }
}
