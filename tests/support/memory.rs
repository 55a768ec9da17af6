//! The memory of another process.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
};

const PAGE: usize = 4096;

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
