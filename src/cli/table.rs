//! Claims in columns, as kubectl lists objects.

use jiff::{SignedDuration, Timestamp};

use super::resources::{Resource, harmless};

/// Columns that stay where they are from line to line.
pub(super) struct Table {
    columns: Vec<Column>,
    wide: bool,
    now: Timestamp,
}

/// What stands in a column.
type Cell = fn(&Resource, &Table) -> String;

struct Column {
    title: &'static str,
    cell: Cell,
    width: usize,
}

/// The blank that kubectl leaves between columns.
const GAP: usize = 3;

impl Table {
    /// A table with a column of namespaces where objects of several are shown.
    pub(super) fn new(namespaces: bool, wide: bool, now: Timestamp) -> Self {
        let mut columns: Vec<(&'static str, Cell)> = vec![
            ("NAMESPACE", |own, _| own.namespace.clone()),
            ("KIND", |own, _| own.kind.clone()),
            ("NAME", |own, _| own.name.clone()),
            ("VERDICT", |own, _| verdict(own)),
            ("SEVERITY", |own, _| own.severity.clone().unwrap_or_default()),
            ("FIELD", |own, table| fields(own, table.wide)),
            ("BY", |own, _| own.actor.clone().unwrap_or_default()),
            ("SINCE", |own, table| table.since(own)),
            ("SOURCE", |own, _| own.source.clone()),
        ];
        if !namespaces {
            columns.remove(0);
        }
        if wide {
            columns.extend::<[(&'static str, Cell); 5]>([
                ("ADDRESS", |own, _| declared(own, |by| &by.address)),
                ("STATE", |own, _| declared(own, |by| &by.state)),
                ("MANAGER", |own, _| own.manager.clone().unwrap_or_default()),
                ("EXPECTATION", |own, _| own.expectation.clone().unwrap_or_default()),
                ("ADVICE", |own, _| own.advice.clone().unwrap_or_default()),
            ]);
        }
        let columns = columns.into_iter().map(|(title, cell)| Column { title, cell, width: title.len() });
        Self { columns: columns.collect(), wide, now }
    }

    fn since(&self, resource: &Resource) -> String {
        resource.onset.map(|onset| age(self.now.duration_since(onset))).unwrap_or_default()
    }

    /// The titles of the columns.
    pub(super) fn head(&self) -> String {
        self.line(self.columns.iter().map(|column| column.title.to_owned()))
    }

    /// Makes room for these.
    pub(super) fn fit<'a>(&mut self, resources: impl IntoIterator<Item = &'a Resource>) {
        for resource in resources {
            let widths: Vec<usize> = self.cells(resource).map(|cell| cell.chars().count()).collect();
            for (column, width) in self.columns.iter_mut().zip(widths) {
                column.width = column.width.max(width);
            }
        }
    }

    /// One claim, as things are at this time.
    pub(super) fn row(&mut self, resource: &Resource, now: Timestamp) -> String {
        self.now = now;
        self.line(self.cells(resource))
    }

    fn cells(&self, resource: &Resource) -> impl Iterator<Item = String> {
        self.columns.iter().map(move |column| {
            let cell = harmless(&(column.cell)(resource, self)).replace(['\n', '\t'], " ");
            if cell.is_empty() { "-".to_owned() } else { cell }
        })
    }

    fn line(&self, cells: impl Iterator<Item = String>) -> String {
        let padded = cells.zip(&self.columns).map(|(cell, column)| {
            let blank = " ".repeat((column.width + GAP).saturating_sub(cell.chars().count()).max(1));
            cell + &blank
        });
        padded.collect::<String>().trim_end().to_owned()
    }
}

fn verdict(resource: &Resource) -> String {
    match &resource.reason {
        Some(reason) => format!("{}({reason})", resource.verdict),
        None => resource.verdict.clone(),
    }
}

/// The worst one, and how many more; all of them where there is room.
fn fields(resource: &Resource, all: bool) -> String {
    match &resource.differences[..] {
        [] => String::new(),
        [one] => one.path.clone(),
        several if all => several.iter().map(|own| &*own.path).collect::<Vec<_>>().join(","),
        [first, others @ ..] => format!("{} +{}", first.path, others.len()),
    }
}

