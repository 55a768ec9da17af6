//! Compares every scrape with the objects that the test wrote, and the times at which it wrote them.
//!
//! While the exporter reports a watch as up, a change must be visible within `lag`, or within the time that a row allows for a kind. While the exporter reports the watch as
//! down, each series must have a value that was true since the watch was last up, and no series of an object that existed
//! during the whole time may be absent.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{
    report::{Bound, Counts},
    support::http_client,
};

const EXAMPLES: usize = 5;

/// The object and the source of one series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SeriesKey {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) source: String,
}

impl SeriesKey {
    pub(crate) fn new(kind: &str, namespace: &str, name: &str, source: &str) -> Self {
        let [kind, namespace, name, source] = [kind, namespace, name, source].map(str::to_owned);
        Self { kind, namespace, name, source }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedValue {
    Absent,
    InSync,
    Drifted,
}

/// A time during which an object had a state. The old and the new period overlap during a write.
#[derive(Clone, Debug)]
struct Period {
    value: ExpectedValue,
    from: Instant,
    until: Option<Instant>,
}

/// A time during which changes of a kind may take longer to be visible.
#[derive(Clone, Debug)]
struct Allowance {
    kind: &'static str,
    lag: Duration,
    until: Option<Instant>,
}

/// The states of all objects over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedState {
    objects: BTreeMap<SeriesKey, Vec<Period>>,
    allowances: Vec<Allowance>,
}

impl ExpectedState {
    /// Allows changes of a kind this time until [`ExpectedState::end_allowances`].
    pub(crate) fn allow_lag(&mut self, kind: &'static str, lag: Duration) {
        self.allowances.push(Allowance { kind, lag, until: None });
    }

    pub(crate) fn end_allowances(&mut self) {
        let open = self.allowances.iter_mut().filter(|allowance| allowance.until.is_none());
        open.for_each(|allowance| allowance.until = Some(Instant::now()));
    }

    /// The time within which a scrape must show changes of a kind, if a row allows one.
    fn allowed_lag(&self, kind: &str, scraped: Instant) -> Option<Duration> {
        let applies = |allowance: &&Allowance| {
            allowance.kind == kind && allowance.until.is_none_or(|until| scraped <= until)
        };
        self.allowances.iter().filter(applies).map(|allowance| allowance.lag).max()
    }

    /// Begins a write that leads to this state.
    pub(crate) fn begin(&mut self, key: &SeriesKey, value: ExpectedValue) {
        let from = Instant::now();
        self.objects.entry(key.clone()).or_default().push(Period { value, from, until: None });
    }

    /// The write has ended.
    pub(crate) fn end(&mut self, key: &SeriesKey) {
        let periods = self.objects.get_mut(key).expect("the write has begun");
        let before = periods.len() - 1;
        let open = periods[..before].iter_mut().filter(|period| period.until.is_none());
        open.for_each(|period| period.until = Some(Instant::now()));
    }

    /// Restores an earlier state of all objects, as a backup does.
    pub(crate) fn restore(&mut self, backup: &BTreeMap<SeriesKey, ExpectedValue>) {
        let keys: Vec<SeriesKey> = self.objects.keys().cloned().collect();
        for key in &keys {
            self.begin(key, backup.get(key).copied().unwrap_or(ExpectedValue::Absent));
            self.end(key);
        }
    }

    pub(crate) fn current(&self) -> BTreeMap<SeriesKey, ExpectedValue> {
        self.objects.keys().map(|key| (key.clone(), self.newest(key))).collect()
    }

    /// The newest state of an object.
    pub(crate) fn newest(&self, key: &SeriesKey) -> ExpectedValue {
        self.objects
            .get(key)
            .and_then(|periods| periods.last())
            .map_or(ExpectedValue::Absent, |period| period.value)
    }

