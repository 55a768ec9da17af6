//! Renders descriptions as Grafana's JSON, in the classic model.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::description::{Description, Panel, PanelKind, Query, Variable, Variables};

/// The tag that links the dashboards to each other.
pub(super) const TAG: &str = "drift-exporter";

/// A placeholder that the user replaces, as in the alerts.
pub(super) const PAGE: &str = "https://drift.example.com";

const SCHEMA_VERSION: u8 = 39;

/// The file of a dashboard. Each panel, variable and link has its own line, so that diffs stay readable.
pub(super) fn file(description: &Description, variables: &Variables) -> String {
    format!("{}\n", lines(&dashboard(description, variables), 0))
}

/// Formats outer lists and objects over several lines, and each of their members on one.
fn lines(value: &Value, depth: usize) -> String {
    let (inner, outer) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    match value {
        Value::Object(members) if depth < 2 => {
            let members = members
                .iter()
                .map(|(key, member)| format!("{inner}{}: {}", json!(key), lines(member, depth + 1)));
            format!("{{\n{}\n{outer}}}", members.collect::<Vec<_>>().join(",\n"))
        }
        Value::Array(members) if depth < 3 && !members.is_empty() => {
            let members = members.iter().map(|member| format!("{inner}{}", lines(member, depth + 1)));
            format!("[\n{}\n{outer}]", members.collect::<Vec<_>>().join(",\n"))
        }
        _ => value.to_string(),
    }
}

fn dashboard(description: &Description, variables: &Variables) -> Value {
    let queried = description.variables.iter().map(|name| {
        let variable = variables.get(name).unwrap_or_else(|| panic!("variables.yaml has no {name}"));
        query_variable(name, variable)
    });
    let list: Vec<Value> =
        [data_source_variable()].into_iter().chain(queried).chain([page_variable()]).collect();
    json!({
        "uid": description.uid,
        "title": description.title,
        "description": description.about,
        "tags": [TAG],
        "id": null,
        "version": 1,
        "schemaVersion": SCHEMA_VERSION,
        "editable": false,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "templating": {"list": list},
        "links": links(description),
        "panels": panels(description),
    })
}

fn links(description: &Description) -> Value {
    let others = json!({
        "type": "dashboards", "title": "Drift", "tags": [TAG], "asDropdown": false,
        "includeVars": true, "keepTime": true, "targetBlank": false, "icon": "external link", "tooltip": "", "url": "",
    });
    let page = json!({
        "type": "link", "title": "Page", "url": format!("${{page:raw}}{}", description.page), "targetBlank": true,
        "includeVars": false, "keepTime": false, "asDropdown": false, "icon": "external link", "tags": [],
        "tooltip": "The exporter's own page",
    });
    json!([others, page])
}

fn data_source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn data_source_variable() -> Value {
    json!({
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "regex": "",
        "refresh": 1, "hide": 0, "includeAll": false, "multi": false, "current": {}, "options": [],
    })
}

fn page_variable() -> Value {
    let value = json!({"selected": true, "text": PAGE, "value": PAGE});
    json!({
        "name": "page", "label": "Page of the exporter", "type": "textbox", "query": PAGE, "hide": 0,
        "current": value, "options": [value],
    })
}

fn query_variable(name: &str, variable: &Variable) -> Value {
    let current = variable.all.as_ref().map_or(json!({}), |_| json!({"text": "All", "value": "$__all"}));
    json!({
        "name": name, "label": variable.label, "type": "query", "datasource": data_source(),
        "query": variable.query, "definition": variable.query, "regex": "", "refresh": 2, "sort": 1, "hide": 0,
        "includeAll": variable.all.is_some(), "allValue": variable.all, "multi": variable.multi,
        "current": current, "options": [],
    })
}

/// Places rows from top to bottom and their panels from left to right; a panel without room starts a new line.
fn panels(description: &Description) -> Vec<Value> {
    let (mut panels, mut top) = (Vec::new(), 0);
    for row in &description.rows {
        let position = json!({"x": 0, "y": top, "w": 24, "h": 1});
        panels.push(json!({
            "id": panels.len() + 1, "type": "row", "title": row.title, "collapsed": false, "gridPos": position, "panels": [],
        }));
        top += 1;
        let (mut left, mut tallest) = (0, 0);
        for panel_description in &row.panels {
            if left + panel_description.width > 24 {
                (left, top) = (0, top + tallest);
                tallest = 0;
            }
            let height = panel_description.height.unwrap_or_else(|| panel_description.kind.height());
            let position = json!({"x": left, "y": top, "w": panel_description.width, "h": height});
            panels.push(panel(panel_description, panels.len() + 1, &position));
            left += panel_description.width;
            tallest = tallest.max(height);
        }
        top += tallest;
    }
    panels
}

