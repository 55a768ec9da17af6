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
    // Read once: `/proc/stat`, which has it, is slow to read on a machine with many CPUs.
    if let Ok(boot_time) = procfs::boot_time_secs() {
        registry.register_collector(Box::new(ProcessCollector { boot_time }));
    }
}

pub fn build_info(registry: &mut Registry) {
    let info = Family::<[(&str, &str); 1], Gauge>::default();
    info.get_or_create_owned(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
    registry.register("drift_exporter_build_info", "Always 1; the version that is running", info);
}

#[derive(Debug)]
struct ProcessCollector {
    boot_time: u64,
}

/// Name, help and value of a gauge.
type ProcessGauge = (&'static str, &'static str, u64);

/// The CPU time in seconds, and all gauges.
fn process_stats(boot_time: u64) -> procfs::ProcResult<(f64, [ProcessGauge; 6])> {
    let process = procfs::process::Process::myself()?;
    let stat = process.stat()?;
    let ticks = procfs::ticks_per_second();
    #[expect(clippy::cast_precision_loss, reason = "ticks of CPU time stay far below 2^52")]
    let cpu_seconds = (stat.utime + stat.stime) as f64 / ticks as f64;
    let max_fds = match process.limits()?.max_open_files.soft_limit {
        procfs::process::LimitValue::Value(limit) => limit,
        procfs::process::LimitValue::Unlimited => u64::MAX,
    };
    let started = boot_time + stat.starttime / ticks;
    let gauges = [
        ("process_open_fds", "Open file descriptors.", process.fd_count()? as u64),
        ("process_max_fds", "Most file descriptors that may be open.", max_fds),
        ("process_virtual_memory_bytes", "Virtual memory size.", stat.vsize),
        ("process_resident_memory_bytes", "Resident memory size.", stat.rss * procfs::page_size()),
        ("process_start_time_seconds", "When the process started.", started),
        ("process_threads", "Threads of the process.", stat.num_threads.unsigned_abs()),
    ];
    Ok((cpu_seconds, gauges))
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok((cpu_seconds, gauges)) = process_stats(self.boot_time) else { return Ok(()) };
        let cpu = ConstCounter::new(cpu_seconds);
        cpu.encode(encoder.encode_descriptor(
            "process_cpu_seconds",
            "User and system CPU time spent.",
            None,
            MetricType::Counter,
        )?)?;
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
