//! Draws a dashboard with its query results: layout, titles and values of Grafana, without
//! its style.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    STEP,
    values::{Scale, latest, pieces, points, show, table, word},
};
use crate::support::dashboards::{Dashboard, list, targets, text};

/// The size of a cell of Grafana's grid.
const COLUMN: f64 = 52.0;
const LINE: f64 = 32.0;
const GAP: f64 = 6.0;
/// The height of the header.
const HEAD: f64 = 56.0;
/// The height of a line of text in a panel.
const TEXT: f64 = 17.0;

const PALETTE: [&str; 8] =
    ["#3274d9", "#e0752d", "#56a64b", "#a352cc", "#c4a000", "#1f9e9e", "#d9376e", "#6b6b6b"];

const STYLE: &str = "text{font:12px sans-serif;fill:#24292e}.title{font-weight:600}.small{font-size:10px;fill:#57606a}\
    .head{font-size:20px;font-weight:600}.row{font-size:14px;font-weight:600}.big{font-size:22px;font-weight:600}";

/// Draws a dashboard. `now` is the end of its time range.
pub(super) fn draw(dashboard: &Dashboard, now: f64, answers: impl Fn(&Value) -> Vec<Vec<Value>>) -> String {
    let panels = list(&dashboard.json, "panels");
    let bottom = panels.iter().map(|panel| area(panel).bottom()).fold(0.0, f64::max);
    let (width, height) = (24.0 * COLUMN + GAP, bottom + GAP);
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\
         <style>{STYLE}</style><rect width=\"100%\" height=\"100%\" fill=\"#f4f5f5\"/>"
    );
    write_text(&mut picture, GAP, 26.0, "head", dashboard.title());
    let note = "Drawn by a test of this project from what a real Prometheus answered. Grafana draws the same panels in its own way.";
    write_text(&mut picture, GAP, 45.0, "small", note);
    for panel in panels {
        let area = area(panel);
        if panel["type"] == "row" {
            write_text(&mut picture, area.left, area.top + 22.0, "row", text(panel, "title"));
            continue;
        }
        let _ = write!(
            picture,
            "\n<rect x=\"{:.0}\" y=\"{:.0}\" width=\"{:.0}\" height=\"{:.0}\" rx=\"3\" fill=\"#fff\" stroke=\"#d8d9da\"/>",
            area.left, area.top, area.width, area.height
        );
        write_text(&mut picture, area.left + 8.0, area.top + 18.0, "title", text(panel, "title"));
        let mut canvas = Canvas { picture: &mut picture, panel, area: area.inner(), now };
        canvas.fill(&answers(panel));
    }
    picture.push_str("\n</svg>\n");
    picture
}

/// Escapes text for XML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn write_text(picture: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let _ = write!(picture, "<text x=\"{x:.0}\" y=\"{y:.0}\" class=\"{class}\">{}</text>", escape(text));
}

#[derive(Clone, Copy)]
struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

fn area(panel: &Value) -> Area {
    let [left, top, width, height] =
        ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_f64().expect("a place"));
    Area {
        left: left * COLUMN + GAP,
        top: top * LINE + HEAD,
        width: width * COLUMN - GAP,
        height: height * LINE - GAP,
    }
}

impl Area {
    fn bottom(self) -> f64 {
        self.top + self.height
    }

    /// Without the title.
    fn inner(self) -> Self {
        Self {
            left: self.left + 8.0,
            top: self.top + 26.0,
            width: self.width - 16.0,
            height: self.height - 32.0,
        }
    }

    /// Truncates text to a width.
    fn fit(width: f64, text: &str) -> String {
        let room = (1..500u16).take_while(|count| f64::from(*count) * 6.6 <= width).count();
        if text.chars().count() <= room {
            text.to_owned()
        } else {
            format!("{}…", text.chars().take(room.saturating_sub(1)).collect::<String>())
        }
    }
}

