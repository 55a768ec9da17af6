//! Formatting of query results.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{STEP, feed::RANGE};
use crate::support::dashboards::{list, text};

fn number(pair: &Value) -> f64 {
    pair[1].as_str().and_then(|value| value.parse().ok()).unwrap_or(f64::NAN)
}

/// The last value of a series.
pub(super) fn latest(series: &Value) -> f64 {
    series["value"]
        .as_array()
        .map_or_else(|| points(series).last().map_or(f64::NAN, |point| point.1), |_| number(&series["value"]))
}

/// The numeric values of a series over time.
pub(super) fn points(series: &Value) -> Vec<(f64, f64)> {
    let pairs = series["values"].as_array().into_iter().flatten();
    let points = pairs.map(|pair| (pair[0].as_f64().unwrap_or(0.0), number(pair)));
    points.filter(|(_, value)| value.is_finite()).collect()
}

/// The same in segments without a gap, so that gaps stay empty.
pub(super) fn pieces(series: &Value) -> Vec<Vec<(f64, f64)>> {
    let points = points(series);
    let is_next = |one: &(f64, f64), next: &(f64, f64)| next.0 - one.0 < 1.5 * STEP;
    points.chunk_by(is_next).map(<[_]>::to_vec).collect()
}

/// The axes of a graph.
pub(super) struct Scale {
    pub(super) most: f64,
    begin: f64,
    end: f64,
}

impl Scale {
    pub(super) fn of<'a>(series: impl IntoIterator<Item = &'a Value>, now: f64) -> Self {
        let most = series.into_iter().flat_map(points).map(|(_, value)| value).fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        Self { most, begin: now - f64::from(RANGE), end: now }
    }

    /// The position of a time, from 0 to 1.
    pub(super) fn along(&self, time: f64) -> f64 {
        ((time - self.begin) / (self.end - self.begin)).clamp(0.0, 1.0)
    }
}

/// The text of a value mapping, if the panel has one.
pub(super) fn word(mappings: &[Value], value: f64) -> Option<String> {
    let options = mappings.iter().find_map(|mapping| mapping["options"].get(value.to_string()));
    options.map(|options| text(options, "text").to_owned())
}

/// A value in its unit, similar to Grafana.
pub(super) fn show(value: f64, unit: &str, now: f64) -> String {
    match unit {
        _ if !value.is_finite() => "–".to_owned(),
        "percentunit" => format!("{:.1} %", value * 100.0),
        "s" => duration(value),
        "ops" => format!("{}/s", short(value)),
        "bytes" => {
            let steps = ["B", "KiB", "MiB", "GiB", "TiB"];
            let (size, unit) = steps[1..].iter().fold((value, steps[0]), |(size, unit), next| {
                if size < 1024.0 { (size, unit) } else { (size / 1024.0, *next) }
            });
            format!("{size:.1} {unit}")
        }
        "dateTimeFromNow" => {
            let ago = now - value / 1000.0;
            if ago < 0.0 { format!("in {}", duration(-ago)) } else { format!("{} ago", duration(ago)) }
        }
        _ => short(value),
    }
}

fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn duration(seconds: f64) -> String {
    let steps = [(31_557_600.0, "a"), (86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")];
    let (size, unit) = steps.into_iter().find(|(size, _)| seconds >= *size).unwrap_or((1e-6, "µs"));
    format!("{} {unit}", short((seconds / size * 10.0).round() / 10.0))
}

/// The header and rows of a table by its transformations: the results joined by their labels.
pub(super) fn table(panel: &Value, answers: &[Vec<Value>], now: f64) -> (Vec<String>, Vec<Vec<String>>) {
    let organize = &list(panel, "transformations")[1]["options"];
    let property = |head: &str, id: &str| {
        let overrides = list(&panel["fieldConfig"], "overrides");
        let matching = overrides.iter().filter(|rule| rule["matcher"]["options"] == head);
        matching
            .flat_map(|rule| list(rule, "properties"))
            .find(|property| property["id"] == id)
            .map(|property| property["value"].clone())
    };
    let mut rows: BTreeMap<String, (Value, BTreeMap<String, String>)> = BTreeMap::new();
    for (series, letter) in answers.iter().zip('A'..) {
        let head = text(&organize["renameByName"], &format!("Value #{letter}")).to_owned();
        let mappings = property(&head, "mappings").unwrap_or_default();
        let unit = property(&head, "unit").unwrap_or_default();
        for sample in series {
            let value = latest(sample);
            let shown = word(mappings.as_array().map_or(&[], Vec::as_slice), value);
            let shown = shown.unwrap_or_else(|| show(value, unit.as_str().unwrap_or("none"), now));
            let row = rows
                .entry(sample["metric"].to_string())
                .or_insert_with(|| (sample["metric"].clone(), BTreeMap::new()));
            row.1.insert(head.clone(), shown);
        }
    }
    let order = organize["indexByName"].as_object().expect("an order");
    let mut names: Vec<(&String, u64)> =
        order.iter().filter_map(|(name, index)| Some((name, index.as_u64()?))).collect();
    names.sort_by_key(|(_, index)| *index);
    let mut heads: Vec<String> = Vec::new();
    for (name, _) in names.into_iter().filter(|(name, _)| property(name, "custom.hidden").is_none()) {
        let head = organize["renameByName"][name].as_str().unwrap_or(name).to_owned();
        if !heads.contains(&head) {
            heads.push(head);
        }
    }
    let cell = |(labels, values): &(Value, BTreeMap<String, String>), head: &String| {
        values.get(head).cloned().unwrap_or_else(|| labels[head].as_str().unwrap_or("").to_owned())
    };
    let mut rows: Vec<Vec<String>> =
        rows.values().map(|row| heads.iter().map(|head| cell(row, head)).collect()).collect();
    if let Some(sorted) = panel["options"]["sortBy"][0]["displayName"].as_str() {
        let column = heads.iter().position(|head| head == sorted);
        rows.sort_by_key(|row| column.map(|column| row[column].clone()));
    }
    (heads, rows)
}