impl PanelKind {
    fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Bargauge => "bargauge",
            Self::Timeseries => "timeseries",
            Self::StateTimeline => "state-timeline",
            Self::Table => "table",
        }
    }

    fn height(self) -> u8 {
        match self {
            Self::Stat => 4,
            Self::Bargauge | Self::Timeseries | Self::StateTimeline | Self::Table => 8,
        }
    }

    /// Whether it shows the values at the end of the time range.
    fn is_instant(self) -> bool {
        matches!(self, Self::Stat | Self::Bargauge | Self::Table)
    }

    fn options(self, named: bool) -> Value {
        let last = json!({"calcs": ["lastNotNull"], "fields": "", "values": false});
        let legend = json!({"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []});
        match self {
            Self::Stat => json!({
                "reduceOptions": last, "colorMode": "value", "graphMode": "none", "justifyMode": "auto",
                "orientation": "auto", "textMode": if named { "value_and_name" } else { "auto" },
            }),
            Self::Bargauge => json!({
                "reduceOptions": last, "displayMode": "basic", "orientation": "horizontal", "valueMode": "color",
            }),
            Self::Timeseries => json!({"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}),
            Self::StateTimeline => json!({
                "mergeValues": true, "showValue": "auto", "rowHeight": 0.8, "legend": legend,
                "tooltip": {"mode": "single", "sort": "none"},
            }),
            Self::Table => json!({"showHeader": true, "cellHeight": "sm"}),
        }
    }
}

fn panel(description: &Panel, id: usize, position: &Value) -> Value {
    let named = description.queries.iter().any(|query| !query.legend.is_empty());
    let targets: Vec<Value> = description
        .queries
        .iter()
        .zip('A'..)
        .map(|(query, letter)| target(description.kind, query, letter))
        .collect();
    let mut panel = json!({
        "id": id, "type": description.kind.name(), "title": description.title, "description": description.description,
        "datasource": data_source(), "gridPos": position, "targets": targets,
        "fieldConfig": {"defaults": defaults(description), "overrides": overrides(description)},
        "options": description.kind.options(named),
    });
    if description.kind == PanelKind::Table {
        panel["transformations"] = transformations(description);
        // Sorted alphabetically, `critical` comes first.
        panel["options"]["sortBy"] = json!([{"displayName": description.columns[0], "desc": false}]);
    }
    panel
}

fn target(kind: PanelKind, query: &Query, letter: char) -> Value {
    let format = if kind == PanelKind::Table { "table" } else { "time_series" };
    json!({
        "refId": letter, "datasource": data_source(), "editorMode": "code", "expr": query.expr, "format": format,
        "instant": kind.is_instant(), "range": !kind.is_instant(), "legendFormat": query.legend,
    })
}

fn mappings(words: &BTreeMap<u8, String>) -> Value {
    let options: BTreeMap<String, Value> = words
        .iter()
        .zip(0..)
        .map(|((value, word), index): (_, u8)| (value.to_string(), json!({"text": word, "index": index})))
        .collect();
    if options.is_empty() { json!([]) } else { json!([{"type": "value", "options": options}]) }
}

fn defaults(panel: &Panel) -> Value {
    let step = |color: &str, value: Option<f64>| json!({"color": color, "value": value});
    let steps = match (panel.red_from, panel.red_below) {
        (Some(from), _) => vec![step("green", None), step("red", Some(from))],
        (None, Some(below)) => vec![step("red", None), step("green", Some(below))],
        (None, None) => vec![step("blue", None)],
    };
    let color_mode = if panel.kind == PanelKind::Timeseries { "palette-classic" } else { "thresholds" };
    let mut defaults = json!({
        "unit": panel.unit.as_deref().unwrap_or("none"), "mappings": mappings(&panel.words), "noValue": "–",
        "color": {"mode": color_mode}, "thresholds": {"mode": "absolute", "steps": steps},
    });
    match panel.kind {
        PanelKind::Timeseries => {
            defaults["min"] = json!(0);
            defaults["custom"] =
                json!({"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "auto"});
        }
        PanelKind::Bargauge => defaults["min"] = json!(0),
        PanelKind::StateTimeline => defaults["custom"] = json!({"fillOpacity": 70, "lineWidth": 0}),
        PanelKind::Stat | PanelKind::Table => {}
    }
    defaults
}

/// Units, value mappings and links of single columns.
fn overrides(panel: &Panel) -> Value {
    let for_column = |name: &str, properties: Value| json!({"matcher": {"id": "byName", "options": name}, "properties": properties});
    let values = panel.queries.iter().filter_map(|query| {
        let unit = json!({"id": "unit", "value": query.unit.as_deref().unwrap_or("none")});
        let words = json!({"id": "mappings", "value": mappings(&query.words)});
        Some(for_column(query.name.as_deref()?, json!([unit, words])))
    });
    let hidden =
        panel.hidden.iter().map(|name| for_column(name, json!([{"id": "custom.hidden", "value": true}])));
    let links =
        panel.object_links.then(|| for_column("name", json!([{"id": "links", "value": object_links()}])));
    values.chain(hidden).chain(links).collect()
}

fn object_links() -> Value {
    let fields = [("cluster", "within"), ("namespace", "namespace"), ("kind", "kind"), ("name", "name")];
    let variables = fields.map(|(variable, field)| format!("var-{variable}=${{__data.fields.{field}}}"));
    let dashboard = format!(
        "/d/drift-exporter-object?{}&${{datasource:queryparam}}&${{page:queryparam}}&${{__url_time_range}}",
        variables.join("&")
    );
    let page = "${page:raw}/objects/${__data.fields.resource}/${__data.fields.place}/${__data.fields.name}";
    json!([
        {"title": "Dashboard of the object", "url": dashboard, "targetBlank": false},
        {"title": "Page of the object, with the exact fields", "url": page, "targetBlank": true},
    ])
}

/// Orders the columns. Labels keep their names because the links use them.
fn transformations(panel: &Panel) -> Value {
    let values =
        panel.queries.iter().zip('A'..).filter_map(|(query, letter)| Some((query.name.as_ref()?, letter)));
    let mut names: BTreeMap<String, &String> =
        values.map(|(name, letter)| (format!("Value #{letter}"), name)).collect();
    // The column of a single query has no letter.
    if let [Query { name: Some(name), .. }] = &panel.queries[..] {
        names.insert("Value".to_owned(), name);
    }
    let order =
        panel.columns.iter().cloned().chain(names.keys().cloned()).chain(panel.hidden.iter().cloned());
    let order: BTreeMap<String, usize> = order.zip(0..).collect();
    json!([
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": {"Time": true}, "indexByName": order, "renameByName": names}},
    ])
}
