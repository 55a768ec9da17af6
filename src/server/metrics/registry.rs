//! What `prometheus-client` renders, in the format that was asked for.

use std::fmt::Write as _;

use prometheus_client::{encoding::text::encode_registry, registry::Registry};

use super::text::Format;

/// The text of a registry, without the end of the page.
pub(super) fn render(registry: &Registry, format: Format) -> String {
    let mut text = String::new();
    encode_registry(&mut text, registry).expect("writing to a string cannot fail");
    match format {
        Format::OpenMetrics => text,
        Format::Text => to_text_format(&text),
    }
}

/// Turns `OpenMetrics` into text 0.0.4: only header lines differ, since no exemplars are used. A label value cannot
/// begin a line, because its line breaks are escaped.
fn to_text_format(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len() + 256);
    let mut help = None;
    for line in open_metrics.lines() {
        match line.strip_prefix("# ").and_then(|header| header.split_once(' ')) {
            Some(("HELP", rest)) => help = Some(rest),
            Some(("TYPE", rest)) => {
                let (family, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
                let suffix = if kind == "counter" { "_total" } else { "" };
                if let Some((name, text)) = help.take().and_then(|help| help.split_once(' ')) {
                    writeln!(out, "# HELP {name}{suffix} {text}").expect("writing to a string cannot fail");
                }
                writeln!(out, "# TYPE {family}{suffix} {kind}").expect("writing to a string cannot fail");
            }
            Some(_) => {}
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::to_text_format;

    #[test]
    fn counters_get_their_suffix_and_units_go() {
        let open_metrics = "# HELP a Help.\n# TYPE a counter\na_total{x=\"# EOF\"} 1\n# HELP b_seconds B.\n\
            # TYPE b_seconds gauge\n# UNIT b_seconds seconds\nb_seconds 2\n";
        let text = "# HELP a_total Help.\n# TYPE a_total counter\na_total{x=\"# EOF\"} 1\n# HELP b_seconds B.\n\
            # TYPE b_seconds gauge\nb_seconds 2\n";
        assert_eq!(to_text_format(open_metrics), text);
    }
}
