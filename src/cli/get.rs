//! `drift-exporter get`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    time::Duration,
};

use axum::body::{Body, Bytes};
use futures_util::FutureExt as _;
use http_body::Frame;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    Outcome,
    args::{GetArgs, OutputFormat, ResourceArg},
    client::{ExporterClient, NamespaceScope, Query, QueryTarget, RequestError},
    error::{CliError, ListHint},
    output::{Console, block_on, escape_control, escape_control_in_json, escape_line},
    resources::{ClaimView, ExporterStatus, FetchedClaim, ObjectName, fetch_claims},
};
use crate::{
    server::{DeclaredByView, ListView, Word},
    types::{Clock, ClosedSet, Severity, VerdictKind, WatchMode, format_age},
};

pub(super) fn run(arguments: &GetArgs, console: &mut Console) -> Result<Outcome, CliError> {
    block_on(get(arguments, console))
}

async fn get(arguments: &GetArgs, console: &mut Console) -> Result<Outcome, CliError> {
    let scope = NamespaceScope::from_args(&arguments.scope, &arguments.exporter).await;
    let mode = if arguments.watch { WatchMode::Continuous } else { WatchMode::Once };
    let resources = arguments.resource()?.into_iter().collect();
    let selector = arguments.selector.as_ref();
    let mut query = Query::open(&arguments.exporter, scope, resources, selector, mode, console).await?;
    // Opened before the first list, so that no change in between is lost.
    let changes = if arguments.watch { Some(ChangeStream::open(&query.exporter).await?) } else { None };
    let (rows, gaps) = fetch_claims(&mut query).await?;
    let status = ExporterStatus::fetch(&query, gaps).await?;
    let outcome = outcome(&query, &rows, &status)?;
    let shown: Vec<&FetchedClaim> = rows.iter().filter(|row| is_shown(&row.claim, arguments)).collect();
    let mut printer = Printer::new(arguments, &query);
    printer.print_list(&shown, console)?;
    let claims: Vec<&ClaimView> = rows.iter().map(|row| &row.claim).collect();
    console.note(summary(&claims))?;
    for note in untrusted_note(&rows).into_iter().chain(status.gap_summary()) {
        console.note(note)?;
    }
    if let Some(changes) = changes {
        watch(&mut query, arguments, changes, rows, &mut printer, console).await?;
    }
    Ok(outcome)
}

/// A note about objects that only untrusted baselines declare.
pub(super) fn untrusted_note(rows: &[FetchedClaim]) -> Option<String> {
    let untrusted = rows.iter().map(|row| &row.claim).filter(|claim| claim.is_untrusted());
    let objects: BTreeSet<_> = untrusted.map(ClaimView::object_name).collect();
    let noun = if objects.len() == 1 { "object" } else { "objects" };
    (!objects.is_empty()).then(|| {
        format!(
            "untrusted: baselines in other namespaces declare {} {noun}; trust them with --trusted-namespaces or the settings",
            objects.len()
        )
    })
}

/// `Negative` if anything drifted or a named object was not found. An error if nothing could be read, or if a kind is
/// unknown or cannot be watched.
pub(super) fn outcome(
    query: &Query,
    rows: &[FetchedClaim],
    status: &ExporterStatus,
) -> Result<Outcome, CliError> {
    let missing = || query.targets.iter().filter(|target| !target.is_found);
    let kind_down = |resource: &ResourceArg| {
        let message = status.kind_down(resource)?.to_owned();
        Some((resource.kind.trim_end_matches('.').to_owned(), message))
    };
    let all_down = status.all_down().filter(|_| rows.is_empty() && query.exporter.is_in_process());
    if let Some(message) = all_down {
        let hint = match (status.all_forbidden(), &query.scope) {
            (false, _) => None,
            (true, NamespaceScope::All) => Some(ListHint::OneNamespace),
            (true, _) => Some(ListHint::Permissions),
        };
        let requested = missing().find_map(|target| kind_down(&target.resource));
        let (kind, message) = match requested {
            Some((kind, message)) => (Some(kind), message),
            None => (None, message.to_owned()),
        };
        return Err(CliError::NotListed { kind, message, hint });
    }
    let is_namespaced = query.targets.is_empty()
        || query.targets.iter().any(|target| target.scope != NamespaceScope::ClusterScoped);
    if let Some(name) = query.missing_namespace.as_ref().filter(|_| rows.is_empty() && is_namespaced) {
        return Err(CliError::NoNamespace(name.clone()));
    }
    let subject = if query.exporter.is_in_process() { "the settings watch" } else { "the exporter watches" };
    for QueryTarget { resource, .. } in missing() {
        if let Some(unknown) = status.unknown_kind(subject, resource).filter(|_| query.kinds_are_configured) {
            return Err(unknown.into());
        }
        // If other targets have claims, the summary of gaps names this kind.
        if let Some((kind, message)) = kind_down(resource).filter(|_| rows.is_empty()) {
            return Err(CliError::NotListed { kind: Some(kind), message, hint: None });
        }
    }
    // The label filter may drop a named object that was found.
    let names_object = query.targets.iter().any(|target| target.resource.name.is_some());
    let is_missing =
        missing().any(|target| target.resource.name.is_some()) || (names_object && rows.is_empty());
    let is_drifted = rows.iter().any(|row| row.claim.is_drifted());
    Ok(if is_drifted || is_missing { Outcome::Negative } else { Outcome::Success })
}