    /// The states of an object within a time. An object that was never written was always absent.
    fn states(&self, key: &SeriesKey, from: Instant, to: Instant) -> Vec<ExpectedValue> {
        let Some(periods) = self.objects.get(key) else { return vec![ExpectedValue::Absent] };
        let within = |period: &&Period| period.from <= to && period.until.is_none_or(|until| until >= from);
        let mut states: Vec<ExpectedValue> =
            periods.iter().filter(within).map(|period| period.value).collect();
        if periods.first().is_some_and(|first| first.from >= from) {
            states.push(ExpectedValue::Absent);
        }
        states
    }
}

/// The part of a page that the checker reads.
#[derive(Debug, Default)]
struct Page {
    drifted: HashMap<SeriesKey, bool>,
    /// The kinds whose watches are all up.
    up: HashMap<String, bool>,
    /// Objects whose verdict is `unknown`, by kind and namespace.
    unknown: HashMap<(String, String), f64>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        for line in text.lines() {
            let Some((name, rest)) = line.split_once('{') else { continue };
            let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
            let label = |name: &str| {
                let labels = format!(",{labels}");
                let start = labels.find(&format!(",{name}=\"")).map(|at| at + name.len() + 3);
                start
                    .and_then(|start| labels[start..].split('"').next().map(str::to_owned))
                    .unwrap_or_default()
            };
            let value: f64 = value.parse().unwrap_or(f64::NAN);
            match name {
                "drift_resource_drifted" => {
                    let key =
                        SeriesKey::new(&label("kind"), &label("namespace"), &label("name"), &label("source"));
                    page.drifted.insert(key, value > 0.5);
                }
                "drift_watch_stream_up" => {
                    *page.up.entry(label("kind")).or_insert(true) &= value > 0.5;
                }
                "drift_resources" if label("verdict") == "unknown" => {
                    *page.unknown.entry((label("kind"), label("namespace"))).or_default() += value;
                }
                _ => {}
            }
        }
        page
    }

    fn is_up(&self, kind: &str) -> bool {
        self.up.get(kind).copied().unwrap_or(false)
    }

    fn value(&self, key: &SeriesKey) -> ExpectedValue {
        match self.drifted.get(key) {
            None => ExpectedValue::Absent,
            Some(false) => ExpectedValue::InSync,
            Some(true) => ExpectedValue::Drifted,
        }
    }
}

/// What the checker expects in addition to the objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expectations {
    /// The time within which a change must be visible while the watch is up.
    pub(crate) lag: Duration,
    /// The time between two scrapes.
    pub(crate) interval: Duration,
    /// A namespace that the checker ignores, because a tenant writes there.
    pub(crate) ignored_namespace: &'static str,
    /// Whether `unknown` counts as a wrong value while the watch is up.
    pub(crate) unknown_is_wrong: bool,
}

impl Default for Expectations {
    fn default() -> Self {
        Self {
            lag: Duration::from_secs(5),
            interval: Duration::from_millis(50),
            ignored_namespace: "tenant",
            unknown_is_wrong: false,
        }
    }
}

#[derive(Default)]
struct Findings {
    counts: Counts,
    notes: Vec<String>,
    latencies: Vec<Duration>,
    /// When each kind and namespace was last reported as up to date.
    up_to_date: HashMap<(String, String), Instant>,
    /// Since when each kind and namespace has had `unknown` objects.
    unknown: HashMap<(String, String), Instant>,
}

/// Scrapes until it is stopped.
pub(crate) struct Checker {
    pub(crate) expected: Arc<Mutex<ExpectedState>>,
    expectations: Expectations,
    port: Arc<AtomicU16>,
    findings: Arc<Mutex<Findings>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Checker {
    pub(crate) fn new(expected: Arc<Mutex<ExpectedState>>, expectations: Expectations) -> Self {
        Self {
            expected,
            expectations,
            port: Arc::default(),
            findings: Arc::default(),
            stop: Arc::default(),
            thread: None,
        }
    }

    /// A checker of another exporter with the same objects. It is not running yet.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.expected.clone(), self.expectations)
    }

