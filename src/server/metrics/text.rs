//! The exposition formats: header lines, sample lines, escaping.

use std::fmt::{Display, Write as _};

use super::{Metric, MetricKind};

/// Sample lines are the same bytes in both formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Format {
    /// Prometheus text 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

impl Format {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// HELP and TYPE of a family. `OpenMetrics` names a counter's family without `_total`.
    pub(super) fn header(self, metric: &Metric) -> String {
        let family = match (self, metric.kind) {
            (Self::OpenMetrics, MetricKind::Counter) => metric.name.trim_end_matches("_total"),
            _ => metric.name,
        };
        let help = escape_help(metric.help);
        format!("# HELP {family} {help}.\n# TYPE {family} {}\n", metric.kind.as_str())
    }

    pub(super) fn end(self) -> &'static str {
        match self {
            Self::Text => "",
            Self::OpenMetrics => "# EOF\n",
        }
    }
}

pub(super) fn line(out: &mut String, name: &str, labels: &[(&str, &str)], value: impl Display) {
    out.push_str(name);
    if !labels.is_empty() {
        out.push('{');
        push_labels(out, labels);
        out.push('}');
    }
    writeln!(out, " {value}").expect("writing to a string cannot fail");
}

/// Writes `a="b",c="d"`.
pub(super) fn push_labels(out: &mut String, labels: &[(&str, &str)]) {
    for (index, (name, value)) in labels.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        push_escaped(out, value);
        out.push('"');
    }
}

/// Escapes what would end a label value or a line.
fn push_escaped(out: &mut String, value: &str) {
    let mut rest = value;
    while let Some(at) = rest.find(['\\', '"', '\n']) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'\\' => r"\\",
            b'"' => r#"\""#,
            _ => r"\n",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// Escapes help text; quotes need an escape in `OpenMetrics` only, so help texts have none.
fn escape_help(help: &str) -> String {
    help.replace('\\', r"\\").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::{Format, line};
    use crate::server::metrics::{Metric, MetricKind};

    #[test]
    fn label_values_and_help_are_escaped() {
        let mut out = String::new();
        line(&mut out, "m", &[("a", "\"} 1\nfake{x=\"\\")], 1);
        assert_eq!(out, "m{a=\"\\\"} 1\\nfake{x=\\\"\\\\\"} 1\n");
        let metric = Metric { name: "m_total", kind: MetricKind::Counter, help: "a\\b\nc", labels: &[] };
        assert_eq!(Format::Text.header(&metric), "# HELP m_total a\\\\b\\nc.\n# TYPE m_total counter\n");
        assert_eq!(Format::OpenMetrics.header(&metric), "# HELP m a\\\\b\\nc.\n# TYPE m counter\n");
    }
}
