//! Metrics of the exporter itself: build, process, and everything registered with prometheus-client.

use std::fmt::{self, Write as _};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, text::encode_registry},
    metrics::{
        MetricType,
        counter::ConstCounter,
        family::Family,
        gauge::{ConstGauge, Gauge},
    },
    registry::Registry,
};

use super::text::Format;

/// Registers `process_*`; they are absent on systems without `/proc`.
pub fn process_metrics(registry: &mut Registry) {
    registry.register_collector(Box::new(ProcessCollector));
}

/// Registers `drift_exporter_build_info`.
pub fn build_info(registry: &mut Registry) {
    let info = Family::<[(&str, &str); 1], Gauge>::default();
    info.get_or_create_owned(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
    registry.register("drift_exporter_build_info", "Always 1; the version that is running", info);
}

#[derive(Debug)]
struct ProcessCollector;

struct ProcessStats {
    cpu_seconds: f64,
    open_fds: u64,
    max_fds: u64,
    virtual_bytes: u64,
    resident_bytes: u64,
    started: u64,
    threads: i64,
}

impl ProcessStats {
    fn read() -> procfs::ProcResult<Self> {
        let process = procfs::process::Process::myself()?;
        let stat = process.stat()?;
        let ticks = procfs::ticks_per_second();
        let soft = process.limits()?.max_open_files.soft_limit;
        #[expect(clippy::cast_precision_loss, reason = "ticks of CPU time stay far below 2^52")]
        let cpu_seconds = (stat.utime + stat.stime) as f64 / ticks as f64;
        Ok(Self {
            cpu_seconds,
            open_fds: process.fd_count()? as u64,
            max_fds: match soft {
                procfs::process::LimitValue::Value(limit) => limit,
                procfs::process::LimitValue::Unlimited => u64::MAX,
            },
            virtual_bytes: stat.vsize,
            resident_bytes: stat.rss * procfs::page_size(),
            started: procfs::boot_time_secs()? + stat.starttime / ticks,
            threads: stat.num_threads,
        })
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(stats) = ProcessStats::read() else {
            return Ok(());
        };
        let cpu = ConstCounter::new(stats.cpu_seconds);
        cpu.encode(encoder.encode_descriptor(
            "process_cpu_seconds",
            "User and system CPU time spent.",
            None,
            MetricType::Counter,
        )?)?;
        let gauges = [
            ("process_open_fds", "Open file descriptors.", stats.open_fds),
            ("process_max_fds", "Most file descriptors that may be open.", stats.max_fds),
            ("process_virtual_memory_bytes", "Virtual memory size.", stats.virtual_bytes),
            ("process_resident_memory_bytes", "Resident memory size.", stats.resident_bytes),
            ("process_start_time_seconds", "When the process started.", stats.started),
            ("process_threads", "Threads of the process.", stats.threads.unsigned_abs()),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

/// Without the `# EOF` of the page.
pub(super) fn render_registry(registry: &Registry, format: Format) -> String {
    let mut text = String::new();
    encode_registry(&mut text, registry).expect("writing to a string cannot fail");
    match format {
        Format::OpenMetrics => text,
        Format::Text => to_text_format(&text),
    }
}

/// Converts OpenMetrics to text 0.0.4: only header lines differ, since there are no exemplars. A label value never begins a line,
/// because its newlines are escaped.
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
    fn counters_get_a_suffix_and_units_are_dropped() {
        let open_metrics = "# HELP a Help.\n# TYPE a counter\na_total{x=\"# EOF\"} 1\n# HELP b_seconds B.\n\
            # TYPE b_seconds gauge\n# UNIT b_seconds seconds\nb_seconds 2\n";
        let text = "# HELP a_total Help.\n# TYPE a_total counter\na_total{x=\"# EOF\"} 1\n# HELP b_seconds B.\n\
            # TYPE b_seconds gauge\nb_seconds 2\n";
        assert_eq!(to_text_format(open_metrics), text);
    }
}