fn is_shown(claim: &ClaimView, arguments: &GetArgs) -> bool {
    arguments.names_one_object()
        || claim.needs_attention()
        || (arguments.all && (claim.is_declared() || claim.is_untrusted()))
}

/// `3 of 57 declared objects drifted (1 critical, 2 warning), 1 unknown, 2 in flight`.
fn summary(claims: &[&ClaimView]) -> String {
    let declared = || claims.iter().copied().filter(|claim| claim.is_declared());
    let objects: BTreeSet<_> = declared().map(ClaimView::object_name).collect();
    if objects.is_empty() {
        return match claims.len() {
            0 => "nothing found".to_owned(),
            count => format!("nothing declares any of the {count} objects that were found"),
        };
    }
    // An object with several claims counts with its highest severity.
    let mut drifted: BTreeMap<_, Option<Severity>> = BTreeMap::new();
    for claim in declared().filter(|claim| claim.is_drifted()) {
        let worst = drifted.entry(claim.object_name()).or_default();
        *worst = (*worst).max(claim.severity.as_ref().and_then(Word::known));
    }
    let of_severity = |severity| drifted.values().filter(|worst| **worst == Some(severity)).count();
    let severities = Severity::ALL.iter().rev().map(|severity| (of_severity(*severity), severity));
    let severities = severities.filter(|(count, _)| *count > 0);
    let severities: Vec<String> = severities.map(|(count, severity)| format!("{count} {severity}")).collect();
    let severities =
        if severities.is_empty() { String::new() } else { format!(" ({})", severities.join(", ")) };
    let undecided = [VerdictKind::Unknown, VerdictKind::InFlight].map(|verdict| {
        let of_verdict: BTreeSet<_> = declared()
            .filter(|claim| claim.verdict.known() == Some(verdict))
            .map(ClaimView::object_name)
            .collect();
        let verdict = verdict.as_str().replace('_', " ");
        if of_verdict.is_empty() { String::new() } else { format!(", {} {verdict}", of_verdict.len()) }
    });
    let undecided = undecided.concat();
    let noun = if objects.len() == 1 { "object" } else { "objects" };
    match drifted.len() {
        0 => format!("none of {} declared {noun} drifted{undecided}", objects.len()),
        count => format!("{count} of {} declared {noun} drifted{severities}{undecided}", objects.len()),
    }
}

struct Printer {
    format: OutputFormat,
    table: Table,
    clock: Clock,
    namespace: String,
}

impl Printer {
    fn new(arguments: &GetArgs, query: &Query) -> Self {
        let clock = Clock::system();
        let with_namespaces = query.scope == NamespaceScope::All;
        let table = Table::new(with_namespaces, arguments.output == OutputFormat::Wide, clock.now());
        let namespace = query.scope.namespace().unwrap_or("*").to_owned();
        Self { format: arguments.output, table, clock, namespace }
    }

    fn print_list(&mut self, rows: &[&FetchedClaim], console: &mut Console) -> Result<(), CliError> {
        let text = match self.format {
            OutputFormat::Table | OutputFormat::Wide if rows.is_empty() => String::new(),
            OutputFormat::Table | OutputFormat::Wide => {
                self.table.fit(rows.iter().map(|row| &row.claim));
                let head = self.table.head();
                let now = self.clock.now();
                let lines = rows.iter().map(|row| self.table.row(&row.claim, now) + "\n");
                format!("{head}\n{}", lines.collect::<String>())
            }
            OutputFormat::Name => rows.iter().map(|row| name_line(row)).collect(),
            OutputFormat::Json | OutputFormat::Yaml => {
                let resources: Vec<&Value> = rows.iter().map(|row| &row.json).collect();
                let list = ListView { resources, total: rows.len(), namespace: &self.namespace };
                self.encode(&serde_json::to_value(list)?)?
            }
        };
        console.print(text)
    }

