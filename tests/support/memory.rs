//! The memory of another process.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
};

const PAGE: usize = 4096;

/// A field of `/proc/PID/status`, in KiB: `VmHWM` is the peak, `VmRSS` the current memory, `RssAnon` that without mapped files.
pub fn memory_kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let mut fields = status.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(name, _)| *name == field).expect("the field exists");
    value.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Measures the peak memory from now on; returns the current one, in KiB.
pub fn reset_peak(pid: u32) -> u64 {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("the peak can be reset");
    memory_kib(pid, "VmRSS")
}

/// All private writable memory of a process.
pub fn memory_of(pid: u32) -> Vec<Vec<u8>> {
    let memory = File::open(format!("/proc/{pid}/mem")).expect("the program is a child of this one");
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut parts = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        // Some pages are not readable, and some may be unmapped by now.
        for (page, at) in bytes.chunks_mut(PAGE).zip((from..).step_by(PAGE)) {
            let _ = memory.read_exact_at(page, at);
        }
        parts.push(bytes);
    }
    parts
}