fn declared(resource: &Resource, part: fn(&super::resources::DeclaredBy) -> &String) -> String {
    resource.declared_by.first().map(part).cloned().unwrap_or_default()
}

/// How long ago something was, as kubectl writes it: `45s`, `5m12s`, `3h`, `2d4h`, `40d`.
fn age(age: SignedDuration) -> String {
    let seconds = age.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let with = |large: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => with(minutes, "m", seconds % 60, "s"),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => with(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => with(days, "d", hours % 24, "h"),
        () if days < 2 * 365 => format!("{days}d"),
        () => with(days / 365, "y", days % 365, "d"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use serde_json::json;

    use super::{Resource, Table, age};

    fn resource(name: &str, paths: &[&str]) -> Resource {
        let difference = |path| {
            json!({"path": path, "expected": "3", "actual": "7", "actor": "kubectl", "manager": "kubectl-edit",
                "onset": "2026-01-01T00:00:00Z", "rules": [], "ignoredBy": null})
        };
        let differences: Vec<_> = paths.iter().map(difference).collect();
        serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "resourceName": name,
            "source": "terraform", "verdict": if paths.is_empty() { "unknown" } else { "drifted" },
            "reason": paths.is_empty().then_some("stale"), "driftDetected": !paths.is_empty(),
            "onset": (!paths.is_empty()).then_some("2026-01-01T00:00:00Z"),
            "severity": (!paths.is_empty()).then_some("warning"), "expectation": null, "advice": "alert_only",
            "actor": (!paths.is_empty()).then_some("kubectl"), "manager": "kubectl-edit",
            "declaredBy": [{"address": "kubernetes_deployment.web", "state": "ops/default/shop"}],
            "differences": differences, "ignored": [], "blindFields": [],
        }))
        .unwrap()
    }

    fn table(namespaces: bool, wide: bool) -> String {
        let now: Timestamp = "2026-01-01T00:05:12Z".parse().unwrap();
        let all =
            [resource("web", &["spec.replicas", "spec.paused"]), resource("a-longer-\u{1b}[31mname", &[])];
        let mut table = Table::new(namespaces, wide, now);
        table.fit(&all);
        let rows: Vec<String> = all.iter().map(|own| table.row(own, now)).collect();
        format!("{}\n{}\n", table.head(), rows.join("\n"))
    }

    #[test]
    fn columns_line_up_and_say_what_is_off() {
        assert_eq!(
            table(true, false),
            "NAMESPACE   KIND         NAME                      VERDICT          SEVERITY   FIELD              BY        SINCE   SOURCE\n\
             shop        Deployment   web                       drifted          warning    spec.replicas +1   kubectl   5m12s   terraform\n\
             shop        Deployment   a-longer-\\u{1b}[31mname   unknown(stale)   -          -                  -         -       terraform\n"
        );
    }

    #[test]
    fn more_room_is_used_for_addresses_managers_and_all_fields() {
        let wide = table(false, true);
        let first = wide.lines().nth(1).unwrap();
        assert!(!wide.contains("NAMESPACE") && first.starts_with("Deployment   web "), "{wide}");
        for part in
            ["spec.replicas,spec.paused", "kubernetes_deployment.web", "ops/default/shop", "kubectl-edit"]
        {
            assert!(first.contains(part), "{part}: {wide}");
        }
    }

    #[test]
    fn ages_are_written_as_kubectl_writes_them() {
        for (seconds, told) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (312, "5m12s"),
            (3600, "60m"),
            (3 * 3600, "3h"),
            (5 * 3600 + 1800, "5h30m"),
            (30 * 3600, "30h"),
            (52 * 3600, "2d4h"),
            (40 * 86400, "40d"),
            (800 * 86400, "2y70d"),
        ] {
            assert_eq!(age(SignedDuration::from_secs(seconds)), told, "{seconds}");
        }
    }
}