struct Canvas<'a> {
    picture: &'a mut String,
    panel: &'a Value,
    area: Area,
    now: f64,
}

impl Canvas<'_> {
    fn fill(&mut self, answers: &[Vec<Value>]) {
        let named: Vec<(String, &Value)> = targets(self.panel)
            .iter()
            .zip(answers)
            .flat_map(|(target, series)| {
                series.iter().map(move |one_series| (legend(target, one_series), one_series))
            })
            .collect();
        if named.is_empty() {
            return self.text(0.0, TEXT, "small", "No data");
        }
        match text(self.panel, "type") {
            "stat" => self.numbers(&named),
            "bargauge" => self.bars(&named),
            "timeseries" => self.curves(&named),
            "state-timeline" => self.lanes(&named),
            "table" => self.table(answers),
            other => panic!("no drawing for panel type {other}"),
        }
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        write_text(self.picture, self.area.left + x, self.area.top + y, class, text);
    }

    fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str) {
        let (x, y) = (self.area.left + x, self.area.top + y);
        let _ = write!(
            self.picture,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        );
    }

    fn defaults(&self) -> &Value {
        &self.panel["fieldConfig"]["defaults"]
    }

    /// Formats a value with the panel's mapping or unit.
    fn formatted(&self, value: f64) -> String {
        let defaults = self.defaults();
        let mapped = word(list(defaults, "mappings"), value);
        mapped.unwrap_or_else(|| show(value, text(defaults, "unit"), self.now))
    }

    /// The colour of the last threshold that a value reaches.
    fn colour(&self, value: f64) -> &'static str {
        let steps = list(&self.defaults()["thresholds"], "steps").iter();
        let reached = steps.take_while(|step| step["value"].as_f64().is_none_or(|from| from <= value)).last();
        match reached.map_or("blue", |step| text(step, "color")) {
            "red" => "#e02f44",
            "green" => "#299c46",
            _ => "#3274d9",
        }
    }

    /// Next to each other, or below each other if the width is too small.
    fn numbers(&mut self, named: &[(String, &Value)]) {
        let count = f64::from(u16::try_from(named.len()).expect("few values"));
        let is_wide = self.area.width / count > 120.0;
        let (across, down) = if is_wide { (self.area.width / count, 0.0) } else { (0.0, 46.0) };
        let top = (self.area.height - down * (count - 1.0)) / 2.0 + 4.0;
        for ((name, series), index) in named.iter().zip((0u16..).map(f64::from)) {
            let value = latest(series);
            let (left, top) = (index * across, top + index * down);
            let (x, y) = (self.area.left + left, self.area.top + top);
            let (formatted, colour) = (escape(&self.formatted(value)), self.colour(value));
            let _ = write!(
                self.picture,
                "<text x=\"{x:.0}\" y=\"{y:.0}\" class=\"big\" style=\"fill:{colour}\">{formatted}</text>"
            );
            let room = if is_wide { across } else { self.area.width };
            self.text(left, top + 18.0, "small", &Area::fit(room, name));
        }
    }

    fn bars(&mut self, named: &[(String, &Value)]) {
        let most = named.iter().map(|(_, series)| latest(series)).fold(f64::MIN_POSITIVE, f64::max);
        let (label, room) = (self.area.width * 0.5, self.area.width * 0.5 - 56.0);
        let step = (self.area.height / f64::from(u16::try_from(named.len()).expect("few bars"))).min(28.0);
        for ((name, series), top) in named.iter().zip((0u16..).map(|index| f64::from(index) * step)) {
            let value = latest(series);
            self.text(0.0, top + step * 0.65, "", &Area::fit(label - 6.0, name));
            self.rectangle(label, top + 3.0, (value / most).max(0.01) * room, step - 6.0, self.colour(value));
            self.text(self.area.width - 50.0, top + step * 0.65, "", &self.formatted(value));
        }
    }

    fn curves(&mut self, named: &[(String, &Value)]) {
        let (left, bottom) = (52.0, self.area.height - TEXT - 4.0);
        let scale = Scale::of(named.iter().map(|(_, series)| *series), self.now);
        for share in [0.0, 0.5, 1.0] {
            let y = bottom * (1.0 - share);
            self.rectangle(left, y, self.area.width - left, 0.6, "#e4e5e6");
            self.text(
                0.0,
                y + if share < 1.0 { 0.0 } else { 9.0 },
                "small",
                &self.formatted(scale.most * share),
            );
        }
        let at = |(time, value): &(f64, f64)| {
            let x = self.area.left + left + scale.along(*time) * (self.area.width - left);
            format!("{x:.1},{:.1}", self.area.top + bottom * (1.0 - value / scale.most))
        };
        for ((_, series), colour) in named.iter().zip(PALETTE.iter().cycle()) {
            for piece in pieces(series) {
                let line: Vec<String> = piece.iter().map(at).collect();
                let _ = write!(
                    self.picture,
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.4\"/>",
                    line.join(" ")
                );
            }
        }
        self.legend(named);
    }

    /// As many legend entries as fit below the graph.
    fn legend(&mut self, named: &[(String, &Value)]) {
        let (mut x, y) = (0.0, self.area.height - 2.0);
        for ((name, _), colour) in named.iter().zip(PALETTE.iter().cycle()) {
            let width = f64::from(u16::try_from(name.chars().count()).expect("a short name")) * 6.0 + 22.0;
            if x + width > self.area.width {
                return self.text(x, y, "small", "…");
            }
            self.rectangle(x, y - 6.0, 10.0, 3.0, colour);
            self.text(x + 13.0, y, "small", name);
            x += width;
        }
    }

    fn lanes(&mut self, named: &[(String, &Value)]) {
        let label = self.area.width * 0.3;
        let step = (self.area.height / f64::from(u16::try_from(named.len()).expect("few lanes"))).min(30.0);
        for ((name, series), top) in named.iter().zip((0u16..).map(|index| f64::from(index) * step)) {
            self.text(0.0, top + step * 0.65, "small", &Area::fit(label, name));
            let scale = Scale::of([], self.now);
            for (time, value) in points(series) {
                let (from, to) = (scale.along(time), scale.along(time + STEP));
                let (x, width) =
                    (label + from * (self.area.width - label), (to - from) * (self.area.width - label));
                self.rectangle(x, top + 2.0, width + 0.3, step - 4.0, self.colour(value));
            }
        }
    }

    fn table(&mut self, answers: &[Vec<Value>]) {
        let (heads, rows) = table(self.panel, answers, self.now);
        let width = self.area.width / f64::from(u16::try_from(heads.len()).expect("few columns"));
        let lines = [heads].into_iter().chain(rows);
        for (cells, index) in lines.zip(1u16..) {
            let y = f64::from(index) * TEXT;
            if y > self.area.height {
                return self.text(self.area.width - 12.0, self.area.height, "small", "…");
            }
            for (cell, column) in cells.iter().zip(0u16..) {
                let class = if index == 1 { "title" } else { "" };
                self.text(f64::from(column) * width, y, class, &Area::fit(width - 6.0, cell));
            }
        }
    }
}

/// The legend of a series.
fn legend(target: &Value, series: &Value) -> String {
    let pattern = text(target, "legendFormat");
    let labels = series["metric"].as_object().into_iter().flatten();
    let filled = labels.fold(pattern.to_owned(), |name, (label, value)| {
        name.replace(&format!("{{{{{label}}}}}"), value.as_str().unwrap_or(""))
    });
    // A label that the series does not have is empty.
    let mut name = String::new();
    for (index, piece) in filled.split("{{").enumerate() {
        name.push_str(if index == 0 { piece } else { piece.split_once("}}").map_or("", |(_, rest)| rest) });
    }
    name.trim().to_owned()
}