    fn print_change(&mut self, row: &FetchedClaim, console: &mut Console) -> Result<(), CliError> {
        let text = match self.format {
            OutputFormat::Table | OutputFormat::Wide => {
                self.table.fit([&row.claim]);
                self.table.row(&row.claim, self.clock.now()) + "\n"
            }
            OutputFormat::Name => name_line(row),
            OutputFormat::Yaml => format!("---\n{}", self.encode(&row.json)?),
            OutputFormat::Json => self.encode(&row.json)?,
        };
        console.print(text)?;
        console.stdout.flush().map_err(CliError::Output)
    }

    fn encode(&self, value: &Value) -> Result<String, CliError> {
        if self.format == OutputFormat::Yaml {
            return Ok(serde_saphyr::to_string(value)?);
        }
        Ok(escape_control_in_json(&serde_json::to_string_pretty(value)?) + "\n")
    }
}

fn name_line(row: &FetchedClaim) -> String {
    escape_line(&row.claim.kubectl_name()) + "\n"
}

/// Columns only grow, so that lines of `-w` stay aligned.
struct Table {
    columns: Vec<Column>,
    wide: bool,
    now: Timestamp,
}

type Cell = fn(&ClaimView, &Table) -> String;

struct Column {
    title: &'static str,
    cell: Cell,
    width: usize,
}

/// Blanks between columns, as in kubectl.
const COLUMN_GAP: usize = 3;

impl Table {
    fn new(with_namespaces: bool, wide: bool, now: Timestamp) -> Self {
        let mut columns: Vec<(&'static str, Cell)> = vec![
            ("NAMESPACE", |claim, _| claim.namespace.to_string()),
            ("KIND", |claim, _| claim.kind.to_string()),
            ("NAME", |claim, _| claim.resource_name.to_string()),
            ("VERDICT", |claim, _| verdict(claim)),
            ("SEVERITY", |claim, _| word(claim.severity.as_ref())),
            ("FIELD", |claim, table| fields(claim, table.wide)),
            ("BY", |claim, _| word(claim.actor.as_ref())),
            ("SINCE", |claim, table| table.since(claim)),
            ("SOURCE", |claim, _| claim.source.to_string()),
        ];
        if !with_namespaces {
            columns.remove(0);
        }
        if wide {
            columns.extend::<[(&'static str, Cell); 5]>([
                ("ADDRESS", |claim, _| declaration(claim, |declaration| &declaration.address)),
                ("STATE", |claim, _| declaration(claim, |declaration| &declaration.state)),
                ("MANAGER", |claim, _| claim.manager.as_deref().unwrap_or_default().to_owned()),
                ("EXPECTATION", |claim, _| word(claim.expectation.as_ref())),
                ("ADVICE", |claim, _| word(claim.advice.as_ref())),
            ]);
        }
        let columns = columns.into_iter().map(|(title, cell)| Column { title, cell, width: title.len() });
        Self { columns: columns.collect(), wide, now }
    }

    fn since(&self, claim: &ClaimView) -> String {
        claim.onset.map(|onset| format_age(self.now.duration_since(onset))).unwrap_or_default()
    }

    fn head(&self) -> String {
        self.line(self.columns.iter().map(|column| column.title.to_owned()))
    }

    fn fit<'a>(&mut self, claims: impl IntoIterator<Item = &'a ClaimView>) {
        for claim in claims {
            let widths: Vec<usize> = self.cells(claim).map(|cell| cell.chars().count()).collect();
            for (column, width) in self.columns.iter_mut().zip(widths) {
                column.width = column.width.max(width);
            }
        }
    }

    fn row(&mut self, claim: &ClaimView, now: Timestamp) -> String {
        self.now = now;
        self.line(self.cells(claim))
    }

    fn cells(&self, claim: &ClaimView) -> impl Iterator<Item = String> {
        self.columns.iter().map(move |column| {
            let cell = escape_line(&(column.cell)(claim, self));
            if cell.is_empty() { "-".to_owned() } else { cell }
        })
    }

    fn line(&self, cells: impl Iterator<Item = String>) -> String {
        let padded = cells.zip(&self.columns).map(|(cell, column)| {
            let width = column.width + COLUMN_GAP;
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()).max(1));
            cell + &padding
        });
        padded.collect::<String>().trim_end().to_owned()
    }
}

