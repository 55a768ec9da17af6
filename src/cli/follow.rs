//! `drift-exporter get -w`: tells what changes, until it is ended.

use std::{collections::BTreeMap, io::Write, time::Duration};

use tokio::time::sleep;

use super::{
    args::GetArgs,
    asked::Asked,
    get::{Publisher, is_shown},
    heard::Stdout,
    news::{News, until_answered},
    resources::{Resource, Row, fetch},
};

/// How long nobody looks again after the cluster was asked for labels.
const REST: Duration = Duration::from_secs(3);

/// What tells one claim from another.
type Key = (String, String, String, String, String);

/// Looks again whenever there is something new, and tells what is not as it was, until nobody reads that any more.
pub(super) async fn follow(
    asked: &mut Asked,
    arguments: &GetArgs,
    mut news: News,
    first: Vec<Row>,
    teller: &mut Publisher,
    stdout: &mut Stdout,
    stderr: &mut dyn Write,
) -> Result<(), String> {
    let mut known = by_key(first);
    loop {
        news.wait(&asked.exporter, stderr).await?;
        let (now, _) = until_answered(async || fetch(asked).await, stderr).await?;
        let now = by_key(now);
        for (key, row) in &now {
            let before = known.get(key).map(|own| &own.resource);
            if before != Some(&row.resource)
                && (is_shown(&row.resource, arguments) || was_shown(before, arguments))
            {
                teller.tell(row, stdout)?;
            }
        }
        let gone =
            known.iter().filter(|(key, row)| !now.contains_key(*key) && is_shown(&row.resource, arguments));
        for (_, row) in gone {
            let mut row = row.clone();
            "gone".clone_into(&mut row.resource.verdict);
            row.resource.reason = None;
            teller.tell(&row, stdout)?;
        }
        known = now;
        if stdout.has_left() {
            return Ok(());
        }
        // Asking for labels is a list of each kind, and what is told meanwhile is seen with the next look.
        if asked.labels.is_some() {
            sleep(REST).await;
        }
    }
}

fn was_shown(before: Option<&Resource>, arguments: &GetArgs) -> bool {
    before.is_some_and(|before| is_shown(before, arguments))
}

fn by_key(rows: Vec<Row>) -> BTreeMap<Key, Row> {
    let key = |row: Row| {
        let (group, kind, namespace, name) = row.resource.object();
        let own = [namespace, name, kind, group, &row.resource.source].map(str::to_owned);
        let [namespace, name, kind, group, source] = own;
        ((namespace, name, kind, group, source), row)
    };
    rows.into_iter().map(key).collect()
}