    /// Checks single scrapes of this port from now on.
    pub(crate) fn set_port(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// Scrapes in the background.
    pub(crate) fn run(&mut self) {
        let (expected, findings, port, stop) =
            (self.expected.clone(), self.findings.clone(), self.port.clone(), self.stop.clone());
        let expectations = self.expectations;
        self.thread = Some(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                check_scrape(port.load(Ordering::Relaxed), &expected, &findings, &expectations);
                std::thread::sleep(expectations.interval);
            }
        }));
    }

    /// Checks one scrape.
    pub(crate) fn check_now(&self) {
        let port = self.port.load(Ordering::Relaxed);
        check_scrape(port, &self.expected, &self.findings, &self.expectations);
    }

    /// Waits until a scrape is correct for every object and all watches are up; the bound counts from `since`.
    pub(crate) fn converged(&self, since: Instant, limit: Duration) -> Bound {
        // Waits beyond the limit, to measure by how much it is exceeded.
        while since.elapsed() < limit * 2 {
            if self.has_converged() {
                return Bound::time("converged", since.elapsed(), limit);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Bound::time("converged", since.elapsed(), limit)
    }

    fn has_converged(&self) -> bool {
        let Some(page) = http_client::get(self.port.load(Ordering::Relaxed), "/metrics", &[]) else {
            return false;
        };
        let (page, expected) = (Page::parse(&page.text()), self.expected.lock().unwrap().current());
        let is_unknown = |key: &SeriesKey| {
            let objects = page.unknown.get(&(key.kind.clone(), key.namespace.clone()));
            objects.is_some_and(|objects| *objects > 0.0)
        };
        let differs = |(key, value): (&SeriesKey, &ExpectedValue)| {
            page.value(key) != *value || !page.is_up(&key.kind) || is_unknown(key)
        };
        if expected.iter().any(differs) {
            return false;
        }
        let groups = expected.into_keys().map(|key| ((key.kind, key.namespace), Instant::now()));
        self.findings.lock().unwrap().up_to_date.extend(groups);
        true
    }

    /// The 99th percentile of the scrapes since the last call.
    pub(crate) fn take_p99(&self) -> Duration {
        percentile_99(std::mem::take(&mut self.findings.lock().unwrap().latencies))
    }

    /// Stops, and returns what it found.
    pub(crate) fn finish(mut self) -> (Counts, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the checker does not panic");
        }
        let findings = std::mem::take(&mut *self.findings.lock().unwrap());
        (findings.counts, findings.notes)
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn percentile_99(mut latencies: Vec<Duration>) -> Duration {
    latencies.sort_unstable();
    let index = (latencies.len() * 99).div_ceil(100).saturating_sub(1);
    latencies.get(index).copied().unwrap_or_default()
}

fn check_scrape(
    port: u16,
    expected: &Mutex<ExpectedState>,
    findings: &Mutex<Findings>,
    expectations: &Expectations,
) {
    let started = Instant::now();
    let response = http_client::get(port, "/metrics", &[]).filter(|response| response.status == 200);
    let ended = Instant::now();
    let expected = expected.lock().unwrap().clone();
    let mut findings = findings.lock().unwrap();
    findings.latencies.push(ended - started);
    findings.counts.scrapes += 1;
    match response {
        Some(response) => {
            findings.check(&Page::parse(&response.text()), &expected, expectations, (started, ended));
        }
        None => findings.counts.missing += 1,
    }
}

impl Findings {
    fn check(
        &mut self,
        page: &Page,
        expected: &ExpectedState,
        expectations: &Expectations,
        (started, ended): (Instant, Instant),
    ) {
        let (mut absent, mut ghosts, mut wrong, mut required) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for key in expected.objects.keys() {
            let (from, is_lost) = self.window(page, key, expected, expectations, started);
            let states = expected.states(key, from, ended);
            required += usize::from(!states.contains(&ExpectedValue::Absent));
            match page.value(key) {
                value if states.contains(&value) && !is_lost => {}
                ExpectedValue::Absent if !states.contains(&ExpectedValue::Absent) => absent.push(key),
                value
                    if value != ExpectedValue::Absent
                        && states.iter().all(|value| *value == ExpectedValue::Absent) =>
                {
                    ghosts.push(key);
                }
                _ => wrong.push(key),
            }
        }
        let is_foreign = |key: &&SeriesKey| {
            key.namespace != expectations.ignored_namespace && !expected.objects.contains_key(key)
        };
        ghosts.extend(page.drifted.keys().filter(is_foreign));
        match absent.len() {
            0 => {}
            count if count == required => self.counts.missing += 1,
            _ => self.counts.partial += 1,
        }
        self.counts.ghost += usize::from(!ghosts.is_empty());
        self.counts.wrong += usize::from(!wrong.is_empty());
        for (what, keys) in [("absent", absent), ("ghost", ghosts), ("wrong", wrong)] {
            if let Some(SeriesKey { kind, namespace, name, source }) = keys.first()
                && self.notes.len() < EXAMPLES
            {
                let more = keys.len() - 1;
                self.notes.push(format!("{what}: {kind} {namespace}/{name} ({source}) and {more} more"));
            }
        }
    }

    /// The earliest time whose states of an object a scrape may have, and whether its verdict has been `unknown` for too long.
    fn window(
        &mut self,
        page: &Page,
        key: &SeriesKey,
        expected: &ExpectedState,
        expectations: &Expectations,
        started: Instant,
    ) -> (Instant, bool) {
        let lag = expected.allowed_lag(&key.kind, started).unwrap_or(expectations.lag);
        let before = |time: Instant| time.checked_sub(lag).unwrap_or(time);
        let group = (key.kind.clone(), key.namespace.clone());
        let has_unknown = page.unknown.get(&group).is_some_and(|objects| *objects > 0.0);
        let is_lost = has_unknown
            && expectations.unknown_is_wrong
            && *self.unknown.entry(group.clone()).or_insert(started) < before(started);
        if !has_unknown {
            self.unknown.remove(&group);
        }
        if page.is_up(&key.kind) && (!has_unknown || expectations.unknown_is_wrong) {
            self.up_to_date.insert(group, started);
            return (before(started), is_lost);
        }
        (before(self.up_to_date.get(&group).copied().unwrap_or(started)), is_lost)
    }
}
