//! What the operating system says about this process.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{
        MetricType,
        counter::ConstCounter,
        family::Family,
        gauge::{ConstGauge, Gauge},
    },
    registry::Registry,
};

/// Registers `process_*`; nothing on systems that have no `/proc`.
pub fn process_metrics(registry: &mut Registry) {
    registry.register_collector(Box::new(Process));
}

/// Registers the version that is running.
pub fn build_info(registry: &mut Registry) {
    let info = Family::<[(&str, &str); 1], Gauge>::default();
    info.get_or_create_owned(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
    registry.register("drift_exporter_build_info", "Always 1; the version that is running", info);
}

#[derive(Debug)]
struct Process;

struct Reading {
    cpu_seconds: f64,
    open_fds: u64,
    max_fds: u64,
    virtual_bytes: u64,
    resident_bytes: u64,
    started: u64,
    threads: i64,
}

impl Reading {
    fn take() -> procfs::ProcResult<Self> {
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

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(reading) = Reading::take() else {
            return Ok(());
        };
        let cpu = ConstCounter::new(reading.cpu_seconds);
        cpu.encode(encoder.encode_descriptor(
            "process_cpu_seconds",
            "User and system CPU time spent.",
            None,
            MetricType::Counter,
        )?)?;
        let gauges = [
            ("process_open_fds", "Open file descriptors.", reading.open_fds),
            ("process_max_fds", "Most file descriptors that may be open.", reading.max_fds),
            ("process_virtual_memory_bytes", "Virtual memory size.", reading.virtual_bytes),
            ("process_resident_memory_bytes", "Resident memory size.", reading.resident_bytes),
            ("process_start_time_seconds", "When the process started.", reading.started),
            ("process_threads", "Threads of the process.", reading.threads.unsigned_abs()),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}