fn word<T: ClosedSet>(word: Option<&Word<T>>) -> String {
    word.map(ToString::to_string).unwrap_or_default()
}

fn verdict(claim: &ClaimView) -> String {
    match &claim.reason {
        Some(reason) => format!("{}({reason})", claim.verdict),
        None => claim.verdict.to_string(),
    }
}

/// The worst difference and the number of others, or all of them.
fn fields(claim: &ClaimView, all: bool) -> String {
    match &claim.differences[..] {
        [] => String::new(),
        [single] => single.path.to_string(),
        several if all => several.iter().map(|difference| &*difference.path).collect::<Vec<_>>().join(","),
        [worst, others @ ..] => format!("{} +{}", worst.path, others.len()),
    }
}

fn declaration(claim: &ClaimView, field: for<'a> fn(&'a DeclaredByView<'static>) -> &'a str) -> String {
    claim.declared_by.first().map(field).unwrap_or_default().to_owned()
}

/// The pause after a list with a label filter, which also lists each kind in the cluster.
const LABEL_FILTER_PAUSE: Duration = Duration::from_secs(3);

/// Identifies a claim, and orders changes by the object.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    namespace: String,
    name: String,
    kind: String,
    group: String,
    source: String,
}

/// Lists again on each change and prints the claims that differ, until the reader closes the pipe.
async fn watch(
    query: &mut Query,
    arguments: &GetArgs,
    mut changes: ChangeStream,
    first: Vec<FetchedClaim>,
    printer: &mut Printer,
    console: &mut Console,
) -> Result<(), CliError> {
    let mut previous = by_key(first);
    loop {
        changes.next(&query.exporter, console).await?;
        let (rows, _) = retry(async || fetch_claims(query).await, console).await?;
        let current = by_key(rows);
        for (key, row) in &current {
            let before = previous.get(key).map(|row| &row.claim);
            let was_shown = before.is_some_and(|before| is_shown(before, arguments));
            let is_same = before.is_some_and(|before| printed(before) == printed(&row.claim));
            if !is_same && (was_shown || is_shown(&row.claim, arguments)) {
                printer.print_change(row, console)?;
            }
        }
        let gone = previous.into_iter().filter(|(key, _)| !current.contains_key(key)).map(|(_, row)| row);
        for mut row in gone.filter(|row| is_shown(&row.claim, arguments)) {
            row.claim.verdict = Word::Other("gone".into());
            row.claim.reason = None;
            printer.print_change(&row, console)?;
        }
        previous = current;
        if console.stdout.is_closed() {
            return Ok(());
        }
        if query.labels.is_some() {
            sleep(LABEL_FILTER_PAUSE).await;
        }
    }
}

/// What the tables and `explain` show of a claim. Its other fields change without a change of the claim.
fn printed(claim: &ClaimView) -> impl PartialEq {
    let ClaimView { api_version, verdict, reason, drift_detected, onset, declared_by, blind_fields, .. } =
        claim;
    let ClaimView { severity, expectation, advice, actor, manager, differences, ignored, untrusted, .. } =
        claim;
    let rating = (severity, expectation, advice, actor, manager, differences, ignored, untrusted);
    ((api_version, verdict, reason, drift_detected, onset, declared_by, blind_fields), rating)
}

fn by_key(rows: Vec<FetchedClaim>) -> BTreeMap<RowKey, FetchedClaim> {
    let entry = |row: FetchedClaim| {
        let ObjectName { group, kind, namespace, name } = row.claim.object_name();
        let [namespace, name, kind, group, source] =
            [namespace, name, kind, group, row.claim.source.as_str()].map(str::to_owned);
        (RowKey { namespace, name, kind, group, source }, row)
    };
    rows.into_iter().map(entry).collect()
}

const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The exporter's server-sent events. An exporter that authenticates its clients ends the stream now and then.
struct ChangeStream {
    body: Body,
    opened: Instant,
    /// The start of a line whose end has not been received.
    partial_line: String,
}

impl ChangeStream {
    async fn open(exporter: &ExporterClient) -> Result<Self, RequestError> {
        let body = exporter.events().await?;
        Ok(Self { body, opened: Instant::now(), partial_line: String::new() })
    }

