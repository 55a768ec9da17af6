//! The result of a row, and the table of all rows.

use std::{fmt, time::Duration};

/// Scrapes of a row, by their fault.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) scrapes: usize,
    /// Some series of existing objects were absent.
    pub(crate) partial: usize,
    /// There were series of objects that do not exist.
    pub(crate) ghost: usize,
    /// There was no page, or a page without any of the series.
    pub(crate) missing: usize,
    /// A value was incorrect.
    pub(crate) wrong: usize,
}

/// A measured value and its limit.
#[derive(Debug)]
pub(crate) struct Bound {
    what: &'static str,
    value: f64,
    limit: f64,
    unit: &'static str,
    /// The value without the load.
    idle: Option<f64>,
}

impl Bound {
    pub(crate) fn time(what: &'static str, value: Duration, limit: Duration) -> Self {
        Self { what, value: value.as_secs_f64(), limit: limit.as_secs_f64(), unit: "s", idle: None }
    }

    pub(crate) fn latency(what: &'static str, value: Duration, limit: Duration) -> Self {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        Self { what, value: milliseconds(value), limit: milliseconds(limit), unit: "ms", idle: None }
    }

    pub(crate) fn memory(what: &'static str, kib: u64, limit_mib: u64) -> Self {
        Self { what, value: number(kib) / 1024.0, limit: number(limit_mib), unit: "MiB", idle: None }
    }

    pub(crate) fn count(what: &'static str, value: usize, limit: usize) -> Self {
        Self { what, value: number(value as u64), limit: number(limit as u64), unit: "", idle: None }
    }

    /// Prints the latency without the load, too.
    pub(crate) fn with_idle(self, idle: Duration) -> Self {
        Self { idle: Some(idle.as_secs_f64() * 1e3), ..self }
    }

    /// Whether both measure the same.
    fn is_of(&self, other: &Self) -> bool {
        self.what == other.what
    }

    fn is_less_than(&self, other: &Self) -> bool {
        self.value < other.value
    }

    fn holds(&self) -> bool {
        self.value <= self.limit
    }
}

#[expect(clippy::cast_precision_loss, reason = "no count is that large")]
fn number(count: u64) -> f64 {
    count as f64
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, limit, unit, idle } = self;
        let digits = |number: &f64| usize::from(number.fract() != 0.0);
        let (value_digits, limit_digits) = (digits(value), digits(limit));
        let idle = idle.map_or(String::new(), |idle| format!(" (idle {idle:.1})"));
        let line = format!("{what} {value:.value_digits$}{idle} ≤ {limit:.limit_digits$} {unit}");
        f.write_str(line.trim_end())
    }
}

/// Of bounds with the same name, the one with the largest value.
pub(crate) fn worst(bounds: Vec<Bound>) -> Vec<Bound> {
    bounds.into_iter().fold(Vec::new(), |mut worst, bound| {
        match worst.iter_mut().find(|other: &&mut Bound| other.is_of(&bound)) {
            Some(other) if other.is_less_than(&bound) => *other = bound,
            Some(_) => {}
            None => worst.push(bound),
        }
        worst
    })
}

/// The findings of a row.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    pub(crate) bounds: Vec<Bound>,
    /// Examples of incorrect series.
    pub(crate) notes: Vec<String>,
    /// Why the row could not run.
    pub(crate) skipped: Option<String>,
}

impl Outcome {
    pub(crate) fn skipped(why: impl Into<String>) -> Self {
        Self { skipped: Some(why.into()), ..Self::default() }
    }

    /// A row that panicked. It exceeds every bound.
    pub(crate) fn failed(why: String) -> Self {
        let failure = Bound::count("failures", 1, 0);
        Self { bounds: vec![failure], notes: vec![why], ..Self::default() }
    }

    /// A row without a scrape has not tested anything.
    pub(crate) fn is_within_bounds(&self) -> bool {
        let Counts { scrapes, partial, ghost, missing, wrong } = self.counts;
        scrapes > 0 && partial + ghost + missing + wrong == 0 && self.bounds.iter().all(Bound::holds)
    }

    fn verdict(&self) -> &'static str {
        match (&self.skipped, self.is_within_bounds()) {
            (Some(_), _) => "not run",
            (None, true) => "ok",
            (None, false) => "OVER",
        }
    }
}

/// Prints one line of the table.
pub(crate) fn line(name: &str, took: Duration, outcome: &Outcome) -> String {
    let Counts { scrapes, partial, ghost, missing, wrong } = outcome.counts;
    let bounds: Vec<String> = match &outcome.skipped {
        Some(why) => vec![why.clone()],
        None => outcome.bounds.iter().map(ToString::to_string).collect(),
    };
    format!(
        "| {name} | {scrapes} | {partial} | {ghost} | {missing} | {wrong} | {} | {:.0} s | {} |",
        bounds.join("; "),
        took.as_secs_f64(),
        outcome.verdict()
    )
}

pub(crate) const HEADER: &str = "| row | scrapes | partial | ghost | missing | wrong | bound | took | result |\n|---|---:|---:|---:|---:|---:|---|---:|---|";
