//! In which order the table shows its rows. It lives in the URL, as the filter does.

use std::{cmp::Ordering, fmt};

use super::rows::Row;
use crate::types::Health;

/// A column that rows can be ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// What needs attention most comes first.
    Verdict,
    Object,
    What,
    By,
    Severity,
    /// The oldest comes first.
    Since,
    Health,
}

/// A column, and from which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) by: Column,
    pub(super) reversed: bool,
}

impl Column {
    /// As they stand in the table.
    pub(super) const ALL: [Self; 7] =
        [Self::Verdict, Self::Object, Self::What, Self::By, Self::Severity, Self::Since, Self::Health];

    /// How the URL calls it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::Object => "object",
            Self::What => "what",
            Self::By => "by",
            Self::Severity => "severity",
            Self::Since => "since",
            Self::Health => "health",
        }
    }

    /// What stands above it.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Verdict => "Verdict",
            Self::Object => "Object",
            Self::What => "What",
            Self::By => "By",
            Self::Severity => "Severity",
            Self::Since => "Since",
            Self::Health => "Health",
        }
    }
}

impl Sort {
    /// What nobody has to ask for: the worst first.
    pub(super) const WORST_FIRST: Self = Self { by: Column::Verdict, reversed: false };

    /// Takes `since` or `-since`; none for what is no column.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::WORST_FIRST);
        }
        let (word, reversed) = text.strip_prefix('-').map_or((text, false), |word| (word, true));
        let by = Column::ALL.into_iter().find(|column| column.word() == word)?;
        Some(Self { by, reversed })
    }

    /// What a click on the head of a column asks for: that column, or the other way round.
    pub(super) fn clicked(self, column: Column) -> Self {
        Self { by: column, reversed: self.by == column && !self.reversed }
    }

    /// Which of two rows comes first. Rows that have nothing in the column come last, from whichever end.
    pub(super) fn compare(self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        let by_column = match self.by {
            Column::Verdict => self.turned(a.urgency().cmp(&b.urgency())),
            Column::Object => self.turned(name(a).cmp(&name(b))),
            Column::What => self.present(first_path(a), first_path(b)),
            Column::By => self.present(tool(a), tool(b)),
            Column::Severity => self.present(
                a.worst().map(|own| std::cmp::Reverse(own.severity)),
                b.worst().map(|own| std::cmp::Reverse(own.severity)),
            ),
            Column::Since => self.present(a.episode.map(|own| own.onset), b.episode.map(|own| own.onset)),
            Column::Health => self.turned(health(a).cmp(&health(b))),
        };
        by_column.then_with(|| a.urgency().cmp(&b.urgency())).then_with(|| a.name().cmp(&b.name()))
    }

    fn turned(self, order: Ordering) -> Ordering {
        if self.reversed { order.reverse() } else { order }
    }

    fn present<T: Ord>(self, a: Option<T>, b: Option<T>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) => self.turned(a.cmp(&b)),
            (a, b) => a.is_none().cmp(&b.is_none()),
        }
    }
}

/// As the URL has it; nothing for what nobody has to ask for.
impl fmt::Display for Sort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::WORST_FIRST {
            return Ok(());
        }
        write!(formatter, "{}{}", if self.reversed { "-" } else { "" }, self.by.word())
    }
}

fn first_path<'a>(row: &Row<'a>) -> Option<&'a str> {
    row.episode.and_then(|own| own.differences.first()).map(|own| &*own.finding.path)
}

fn tool<'a>(row: &Row<'a>) -> Option<(&'static str, Option<&'a str>)> {
    row.worst().map(|own| (own.actor.as_str(), own.manager))
}

/// The name comes first, as it does in the table.
fn name<'a>(row: &Row<'a>) -> impl Ord + use<'a> {
    let key = &row.found.1.object.key;
    (&key.name, &key.namespace, &key.kind)
}

/// The worst first.
fn health(row: &Row<'_>) -> u8 {
    match row.found.1.object.facts.health {
        Health::Unhealthy => 0,
        Health::Degraded => 1,
        Health::Unknown => 2,
        Health::Healthy => 3,
    }
}