    /// Waits for a change. Reconnecting counts as one, because events in between are lost.
    async fn next(&mut self, exporter: &ExporterClient, console: &mut Console) -> Result<(), CliError> {
        while let Some(Ok(frame)) = self.body.frame().await {
            let mut has_event = self.read_frame(frame);
            // One list covers all events that have already been received.
            while let Some(Some(Ok(frame))) = self.body.frame().now_or_never() {
                has_event |= self.read_frame(frame);
            }
            if has_event {
                return Ok(());
            }
        }
        if exporter.is_in_process() {
            return Err(CliError::Stopped(exporter.name()));
        }
        if self.opened.elapsed() < MIN_BACKOFF {
            sleep(MIN_BACKOFF).await;
        }
        *self = retry(async || Self::open(exporter).await, console).await?;
        Ok(())
    }

    /// Whether the frame completes the line of an event.
    fn read_frame(&mut self, frame: Frame<Bytes>) -> bool {
        let Ok(data) = frame.into_data() else { return false };
        self.partial_line.push_str(&String::from_utf8_lossy(&data));
        let Some(end) = self.partial_line.rfind('\n') else { return false };
        let has_event = self.partial_line[..end].lines().any(|line| line.starts_with("event:"));
        self.partial_line.drain(..=end);
        has_event
    }
}

async fn retry<T>(
    mut request: impl AsyncFnMut() -> Result<T, RequestError>,
    console: &mut Console,
) -> Result<T, RequestError> {
    let mut backoff = MIN_BACKOFF;
    loop {
        match request().await {
            Ok(response) => return Ok(response),
            Err(error) if error.is_permanent() => return Err(error),
            Err(error) if backoff == MIN_BACKOFF => {
                let message = escape_control(&error.to_string());
                let _ = console.report(format_args!("{message}; retrying"));
            }
            Err(_) => {}
        }
        sleep(backoff).await;
        backoff = (backoff * 2).min(MAX_BACKOFF);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::{ClaimView, Table};

    fn claim(name: &str, verdict: &str, paths: &[&str]) -> ClaimView {
        let difference = |path| {
            json!({"path": path, "expected": "3", "actual": "7", "actor": "kubectl", "manager": "kubectl-edit",
                "onset": "2026-01-01T00:00:00Z", "rules": [], "ignoredBy": null})
        };
        let differences: Vec<_> = paths.iter().map(difference).collect();
        let if_drifted = |value: &'static str| (!paths.is_empty()).then_some(value);
        serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "resourceName": name,
            "source": "terraform", "verdict": verdict, "reason": (verdict == "unknown").then_some("stale"),
            "driftDetected": verdict == "drifted", "onset": if_drifted("2026-01-01T00:00:00Z"),
            "severity": if_drifted("warning"), "expectation": null, "advice": "alert_only",
            "actor": if_drifted("kubectl"), "manager": "kubectl-edit",
            "declaredBy": [{"address": "kubernetes_deployment.web", "state": "ops/default/shop"}],
            "differences": differences, "ignored": [], "blindFields": [],
        }))
        .unwrap()
    }

    fn table(with_namespaces: bool, wide: bool) -> String {
        let now: Timestamp = "2026-01-01T00:05:12Z".parse().unwrap();
        let claims = [
            claim("web", "drifted", &["spec.replicas", "spec.paused"]),
            claim("a-longer-\u{1b}[31mname", "unknown", &[]),
        ];
        let mut table = Table::new(with_namespaces, wide, now);
        table.fit(&claims);
        let rows: Vec<String> = claims.iter().map(|claim| table.row(claim, now)).collect();
        format!("{}\n{}\n", table.head(), rows.join("\n"))
    }

    #[test]
    fn table_aligns_columns_and_escapes_control_characters() {
        assert_eq!(
            table(true, false),
            "NAMESPACE   KIND         NAME                      VERDICT          SEVERITY   FIELD              BY        SINCE   SOURCE\n\
             shop        Deployment   web                       drifted          warning    spec.replicas +1   kubectl   5m12s   terraform\n\
             shop        Deployment   a-longer-\\u{1b}[31mname   unknown(stale)   -          -                  -         -       terraform\n"
        );
    }

    #[test]
    fn wide_table_shows_addresses_managers_and_all_fields() {
        let wide = table(false, true);
        let first = wide.lines().nth(1).unwrap();
        assert!(!wide.contains("NAMESPACE") && first.starts_with("Deployment   web "), "{wide}");
        for part in
            ["spec.replicas,spec.paused", "kubernetes_deployment.web", "ops/default/shop", "kubectl-edit"]
        {
            assert!(first.contains(part), "{part}: {wide}");
        }
    }
}
